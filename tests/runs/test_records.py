"""What is read of stored runs: endings, curves and final scores, whoever asks."""

import numpy as np
import pytest

from mviq.runs.directory import RunDirectory
from mviq.runs.records import (
    Ending,
    evaluation_curve,
    final_score,
    logged_step,
    progress_curve,
    read_ending,
)
from mviq.studies.run_status import status_of
from mviq.studies.study_directory import Failure, PlannedRun, StudyDirectory
from stored_runs import write_run


@pytest.fixture
def run(tmp_path):
    return RunDirectory(write_run(tmp_path / "runs" / "run", [1, 2], steps=[100, 200], status=None))


def test_an_evaluation_that_is_still_being_written_is_left_out_on_request(run):
    with run.evaluations.open("a") as file:
        file.write("300,0,9.0,10\n300,1,9")
    assert evaluation_curve(run)[0].tolist() == [100, 200, 300]
    assert [part.tolist() for part in evaluation_curve(run, episodes=2)] == [[100, 200], [1, 2]]


def test_a_row_that_a_crash_cut_off_is_none(run):
    with run.progress.open("a") as file:
        file.write("300")
    assert logged_step(run) == 200
    assert progress_curve(run, "rollout/ep_rew_mean")[1].tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("result", "failure", "ending", "state"),
    [
        (None, None, Ending("unfinished", 200, "interrupted, or still running"), "interrupted"),
        (None, "no luck", Ending("failed", 200, "no luck"), "failed"),
        ("finished", None, Ending("finished", 200, ""), "finished"),
        ("diverged", None, Ending("diverged", 200, ""), "diverged"),
        ("diverged", "earlier", Ending("diverged", 200, ""), "diverged"),
    ],
)
def test_a_study_says_what_the_files_of_a_run_say(tmp_path, result, failure, ending, state):
    study = StudyDirectory(tmp_path)
    write_run(study.run("run").path, [1, 2], steps=[100, 200], status=result)
    if failure is not None:
        study.note_failure("run", Failure(failure, attempts=1, when=150))
    assert read_ending(study.run("run"), failure) == ending
    assert status_of(study, PlannedRun("run", "DQN", "CartPole-v1", 0, {})).state == state


def test_a_run_that_has_not_begun_waits(tmp_path):
    study = StudyDirectory(tmp_path)
    assert read_ending(study.run("run")) == Ending("not begun", 0, "not begun")
    assert status_of(study, PlannedRun("run", "DQN", "CartPole-v1", 0, {})).state == "waiting"


@pytest.mark.parametrize(("size", "points"), [(1, 1), (9, 1), (20, 2), (105, 10)])
def test_the_final_score_is_the_mean_of_the_last_tenth(size, points):
    curves = np.arange(2.0 * size).reshape(2, size)
    assert final_score(curves).tolist() == curves[:, -points:].mean(axis=1).tolist()
