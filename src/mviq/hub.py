"""Upload agents to the Hugging Face Hub and download them, without pickled code.

Log in with ``hf auth login`` or the environment variable HF_TOKEN, as for every tool of the Hub.
"""

import os
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

_PICKLES = {".pkl", ".pickle", ".joblib", ".pt", ".pth"}  # PyTorch's files contain one, too


def push_to_hub(
    folder: str | os.PathLike[str],
    repo_id: str,
    message: str = "Upload an agent of mviq",
    private: bool = False,
) -> str:
    """Upload a folder, such as one made by ``mviq export``, and return its address.

    The repository is created if it does not exist. Pickles, which run code when they are loaded,
    are refused.
    """
    place = Path(folder)
    if not place.is_dir() or not any(place.iterdir()):
        raise ValueError(f"folder must be a directory with files in it, got {folder}")
    names = [name for path in place.rglob("*") if path.is_file() for name in _names(path)]
    pickles = sorted(name for name in names if Path(name).suffix.lower() in _PICKLES)
    if pickles:
        raise ValueError(f"{folder} holds {', '.join(pickles)}: pickles are not uploaded")
    api = _library().HfApi()
    address = api.create_repo(repo_id, exist_ok=True, private=private)
    api.upload_folder(repo_id=repo_id, folder_path=place, commit_message=message)
    return str(address)


def _names(path: Path) -> list[str]:
    """Return the name of a file, and those of its contents if it is a zip file, as SB3's agents."""
    if not is_zipfile(path):
        return [path.name]
    with ZipFile(path) as archive:
        return [path.name, *(f"{path.name}/{name}" for name in archive.namelist())]


def load_from_hub(repo_id: str, filename: str, revision: str | None = None) -> Path:
    """Download a file, unless it is in the cache, and return its path.

    ``MVI.load(load_from_hub("someone/agent", "model.zip"))`` loads an agent.
    """
    return Path(_library().hf_hub_download(repo_id, filename, revision=revision))


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError("the Hub needs an extra: pip install 'mviq[hub]'") from None
    return huggingface_hub
