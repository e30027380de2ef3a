"""How fast and how accurate is the exact Tsallis policy, compared with entmax and softmax?

Everything is measured in turns, in one process and one thread, and reported as the median over
rounds of the peer's time divided by ours: above 1, ours is faster. The error is the largest
difference to a float64 solution that satisfies the optimality conditions to 1e-11.

    python benchmarks/policy.py [--rounds 25]
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import entmax
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from mviq.tsallis import log_q, policy, policy_and_normalizer

Operator = Callable[[Tensor], Tensor]
SHAPES = ((256, 6), (256, 18), (4096, 18), (64, 10_000))
SECONDS_PER_TURN = 0.02
LARGEST_ERROR = 1e-6
COLUMNS = (
    *("q", "peer", "rows × actions", "ours, µs", "forward", "both ways"),
    *("target", "reached", "our error", "their error"),
)


@dataclass(frozen=True)
class Contest:
    """One q, one peer, and the target speed-up for each shape, if there is one."""

    q: float
    peer: str
    theirs: Operator
    targets: tuple[float | None, ...] = (None, None, None, None)


CONTESTS = (
    Contest(1.0, "torch.softmax", lambda x: torch.softmax(x, -1)),
    Contest(1.5, "entmax15", lambda x: entmax.entmax15(x, -1)),
    Contest(1.7, "entmax_bisect", lambda x: entmax.entmax_bisect(x, 1.7)),
    Contest(2.0, "sparsemax", lambda x: entmax.sparsemax(x, -1), (1.5, 1.5, 1.5, None)),
    Contest(3.0, "entmax_bisect", lambda x: entmax.entmax_bisect(x, 3.0), (10, 10, 10, 3)),
    Contest(5.0, "entmax_bisect", lambda x: entmax.entmax_bisect(x, 5.0)),
)


def forward(operator: Operator, values: Tensor) -> Callable[[], object]:
    return lambda: operator(values)


def forward_and_backward(operator: Operator, values: Tensor) -> Callable[[], object]:
    leaf, gradient = values.clone().requires_grad_(), torch.randn_like(values)

    def work() -> None:
        leaf.grad = None
        operator(leaf).backward(gradient)

    return work


def times(work: list[Callable[[], object]], rounds: int) -> Tensor:
    """Return the seconds of each function (columns) in each round (rows), measured in turns."""
    repeats = [max(1, int(SECONDS_PER_TURN / time_once(one))) for one in work]
    measured = torch.empty(rounds, len(work), dtype=torch.float64)
    for i in range(rounds):
        for j, (one, count) in enumerate(zip(work, repeats, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                one()
            measured[i, j] = (time.perf_counter() - start) / count
    return measured


def time_once(work: Callable[[], object]) -> float:
    work()  # warm up compilation and caches
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def reference(values: Tensor, q: float) -> Tensor:
    """Return the policy in float64 after checking the optimality conditions."""
    result, psi = policy_and_normalizer(values.double(), q)
    multiplier = torch.where(result > 0, values - log_q(result, q), psi.unsqueeze(-1))
    assert (result.sum(-1) - 1).abs().max() < 1e-12
    assert (multiplier - psi.unsqueeze(-1)).abs().max() < 1e-11
    return result


def measure(contest: Contest, shape: tuple[int, int], rounds: int) -> tuple[list[str], bool]:
    """Return one row of the table, and whether it meets the targets."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    operators = [lambda x: policy(x, contest.q), contest.theirs]
    once = times([forward(f, values) for f in operators], rounds)
    both = times([forward_and_backward(f, values) for f in operators], rounds)
    errors = [(f(values) - reference(values, contest.q)).abs().max().item() for f in operators]
    target = contest.targets[SHAPES.index(shape)]
    reached = [(x[:, 1] / x[:, 0]).median().item() for x in (once, both)]
    verdict = "" if target is None else ("yes" if min(reached) >= target else "NO")
    row = [
        f"{contest.q:g}",
        contest.peer,
        f"{shape[0]} × {shape[1]}",
        f"{1e6 * once[:, 0].min():.0f}",
        f"{reached[0]:.1f}×",
        f"{reached[1]:.1f}×",
        "" if target is None else f"{target:g}×",
        verdict,
        f"{errors[0]:.0e}",
        f"{errors[1]:.0e}",
    ]
    return row, verdict != "NO" and errors[0] <= LARGEST_ERROR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=25, help="turns of each contestant")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    table = Table(*COLUMNS, title="Exact Tsallis policy, float32, one thread")
    missed = []
    for contest in CONTESTS:
        for shape in SHAPES:
            row, good = measure(contest, shape, rounds)
            table.add_row(*row, end_section=shape == SHAPES[-1])
            missed += [] if good else [f"q = {row[0]} at {row[2]}"]
    Console(width=118).print(table)
    print(f"missed: {', '.join(missed)}" if missed else "all targets reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
