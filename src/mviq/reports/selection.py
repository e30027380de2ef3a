"""Which runs of a study are shown, against which baseline, and which of them are averaged.

Only labels and environments that all have a score in each other are averaged.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mviq.reports.reading import Run, StudyData
from mviq.studies.plan import is_like

_NAMED = 4  # more names than these are counted


def restricted(study: StudyData, only: Sequence[str], without: Sequence[str]) -> StudyData:
    """Return the runs whose label or environment is like one of ``only``, none of ``without``."""
    for pattern in (*only, *without):
        if not any(_is_like(run, pattern) for run in study.runs):
            names = ", ".join((*study.labels, *study.envs))
            raise ValueError(f"no label or environment is like {pattern!r}: there are {names}")
    wanted = [run for run in study.runs if not only or any(_is_like(run, one) for one in only)]
    kept = tuple(run for run in wanted if not any(_is_like(run, one) for one in without))
    if not kept:
        raise ValueError("no run is left: --without takes all that --only leaves")
    gone = set(study.labels) - {run.label for run in kept}
    return replace(study, runs=kept, baseline=None if study.baseline in gone else study.baseline)


def _is_like(run: Run, pattern: str) -> bool:
    """Return whether the label or environment is this name, or matches a pattern like MVI*."""
    return is_like((run.label, run.env), pattern)


def wishes(only: Sequence[str], without: Sequence[str]) -> list[str]:
    """Say what was left out by choice: the page must not look like that of all runs."""
    patterns = {"only": only, "without": without}
    return [f"by choice {word} {', '.join(names)}" for word, names in patterns.items() if names]


def baseline_of(study: StudyData, wanted: str | None, labels: Sequence[str]) -> str | None:
    """Return what others are compared with: what is wanted, the study's, DQN, the first."""
    chosen, origin = study.baseline, "the study file"
    if wanted is not None:
        alike = [label for label in study.labels if label.casefold() == wanted.casefold()]
        chosen, origin = alike[0] if len(alike) == 1 else wanted, "--baseline"
    if chosen is not None and chosen not in study.labels:
        names = ", ".join(study.labels)
        raise ValueError(f"baseline must be one of {names}, got {chosen!r} from {origin}")
    if chosen is not None or len(labels) < 2:
        return chosen
    plain = [run.label for run in study.runs if run.settings.get("algorithm") == "vi"]
    return next((label for label in plain if label in labels), labels[0])


def complete(
    scored: Mapping[str, Collection[str]], labels: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return labels and environments without a gap, given the labels that each environment has.

    As long as there is a gap, the label or the environment goes that takes the fewest scores with
    it, the environment if they are even. Two labels stay: one alone is no comparison.

    >>> complete({"CartPole-v1": ["DQN", "AL"], "Acrobot-v1": ["DQN", "AL", "MVI"]},
    ...          ["DQN", "AL", "MVI"])
    (('DQN', 'AL'), ('CartPole-v1', 'Acrobot-v1'))
    >>> complete({"CartPole-v1": ["DQN"], "Acrobot-v1": ["DQN", "AL"]}, ["DQN", "AL"])
    (('DQN', 'AL'), ('Acrobot-v1',))
    """
    ranked, shared = list(labels), list(scored)

    def scores_of(label: str) -> int:
        return sum(label in scored[env] for env in shared)

    def scores_in(env: str) -> int:
        return sum(label in scored[env] for label in ranked)

    while any(scores_in(env) < len(ranked) for env in shared):
        label, env = min(ranked, key=scores_of), min(shared, key=scores_in)
        if len(ranked) > 2 and scores_of(label) < scores_in(env):
            ranked.remove(label)
        else:
            shared.remove(env)
    # What went early can have come to fit since.
    shared = [env for env in scored if scores_in(env) == len(ranked)]
    return tuple(x for x in labels if scores_of(x) == len(shared)), tuple(shared)


def left_out(
    labels: Sequence[str],
    envs: Sequence[str],
    scored: Mapping[str, Collection[str]],
    ranked: Collection[str],
    shared: Sequence[str],
) -> list[str]:
    """Say which labels and environments of a study are not averaged, and why.

    >>> scored = {"CartPole-v1": ["DQN"], "Acrobot-v1": ["DQN", "AL"]}
    >>> left_out(["DQN", "AL"], list(scored), scored, *complete(scored, ["DQN", "AL"]))
    ['Not in these averages: CartPole-v1 (no score of AL). They are over Acrobot-v1 alone.']
    """
    said = []
    if outside := [env for env in envs if env not in shared]:
        without = {env: [x for x in ranked if x not in scored.get(env, ())] for env in outside}
        reasons = [f"{env} (no score of {some(without[env])})" for env in outside]
        over = f" They are over {some(shared)} alone." if shared else ""
        said.append(f"Not in these averages: {some(reasons)}.{over}")
    if unranked := [label for label in labels if label not in ranked]:
        lacking = {x: [env for env in envs if x not in scored.get(env, ())] for x in unranked}
        said.append(
            f"Not ranked: {some([f'{x} (no score in {some(lacking[x])})' for x in unranked])}."
        )
    return said


def some(names: Sequence[str]) -> str:
    """Return names in a row; of many the first, and how many more there are.

    >>> some(["a", "b"]), some(list("abcdef"))
    ('a, b', 'a, b, c and 3 more')
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
