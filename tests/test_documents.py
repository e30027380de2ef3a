"""What the documents show runs as it is written."""

import re
import runpy
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from mviq.cli.main import main
from mviq.studies.plan import expand
from mviq.studies.study_file import read_study, study_from
from mviq.studies.tuning.search_file import read_search

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def snippets(language: str) -> list[pytest.param]:
    found = []
    for document in DOCUMENTS:
        blocks = re.findall(rf"```{language}\n(.*?)```", document.read_text(), flags=re.DOTALL)
        name = document.relative_to(ROOT)
        found += [pytest.param(text, id=f"{name}-{i}") for i, text in enumerate(blocks)]
    return found


@pytest.mark.parametrize("text", snippets("python"))
def test_python_snippet(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "snippet", "exec"), {})


def copy_studies(place: Path) -> None:
    """Copy the example studies, made so small that they take seconds."""
    (place / "examples").mkdir()
    for file in ROOT.glob("examples/*.yaml"):
        content = yaml.safe_load(file.read_text())
        content["settings"] |= {"total_steps": 300, "eval_every": 100, "log_every": 100}
        small = {**content, "seeds": 1, "settings": {**content["settings"], "eval_episodes": 1}}
        (place / "examples" / file.name).write_text(yaml.safe_dump(small))


@pytest.mark.parametrize("text", snippets("sh"))
def test_commands(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy_studies(tmp_path)
    for line in text.splitlines():
        command, *arguments = shlex.split(line, comments=True) or [""]
        if command == "mviq" and "--help" not in arguments:
            assert main(arguments) == 0, line


def test_the_study_of_the_readme_is_that_of_make_quick() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    shown = expand(study_from(yaml.safe_load(text)))
    quick = expand(read_study(ROOT / "examples" / "cartpole.yaml"))
    assert [(r.label, r.env, r.seed) for r in shown.runs] == [
        (r.label, r.env, r.seed) for r in quick.runs
    ]


@pytest.mark.parametrize("file", sorted(ROOT.glob("results/*.yaml")), ids=lambda path: path.name)
def test_the_studies_of_the_results_can_be_run(file: Path) -> None:
    assert read_search(file) if "tune" in file.name else expand(read_study(file)).runs


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")


def test_every_extra_that_someone_is_told_to_install_exists_and_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named: set[str] = set()
    for file in (*DOCUMENTS, *ROOT.glob("src/**/*.py")):
        found = re.findall(r"pip install '(?:mviq|\.)\[([a-z0-9,]+)\]'", file.read_text())
        named |= {extra for extras in found for extra in extras.split(",")}
    assert named <= set(project["optional-dependencies"])
    explained = (ROOT / "docs" / "installation.md").read_text()
    assert {extra for extra in named if f"| `{extra}` |" not in explained} == set()


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


@pytest.mark.parametrize("target", ["demo", "docs", "package", "clean"])
def test_make_writes_and_removes_nothing_outside_the_repository(target: str) -> None:
    planned = subprocess.run(
        ["make", "--always-make", "--dry-run", target],
        **{"cwd": ROOT, "capture_output": True, "text": True, "check": True},
    )
    assert re.findall(r"(?<=\s)/\S+", planned.stdout) == []
