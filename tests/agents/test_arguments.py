"""Wrong arguments of an agent: one line that says which value, and what was expected."""

import pytest

from mviq.agents import IQMVI, MVI, QRMVI
from problems import made

AGENTS = pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"buffer_size": 1e5}, "buffer_size must be a whole number of at least 1, got 100000.0"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"gamma": 1.5}, "gamma must be a number ≥ 0 and ≤ 1, got 1.5"),
        ({"learning_rate": "fast"}, "learning_rate must be a number ≥ 0, or a schedule"),
        ({"train_freq": (1, "epoch")}, "train_freq must be"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"exploration_fraction": 0}, "exploration_fraction must be a number > 0"),
        ({"n_steps": 2000}, "n_steps must be at most buffer_size/n_envs 1000"),
        ({"value_limit": "x"}, "value_limit must be a number > 0, got 'x'"),
        ({"clip": 1.0}, "clip must be"),
        ({"policy_kwargs": [64]}, "policy_kwargs must be a dictionary"),
        ({"replay_buffer_class": dict}, "replay_buffer_class must be a replay buffer class"),
        ({"max_grad_norm": -1}, "max_grad_norm must be a number > 0, or inf, or None, got -1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@AGENTS
def test_wrong_arguments_are_refused_in_one_line(cls, wrong, allowed):
    with pytest.raises(ValueError, match=allowed) as caught:
        made(cls, **wrong)
    assert len(str(caught.value).splitlines()) == 1


def test_what_to_type_instead_is_said():
    with pytest.raises(TypeError, match="MVI has no argument 'tempratur'; did you mean temp"):
        made(MVI, tempratur=0.1)
    with pytest.raises(ValueError, match="env must be an environment of discrete actions"):
        made(MVI, None)
    with pytest.raises(ValueError, match=r"env must be mviq.envs.make\(…\) for Atari"):
        made(MVI, "ALE/NoSuchGame-v5")


def test_unknown_values_are_named():
    with pytest.raises(ValueError, match="acting must be one of"):
        made(MVI, acting="greedy")
    with pytest.raises(ValueError, match="q must be at least 1"):
        made(MVI, q=0.5)
    with pytest.raises(ValueError, match="form must be one of"):
        made(QRMVI, form="gaps")
    with pytest.raises(ValueError, match="value_limit must be a number > 0"):
        made(MVI, value_limit=0.0)
