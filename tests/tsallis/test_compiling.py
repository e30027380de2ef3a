"""A kernel is compiled again when one that it calls was changed."""

import subprocess
import sys

CALLEE = """
from mviq.tsallis.kernels.compiling import compiled

@compiled
def inner(x: float) -> float:
    return x + {number}
"""
CALLER = """
from inner import inner
from mviq.tsallis.kernels.compiling import compiled

@compiled
def outer(x: float) -> float:
    return 2 * inner(x)

print(outer(1.0), sum(outer.stats.cache_hits.values()))
"""


def test_a_kernel_knows_when_one_that_it_calls_was_changed(tmp_path):
    (tmp_path / "outer.py").write_text(CALLER)
    said = []
    for number in (1, 1, 3):
        (tmp_path / "inner.py").write_text(CALLEE.format(number=number))
        done = subprocess.run(
            [sys.executable, "-B", "-c", "import outer"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.split())
    assert said == [["4.0", "0"], ["4.0", "1"], ["8.0", "0"]]  # the result and what was cached
