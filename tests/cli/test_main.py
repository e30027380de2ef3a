"""The command as a whole: help, version, mistakes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mviq.__main__ import interrupt
from mviq.cli.main import COMMANDS, main


def test_help_teaches_and_is_shown_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    text = capsys.readouterr().out
    assert "mviq verify" in text
    assert "mviq paper" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"mviq {command} " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", *COMMANDS, "study run", "study status", "study tune"])
def test_help_fits_a_terminal_of_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("mviq 0.")


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["verify", "--nonsense"]])
def test_wrong_arguments_are_one_line_and_exit_code_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    output = capsys.readouterr()
    assert stop.value.code == 2
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    assert "nonsense" in output.err


def test_a_mistyped_option_is_named_with_the_one_that_may_have_been_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "CartPole-v1", "--confg=a.yaml"])
    shown = capsys.readouterr().err
    assert "there is no --confg=a.yaml here; did you mean --config? (try 'mviq train" in shown


@pytest.mark.parametrize(
    ("given", "meant"),
    [(["trian"], "there is no command trian; did you mean train?"),
     (["study", "runn"], "there is no command runn; did you mean run?"),
     (["xyz"], "there is no command xyz: it must be one of train, resume,")],
)  # fmt: skip
def test_a_mistyped_command_is_named_with_the_one_that_may_have_been_meant(
    given: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(given)
    assert end.value.code == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--lr", "--learning-rate"),
        ("--alpha", "--munchausen-alpha"),
        ("--tau", "--temperature"),
        ("--total-timesteps", "--total-steps"),
        ("--eval_freq", "--eval-every"),
    ],
)
def test_an_option_by_the_name_that_others_give_it_is_suggested(
    given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "CartPole-v1", given, "1"])
    assert f"there is no {given} here; did you mean {meant}?" in capsys.readouterr().err


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, mviq.cli.main as cli; cli.build_parser([]); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_a_reader_who_has_had_enough_is_no_error() -> None:
    command = f"{sys.executable} -m mviq paper | head -1"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert shown.stderr == ""


def test_a_terminal_without_greek_letters_is_no_error() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "mviq", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "mviq verify" in shown.stdout


def test_an_exit_from_within_a_command_keeps_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one in a callback of somebody's own: a run that it cut off did not succeed."""

    def leave(options: object) -> None:
        sys.exit(3)

    monkeypatch.setattr("mviq.cli.verify.run", leave)
    with pytest.raises(SystemExit) as stop:
        main(["verify"])
    assert stop.value.code == 3


CAUGHT = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    pass
"""


@pytest.mark.parametrize(
    ("module", "words"), [("rich", "--help"), ("caught", "train caught:Env-v0")]
)
def test_an_interrupt_while_it_is_loaded(module: str, words: str, tmp_path: Path) -> None:
    """Some libraries catch the exception while they are imported."""
    (tmp_path / f"{module}.py").write_text(CAUGHT)
    mviq = [sys.executable, "-m", "mviq", *words.split()]
    ended = subprocess.run(mviq, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "mviq: interrupted\n")


def test_an_interrupt_later() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, sys._getframe())
