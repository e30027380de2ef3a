"""``mviq solve`` as a user meets it: output, files, mistakes, Ctrl-C."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mviq.choices import ALGORITHMS, GENERATORS, TOY_TEXT
from mviq.cli.main import main
from mviq.tabular import garnet, save_mdp

QUICK = ["--tolerance", "1e-4", "--values-every", "20"]


def test_the_table_says_how_it_ended(capsys: pytest.CaptureFixture[str]) -> None:
    command = "solve FrozenLake-v1 --algorithm mvi --q 2 --temperature 0.03"
    assert main(command.split()) == 0
    out, err = capsys.readouterr()
    assert "converged" in out
    assert "optimal value from the start: 0.542026" in out
    assert "↓ ← H" in out  # the policy on the map
    assert err == ""  # no progress bar where nobody looks


def test_a_narrow_terminal_shows_the_first_columns_whole(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["solve", "FrozenLake-v1", "--q", "2", *QUICK, "--max-iterations", "500"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heading = next(line for line in lines if "status" in line)
    assert heading.split()[:2] == ["q", "status"]
    assert "greedy value" in heading
    assert "residual" in heading
    assert "…" not in heading
    assert any("in a wider terminal also: " in line and "R_q" in line for line in lines)


def test_files_a_program_can_read(tmp_path: Path) -> None:
    out = tmp_path / "lake"
    assert main(["solve", "FrozenLake-v1", "--q", "1", "2", "inf", *QUICK, "--out", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["problem"]["states"] == 16
    assert [run["status"] for run in summary["runs"].values()] == ["converged"] * 3
    assert summary["runs"]["q = ∞"]["algorithm"]["q"] == "inf"
    rows = list(csv.DictReader((out / "history.csv").read_text().splitlines()))
    assert {row["run"] for row in rows} == {"q = 1", "q = 2", "q = ∞"}
    last = summary["runs"]["q = 2"]["last"]
    assert float(rows[-1]["bellman_residual"]) <= 1e-4
    assert last["policy_value"] == pytest.approx(0.542026, abs=1e-3)
    with np.load(out / summary["runs"]["q = 2"]["solution"], allow_pickle=False) as solution:
        assert solution["q_values"].shape == solution["policy"].shape == (16, 4)
        np.testing.assert_allclose(solution["policy"].sum(axis=1), 1.0)
    for name in ("convergence.png", "policy.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


def test_nothing_is_overwritten_silently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    command = ["solve", "lock-in", "--out", str(tmp_path)]
    assert main(command) == 2
    assert "is not empty; --force" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert main([*command, "--force"]) == 0
    assert (tmp_path / "mine.txt").read_text() == "keep"
    assert (tmp_path / "summary.json").exists()


def test_generators_and_files_are_solved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_mdp(garnet(30, seed=4), tmp_path / "mine.npz")
    assert main(["solve", str(tmp_path / "mine.npz"), "--algorithm", "vi"]) == 0
    from_file = capsys.readouterr().out
    assert main(["solve", "garnet:states=30,seed=4", "--algorithm", "vi"]) == 0
    generated = capsys.readouterr().out
    value = "optimal value from the start"
    assert from_file[from_file.index(value) :] == generated[generated.index(value) :]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--temperature", "10", "--munchausen-alpha", "9"], "diverged"),
        (["--temperature", "10"], "cycling"),
        (["--max-iterations", "3"], "stopped at the limit"),
        (["--noise", "0.5", "--seed", "3", "--max-iterations", "20"], "stopped at the limit"),
        (["--algorithm", "family", "--form", "log", "--temperature", "10"], "converged"),
        (["--algorithm", "tkl-vi", "--prior", "fixed", "--q", "3"], "converged"),
        (["--algorithm", "m-vi", "--clip", "none"], "converged"),
        (["--algorithm", "m-vi", "--clip", "-1,1"], "converged"),
    ],
    ids=str,
)
def test_the_status_is_the_truth(
    arguments: list[str], status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["solve", "garnet:states=50", "--tolerance", "1e-5", "--values-every", "0"]
    assert main([*command, *arguments, "--out", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert [run["status"] for run in summary["runs"].values()] == [status]
    assert status in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("solve Blackjack-v1", "Blackjack-v1 is not tabular"),
        ("solve frozenlake", "no problem 'frozenlake': expected FrozenLake-v1"),
        ("solve garnet:size=3", "garnet has no 'size', it has states"),
        ("solve garnet:states", "expected name=value"),
        ("solve garnet:states=few", "states of garnet must be a number, got 'few'"),
        ("solve garnet:seed=1.5", "seed of garnet must be a whole number, got 1.5"),
        ("solve garnet:seed=-1", "seed of garnet must be ≥ 0, got -1"),
        ("solve FrozenLake-v1:map_name=9x9", "FrozenLake-v1 knows no '9x9' among"),
        ("solve FrozenLake-v1:environment=3", "has no setting 'environment'"),
        ("solve lock-in --temperature 1e-310", "temperature must be in [2.23e-308"),
        ("solve lock-in --out /dev/null/x", "--out cannot be written"),
        ("solve nowhere.npz", "there is no file nowhere.npz"),
        ("solve lock-in --algorithm sarsa", "algorithm must be one of vi"),
        ("solve lock-in --q 0.5", "q must be at least 1"),
        ("solve lock-in --q 2 2", "the values of --q must differ"),
        ("solve lock-in --algorithm kl-vi --q 2", "q of kl-vi must be 1.0"),
        ("solve lock-in --temperature 0", "temperature must be a finite number > 0"),
        ("solve lock-in --prior fixed", "mvi has no prior"),
        ("solve lock-in --discount 1", "discount must be a number in [0, 1)"),
        ("solve lock-in --noise -1", "--noise must be a finite number ≥ 0"),
        ("solve lock-in --max-iterations 0", "--max-iterations must be at least 1"),
        ("solve lock-in --tolerance -1", "--tolerance must be ≥ 0"),
        ("solve lock-in --seed -1", "--seed must be ≥ 0"),
        ("solve lock-in --values-every -1", "--values-every must be ≥ 0"),
        ("solve lock-in --clip -1", "clip must be (low, high) with low < high, got (-1.0,)"),
        ("solve lock-in --clip low,0", "clip must be 2 numbers separated by commas, or none, got"),
        ("solve lock-in --clip 1,0", "clip"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", ["solve", "solve lock-in --form loud", "solve lock-in --q x"])
def test_what_the_parser_finds_is_one_line_too(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert capsys.readouterr().err.count("\n") == 1


def test_help_lists_environments_and_algorithms(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["solve", "--help"])
    lines = [line.split()[:1] for line in capsys.readouterr().out.splitlines()]
    for name in (*TOY_TEXT, *GENERATORS, *ALGORITHMS):
        assert [name] in lines


def test_ctrl_c_leaves_what_has_been_reached(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "mviq", "solve", "garnet:states=200", "--noise", "1"]
    command += ["--q", "2", "3", "--max-iterations", "100000000", "--values-every", "0"]
    code = f"""
import sys
import mviq.tabular.solver as solver
from mviq.cli.main import main
whole = solver.iterate
def told(*arguments, **options):
    for state in whole(*arguments, **options):
        if state.iteration == 5:
            print("running", flush=True)
        yield state
solver.iterate = told
sys.exit(main({[*command[3:], "--out", str(out)]!r}))
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "stopped at the limit" in output
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary["runs"]) == ["q = 2"]
    assert summary["runs"]["q = 2"]["reason"].startswith("asked to stop after iteration")
    assert summary["runs"]["q = 2"]["iterations"] >= 5
    assert (out / "convergence.png").exists()
