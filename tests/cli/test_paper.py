"""``mviq paper``: what it writes, prints and refuses."""

import os
import subprocess
import sys

import pytest

from mviq.cli.main import main
from mviq.cli.paper import report
from mviq.paper import printed_tables as tables
from mviq.paper.artefacts import ARTEFACTS
from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.runs.presets import resolve


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def refused(arguments, capsys) -> str:
    """Return the one line of complaint."""
    assert main(["paper", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_without_a_name_it_lists_what_can_be_made(capsys):
    assert main(["paper"]) == 0
    text = capsys.readouterr().out
    for artefact in ARTEFACTS.values():
        assert artefact.name in text
        if artefact.experiment is not None:
            scales = artefact.experiment.scales
            assert all(artefact.experiment.cost(scale) in text for scale in scales)


def test_every_artefact_of_seconds_can_be_made():
    quick = {
        name: one for name, one in ARTEFACTS.items() if one.experiment is None and one.minutes == 0
    }
    assert all(artefact.make().name == name for name, artefact in quick.items())


@pytest.mark.parametrize(
    "option",
    [
        *(
            ["--scale", "full"],
            ["--studies", "s"],
            ["--quiet"],
            ["--workers", "2"],
            ["--cpus", "1"],
        ),
        *(["--engine", "ray"], ["--gpus", "2"], ["--address", "auto"], ["--memory", "1"]),
    ],
)
def test_options_of_studies_are_refused_where_nothing_is_trained(option, capsys):
    assert f"fig1 trains nothing, so it has no {option[0]}" in refused(["fig1", *option], capsys)
    assert f"the list trains nothing, so it has no {option[0]}" in refused(option, capsys)


def test_a_place_for_studies_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    command = ["fig3", "--scale", "smoke", "--quiet", "--out", str(tmp_path / "out"), "--studies"]
    assert "is not a directory" in refused([*command, str(tmp_path / "file")], capsys)
    assert "/proc" in refused([*command, "/proc/x"], capsys)
    line = refused([*command, str(tmp_path / "mistyped")], capsys)
    assert "mistyped; make it to train there" in line


def test_what_takes_hours_does_not_start_unless_asked_for(capsys):
    line = refused(["minatar-q"], capsys)
    assert "minatar-q needs --scale smoke (about a minute) or --scale night (several hours)" in line


def test_the_list_says_how_long_a_scale_takes(capsys):
    assert main(["paper"]) == 0
    assert "smoke about a minute, small about an hour" in capsys.readouterr().out


def test_the_verdict_says_if_minatar_stands_for_atari(capsys):
    finding = Finding("higher", "Pong", "by 1", True)
    drawing = Reproduction(
        "fig7", None, Data((), ()), (), [finding], ARTEFACTS["fig7"].experiment.stand_in("small")
    )
    report(ARTEFACTS["fig7"], drawing, [])
    assert "verdict: agrees, on MinAtar in the place of Atari\n" in capsys.readouterr().out


def test_a_table_is_its_preset(tmp_path, capsys):
    for name in ("table1", "table2"):
        assert main(["paper", name, "--out", str(tmp_path)]) == 0
        assert "verdict: agrees\n" in capsys.readouterr().out
    table = (tmp_path / "table2.csv").read_text()
    for cell in ('"Conv32 8×8/4, Conv64 4×4/2, Conv64 3×3/1, FC512"', "ReLU", "Adam"):
        assert table.count(cell) == 2 * 3  # printed and built, for three algorithms


def test_a_network_that_is_not_the_table_s_is_found(monkeypatch):
    def other(env, **settings):
        return resolve(env, **settings, hidden=(64,))

    monkeypatch.setattr(tables, "resolve", other)
    found = {finding.measured: finding.holds for finding in tables.first().findings}
    assert found["Q-network: FC512, FC512 there, layers = FC64 here"] is False


def test_help_teaches(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["paper", "--help"])
    text = capsys.readouterr().out
    for word in ("mviq paper fig1", "--out DIR", "--force", "CSV", "convention", *ARTEFACTS):
        assert word in text


def test_a_figure_is_written_where_asked_and_its_verdict_printed(tmp_path, capsys):
    out = tmp_path / "figures"
    assert main(["paper", "fig1", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert {path.suffix for path in out.iterdir()} == {".csv", ".md", ".png", ".svg"}
    for path in out.iterdir():
        assert str(path) in text.splitlines()
    assert "the paper's claim: as q grows" in text
    assert (
        "verdict: agrees in part: “ln_q flatter with q” only for physics, x > 1 and mviq, x < 1"
        in text
    )
    assert "does not" in text


def test_the_parameters_of_fig2_and_its_supports_are_printed(tmp_path, capsys):
    assert main(["paper", "fig2", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "temperature τ = 0.3" in text
    assert "1001 actions" in text
    assert "416 (41.6%) kept at q = 2, 2 (0.2%) at q = 50" in text
    assert "verdict: agrees in part" in text


def test_another_process_writes_the_same_files_to_the_default_place(tmp_path, capsys):
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "mviq", "paper", "fig1"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    out = tmp_path / "out" / "fig1"
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert len(before) == 4
    assert main(["paper", "fig1", "--out", str(out)]) == 0  # equal content is no conflict
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before


def test_files_with_other_content_are_replaced_only_by_force(tmp_path, capsys):
    (tmp_path / "fig1.csv").write_text("my notes")
    line = refused(["fig1", "--out", str(tmp_path)], capsys)
    assert str(tmp_path / "fig1.csv") in line
    assert "--force" in line
    assert [path.name for path in tmp_path.iterdir()] == ["fig1.csv"]
    assert (tmp_path / "fig1.csv").read_text() == "my notes"
    assert main(["paper", "fig1", "--out", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "fig1.csv").read_text().startswith("panel,q,x,y")


def test_a_place_that_is_no_directory_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    line = refused(["fig1", "--out", str(tmp_path / "file" / "below")], capsys)
    assert f"{tmp_path / 'file'} is not a directory" in line


@pytest.mark.parametrize(
    ("wrong", "closest"), [("fgi1", "fig1"), ("figure2", "fig2"), ("fig6", "fig6-left")]
)
def test_an_unknown_name_is_answered_with_the_closest(wrong, closest, capsys):
    line = refused([wrong], capsys)
    assert repr(wrong) in line
    assert f"closest: '{closest}" in line


def test_a_name_like_none_is_answered_with_the_list(capsys):
    line = refused(["?"], capsys)
    assert "'?'" in line
    assert "'mviq paper' lists all" in line


@pytest.mark.parametrize("option", [["--out", "somewhere"], ["--force"]])
def test_options_without_a_name_are_refused(option, capsys):
    assert "need a name" in refused(option, capsys)


def test_help_and_list_do_not_wait_for_torch():
    program = (
        "import sys; from mviq.cli.main import main; assert main(['paper']) == 0;"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
