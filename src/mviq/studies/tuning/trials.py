"""The trials of a search, proposed by Optuna and stored in a journal of JSON lines.

Nothing is unpickled: only Optuna's Redis journal has pickled snapshots. The journal is written by
a single process, the one that holds the lock of the study's directory.
"""

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from mviq.studies.definition import Study
from mviq.studies.tuning.search_file import Search, tune_yaml
from mviq.studies.tuning.space import Choices, Parameter, as_text, grid

STARTUP = 5  # finished trials before any is pruned
_PLAIN = optuna.samplers.RandomSampler()  # a stateless sampler for the time between proposals
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""The errors that Optuna raises for an invalid line of the journal."""
DEFINITION, OUTCOME, REASON = "definition", "outcome", "reason"


class Trials:
    """Proposes trials and stores their results."""

    def __init__(self, search: Search, file: Path) -> None:
        self._search = search
        self._distributions = {name: _distribution(p) for name, p in search.space.items()}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            _mend(file)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(file))),
                study_name=search.study.name,
                sampler=_PLAIN,
                pruner=_pruner(search),
                direction="maximize",
                load_if_exists=True,
            )
        except UNREADABLE as error:
            raise ValueError(f"{file} is damaged: {error!r}") from None
        self._settle(file)
        for trial in self.kept():
            if trial.params.keys() != self._distributions.keys():  # killed while it was proposed
                self._study.tell(trial.number, state=TrialState.FAIL)

    def _settle(self, file: Path) -> None:
        """Store the definition of the search; a search with another one cannot continue it."""
        definition = _definition(self._search)
        known = self._study.user_attrs.get(DEFINITION)
        if known is None:
            self._study.set_user_attr(DEFINITION, definition)
        elif known != definition:
            raise ValueError(
                f"{file.parent} belongs to another search: only trials, pruner, description and "
                "budget can be changed; give it another name or --out"
            )

    def kept(self) -> list[FrozenTrial]:
        """Return the trials in the order in which they were proposed."""
        states = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
        return self._study.get_trials(deepcopy=False, states=states)

    def ask(self) -> FrozenTrial:
        """Propose a trial.

        The proposal depends only on the seed, the place of the trial and the trials before it, so
        that a search can be interrupted without changing its course.
        """
        place = len(self.kept())
        self._study.sampler = _sampler(self._search, place)
        waiting = self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
        if self._search.sampler == "grid" and not waiting:
            chosen = grid(self._search.space)[place]
            self._study.enqueue_trial({name: as_text(value) for name, value in chosen.items()})
        number = self._study.ask(self._distributions).number
        self._study.sampler = _PLAIN
        return self._study.get_trials(deepcopy=False)[number]

    def chosen(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the settings of a trial."""
        return {
            name: p.texts[trial.params[name]] if isinstance(p, Choices) else trial.params[name]
            for name, p in self._search.space.items()
        }

    def reported(self, trial: FrozenTrial) -> set[int]:
        """Return the steps that a trial has reported."""
        return set(self._study.get_trials(deepcopy=False)[trial.number].intermediate_values)

    def live(self, trial: FrozenTrial) -> Trial:
        """Return a trial that takes reports and asks the pruner."""
        return Trial(self._study, trial._trial_id)

    def finish(self, trial: FrozenTrial, score: float) -> None:
        """End a trial with its score."""
        self._study.tell(trial.number, score)

    def give_up(self, trial: FrozenTrial, outcome: str, reason: str) -> None:
        """End a trial without a score; the sampler ranks it below every finished one."""
        live = self.live(trial)
        live.set_user_attr(OUTCOME, outcome)
        live.set_user_attr(REASON, reason)
        self._study.tell(trial.number, state=TrialState.PRUNED)

    def copy(self, trial: FrozenTrial, twin: FrozenTrial) -> None:
        """End a trial with the result of another one that has the same parameters."""
        if twin.state == TrialState.COMPLETE:
            self.live(trial).set_user_attr(REASON, f"same as trial {twin.number}")
            self._study.tell(trial.number, twin.value)
        else:
            self.give_up(trial, twin.user_attrs[OUTCOME], f"same as trial {twin.number}")

    def importances(self) -> dict[str, float]:
        """Return the importance of each parameter (PED-ANOVA); empty for too few trials."""
        values = {t.value for t in self.kept() if t.state == TrialState.COMPLETE}
        if len(values) < 2 * STARTUP or len(self._distributions) < 2:
            return {}
        return optuna.importance.get_param_importances(self._study)


def _mend(file: Path) -> None:
    """Remove an incomplete last line and the lock, left by a process that was killed."""
    if file.is_file():
        content = file.read_bytes()
        whole = content.rfind(b"\n") + 1
        for line in content[:whole].splitlines():
            json.loads(line)  # or raise: Optuna would overlook the last one until it writes more
        if whole < len(content):
            with file.open("r+b") as journal:
                journal.truncate(whole)
    for lock in file.parent.glob(f"{file.name}.lock*"):
        lock.unlink(missing_ok=True)


def _definition(search: Search) -> str:
    """Return the part of a search that must not change between sessions."""
    known = Study(name=search.study.name)
    study = replace(search.study, description=known.description, budget=known.budget)
    return tune_yaml(replace(search, study=study, trials=1, pruner="none"))


def _distribution(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Choices):
        return CategoricalDistribution(tuple(parameter.texts))
    if parameter.whole:
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _sampler(search: Search, place: int) -> optuna.samplers.BaseSampler:
    seed = int(np.random.SeedSequence([search.seed, place]).generate_state(1)[0])
    if search.sampler == "tpe":
        return optuna.samplers.TPESampler(seed=seed)
    return optuna.samplers.RandomSampler(seed=seed)


def _pruner(search: Search) -> optuna.pruners.BasePruner:
    if search.pruner == "none":
        return optuna.pruners.NopPruner()
    return MedianAtRung()


class MedianAtRung(optuna.pruners.BasePruner):
    """Prunes a trial whose last score is below the median of finished trials at the same rung.

    Optuna's ``MedianPruner`` takes the best score of a trial at any rung, so that one lucky
    evaluation of the first seed would protect it for ever.
    """

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        rung = trial.last_step
        others = [t.intermediate_values[rung] for t in ended if rung in t.intermediate_values]
        if rung is None or len(ended) < STARTUP or not others:
            return False
        return not trial.intermediate_values[rung] >= median(others)
