"""How fast and how accurate is the exact Tsallis policy, against entmax and softmax?

Everything is measured in one process on one thread, in turns, and reported as the ratio of the
best times: above 1 ours is faster. The error is the largest difference to a solution in float64
that satisfies the optimality conditions to 1e-12, over the same inputs.

    python benchmarks/policy.py [--rounds 15]
"""

import argparse
import math
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
COLUMNS = (
    *("q", "peer", "rows × actions", "ours, µs", "forward", "both ways"),
    *("target", "reached", "our error", "their error"),
)


@dataclass(frozen=True)
class Contest:
    """One q, one peer and the ratio to reach for each shape, if there is one."""

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


def best_times(work: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the best time of each, taken in turns so that noise meets all of them."""
    repeats = [max(1, int(SECONDS_PER_TURN / time_once(one))) for one in work]
    best = [math.inf] * len(work)
    for _ in range(rounds):
        for i, (one, count) in enumerate(zip(work, repeats, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                one()
            best[i] = min(best[i], (time.perf_counter() - start) / count)
    return best


def time_once(work: Callable[[], object]) -> float:
    work()  # compilation and caches
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def reference(values: Tensor, q: float) -> Tensor:
    """Return a policy in float64 after checking that it is the optimal one."""
    result, psi = policy_and_normalizer(values.double(), q)
    multiplier = torch.where(result > 0, values - log_q(result, q), psi.unsqueeze(-1))
    assert (result.sum(-1) - 1).abs().max() < 1e-12
    assert (multiplier - psi.unsqueeze(-1)).abs().max() < 1e-11
    return result


def measure(contest: Contest, shape: tuple[int, int], rounds: int) -> list[str]:
    """Return one row of the table."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    operators = [lambda x: policy(x, contest.q), contest.theirs]
    ours, theirs = best_times([forward(f, values) for f in operators], rounds)
    both = best_times([forward_and_backward(f, values) for f in operators], rounds)
    errors = [(f(values) - reference(values, contest.q)).abs().max().item() for f in operators]
    target = contest.targets[SHAPES.index(shape)]
    reached = [theirs / ours, both[1] / both[0]]
    verdict = "" if target is None else ("yes" if min(reached) >= target else "NO")
    return [
        f"{contest.q:g}",
        contest.peer,
        f"{shape[0]} × {shape[1]}",
        f"{1e6 * ours:.0f}",
        f"{reached[0]:.1f}×",
        f"{reached[1]:.1f}×",
        "" if target is None else f"{target:g}×",
        verdict,
        f"{errors[0]:.0e}",
        f"{errors[1]:.0e}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each contestant")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    table = Table(*COLUMNS, title="Exact Tsallis policy, float32, one thread")
    for contest in CONTESTS:
        for shape in SHAPES:
            table.add_row(*measure(contest, shape, rounds), end_section=shape == SHAPES[-1])
    Console(width=118).print(table)


if __name__ == "__main__":
    main()
