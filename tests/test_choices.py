"""The tables of choices agree with what else names the same choices."""

import inspect
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

import mviq
from mviq import agents
from mviq.choices import GENERATORS
from mviq.env_families import ATARI, FAMILIES, MINATAR, OTHER, family_of, reference_of
from mviq.runs.building import NETWORKS
from mviq.runs.config import CRITICS, PRESET_NAMES
from mviq.runs.presets import PRESETS
from mviq.runs.settings import FIELDS
from mviq.tabular.problems import MAKERS

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.mark.parametrize(
    ("env_id", "family"),
    [
        ("ALE/Pong-v5", ATARI),
        ("ale_py:ALE/Pong-v5", ATARI),
        ("PongNoFrameskip-v4", ATARI),
        ("Pong-v4", ATARI),
        ("PongDeterministic-v0", ATARI),
        ("MinAtar/Breakout-v1", MINATAR),
        ("FrozenLake-v1", OTHER),
        ("mine:Breakout-v1", OTHER),
        ("phys2d/CartPole-v1", OTHER),
    ],
)
def test_an_id_has_one_family(env_id, family):
    assert family_of(env_id) is family


def test_every_family_has_a_preset_and_every_preset_is_named():
    assert {family.preset for family in FAMILIES} < set(PRESETS)
    assert tuple(PRESETS) == PRESET_NAMES


def test_an_extra_installs_the_modules_of_its_family():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    for family in FAMILIES:
        installed = [package.split(">=")[0] for package in extras.get(family.extra, [])]
        assert sorted(installed) == sorted(family.modules.values())


def test_only_games_with_published_scores_have_references():
    assert reference_of("ALE/Pong-v5") == reference_of("PongNoFrameskip-v4") == (-20.7, 14.6)
    assert reference_of("MinAtar/Breakout-v1") is reference_of("CartPole-v1") is None


@pytest.mark.parametrize(("name", "table"), [("critic", CRITICS), ("network", NETWORKS)])
def test_the_values_of_a_setting_are_the_rows_of_its_table(name, table):
    assert get_args(FIELDS[name].type) == tuple(table)


def test_a_critic_names_its_agent_and_its_settings():
    assert {getattr(agents, critic.agent) for critic in CRITICS.values()} == {
        *get_args(agents.Agent)
    }
    assert all(FIELDS.keys() >= set(critic.settings) for critic in CRITICS.values())


def test_the_newest_critic_network_and_replay_are_named_in_four_files_besides_their_own():
    """They measure what another one costs; docs/architecture.md says which files."""
    own = {"agents/iqmvi.py", "agents/impala.py", "agents/prioritized.py"}
    shared = {"agents/__init__.py", "runs/building.py", "runs/config.py", "runs/presets.py"}
    classes = r"IQMVI|Implicit[A-Z]|ImpalaCNN|Prioritized|SpectralConv2d"
    values = r'"implicit"|"impala"|"dueling"|prioritized_replay'
    names, source = re.compile(f"{classes}|{values}"), Path(mviq.__file__).parent
    naming = {path for path in source.rglob("*.py") if names.search(path.read_text())}
    assert {path.relative_to(source).as_posix() for path in naming} <= own | shared


def test_help_lists_the_generators_and_their_settings():
    assert GENERATORS.keys() == MAKERS.keys()
    for name, line in GENERATORS.items():
        assert line.endswith(f"({', '.join(inspect.signature(MAKERS[name]).parameters)})")
