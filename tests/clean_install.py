"""What must work without extras: run by ``make package`` in an environment that has none."""

import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import mviq

MVIQ = str(Path(sys.executable).with_name("mviq"))
WORKS = (
    "verify --only theorem-2-exact",
    "solve FrozenLake-v1 --q 2 --tolerance 1e-3",
    "train CartPole-v1 --q 2 --total-steps 300 --eval-every 100",
    "report runs",
)
NEEDS = {
    "train MinAtar/Breakout-v1": "minatar",
    "train ALE/Pong-v5": "atari",
    "train LunarLander-v3": "box2d",
    "study tune search.yaml": "tune",
}
"""Commands, and the extra that each asks for."""
OF_EXTRAS = ("optuna", "ray", "minatar", "ale_py", "cv2", "pygame", "imageio_ffmpeg")
SEARCH = """
environments: [CartPole-v1]
tune: {trials: 1, space: {learning_rate: {low: 1.0e-4, high: 1.0e-2}}}
"""


def import_or_name_the_extra(module: str) -> None:
    """Import a module; only a package of an extra may be missing."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name not in OF_EXTRAS:
            raise
        print(f"{module} needs {missing.name}")


def main() -> None:
    """Import every module, run commands that need no extra, and look at the hints of the others."""
    assert "site-packages" in mviq.__file__, f"{mviq.__file__} is not the wheel"
    for module in pkgutil.walk_packages(mviq.__path__, "mviq."):
        if not module.name.endswith("__main__"):
            import_or_name_the_extra(module.name)
    os.chdir(tempfile.mkdtemp())
    Path("search.yaml").write_text(SEARCH)
    for line in WORKS:
        subprocess.run([MVIQ, *line.split()], check=True, stdout=subprocess.DEVNULL)
        print(f"works: mviq {line}")
    for line, extra in NEEDS.items():
        refused = subprocess.run([MVIQ, *line.split()], capture_output=True, text=True)
        assert refused.returncode == 2, refused
        assert f"pip install 'mviq[{extra}]'" in refused.stderr, refused.stderr
        print(f"asks for {extra}: mviq {line}")
    print(f"mviq {version('mviq')} without extras works with Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
