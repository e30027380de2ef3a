"""What a person sees of a study at work."""

import io

import pytest
from rich.console import Console

from mviq import progress
from mviq.studies.board import Board, Line, Tally
from mviq.studies.engine import Ended, Note, Progress

EVENTS = [
    Progress("a", 40, 7.25),
    Progress("b", 10),
    Ended("a", "finished"),
    Note("Ray: a node is lost"),
    Progress("b", 30, 12.0),
]


@pytest.fixture
def tally():
    return Tally({"a": Line("A CartPole-v1 seed 0", 20, 100), "b": Line("B", 0, 100)})


def test_lines_for_a_log_file(tally, monkeypatch):
    monkeypatch.setattr(progress, "LOG_EVERY", 0.0)  # after every event
    file = io.StringIO()
    with Board(tally, Console(file=file)) as shown:
        for event in EVENTS:
            shown.show(event)
        monkeypatch.setattr(progress, "LOG_EVERY", 1e9)
        shown.show(Ended("b", "killed", "killed by SIGKILL, probably out of memory"))
        shown.show(Ended("b", "failed", "no luck"))
    one, two, three, *rest = file.getvalue().splitlines()
    assert one.startswith("0/2 runs, 40/200 steps, ")
    assert one.endswith(" left; A CartPole-v1 seed 0: step 40/100, return 7.2")
    assert two.startswith("0/2 runs, 50/200 steps, ")
    assert three == "A CartPole-v1 seed 0: finished"
    assert rest[0].startswith("1/2 runs, 110/200 steps, ")
    assert rest[0].endswith(" left; B: step 10/100, return -")
    assert rest[1] == "Ray: a node is lost"
    assert rest[-2:] == ["B: killed by SIGKILL, probably out of memory", "B: failed, no luck"]
    assert str(tally).startswith("2/2 runs, 130/200 steps, ")
    assert str(tally).endswith(", 0 s left")


def test_of_the_runs_that_are_stopped_only_those_at_work_are_named(tally):
    tally.take(Progress("a", 40))
    assert tally.take(Ended("a", "stopped")) == "A CartPole-v1 seed 0: stopped"
    assert tally.take(Ended("b", "stopped")) is None


def test_a_screen_for_a_terminal(tally):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=100, height=20)
    with Board(tally, console) as shown:
        for event in EVENTS:
            shown.show(event)
        shown.say("[something] of importance")
    text = file.getvalue()
    for part in ("A CartPole-v1 seed 0: finished", "a node is lost", "[something] of importance"):
        assert part in text
    last = text[text.rindex("B ") :]
    assert "return 12.0" in last
    assert "1/2 runs, 130/200 steps" in last
