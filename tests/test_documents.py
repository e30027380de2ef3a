"""What the documents show runs as it is written."""

import re
import runpy
import shlex
import subprocess
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


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()


def test_a_second_call_installs_nothing() -> None:
    if not (ROOT / ".venv" / ".installed").exists():
        pytest.fail("the tests run in the environment that the Makefile makes")
    for target in ("demo", "test"):
        planned = subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert "pip install" not in planned.stdout
        assert "pytest" in planned.stdout or "mviq" in planned.stdout
