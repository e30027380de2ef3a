"""Files of runs and studies made by hand, as training would have left them."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path

import yaml

from mviq.runs.tables import METRICS

STEPS = (100, 200, 300, 400)
SYSTEM = {"versions": {"mviq": "0.1.0", "minatar": None}, "python": "3.11.7", "gpus": []}
ALGORITHMS = {"DQN": ("vi", math.inf), "MVI(2)": ("mvi", 2.0), "M-DQN": ("m-vi", 1.0)}


def write_run(
    directory: Path,
    scores: Sequence[float],
    *,
    env: str = "CartPole-v1",
    algorithm: str = "vi",
    q: float = math.inf,
    seed: int = 0,
    steps: Sequence[int] = STEPS,
    status: str | None = "finished",
    message: str = "",
    evaluated: bool = True,
    **settings: object,
) -> Path:
    """Write a run whose evaluations have some mean returns, in two episodes each."""
    directory.mkdir(parents=True)
    own = {"env": env, "seed": seed, "algorithm": algorithm, "critic": "scalar", "q": q}
    own |= {"temperature": 0.03, "total_steps": STEPS[-1], **settings}
    (directory / "config.yaml").write_text(yaml.safe_dump(own, allow_unicode=True))
    (directory / "system.json").write_text(json.dumps(SYSTEM))
    evaluations = [
        (step, episode, score + away, 10)
        for step, score in zip(steps, scores, strict=True)
        for episode, away in enumerate((-1.0, 1.0))
    ]
    _write_table(
        directory / "evaluations.csv",
        ("step", "episode", "return", "length"),
        evaluations if evaluated else [],
    )
    _write_table(directory / "progress.csv", METRICS, _progress(steps, scores))
    if status is not None:
        result = {"status": status, "steps": steps[-1], "message": message}
        (directory / "result.json").write_text(json.dumps(result))
    return directory


def _progress(steps: Sequence[int], scores: Sequence[float]) -> list[list[object]]:
    values = {"rollout/ep_rew_mean": 0.5, "tsallis/entropy": 0.01, "tsallis/support_size": 0.1}
    return [
        [step if name == "time/total_timesteps" else score * values[name] if name in values else ""
         for name in METRICS]
        for step, score in zip(steps, scores, strict=True)
    ]  # fmt: skip


def _write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_plan(study: Path, runs: Sequence[tuple[str, str, int]], **changes: object) -> None:
    """Write the plan of a study with runs of some label, environment and seed."""
    planned = [
        {"run": name_of(*run), "label": run[0], "env": run[1], "seed": run[2], "settings": {}}
        for run in runs
    ]
    content = {"format": 1, "name": "by hand", "description": "", "baseline": None, "runs": planned}
    study.mkdir(parents=True, exist_ok=True)
    (study / "plan.json").write_text(json.dumps({**content, **changes}))


def name_of(label: str, env: str, seed: int) -> str:
    """Return the name of a directory, which must not be as odd as a label may be."""
    return "".join(c if c.isalnum() or c in "-_()" else "-" for c in f"{env}_{label[:30]}_{seed}")


def write_study(
    study: Path, scores: dict[tuple[str, str], Sequence[Sequence[float]]], **changes: object
) -> Path:
    """Write a study: for every label and environment the curve of each seed."""
    runs = []
    for (label, env), curves in scores.items():
        algorithm, q = ALGORITHMS.get(label, ("mvi", 2.0))
        for seed, curve in enumerate(curves):
            runs.append((label, env, seed))
            write_run(
                study / "runs" / name_of(label, env, seed),
                curve,
                env=env,
                algorithm=algorithm,
                q=q,
                seed=seed,
                steps=[100 * (i + 1) for i in range(len(curve))],
            )
    write_plan(study, runs, **changes)
    return study


def curve(end: float, points: int = 4) -> list[float]:
    """Return a curve that rises to its end in a straight line."""
    return [end * (i + 1) / points for i in range(points)]
