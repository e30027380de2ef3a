"""What the documents show runs as it is written."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from mviq.cli.main import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])


def snippets(language: str) -> list[pytest.param]:
    found = []
    for document in DOCUMENTS:
        blocks = re.findall(rf"```{language}\n(.*?)```", document.read_text(), flags=re.DOTALL)
        name = document.relative_to(ROOT)
        found += [pytest.param(text, id=f"{name}-{i}") for i, text in enumerate(blocks)]
    return found


@pytest.mark.parametrize("text", snippets("python"))
def test_python_snippet(text: str) -> None:
    exec(compile(text, "snippet", "exec"), {})


@pytest.mark.parametrize("text", snippets("sh"))
def test_commands(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in text.splitlines():
        command, *arguments = shlex.split(line, comments=True) or [""]
        if command == "mviq":
            assert main(arguments) == 0, line


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")


def test_links_in_the_repository_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_file_of_the_project_speaks_of_itself_alone() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()
