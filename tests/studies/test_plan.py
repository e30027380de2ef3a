"""A study file becomes a plan: every combination once, and mistakes are one line."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import product

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mviq.studies.definition import plain, study_yaml
from mviq.studies.plan import config_of, expand
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import read_study, study_from

EXAMPLE = """
name: cartpole
description: MVI(2) against M-DQN and DQN
baseline: M-DQN
environments: [CartPole-v1]
algorithms:
  - {label: MVI(2), algorithm: mvi, q: 2}
  - {label: M-DQN, algorithm: m-vi}
  - {label: DQN, algorithm: vi}
seeds: 5
settings: {total_steps: 20_000, eval_every: 1e3}
budget: {steps: 3e6, hours: 2}
"""


COMMON = {"total_steps": 20_000, "eval_every": 1000}


def plan_of(**content):
    return expand(study_from({"name": "it", "environments": ["CartPole-v1"], **content}))


def labels(plan):
    return list(dict.fromkeys(run.label for run in plan.runs))


def test_the_example(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(EXAMPLE)
    study = read_study(file)
    assert (study.budget.steps, study.budget.hours) == (3_000_000, 2)
    plan = expand(study)
    assert labels(plan) == ["MVI(2)", "M-DQN", "DQN"]
    assert [run.seed for run in plan.runs] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
    first = plan.runs[0]
    assert first.settings == {"algorithm": "mvi", "q": 2, **COMMON}
    assert config_of(first).name == first.run
    assert config_of(first).total_steps == 20_000


def test_toml_is_as_good(tmp_path):
    file = tmp_path / "pair.toml"
    file.write_text('environments = ["CartPole-v1"]\nseeds = [3, 1]\n[grid]\nq = [2.0, inf]\n')
    study = read_study(file)
    assert study.name == "pair"
    assert labels(expand(study)) == ["mvi q=2", "mvi q=inf"]
    assert study.seeds == (3, 1)


def test_possible_returns_are_kept_with_the_plan(tmp_path):
    returns = {"CartPole-v1": [0, 500], "Acrobot-v1": [-math.inf, 0]}
    study = study_from({"name": "it", "environments": list(returns), "returns": returns})
    assert study_from(yaml.safe_load(study_yaml(study))) == study
    directory = StudyDirectory(tmp_path)
    directory.settle(study_yaml(study), expand(study))
    assert directory.plan().returns == {"CartPole-v1": (0, 500), "Acrobot-v1": (-math.inf, 0)}


def test_a_key_that_stands_twice_is_named(tmp_path):
    file = tmp_path / "twice.yaml"
    file.write_text("environments: [CartPole-v1]\nseeds: 2\nsettings: {}\nseeds: 3\n")
    with pytest.raises(ValueError, match=r"twice\.yaml is not YAML: seeds again in line 4"):
        read_study(file)
    file.write_text("? [1, 2]\n: 3\n")
    with pytest.raises(ValueError, match=r"twice\.yaml"):
        read_study(file)


VALUES = {
    "q": st.lists(st.sampled_from([1.5, 2, 3.0, math.inf]), min_size=1, unique=True),
    "temperature": st.lists(st.sampled_from([0.03, 0.1, 1]), min_size=1, unique=True),
    "hidden": st.lists(st.sampled_from([(), (8,), (8, 8)]), min_size=1, unique=True),
    "gamma": st.lists(st.sampled_from(["9e-1", 0.5]), min_size=1, unique=True),
}
ENVIRONMENTS = st.lists(st.sampled_from(["CartPole-v1", "Acrobot-v1"]), min_size=1, unique=True)
GRIDS = st.sets(st.sampled_from(sorted(VALUES))).flatmap(
    lambda names: st.fixed_dictionaries({name: VALUES[name] for name in names})
)


@settings(max_examples=30)
@given(ENVIRONMENTS, GRIDS, st.integers(1, 3), st.booleans())
def test_every_combination_is_there_once(envs, grid, seeds, inside):
    listed = {name: [plain(value) for value in values] for name, values in grid.items()}
    place = {"algorithms": [{"algorithm": "mvi", **listed}]} if inside else {"grid": listed}
    study = study_from({"name": "it", "environments": envs, "seeds": seeds, **place})
    plan = expand(study)
    wanted = set(product(range(seeds), envs, *grid.values()))
    found = {
        (run.seed, run.env, *(_as_given(run.settings[name], grid[name]) for name in grid))
        for run in plan.runs
    }
    assert found == wanted
    assert len(plan.runs) == len(wanted)
    assert len({run.run for run in plan.runs}) == len({run.title for run in plan.runs})
    again = study_from(yaml.safe_load(study_yaml(study)))
    assert expand(again) == plan


def _as_given(value, values):
    return next(given for given in values if given == value or str(value) == str(float_of(given)))


def float_of(value):
    return float(value) if isinstance(value, str) else value


def test_lists_are_grids_but_for_widths_of_layers():
    plan = plan_of(algorithms=[{"label": "A", "q": [2, 3], "hidden": [8, 8]}])
    assert labels(plan) == ["A q=2", "A q=3"]
    assert {run.settings["hidden"] for run in plan.runs} == {(8, 8)}
    plan = plan_of(algorithms=[{"hidden": [[8], [8, 8]], "clip": [[-1, 0], "none"]}])
    assert labels(plan)[0] == "mvi hidden=8 clip=-1,0"
    assert labels(plan)[3] == "mvi hidden=8,8 clip=none"


def test_labels():
    algorithms = [{"label": "MVI({q})", "q": [2, 3], "gamma": [0.9, 0.99]}, "vi", {"q": 5}]
    plan = plan_of(algorithms=algorithms, grid={"temperature": [0.03, 0.1]})
    assert labels(plan)[:2] == [
        "MVI(2) gamma=0.9 temperature=0.03",
        "MVI(2) gamma=0.9 temperature=0.1",
    ]
    assert labels(plan)[-4:] == [
        "vi temperature=0.03",
        "vi temperature=0.1",
        "mvi q=5 temperature=0.03",
        "mvi q=5 temperature=0.1",
    ]


def test_the_particular_overrides_the_general():
    environments = [{"env": "CartPole-v1", "gamma": 0.5, "log_every": 7}, "Acrobot-v1"]
    plan = plan_of(
        environments=environments,
        settings={"gamma": 0.9, "log_every": 5, "eval_every": 5},
        algorithms=[{"label": "A", "log_every": 9}],
    )
    assert plan.runs[0].settings == {"gamma": 0.5, "log_every": 9, "eval_every": 5}
    assert plan.runs[1].settings == {"gamma": 0.9, "log_every": 9, "eval_every": 5}


def test_a_list_of_runs():
    listed = [{"env": "Acrobot-v1", "seed": 7, "q": 3}, {"label": "two", "q": 2}]
    plan = plan_of(runs=listed, seeds=[7, 8])
    found = [(run.label, run.env, run.seed) for run in plan.runs]
    assert found == [
        ("mvi q=3", "Acrobot-v1", 7),
        ("two", "CartPole-v1", 7),
        ("two", "CartPole-v1", 8),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"algoritms": []}, "a study has no key 'algoritms'; did you mean algorithms?"),
        ({"environments": []}, "environments must list at least one"),
        ({"environments": "CartPole-v1"}, "environments must be a list, got 'CartPole-v1'"),
        ({"environments": [{"gamma": 1}]}, "environments[0] must name its env"),
        ({"name": "../x"}, "name must be letters, digits, '-', '_' and '.', got '../x'"),
        ({"seeds": 0}, "seeds must be a number of seeds up to 100,000, or a list of different"),
        ({"seeds": 10**12}, "seeds must be a number of seeds up to 100,000"),
        ({"seeds": 1000, "grid": {"gamma": [i / 200 for i in range(200)]}}, "at most 100,000 runs"),
        ({"settings": {"seed": 5}}, "settings sets seed, which belongs under seeds"),
        ({"settings": {"env": "x"}}, "settings sets env, which belongs under environments"),
        ({"environments": [{"env": "CartPole-v1", "seed": 4}]}, "environments[0] sets seed, which"),
        ({"algorithms": [{"label": "a\nb"}]}, "algorithms[0].label must be one line of text"),
        ({"algorithms": [{"label": " "}]}, "algorithms[0].label must be one line of text"),
        ({"seeds": []}, "seeds must be"),
        ({"seeds": [1, 1]}, "seeds must be"),
        ({"seeds": [True]}, "seeds must be"),
        ({"settings": {"temprature": 1}}, "settings: a run has no setting 'temprature'; did you"),
        ({"settings": {"total_steps": "many"}}, "settings: total_steps must be a whole number"),
        ({"settings": [1]}, "settings must hold settings as 'name: value', got [1]"),
        ({"algorithms": [{"q": 0.5}]}, "the run 'mvi q=0.5' on CartPole-v1 cannot be: q must be"),
        ({"algorithms": ["vi"], "grid": {"q": [2]}}, "q of vi must be inf, got 2"),
        ({"algorithms": ["dqn"]}, "(DQN is vi, M-DQN m-vi, soft DQN soft-vi), got 'dqn'"),
        ({"algorithms": [{"q": 2}], "grid": {"q": [2, 3]}}, "q is set both in grid and in algo"),
        ({"algorithms": [{"seed": 2}]}, "algorithms[0] sets seed, which belongs under seeds"),
        ({"algorithms": [{"label": "{p}"}]}, "label '{p}' names 'p', which its entry does not set"),
        ({"algorithms": [{"q": 2}, {"q": 2.0}]}, "are the same run: remove one"),
        ({"algorithms": [{"label": "A", "q": 2}, {"label": "A", "q": 3}]}, "names two diff"),
        ({"grid": {"q": 2}}, "grid: q must be a list of values, got 2"),
        ({"grid": {"q": [2, 2]}}, "grid: q has a value twice"),
        ({"grid": {"seed": [2]}}, "grid sets seed, which belongs under seeds"),
        ({"runs": [{"q": 2}], "grid": {"gamma": [1]}}, "runs must stand alone"),
        ({"runs": [{"seed": [2, 3]}]}, "runs[0]: seed must be one, got [2, 3]"),
        ({"baseline": "no"}, "baseline must be one of mvi, got 'no'"),
        ({"budget": {"step": 2}}, "budget has no key 'step'; did you mean steps?"),
        ({"budget": {"hours": "two"}}, "budget.hours must be a number, got 'two'"),
        ({"budget": {"steps": -1}}, "budget.steps must be above 0, got -1"),
        ({"returns": 500}, "returns must be as 'CartPole-v1: [0, 500]', got 500"),
        ({"returns": {"A-v0": [1]}}, r"returns: A-v0 must be [lowest, highest], got [1]"),
        ({"returns": {"A-v0": [1, 0]}}, r"returns: A-v0 must be [lowest, highest], got [1, 0]"),
        (
            {"returns": {"CartPole-v0": [0, 500]}},
            "returns names 'CartPole-v0', which is not in the study; did you mean CartPole-v1?",
        ),
        ({"returns": {"A-v0": ["x", 0]}}, "returns: A-v0 must be a number, got 'x'"),
    ],
)
def test_mistakes_are_one_line(content, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the messages are below
        plan_of(**content)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_plan_is_read_back_without_torch(tmp_path):
    plan = plan_of(algorithms=[{"q": math.inf, "hidden": [8], "clip": [-math.inf, 0]}], seeds=2)
    directory = StudyDirectory(tmp_path / "it")
    directory.settle("name: it\n", plan)
    assert directory.plan() == plan
    code = (
        "import sys; from mviq.studies.study_directory import *; "
        f"StudyDirectory(Path({str(directory.path)!r})).plan(); print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "format must be 1"),
        ('{"format": 1, "name": 3}', "name must be str, got 3"),
        (
            '{"format": 1, "name": "x", "description": "", "baseline": null, "runs": [{"run": 1}]}',
            "run must be str, got 1",
        ),
    ],
)
def test_a_damaged_plan_is_named(text, message, tmp_path):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ValueError, match=r"plan\.json cannot be read") as error:
        StudyDirectory(tmp_path).plan()
    assert message in str(error.value)
    with pytest.raises(ValueError, match="is not the directory of a study"):
        StudyDirectory(tmp_path / "else").plan()


def test_a_study_can_be_extended_but_not_changed(tmp_path):
    directory = StudyDirectory(tmp_path / "it")
    directory.settle("", plan_of(seeds=2))
    directory.settle("", plan_of(seeds=3, algorithms=["mvi", "vi"]))
    assert len(directory.plan().runs) == 6
    with pytest.raises(ValueError, match="belongs to another study: 'mvi CartPole-v1 seed 2'"):
        directory.settle("", plan_of(seeds=2, algorithms=["mvi", "vi"]))
    fewer = plan_of(seeds=2, algorithms=["mvi", "vi"])
    directory.settle("", fewer, drop=True)
    assert directory.plan() == fewer
    with pytest.raises(ValueError, match="'mvi CartPole-v1 seed 0' has another gamma there"):
        directory.settle("", plan_of(seeds=2, algorithms=["mvi", "vi"], settings={"gamma": 0.5}))
    changed = replace(fewer, runs=tuple(replace(run, run=f"{run.run}x") for run in fewer.runs))
    with pytest.raises(ValueError, match="has another default, which has changed since, there"):
        directory.settle("", changed)
    (tmp_path / "other" / "x").mkdir(parents=True)
    with pytest.raises(ValueError, match="has something in it that is not a study"):
        StudyDirectory(tmp_path / "other").settle("", plan_of())
