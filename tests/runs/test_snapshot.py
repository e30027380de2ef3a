"""Environments continue from a snapshot as if nothing had happened."""

import hashlib
import json

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy

from mviq.agents.codec import CannotEncode
from mviq.envs import make
from mviq.runs.snapshot import capture, restore

GAMES = [f"MinAtar/{g}-v1" for g in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")]
CASES = [
    *((env, {}, 600) for env in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", *GAMES)),
    *((env, {}, 600) for env in ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1")),
    ("ALE/Breakout-v5", {"backend": "wrappers"}, 120),
    ("ALE/Pong-v5", {"backend": "wrappers", "protocol": "machado"}, 120),
]


def play(env, steps, generator):
    """Return a digest of everything that happens."""
    digest = hashlib.sha256()
    for _ in range(steps):
        observations, rewards, dones, infos = env.step(
            generator.integers(env.action_space.n, size=env.num_envs)
        )
        digest.update(observations.tobytes() + rewards.tobytes() + dones.tobytes())
        ended = [
            (info["episode"]["r"], info["episode"]["l"]) for info in infos if "episode" in info
        ]
        digest.update(repr(ended).encode())
    return digest.hexdigest()


@pytest.mark.parametrize(("env_id", "options", "steps"), CASES, ids=[case[0] for case in CASES])
def test_the_future_of_a_snapshot_is_that_of_the_original(env_id, options, steps):
    original, copy = (make(env_id, 2, seed=5, **options) for _ in range(2))
    for env in (original, copy):
        env.reset()
    play(original, steps, np.random.default_rng(0))
    tree, arrays = capture(original, "env")
    stored = safetensors.numpy.load(safetensors.numpy.save(arrays))
    restore(copy, json.loads(json.dumps(tree, allow_nan=False)), stored, "env")
    futures = [play(env, 2 * steps, np.random.default_rng(1)) for env in (original, copy)]
    assert futures[0] == futures[1]


def test_taking_a_snapshot_changes_nothing():
    one, other = (make("ALE/Breakout-v5", seed=5, backend="wrappers") for _ in range(2))
    for env in (one, other):
        env.reset()
    capture(one, "env")
    assert play(one, 60, np.random.default_rng(1)) == play(other, 60, np.random.default_rng(1))


class Sharing:
    def __init__(self):
        self.list = [1.5, float("nan"), float("-inf")]
        self.same = self.list
        self.scalar, self.nothing = np.float32(0.1), None
        self.letters, self.swapped = np.array([b"SF", b"H"]), np.arange(3, dtype=">i4")
        self.table = {"a": (1, 2), 3: {4, 5}}
        self.generator = np.random.default_rng(3)
        self.generator_again = self.generator


def test_shared_things_stay_shared_and_types_stay_what_they_are():
    one, other = Sharing(), Sharing()
    one.list.append(7)
    one.generator.random(5)
    tree, arrays = capture(one, "it")
    restore(other, json.loads(json.dumps(tree, allow_nan=False)), arrays, "it")
    assert other.list is other.same
    assert repr(other.list) == repr(one.list)
    assert type(other.scalar) is np.float32
    assert other.table == one.table
    for name in ("letters", "swapped"):
        mine, theirs = getattr(other, name), getattr(one, name)
        assert mine.dtype == theirs.dtype
        assert mine.tobytes() == theirs.tobytes()
    assert other.generator is other.generator_again
    assert other.generator.random() == one.generator.random()


class Holding:
    def __init__(self, thing):
        self.thing = thing


@pytest.mark.parametrize(
    "thing",
    [
        *(iter([1]), memoryview(b"x"), np.array([object()]), np.zeros(2, "i4,f4")),
        [np.arange(4)] * 1 + [None],
    ],
    ids=["iterator", "memory", "objects", "records", "fine"],
)
def test_what_cannot_be_read_is_named(thing):
    if isinstance(thing, list):
        capture(Holding(thing), "it")
        return
    with pytest.raises(CannotEncode, match=r"it\.thing"):
        capture(Holding(thing), "it")


def test_views_of_one_array_are_refused_since_they_would_part():
    array = np.zeros(4)
    with pytest.raises(CannotEncode, match="share memory"):
        capture([array, array[1:]], "it")


def test_an_emulator_that_hides_its_last_action_is_refused():
    import ale_py

    gym.register_envs(ale_py)
    env = gym.make("ALE/Pong-v5", repeat_action_probability=0.25)
    env.reset(seed=0)
    with pytest.raises(CannotEncode, match="repeats actions"):
        capture(env, "env")


def test_a_snapshot_of_something_else_is_refused():
    tree, arrays = capture(Sharing(), "it")
    with pytest.raises(ValueError, match="Holding here, but was a Sharing"):
        restore(Holding(1), tree, arrays, "it")


def emulator_states(tree):
    """Return the nodes of a tree that hold the state of an emulator."""
    inside = (
        list(tree.values()) if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    )
    found = [tree] if isinstance(tree, dict) and "bytes" in tree else []
    return found + [node for item in inside for node in emulator_states(item)]


@pytest.mark.parametrize("harm", [lambda x: "", lambda x: x[:200]])
def test_the_state_of_an_emulator_is_checked_and_nothing_is_changed(harm):
    env, other = (make("ALE/Breakout-v5", seed=5, backend="wrappers") for _ in range(2))
    for one in (env, other):
        one.reset()
    tree, arrays = capture(env, "env")
    tree = json.loads(json.dumps(tree, allow_nan=False))
    (node,) = emulator_states(tree)
    node["bytes"] = [harm(node["bytes"][0])]
    with pytest.raises(ValueError, match="is not the state of a ALEInterface"):
        restore(env, tree, arrays, "env")
    assert play(env, 30, np.random.default_rng(1)) == play(other, 30, np.random.default_rng(1))
