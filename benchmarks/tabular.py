"""Speed and memory of tabular sweeps on sparse Garnets, as ratios measured in one run.

The reference is SciPy's bare sparse matrix-vector product with the same transitions, measured in
turns with the sweep. Both run in one thread, and the CPU time of that thread is measured, so that
other processes do not count. Peak memory is the growth of the private memory of a fresh process
since before the MDP was built. mdpsolver solves the same MDP to the same error.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import mdpsolver
import numpy as np
import torch

from mviq.tabular import MDP, Algorithm, algorithm, garnet, optimal_q_values, solve
from mviq.tabular.sweep import sweep

ACTIONS, BRANCHING, DISCOUNT = 4, 5, 0.9
BOUNDS = {"MVI(2)": 2.5, "MVI(3)": 4.0}
POINTS: dict[str, Algorithm] = {
    "VI": algorithm("vi"),
    "M-VI": algorithm("m-vi"),
    "MVI(2)": algorithm("mvi", q=2.0),
    "MVI(3)": algorithm("mvi", q=3.0),
    "MVI(2) τ=1": algorithm("mvi", q=2.0, temperature=1.0),
    "MVI(3) τ=1": algorithm("mvi", q=3.0, temperature=1.0),
}


def timed(function: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    start = clock()
    function()
    return clock() - start


def sweep_times(mdp: MDP, point: Algorithm, rounds: int) -> tuple[float, float]:
    """Return the median seconds of the bare product and of the sweep, measured in turns."""
    values = np.random.default_rng(0).random(mdp.states)
    q_values = torch.zeros(mdp.rewards.shape, dtype=torch.float64)
    for _ in range(3):  # action values typical of the middle of a run
        q_values = sweep(mdp, point, q_values, None).q_values
    pairs = [
        (timed(lambda: mdp.transitions @ values), timed(lambda: sweep(mdp, point, q_values, None)))
        for _ in range(rounds)
    ]
    bare, full = np.median(pairs, axis=0)
    return float(bare), float(full)


def transition_bytes(mdp: MDP) -> int:
    matrix = mdp.transitions
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def report_sweeps(sizes: list[int], rounds: int) -> dict[str, list[tuple[float, float]]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in POINTS}
    print(f"{'states':>9}  {'algorithm':<11}{'sweep ms':>10}{'bare ms':>10}{'ratio':>8}")
    for size in sizes:
        mdp = garnet(size, ACTIONS, BRANCHING, DISCOUNT)
        for name, point in POINTS.items():
            bare, full = sweep_times(mdp, point, rounds if size >= 10**5 else 5 * rounds)
            times[name].append((bare, full))
            print(f"{size:>9}  {name:<11}{1e3 * full:>10.2f}{1e3 * bare:>10.2f}{full / bare:>8.2f}")
    return times


def report_growth(sizes: list[int], times: dict[str, list[tuple[float, float]]]) -> None:
    print("\ngrowth exponent of the time of a sweep (1 is linear), and of the bare product:")
    for name, pairs in times.items():
        bare, full = (
            np.polyfit(np.log(sizes), np.log(column), 1)[0] for column in np.transpose(pairs)
        )
        print(f"  {name:<11}{full:>6.2f}{bare:>8.2f}")


def private_kilobytes() -> int:
    """Return the anonymous memory of this process in kB; Linux can drop and reload the rest."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Sample the memory every millisecond; the last entry of the list is the peak, in kB."""
    seen, done = [private_kilobytes()], threading.Event()

    def look() -> None:
        while not done.wait(0.001):
            seen.append(max(seen[-1], private_kilobytes()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def measure_memory(size: int) -> None:
    """Print, for the parent process, peak memory and the size of the transitions."""
    point = POINTS["MVI(2)"]
    solve(garnet(1000, ACTIONS, BRANCHING, DISCOUNT), point, max_iterations=3)  # compile first
    before = private_kilobytes()
    with peak_memory() as building:
        mdp = garnet(size, ACTIONS, BRANCHING, DISCOUNT)
    with peak_memory() as solving:
        solve(mdp, point, max_iterations=10)
    kilobytes = {"building": building[-1] - before, "solving": solving[-1] - before}
    print(json.dumps(kilobytes | {"transitions": transition_bytes(mdp) // 1024}))


def report_memory(size: int) -> float:
    command = [sys.executable, __file__, "--memory-of", str(size)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ratio = max(found["building"], found["solving"]) / found["transitions"]
    print(
        f"\npeak memory at {size} states, 10 iterations of MVI(2): {found['solving'] / 1024:.0f} MB"
        f" (building alone {found['building'] / 1024:.0f} MB), {ratio:.2f} times the transitions"
        f" ({found['transitions'] / 1024:.0f} MB)"
    )
    return ratio


def report_mdpsolver(size: int, error: float) -> float:
    """Compare with mdpsolver at the same error bound; ``recentre`` matches its span criterion."""
    mdp = garnet(size, ACTIONS, BRANCHING, DISCOUNT)
    best = optimal_q_values(mdp).max(axis=1)
    print(
        f"\nvalue iteration at {size} states to an error of {error:g}, seconds of processor time:"
    )
    ours = min(solve_ours(mdp, error, best) for _ in range(2))
    shape = (size, ACTIONS, BRANCHING)
    arguments = {
        "rewards": mdp.rewards.tolist(),
        "tranMatProbs": mdp.transitions.data.reshape(shape).tolist(),
        "tranMatColumns": mdp.transitions.indices.reshape(shape).tolist(),
    }
    theirs = min(solve_theirs(arguments, error, best, parallel=False) for _ in range(2))
    solve_theirs(arguments, error, best, parallel=True)  # for information
    return ours / theirs


def solve_ours(mdp: MDP, error: float, best: np.ndarray) -> float:
    found = []
    tolerance = error * (1 - DISCOUNT) / DISCOUNT
    seconds = timed(
        lambda: found.append(solve(mdp, POINTS["VI"], tolerance=tolerance, recentre=True)),
        time.process_time,
    )
    report_solver("mviq", seconds, np.abs(found[0].values - best).max(), parallel=False)
    return seconds


def solve_theirs(arguments: dict, error: float, best: np.ndarray, *, parallel: bool) -> float:
    model = mdpsolver.model()  # a fresh one: a second call would start from the solution
    model.mdp(discount=DISCOUNT, **arguments)
    seconds = timed(
        lambda: model.solve(algorithm="vi", update="standard", tolerance=error, parallel=parallel),
        time.process_time,
    )
    found = np.abs(np.array(model.getValueVector()) - best).max()
    report_solver("mdpsolver", seconds, found, parallel=parallel)
    return seconds


def report_solver(name: str, seconds: float, error: float, *, parallel: bool) -> None:
    threads = f"sum of {os.cpu_count()} threads" if parallel else "1 thread"
    print(f"  {name:<10}{seconds:8.2f} s   error {error:.1e}   {threads}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=10**6, help="largest size (default: 10^6)")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each time")
    parser.add_argument("--memory-of", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        measure_memory(options.memory_of)
        return
    sizes = [size for size in (10**3, 10**4, 10**5, 10**6) if size <= options.states]
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} (a busy machine blurs the ratios)\n")
    times = report_sweeps(sizes, options.rounds)
    report_growth(sizes, times)
    memory = report_memory(sizes[-1])
    relative = report_mdpsolver(sizes[-1], 1e-6)
    print(f"\nat {sizes[-1]} states")
    for name, bound in BOUNDS.items():
        bare, full = times[name][-1]
        verdict(f"{name} sweep over bare product", full / bare, bound)
    verdict("peak memory over transitions", memory, 2.0)
    verdict("time over mdpsolver's", relative, 1.0)


def verdict(what: str, measured: float, bound: float) -> None:
    print(
        f"  {what:<34}{measured:>6.2f}   at most {bound:g}: {'yes' if measured <= bound else 'NO'}"
    )


if __name__ == "__main__":
    main()
