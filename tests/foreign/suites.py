"""Run the tests of Stable-Baselines3 and sb3-contrib about DQN and QRDQN, on these or on ours.

    python tests/foreign/suites.py CHECKOUT/tests          with DQN and QRDQN
    python tests/foreign/suites.py CHECKOUT/tests --ours   with MVI and QRMVI in their places

CHECKOUT is a clone of their repository at the installed version; what follows is given to pytest.
What fails with ours and not with theirs stands in docs/sb3.md.
"""

import inspect
import os
import re
import sys

import pytest
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm

from mviq.agents import MVI, QRMVI

ABOUT = (stable_baselines3.DQN, sb3_contrib.QRDQN, MVI, QRMVI)


class Selection:
    """Keeps the tests that get one of the classes, or get no class and name one."""

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if is_about(item)]


def is_about(item) -> bool:
    given = getattr(getattr(item, "callspec", None), "params", {}).values()
    classes = [x for x in given if inspect.isclass(x) and issubclass(x, BaseAlgorithm)]
    named = re.search(r"\bDQN\b|\bQRDQN\b", inspect.getsource(item.function))
    return any(x in ABOUT for x in classes) if classes else bool(named)


def main(tests: str, *options: str) -> int:
    if "--ours" in options:
        stable_baselines3.DQN, sb3_contrib.QRDQN = MVI, QRMVI
    os.chdir(tests)  # some of their tests look for files beside them
    given = [option for option in options if option != "--ours"]
    return pytest.main(["-q", "-p", "no:cacheprovider", "-rfE", "--tb=line", *given], [Selection()])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
