"""Every id that can be made is made; for others the message says what to type."""

import subprocess
import sys

import ale_py
import gymnasium as gym
import pytest
from ale_py.roms import get_all_rom_ids

from mviq import env_families, envs
from mviq.agents import MVI
from mviq.envs.atari import _id_of

gym.register_envs(ale_py)
ATARI = [i for i, spec in gym.registry.items() if str(spec.entry_point).startswith("ale_py")]


def test_every_id_of_ale_py_is_a_game_it_has():
    assert len(ATARI) > 300
    roms = set(get_all_rom_ids())
    for env_id in ATARI:
        game = envs.game_of(env_id)
        assert game in roms, env_id
        assert env_families.family_of(env_id) is env_families.ATARI, env_id  # and has its preset
        assert gym.registry[_id_of(game)].kwargs["game"] == game


@pytest.mark.parametrize("backend", ["vector", "wrappers"])
@pytest.mark.parametrize("env_id", ["ALE/TicTacToe3D-v5", "ALE/MsPacman-v5", "Pong-v4"])
def test_names_that_are_hard_to_spell(env_id, backend):
    env = envs.make(env_id, backend=backend)
    assert env.reset().shape == (1, 4, 84, 84)
    env.close()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that registers an environment when it is imported."""
    (tmp_path / "corridors.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('Corridor-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "corridors"
    sys.modules.pop("corridors", None)
    gym.registry.pop("Corridor-v0", None)


def test_the_import_syntax_of_gymnasium(module):
    assert envs.make(f"{module}:Corridor-v0", 2).reset().shape == (2, 4)
    assert envs.make("ale_py:ALE/Pong-v5").reset().shape == (1, 4, 84, 84)
    with pytest.raises(ValueError, match="there is no environment 'Corridors-v0'; did you mean Co"):
        envs.make(f"{module}:Corridors-v0")
    with pytest.raises(ValueError, match="there is no module 'nowhere'"):
        envs.make("nowhere:Corridor-v0")


def test_agents_know_minatar_by_its_id():
    agent = MVI("MlpPolicy", "MinAtar/Breakout-v1", buffer_size=50, device="cpu")
    assert agent.observation_space.shape == (4, 10, 10)


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("CartPol-v1", ["CartPole-v1"]),
        ("CartPole-v9", ["CartPole-v1"]),
        ("cartpole", ["CartPole-v1"]),
        ("breakout", ["ALE/Breakout-v5", "MinAtar/Breakout-v1"]),
        ("MinAtar/Breakout-v0", ["MinAtar/Breakout-v1"]),
        ("MinAtar/Brakout-v1", ["MinAtar/Breakout-v1"]),
        ("ALE/Pomg-v5", ["ALE/Pong-v5"]),
        ("PongNoFrameSkip-v4", ["PongNoFrameskip-v4"]),
        ("PomgNoFrameskip-v4", ["PongNoFrameskip-v4"]),
    ],
)
def test_an_unknown_id_is_answered_with_the_closest(wrong, close):
    with pytest.raises(ValueError, match=f"no environment '{wrong}'; did you mean ") as caught:
        envs.make(wrong)
    for name in close:
        assert name in str(caught.value)
    assert "pip" not in str(caught.value)


@pytest.mark.parametrize(
    ("env_id", "module", "extra"),
    [
        ("MinAtar/Breakout-v1", "minatar", "minatar"),
        ("MinAtar/Breakout-v2", "minatar", "minatar"),
        ("ALE/Breakout-v5", "ale_py", "atari"),
        ("ALE/Breakout-v9", "ale_py", "atari"),
        ("BreakoutNoFrameskip-v9", "ale_py", "atari"),
        ("ALE/Breakout-v5", "cv2", "atari"),
        ("LunarLander-v3", "Box2D", "box2d"),
        ("breakout", "ale_py", "atari"),
        ("breakout", None, "atari,minatar"),
    ],
)
def test_a_missing_extra_is_named(env_id, module, extra, monkeypatch):
    there = envs.ids.find_spec
    without = {module} if module else {"minatar", "ale_py"}
    monkeypatch.setattr(
        envs.ids, "find_spec", lambda name: None if name in without else there(name)
    )
    with pytest.raises(ValueError, match=rf"pip install 'mviq\[{extra}\]'"):
        envs.make(env_id)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None,), {}, "env_id must be a Gymnasium id such as 'CartPole-v1', got None"),
        (("",), {}, "env_id must be a Gymnasium id"),
        (("CartPole-v1", 0), {}, "n_envs must be a whole number from 1 to 2147483647, got 0"),
        (("CartPole-v1", "2"), {}, "n_envs must be a whole number from 1 to 2147483647, got '2'"),
        (
            ("CartPole-v1",),
            {"seed": -1},
            "seed must be a whole number from 0 to 2147483647, got -1",
        ),
        (("CartPole-v1",), {"seed": 1.5}, "seed must be a whole number from 0 .* got 1.5"),
        (
            ("CartPole-v1",),
            {"seed": 2**31},
            "seed must be a whole number from 0 to 2147483647, got",
        ),
        (("CartPole-v1",), {"protocol": "machado"}, "protocol and backend are for Atari; CartPole"),
        (("CartPole-v1",), {"backend": "vector"}, "protocol and backend are for Atari; CartPole"),
        (("ALE/Pong-v5",), {"protocol": "dopamine"}, "protocol must be one of sb3, machado"),
        (("ALE/Pong-v5",), {"backend": "vectr"}, "backend must be one of .*got 'vectr'"),
    ],
)
def test_wrong_arguments_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        envs.make(*arguments, **options)
    assert len(str(caught.value).splitlines()) == 1


WITHOUT_EXTRAS = """
import sys
for module in ("ale_py", "minatar", "cv2", "pygame", "imageio_ffmpeg", "ray"):
    sys.modules[module] = None
import mviq.agents, mviq.envs, mviq.runs, mviq.cli.main
from mviq.agents import MVI
from mviq.envs import make
assert make("CartPole-v1").reset().shape == (1, 4)
assert not any("ALE/" in name or "MinAtar/" in name for name in mviq.envs.known_ids())
for attempt in (
    lambda: make("ALE/Pong-v5"),
    lambda: make("MinAtar/Breakout-v1"),
    lambda: MVI("MlpPolicy", "MinAtar/Breakout-v1"),
):
    try:
        attempt()
    except (ValueError, ModuleNotFoundError) as error:
        print(error)
"""


def test_without_extras_all_imports_and_errors_name_them():
    """As after ``pip install mviq``, and with every warning an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "ALE/Pong-v5 needs an extra: pip install 'mviq[atari]'",
        "MinAtar/Breakout-v1 needs an extra: pip install 'mviq[minatar]'",
        "MinAtar needs an extra: pip install 'mviq[minatar]'",
    ]
