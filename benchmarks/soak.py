"""Soak test with a disturbed study and one long run: do resources leak, is data lost?

    python benchmarks/soak.py                 an hour: 200 runs, 10⁶ steps
    python benchmarks/soak.py --minutes 5     a shorter version

For two thirds of the time, a study of tiny runs is started again and again, and each session is
disturbed: a run is killed, the study is killed, the disk is full, or a Ray worker is lost. Then the
study is completed, and some of its runs are compared, byte for byte, with undisturbed runs. In the
last third, the memory and open files of one long run are monitored. The script fails if runs are
missing or differ, if memory or open files grow by more than a tenth after the first quarter, or if
temporary files, processes or zombies are left. On a busy machine it takes longer than an hour,
because the study is always completed.
"""

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import yaml

from mviq.runs.training import train
from mviq.studies.plan import config_of, expand
from mviq.studies.run_status import status_of
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import read_study

TINY = {
    **{"hidden": [16], "batch_size": 16, "buffer_size": 400, "learning_starts": 50},
    **{"total_steps": 1000, "eval_every": 250, "eval_episodes": 2, "log_every": 100},
    **{"checkpoint_every": 100, "keep_checkpoint": True},
}
GROWTH = 1.1
MOMENT = 20.0  # maximum seconds until a session is disturbed, and then until it is stopped
HANGS = 900.0  # timeout in seconds for a process to stop
COMPARED = 10  # runs that are repeated undisturbed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runs", type=int, help="of the study (200 in an hour)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    share = options.minutes / 60
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        place = Path(name)
        runs = options.runs or max(4, round(200 * share))
        faults = soak_study(place, runs, 2400 * share, options.seed)
        faults += soak_run(place, max(10_000, round(1e6 * share)), 1200 * share)
        faults += left_behind(place)
    print("\n".join(faults) or "nothing grew, nothing was lost, nothing is left")
    return 1 if faults else 0


