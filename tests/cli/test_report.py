"""``mviq report``: its files, its words, its mistakes."""

import re

import pytest

from mviq.cli.main import main
from stored_runs import curve, write_plan, write_run, write_study

ENV = "CartPole-v1"
SCORES = {("DQN", ENV): [curve(1), curve(2)], ("MVI(2)", ENV): [curve(30), curve(31)]}


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "study", SCORES)


def refused(arguments, capsys) -> str:
    assert main(["report", *map(str, arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    return output.err


def test_it_prints_the_answer_the_table_and_where_the_page_is(study, capsys):
    assert main(["report", str(study), "--format", "html,csv"]) == 0
    text = capsys.readouterr().out
    assert "MVI(2) scores highest" in text
    assert "P(better" in text
    page = study / "report" / "report.html"
    assert str(page).replace("\n", "") in text.replace("\n", "")
    assert page.is_file()
    assert f"{page.parent / 'figures'}: 7 files".replace("\n", "") in text.replace("\n", "")
    assert (study / "report" / "figures" / "learning-curves.csv").is_file()
    assert not list((study / "report").rglob("*.png"))


def test_the_report_of_a_study_is_replaced_when_its_runs_go_on(study):
    assert main(["report", str(study), "--format", "html"]) == 0
    before = (study / "report" / "report.html").read_bytes()
    write_plan(study, [(label, ENV, seed) for label in ("DQN", "MVI(2)") for seed in range(3)])
    assert main(["report", str(study), "--format", "html"]) == 0
    after = (study / "report" / "report.html").read_bytes()
    assert before != after
    assert b"2 of 6 runs have not ended: 2 not begun." in after


def test_what_an_earlier_report_wrote_does_not_stay_beside_a_new_one(study):
    directory = study / "report"
    assert main(["report", str(study)]) == 0
    assert len(list(directory.rglob("*.*"))) == 4 + 3 * 7
    for own in ("mine.csv", "figures/mine.png", "figures/profiles.pdf"):
        (directory / own).touch()
    assert main(["report", str(study), "--format", "html"]) == 0
    left = {str(path.relative_to(directory)) for path in directory.rglob("*.*")}
    assert left == {"report.html", "mine.csv", "figures/mine.png", "figures/profiles.pdf"}


def test_the_table_fits_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ends = {"DQN": (-20.1, -3.3, 4.7), "MVI(2) temperature=0.03 critic=quantile": (1.1, 9.3, 12.2)}
    games = ("ALE/Pong-v5", "ALE/Breakout-v5")
    scores = {(label, env): [curve(e) for e in own] for label, own in ends.items() for env in games}
    study = write_study(tmp_path, scores, baseline="DQN")
    assert main(["report", str(study), "--format", "csv"]) == 0
    table = capsys.readouterr().out.split("final scores")[1]
    assert re.search(r"0\.\d+ \[.*, .*\] +0\.\d+ +.* \[.*, .*\] +6 of 6", table)
    assert "P(better): than DQN, the baseline" in table


def test_elsewhere_nothing_is_replaced_unless_asked(study, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("mine")
    arguments = [study, "--out", out, "--format", "html"]
    assert "report.html exists with other content; use --force" in refused(arguments, capsys)
    assert (out / "report.html").read_text() == "mine"
    assert main(["report", *map(str, arguments), "--force"]) == 0
    assert (out / "report.html").read_text() != "mine"


def test_options_reach_the_numbers(tmp_path):
    ends = {"DQN": (1, 2, 4, 9), "MVI(2)": (3, 5, 6, 30)}
    scores = {(label, ENV): [curve(end) for end in own] for label, own in ends.items()}
    study = write_study(tmp_path / "study", scores)

    def summary(*options):
        out = tmp_path / "-".join(options).replace("/", "")
        assert main(["report", str(study), "--out", str(out), "--format", "csv", *options]) == 0
        return (out / "summary.csv").read_text()

    found = {summary("--last", "2"), summary("--seed", "1"), summary("--metric", "train")}
    found |= {summary("--baseline", "MVI(2)"), summary("--runs", "finished")}
    assert len(found) == 5


def test_labels_and_environments_can_be_left_out(tmp_path, capsys):
    names, envs = ("DQN", "MVI(2)", "MVI[3]"), (ENV, "Acrobot-v1")
    scores = {(label, env): [curve(1), curve(2)] for label in names for env in envs}
    study = write_study(tmp_path, scores, baseline="DQN")

    def kept(*options):
        assert main(["report", str(study), "--format", "csv", *options]) == 0
        rows = (study / "report" / "scores.csv").read_text().splitlines()[1:]
        return {tuple(row.split(",")[:2]) for row in rows}

    assert kept("--only", "MVI*", "--without", "Acrobot*") == {(x, ENV) for x in names[1:]}
    assert kept("--without", "DQN", "--without", "MVI[3]") == {("MVI(2)", env) for env in envs}
    assert main(["report", str(study), "--format", "html", "--without", "DQN"]) == 0
    assert "<li>by choice without DQN</li>" in (study / "report" / "report.html").read_text()
    missing = "no label or environment is like 'PPO': there are DQN, MVI(2), MVI[3] and 2 more"
    capsys.readouterr()
    assert missing in refused([study, "--without", "PPO"], capsys)
    assert "no run is left" in refused([study, "--without", "*"], capsys)


def test_a_study_can_be_named_by_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path / "studies" / "mine", SCORES)
    (tmp_path / "my.yaml").write_text("name: mine\n")
    assert main(["report", "my.yaml", "--format", "html"]) == 0
    assert (tmp_path / "studies" / "mine" / "report" / "report.html").is_file()


def test_a_browser_is_opened_if_wished(study, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["report", str(study), "--format", "html", "--open"]) == 0
    assert opened == [(study / "report" / "report.html").as_uri()]


def test_plain_runs_have_a_report(tmp_path, capsys):
    write_run(tmp_path / "runs" / "a", curve(1))
    assert main(["report", str(tmp_path / "runs"), "--format", "html"]) == 0
    assert "One label: DQN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "loss"], "metric must be one of eval, train, got 'loss'"),
        (["--runs", "some"], "which must be one of ended, finished, all, got 'some'"),
        (["--last", "0"], "last must be an integer >= 1, got 0"),
        (["--last", "99"], "last must be at most the 4 points of CartPole-v1, got 99"),
        (["--seed", "-1"], "seed must be an integer >= 0, got -1"),
        (["--baseline", "PPO"], "baseline must be one of DQN, MVI(2), got 'PPO' from --baseline"),
        (["--format", "pdf"], "--format must be some of html,png,svg,csv, got 'pdf'"),
        (["--format", "png", "--open"], "--open needs the format html"),
    ],
)
def test_a_wrong_option_is_one_line(study, capsys, options, message):
    assert message in refused([study, *options], capsys)


def test_a_directory_without_runs_is_one_line(tmp_path, capsys):
    assert "is no study and no run" in refused([tmp_path], capsys)


def test_a_place_that_cannot_be_written_is_one_line(study, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "file is not a directory" in refused([study, "--out", tmp_path / "file"], capsys)
