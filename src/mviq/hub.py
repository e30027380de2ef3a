"""Agents on the Hugging Face Hub: a folder up, a file down. Neither holds pickled code.

Who you are is what ``hf auth login`` or the variable HF_TOKEN says, as in every tool of the Hub.
"""

import os
from pathlib import Path
from typing import Any

_PICKLES = {".pkl", ".pickle", ".joblib", ".pt", ".pth"}  # those of PyTorch hold one, too


def push_to_hub(
    folder: str | os.PathLike[str],
    repo_id: str,
    message: str = "Upload an agent of mviq",
    private: bool = False,
) -> str:
    """Upload a folder, such as one with an agent and its card, and return its address.

    The repository is made if there is none. Pickles, which run code where they are loaded, are
    refused.
    """
    place = Path(folder)
    if not place.is_dir() or not any(place.iterdir()):
        raise ValueError(f"folder must be a directory with files in it, got {folder}")
    pickles = sorted(path.name for path in place.rglob("*") if path.suffix.lower() in _PICKLES)
    if pickles:
        raise ValueError(f"{folder} holds {', '.join(pickles)}: pickles are not uploaded")
    api = _library().HfApi()
    address = api.create_repo(repo_id, exist_ok=True, private=private)
    api.upload_folder(repo_id=repo_id, folder_path=place, commit_message=message)
    return str(address)


def load_from_hub(repo_id: str, filename: str, revision: str | None = None) -> Path:
    """Download a file, unless it is there already, and return where it is.

    ``MVI.load(load_from_hub("someone/agent", "agent.zip"))`` is then an agent.
    """
    return Path(_library().hf_hub_download(repo_id, filename, revision=revision))


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError("the Hub needs an extra: pip install 'mviq[hub]'") from None
    return huggingface_hub
