"""Reads tune files: study files with one algorithm and a section ``tune``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal, get_args

from mviq.runs.records import ScoreKind
from mviq.studies.definition import Study, study_yaml
from mviq.studies.plan import config_of, expand, format_value
from mviq.studies.study_directory import PlannedRun
from mviq.studies.study_file import (
    MOST_RUNS,
    check_keys,
    parse_file,
    require_mapping,
    study_from,
)
from mviq.studies.tuning.space import Choices, Space, corners, space_from

Sampler = Literal["tpe", "random", "grid"]
Pruner = Literal["median", "none"]
KEYS = ("trials", "space", "sampler", "pruner", "seed", "score")


@dataclass(frozen=True, kw_only=True)
class Search:
    """The content of a tune file."""

    study: Study
    """The settings shared by all trials."""
    space: Space
    trials: int
    """The number of trials, including those of earlier sessions."""
    sampler: Sampler = "tpe"
    pruner: Pruner = "median"
    seed: int = 0
    score: ScoreKind = "final"

    def runs(self, trial: int, chosen: Mapping[str, Any]) -> list[PlannedRun]:
        """Return the runs of a trial; the seed varies slowest."""
        return list(expand(self.with_values(trial_label(trial, chosen), chosen)).runs)

    def with_values(self, label: str, chosen: Mapping[str, Any]) -> Study:
        """Return the study whose algorithm has the chosen values."""
        (entry,) = self.study.entries
        settings = {**entry.settings, **chosen}
        return replace(self.study, entries=(replace(entry, label=label, settings=settings),))


def trial_label(trial: int, chosen: Mapping[str, Any]) -> str:
    """Return the name of a trial with its settings."""
    values = ", ".join(f"{name}={format_value(value)}" for name, value in chosen.items())
    return f"trial {trial}: {values}"


def read_search(path: Path) -> Search:
    """Return the search of a YAML or TOML file."""
    return parse_file(path, search_from)


def search_from(content: Mapping[Any, Any]) -> Search:
    """Return the search that a mapping with the keys of a tune file describes."""
    if "tune" not in content:
        raise ValueError("it has no section tune, which says what to search")
    study = study_from({name: value for name, value in content.items() if name != "tune"})
    tune = content["tune"]
    require_mapping("tune", tune)
    check_keys("tune", tune, KEYS)
    space = space_from(tune.get("space", {}))
    sampler = _one_of("sampler", tune.get("sampler", "tpe"), get_args(Sampler))
    search = Search(
        study=study,
        space=space,
        sampler=sampler,
        trials=_trials(tune, space, sampler),
        pruner=_one_of("pruner", tune.get("pruner", "median"), get_args(Pruner)),
        seed=_whole("seed", tune.get("seed", 0), 0),
        score=_one_of("score", tune.get("score", "final"), get_args(ScoreKind)),
    )
    _check_study(search)
    _check_count(search)
    _check_corners(search)
    return search


def with_trials(search: Search, trials: int) -> Search:
    """Return the search with another number of trials."""
    if search.sampler == "grid":
        raise ValueError("a grid has as many trials as combinations: leave the number out")
    search = replace(search, trials=_whole("trials", trials, 1))
    _check_count(search)
    return search


def _trials(tune: Mapping[str, Any], space: Space, sampler: str) -> int:
    if sampler == "grid":
        for name, parameter in space.items():
            if not isinstance(parameter, Choices):
                raise ValueError(f"tune.space.{name} must have choices: the sampler is grid")
        if "trials" in tune:
            raise ValueError("tune.trials: a grid has as many as combinations: leave it out")
        return _whole("trials", prod(len(one.corners) for one in space.values()), 1)
    if "trials" not in tune:
        raise ValueError("tune.trials must say how many trials there are")
    return _whole("trials", tune["trials"], 1)


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> Any:
    if value not in known:
        raise ValueError(f"tune.{name} must be one of {', '.join(known)}, got {value!r}")
    return value


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"tune.{name} must be a whole number of at least {least}, got {value!r}")
    return value


def _check_study(search: Search) -> None:
    study = search.study
    if study.explicit or len(study.entries) > 1 or study.grid or study.entries[0].grid:
        raise ValueError("a search has one algorithm; put what varies in tune.space")
    if study.baseline is not None:
        raise ValueError("a search has no baseline")
    places = {"settings": study.settings, "algorithms[0]": study.entries[0].settings}
    places |= {f"environments[{i}]": env for i, env in enumerate(study.environments)}
    for place, settings in places.items():
        for name in search.space.keys() & settings.keys():
            raise ValueError(f"{name} is set both in tune.space and in {place}: it can be in one")


def _check_count(search: Search) -> None:
    """Refuse more runs than a study may have."""
    study = search.study
    runs = search.trials * len(study.seeds) * len(study.environments)
    if runs > MOST_RUNS:
        raise ValueError(f"a search must have at most {MOST_RUNS:,} runs, got {runs:,}")


def _check_corners(search: Search) -> None:
    """Require that every corner of the space is a valid run, and that runs are evaluated."""
    for corner in corners(search.space):
        try:
            runs = first_runs(search, corner)
        except ValueError as error:
            raise ValueError(f"tune.space: {error}") from None
    for config in map(config_of, runs):
        if not config.eval_every:
            raise ValueError("eval_every must be above 0: a search compares evaluations")


def first_runs(search: Search, chosen: Mapping[str, Any]) -> list[PlannedRun]:
    """Return the runs of the first seed with the chosen values."""
    study = search.study
    return replace(search, study=replace(study, seeds=study.seeds[:1])).runs(0, chosen)


def tune_yaml(search: Search) -> str:
    """Return the search as a normalised tune file."""
    import yaml

    tune = {name: getattr(search, name) for name in KEYS if name != "space"}
    if search.sampler == "grid":
        del tune["trials"]
    tune["space"] = {name: parameter.written() for name, parameter in search.space.items()}
    text = yaml.safe_dump({"tune": tune}, sort_keys=False, allow_unicode=True, width=100)
    return study_yaml(search.study) + text
