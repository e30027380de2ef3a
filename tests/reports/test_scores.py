"""The table of Atari scores against a second source, and normalisation by hand."""

import ale_py
import gymnasium
import numpy as np
import pytest

from mviq.reports.statistics import ATARI, atari_game, human_normalised, normalised

# Random and human scores of the 26 games of Atari 100k, as in rliable's notebook: another document
# than the source of the table, so that a slip in one shows.
ATARI_100K = """
Alien 227.8 7127.7 | Amidar 5.8 1719.5 | Assault 222.4 742.0 | Asterix 210.0 8503.3
BankHeist 14.2 753.1 | BattleZone 2360.0 37187.5 | Boxing 0.1 12.1 | Breakout 1.7 30.5
ChopperCommand 811.0 7387.8 | CrazyClimber 10780.5 35829.4 | DemonAttack 152.1 1971.0
Freeway 0.0 29.6 | Frostbite 65.2 4334.7 | Gopher 257.6 2412.5 | Hero 1027.0 30826.4
Jamesbond 29.0 302.8 | Kangaroo 52.0 3035.0 | Krull 1598.0 2665.5 | KungFuMaster 258.5 22736.3
MsPacman 307.3 6951.6 | Pong -20.7 14.6 | PrivateEye 24.9 69571.3 | Qbert 163.9 13455.0
RoadRunner 11.5 7845.0 | Seaquest 68.4 42054.7 | UpNDown 533.4 11693.2
"""


def test_table_has_57_games_in_which_a_human_beats_chance():
    assert len(ATARI) == 57
    assert all(reference.random < reference.human for reference in ATARI.values())


@pytest.mark.parametrize("entry", ATARI_100K.replace("\n", "|").split("|"))
def test_table_agrees_with_the_second_source(entry):
    if entry.strip():
        game, random, human = entry.split()
        assert ATARI[game] == (float(random), float(human))


def test_published_normalised_scores():
    """DQN of Mnih et al. (2015): Breakout 401.2 is 1327 % and Pong 18.9 is 132 % of the human
    score of that paper (31.8 and 9.3); with the human scores of this table 1387 % and 112 %."""
    found = human_normalised([[401.2, 18.9]], ["BreakoutNoFrameskip-v4", "ALE/Pong-v5"])
    np.testing.assert_allclose(100 * found, [[1387.2, 112.2]], atol=0.05)
    older = normalised([[401.2, 18.9]], low=[1.7, -20.7], high=[31.8, 9.3])
    np.testing.assert_allclose(100 * older, [[1327.2, 132.0]], atol=0.05)


def test_missing_stays_missing():
    np.testing.assert_array_equal(normalised([[np.nan, 1.0]], 0.0, 2.0), [[np.nan, 0.5]])


def test_every_game_is_an_environment():
    gymnasium.register_envs(ale_py)
    assert all(f"ALE/{game}-v5" in gymnasium.registry for game in ATARI)
    assert all(atari_game(f"ALE/{game}-v5") == game for game in ATARI)
