"""``mviq verify``: what it prints, for people and for machines, and how it ends."""

import json
import math

import pytest
import torch

from mviq import tsallis
from mviq.cli.main import main
from mviq.paper.theorems import CHECKS, name_of

FIELDS = {
    "name": str,
    "reference": str,
    "claim": str,
    "convention": str,
    "where": str,
    "residual": float,
    "tolerance": float,
    "printed_residual": float | None,
    "only_for": str | None,
    "evidence": str,
    "corrected": str | None,
    "verdict": str,
    "holds": bool,
}


def broken_exp_q(x: torch.Tensor, q: float) -> torch.Tensor:
    return 1.001 * x.exp() + 0 * q


def test_all_statements_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    data = json.loads(captured.out, parse_constant=pytest.fail)
    assert data["holds"] is True
    assert [row["name"] for row in data["statements"]] == [name_of(check) for check in CHECKS]
    for row in data["statements"]:
        assert row.keys() == FIELDS.keys()
        for field, kind in FIELDS.items():
            assert isinstance(row[field], kind), (row["name"], field)
        assert row["convention"] in {"ours", "physics", "both"}
        assert row["holds"] == (row["residual"] <= row["tolerance"])


def test_the_table_says_what_is_claimed_and_what_is_true(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    assert main(["verify", "--only", "inverse", "--only", "log-monotone"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "inverse" in captured.out
    assert "Eq. (2)" in captured.out
    assert "holds only for q < 1" in captured.out
    assert "physics' q" in captured.out
    assert "comes back as 2" in captured.out
    assert captured.out.splitlines()[-1] == (
        "2 statements: 1 hold as printed, 1 in part, 0 do not. Corrected, all hold."
    )


def test_the_summary_fits_a_screen_and_names_every_statement(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["verify"]) == 0
    output = capsys.readouterr().out
    assert len(output.splitlines()) <= 22
    words = output.replace(",", " ").split()
    assert all(words.count(name_of(check)) == 1 for check in CHECKS)
    assert "fail: f-divergence, closed-form" in output


def test_piped_output_has_no_colour_codes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["verify", "--only", "inverse"])
    assert "\x1b" not in capsys.readouterr().out


def test_a_narrow_terminal_loses_no_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main(["verify", "--only", "sparsemax"])
    output = capsys.readouterr().out
    assert "…" not in output
    assert max(len(line) for line in output.splitlines()[:-1]) <= 60


def test_only_takes_the_beginning_of_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--json", "--only", "theorem-1"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["statements"]]
    assert names == ["theorem-1-form", "theorem-1-root", "theorem-1-support"]


def test_a_broken_operator_ends_with_exit_code_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsallis, "exp_q", broken_exp_q)
    assert main(["verify", "--only", "inverse", "--only", "log-monotone"]) == 1
    output = capsys.readouterr().out
    assert "✗" in output
    assert " ".join(output.split()).endswith("these fail: inverse.")


def test_a_broken_operator_is_false_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tsallis, "exp_q", lambda x, q: x * math.nan)
    monkeypatch.setattr(tsallis, "log_q", lambda x, q: x)
    assert main(["verify", "--json", "--only", "inverse"]) == 1
    data = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert data["holds"] is False
    assert data["statements"][0]["holds"] is False
    assert data["statements"][0]["residual"] is None


def test_markdown_lists_errata_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--markdown", "--only", "inverse", "--only", "log-monotone"]) == 0
    header, rule, *rows = capsys.readouterr().out.splitlines()
    assert header.count("|") == rule.count("|")
    assert [row.split("`")[1] for row in rows] == ["inverse"]


@pytest.mark.parametrize("name", ["theorem-9", "", "Theorem"])
def test_an_unknown_name_is_one_line_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["verify", "--only", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert repr(name) in captured.err


def test_two_formats_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["verify", "--json", "--markdown"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["verify", "--help"])
    assert stopped.value.code == 0
    output = capsys.readouterr().out
    assert "exit code" in output
    assert "mviq verify --only theorem-2" in output


def test_the_number_of_threads_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    main(["verify", "--json", "--only", "inverse"])
    assert torch.get_num_threads() == before
