"""Every command, with arguments at random: one line on standard error and exit code 2, or it works.

A new command is one row of ``COMMANDS``: words, of which ``?`` is replaced by something odd.
"""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from fuzz.mutations import tries
from mviq.cli.main import main
from small_studies import write_study
from stored_runs import write_run

COMMANDS = (
    *("train ? --explain", "train CartPole-v1 --explain ? ?", "train --config ? --explain"),
    *("train CartPole-v1 --explain --hidden ?", "train CartPole-v1 --total-steps ? --explain"),
    *("train ? --out ? --total-steps 0", "resume ?", "evaluate ?", "evaluate ? --episodes ?"),
    *("study run ?", "study run ? --dry-run", "study status ?", "study tune ? --trials ?"),
    *("study tune tune.yaml --dry-run --no-estimate --trials ?", "study run tiny.yaml --only ?"),
    *("study run tiny.yaml --workers ?", "report ?", "report run --out ? --format csv", "? ?"),
    *(
        "report run --baseline ?",
        "report run --only ? --format ?",
        "paper ?",
        "watch ? ?",
        "verify ?",
    ),
    *("solve ?", "solve FrozenLake-v1 --q ?", "solve FrozenLake-v1 --max-iterations 3 --out ?"),
)
ODD = (
    *(
        "",
        " ",
        "-",
        "--",
        "-1",
        "nan",
        "inf",
        "1e400",
        "1" + "0" * 50,
        "0x10",
        "x" * 5000,
        "a\nb\nc",
    ),
    *(
        "\x1b[31mred",
        "[/red]",
        "../" * 500,
        "/dev/null",
        "/dev/full",
        "/",
        ".",
        "é" * 300,
        "\udcff",
    ),
    *("run", "tiny.yaml", "garnet:1e9", "garnet:states=10", ".relative:Env-v0", "no.such:Env-v0"),
    *("os:Env-v0", "broken_module:Env-v0", "CartPole-v1,CartPole-v1", "1,2," * 2000, "{}", "%s"),
)
SPACE = {"gamma": {"low": 0.9, "high": 0.99}}


@pytest.fixture
def place(tmp_path, monkeypatch):
    write_run(tmp_path / "run", [1, 2, 3, 4])
    write_study(tmp_path)
    write_study(tmp_path, name="tune", algorithms=["mvi"], tune={"trials": 3, "space": SPACE})
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("place")
def test_it_works_or_says_why_not_in_one_line(command):
    broken = []
    for rng in tries(command):
        words = [rng.choice(ODD) if word == "?" else word for word in command.split()]
        broken += complaint(words)
    assert not broken


def complaint(words: list[str]) -> list[str]:
    """Return what is wrong with the answer to a command, if anything."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
    except SystemExit as end:
        code = end.code
    except Exception as error:
        return [f"{words!r:.120}: {error!r:.200}"]
    lines = err.getvalue().splitlines()
    if code == 2 and len(lines) == 1 and len(lines[0]) < 1500 and lines[0].isprintable():
        return []
    return [] if code in (0, 1) else [f"{words!r:.120}: {code} {lines!r:.300}"]


@pytest.mark.parametrize(
    "command", ["-m mviq solve FrozenLake-v1", "-m mviq report run", "-u -m mviq --help"]
)
@pytest.mark.parametrize(("where", "code"), [("> /dev/full", 2), (">&-", 0), ("| true", 0)])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.usefixtures("place")
def test_standard_output_that_takes_nothing(command, where, code):
    shell = f"set -o pipefail; {sys.executable} {command} {where}"
    ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
    assert len(ended.stderr.splitlines()) == (code == 2)
    assert ended.returncode == code
