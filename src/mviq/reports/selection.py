"""Select the runs of a report, the baseline, and the labels and environments to average.

Averages are only over labels and environments in which every pair has a score.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mviq.reports.reading import Run, StudyData
from mviq.studies.plan import is_like

_NAMED = 4  # longest list of names that is printed in full


def restricted(study: StudyData, only: Sequence[str], without: Sequence[str]) -> StudyData:
    """Return the study with the runs that match any of ``only`` and none of ``without``."""
    for pattern in (*only, *without):
        if not any(_is_like(run, pattern) for run in study.runs):
            names = some((*study.labels, *study.envs))
            raise ValueError(f"no label or environment is like {pattern!r}: there are {names}")
    wanted = [run for run in study.runs if not only or any(_is_like(run, one) for one in only)]
    kept = tuple(run for run in wanted if not any(_is_like(run, one) for one in without))
    if not kept:
        raise ValueError("no run is left: --without takes all that --only leaves")
    gone = set(study.labels) - {run.label for run in kept}
    return replace(study, runs=kept, baseline=None if study.baseline in gone else study.baseline)


def _is_like(run: Run, pattern: str) -> bool:
    """Return whether the label or environment equals or matches a pattern such as MVI*."""
    return is_like((run.label, run.env), pattern)


def filter_notes(only: Sequence[str], without: Sequence[str]) -> list[str]:
    """Return notes on what was left out on request, so that the page does not look complete."""
    patterns = {"only": only, "without": without}
    return [f"by choice {word} {', '.join(names)}" for word, names in patterns.items() if names]


def baseline_of(study: StudyData, wanted: str | None, labels: Sequence[str]) -> str | None:
    """Return the baseline: ``wanted``, else the study's, else DQN, else the first label."""
    chosen, origin = study.baseline, "the study file"
    if wanted is not None:
        alike = [label for label in study.labels if label.casefold() == wanted.casefold()]
        chosen, origin = alike[0] if len(alike) == 1 else wanted, "--baseline"
    if chosen is not None and chosen not in study.labels:
        names = some(study.labels)
        raise ValueError(f"baseline must be one of {names}, got {chosen!r} from {origin}")
    if chosen is not None or len(labels) < 2:
        return chosen
    plain = [run.label for run in study.runs if run.settings.get("algorithm") == "vi"]
    return next((label for label in plain if label in labels), labels[0])


def complete(
    scored: Mapping[str, Collection[str]], labels: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return labels and environments such that every label has a score in every environment.

    ``scored`` maps each environment to its labels with a score. While one is missing, the label or
    environment with the fewest scores is removed, in a tie the environment. Two labels always stay.

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
    # What was removed early may have become complete since.
    shared = [env for env in scored if scores_in(env) == len(ranked)]
    return tuple(x for x in labels if scores_of(x) == len(shared)), tuple(shared)


def left_out(
    labels: Sequence[str],
    envs: Sequence[str],
    scored: Mapping[str, Collection[str]],
    ranked: Collection[str],
    shared: Sequence[str],
) -> list[str]:
    """Return sentences on the labels and environments that are not averaged, and why.

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
    """Join names with commas; of a long list, the first ones and the number of others.

    >>> some(["a", "b"]), some(list("abcdef"))
    ('a, b', 'a, b, c and 3 more')
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