def soak_study(place: Path, runs: int, seconds: float, seed: int) -> list[str]:
    content = {"name": "soak", "environments": ["CartPole-v1"], "algorithms": ["mvi", "m-vi"]}
    file = place / "soak.yaml"
    file.write_text(yaml.safe_dump({**content, "seeds": max(1, runs // 2), "settings": TINY}))
    directory, rng = StudyDirectory(place / "soak"), random.Random(seed)
    planned, counts = expand(read_study(file)).runs, dict.fromkeys(DISTURBANCES, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not finished(directory, planned):
        kind = min(counts, key=lambda kind: counts[kind])
        session(file, kind, rng)
        counts[kind] += 1
    print(f"study of {len(planned)} runs, disturbed: {counts}", flush=True)
    command(file, "--retry-failed").wait()
    ended = sum(status_of(directory, run).state == "finished" for run in planned)
    print(f"finished: {ended} of {len(planned)}")
    same = [
        is_same(place, directory, run) for run in rng.sample(planned, min(COMPARED, len(planned)))
    ]
    print(f"equal to undisturbed runs, byte for byte: {sum(same)} of {len(same)}")
    faults = [f"{len(planned) - ended} runs have not finished"] * (ended < len(planned))
    return faults + ["a run differs"] * (not all(same))


def finished(directory: StudyDirectory, planned) -> bool:
    return all(status_of(directory, run).state == "finished" for run in planned)


def is_same(place: Path, directory: StudyDirectory, run) -> bool:
    config = config_of(run)
    train(config, place / "alone")
    mine, theirs = place / "alone" / config.name, directory.runs / config.name
    tables = ("progress.csv", "evaluations.csv")
    return all((mine / x).read_bytes() == (theirs / x).read_bytes() for x in tables)


def command(file: Path, *options: str) -> subprocess.Popen:
    words = [sys.executable, "-m", "mviq", "study", "run", str(file), "--out", str(file.parent)]
    words += ["--no-estimate", "--quiet", *options]
    own = file.parent / "tmp"  # to find temporary files, and processes by their environment
    own.mkdir(exist_ok=True)
    environ = {**os.environ, "TMPDIR": str(own)}
    with (file.parent / "log").open("ab") as log:
        return subprocess.Popen(words, stdout=log, stderr=log, env=environ, start_new_session=True)


def session(file: Path, kind: str, rng: random.Random) -> None:
    """Start the study, disturb it after a random time, and stop it if it goes on."""
    options, disturb = DISTURBANCES[kind]
    study = command(file, *options)
    while study.poll() is None and not processes(str(file.parent)):
        time.sleep(0.1)
    time.sleep(rng.uniform(0, MOMENT))
    disturb(study, file)
    try:
        study.wait(rng.uniform(0, MOMENT))
    except subprocess.TimeoutExpired:
        study.send_signal(signal.SIGINT)
        study.wait(HANGS)
    end = time.monotonic() + HANGS
    while time.monotonic() < end and processes(str(file.parent)):
        time.sleep(0.1)  # the runs of a killed study stop by themselves


def processes(place: str, *, runs: bool = True) -> list[int]:
    """Return the ids of a directory's workers, or of all processes started for it, Ray's too."""
    found, told = [], "cmdline" if runs else "environ"
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / told).read_bytes().decode(errors="replace")
        except OSError:
            continue
        if place in text and (not runs or "mviq.studies.worker" in text):
            found.append(int(process.name))
    return found


def kill_a_run(study: subprocess.Popen, file: Path) -> None:
    for pid in processes(str(file.parent))[:1]:
        os.kill(pid, signal.SIGKILL)


def kill_the_study(study: subprocess.Popen, file: Path) -> None:
    study.kill()


def fill_the_disk(study: subprocess.Popen, file: Path) -> None:
    """Simulate a full disk: limit the file size of running processes to less than a model."""
    for pid in processes(str(file.parent)):
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))


DISTURBANCES = {
    "run killed": ((), kill_a_run),
    "study killed": ((), kill_the_study),
    "disk full": (("--retry-failed",), fill_the_disk),
    "worker of Ray lost": (("--engine", "ray", "--retry-failed"), kill_a_run),
}


def soak_run(place: Path, steps: int, seconds: float) -> list[str]:
    """Monitor a long run, whose memory should not grow: its replay buffer is full early.

    γ is 0.9, because with 0.99 so small a network diverges after 800,000 steps.
    """
    words = [sys.executable, "-m", "mviq", "train", "CartPole-v1", "--quiet", "--hidden", "16"]
    words += ["--total-steps", str(steps), "--buffer-size", "1000", "--gamma", "0.9"]
    words += ["--out", str(place / "long")]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    seen, end = [], time.monotonic() + seconds
    while run.poll() is None and time.monotonic() < end:
        time.sleep(1)
        learning = any(log.read_text().count("\n") > 1 for log in place.glob("long/*/progress.csv"))
        seen += usage(run.pid) if learning else []
    code = run.poll()  # None if it has not ended in time
    run.terminate()
    run.wait(HANGS)
    seen = seen[len(seen) // 4 :]
    if not seen:
        return ["the long run ended before it could be watched"]
    (log,) = place.glob("long/*/progress.csv")
    done = int(log.read_text().splitlines()[-1].split(",")[0])
    print(f"one run, logged: {done:,} of {steps:,} steps")
    faults = [f"the long run ended with exit code {code}"] * bool(code)
    for i, name in enumerate(("resident MB", "open files")):
        first, last, most = seen[0][i], seen[-1][i], max(row[i] for row in seen)
        print(f"one run, {name}: {first:,} early, {last:,} at the end, {most:,} at most")
        faults += [f"{name} grew from {first} to {last}"] * (last > GROWTH * first)
    return faults


def usage(pid: int) -> list[tuple[int, int]]:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return []
    # A zombie process has no memory.
    return [(pages * os.sysconf("SC_PAGE_SIZE") // 2**20, files)] if pages else []


def left_behind(place: Path) -> list[str]:
    temporary = [path for path in place.rglob("*") if "partial" in path.name]
    temporary += [path for path in (place / "tmp").iterdir() if path.name != "ray"]  # Ray's logs
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    others = processes(str(place), runs=False)
    kinds = {
        "temporary files": temporary,
        "children or zombies": children,
        "other processes": others,
    }
    print(", ".join(f"{name} left: {len(items)}" for name, items in kinds.items()))
    return [f"{name} left: {items}" for name, items in kinds.items() if items]


if __name__ == "__main__":
    sys.exit(main())
