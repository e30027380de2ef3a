"""When does q help? Value iteration with errors: problems × noise × temperature × q.

The paper argues from errors: regularised by a KL divergence, value iteration averages the errors
of its iterations evenly; a Tsallis KL divergence would give less weight to outliers. This module
measures it. An error is added to the action values in every iteration, and the regret of the greedy
policy is recorded: its loss against the best policy, as a share of the loss of the random policy.
Temperatures and errors are in units of the problem: the standard deviation of its advantages
Q* − V*.

Many problems of a kind are solved together, as one MDP of unconnected parts. All algorithms get
the same problems and the same errors, so that differences between them have narrow intervals.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import sparse, stats

from mviq.arrays import Floats
from mviq.drawing.figures import heat_map, panel_grid
from mviq.drawing.style import in_style, looks
from mviq.paper.evidence import above
from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.progress import counting
from mviq.reports.statistics import Interval
from mviq.tabular import MDP, Algorithm, ExplicitKL, Noise, Status, iterate, optimal_q_values
from mviq.tabular.algorithms import policy_of
from mviq.tabular.generators import chain, garnet, grid_world
from mviq.tsallis import Family

INDICES = (1.0, 1.5, 2.0, 3.0, 5.0, math.inf)
TEMPERATURES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
EXPLICIT_TEMPERATURES = (0.1, 1.0, 10.0, 100.0, 1e3)
PROBLEMS: Mapping[str, Callable[[int], MDP]] = {
    "Garnet": lambda seed: garnet(states=30, actions=4, branching=3, discount=0.95, seed=seed),
    "chain": lambda seed: chain(states=20, slip=0.05 + seed % 50 / 200, discount=0.95),
    "grid": lambda seed: grid_world(rows=5, columns=5, discount=0.95, seed=seed),
}
ERRORS: Mapping[str, Noise | None] = {
    "no error": None,
    "Gaussian, 0.3": Noise(0.3),
    "Gaussian, 1": Noise(1.0),
    "outliers, 1": Noise(1.0, kind="outliers"),
    "heavy tails, 1": Noise(1.0, kind="heavy-tailed"),
    "same error, 0.3": Noise(0.3, kind="constant"),
}
ITERATIONS = 200
LOOK_EVERY = 5  # iterations, in the second half
LEVEL = 0.95

SETTINGS = (
    f"{', '.join(PROBLEMS)}; discount 0.95; {ITERATIONS} iterations, regret of the greedy policy "
    f"every {LOOK_EVERY} iterations of the second half",
    "regret: what the policy loses against the best one in the mean over all states, divided by "
    "what choosing at random loses; τ and σ in standard deviations of the advantages Q* − V*",
    "outliers: 1 error in 100 is ten times as large, the others are 0; heavy tails: Student's t, 2 "
    "degrees of freedom; same error: drawn once and added in every iteration",
    "intervals: 95 %, over problems; differences: the same problems with the same errors",
)


class Setting(NamedTuple):
    """One setting: an algorithm, in units of the problem, and a kind of error."""

    problem: str
    error: str
    form: str
    """Form of the Munchausen term, or ``explicit`` for the divergence from a stored prior."""
    alpha: float
    temperature: float
    q: float

    def algorithm(self, unit: float) -> Algorithm:
        """Return the algorithm for a problem with this unit."""
        if self.form == "explicit":
            return ExplicitKL(self.q, self.temperature * unit)
        return Family(self.q, self.temperature * unit, self.alpha, self.form)  # type: ignore[arg-type]


def settings() -> Iterator[Setting]:
    """Yield the settings to compute: the map of the gap form, other α and forms, explicit KL."""
    noisy = ("Gaussian, 1", "outliers, 1")
    for problem in PROBLEMS:
        for error, temperature, q in product(ERRORS, TEMPERATURES, INDICES):
            yield Setting(problem, error, "gap", 0.9, temperature, q)
        for error, alpha, q in product(noisy, (0.0, 0.5, 0.99), INDICES):
            yield Setting(problem, error, "gap", alpha, 0.1, q)
        for error, temperature, q in product(("Gaussian, 0.3", *noisy), TEMPERATURES, INDICES[:-1]):
            yield Setting(problem, error, "log", 0.9, temperature, q)
        for error, temperature, q in product(noisy, (0.1, 1.0), INDICES[:-1]):
            yield Setting(problem, error, "truncated_log", 0.9, temperature, q)
        for error, temperature, q in product(noisy, EXPLICIT_TEMPERATURES, INDICES[:-1]):
            yield Setting(problem, error, "explicit", 1.0, temperature, q)


@dataclass(frozen=True)
class Together:
    """Problems of one size, solved together as one MDP of unconnected parts."""

    mdp: MDP
    transitions: Floats
    """Shape (problems, states, actions, states)."""
    rewards: Floats
    best: Floats
    """V*, shape (problems, states)."""
    at_random: Floats
    """Loss of the uniformly random policy, one number for each problem."""
    unit: float

    def regret(self, preferences: Floats) -> Floats:
        """Return the regret in each problem of choosing the actions that are preferred most."""
        chosen = np.eye(preferences.shape[-1])[preferences.argmax(-1)]
        return self.loss(chosen.reshape(self.rewards.shape)) / self.at_random

    def loss(self, policy: Floats) -> Floats:
        """Return the loss of a policy against the best one, averaged over states."""
        discount, states = self.mdp.discount, self.best.shape[1]
        matrix = np.eye(states) - discount * np.einsum("bsa,bsat->bst", policy, self.transitions)
        rewards = (policy * self.rewards).sum(-1, keepdims=True)
        loss: Floats = (self.best - np.linalg.solve(matrix, rewards)[..., 0]).mean(1)
        return loss


def together(mdps: Sequence[MDP]) -> Together:
    """Combine problems with equal numbers of states and actions into one."""
    count, (states, actions) = len(mdps), mdps[0].rewards.shape
    mdp = replace(
        mdps[0],
        transitions=sparse.csr_array(sparse.block_diag([one.transitions for one in mdps])),
        rewards=np.concatenate([one.rewards for one in mdps]),
        start=np.concatenate([one.start for one in mdps]) / count,
        terminal=np.concatenate([one.terminal for one in mdps]),
        grid=None,
    )
    dense = np.stack([one.transitions.toarray() for one in mdps])
    optimal = optimal_q_values(mdp)
    acting = ~mdp.terminal
    advantages = (optimal - optimal.max(1, keepdims=True))[acting]
    whole = Together(
        mdp,
        dense.reshape(count, states, actions, states),
        mdp.rewards.reshape(count, states, actions),
        np.where(acting, optimal.max(1), 0.0).reshape(count, states),
        np.ones(count),
        float(advantages.std()),
    )
    return replace(whole, at_random=whole.loss(np.full_like(whole.rewards, 1 / actions)))


def regret(problems: Together, setting: Setting, iterations: int) -> tuple[Floats, Floats]:
    """Return the mean regret in the second half of the iterations and the last, by problem.

    An explicit divergence averages errors in its policy, all other algorithms in their action
    values: the greedy policy is that of what has been averaged.
    """
    noise, algorithm = ERRORS[setting.error], setting.algorithm(problems.unit)
    if noise is not None:
        noise = replace(noise, scale=noise.scale * problems.unit)
    seen: list[Floats] = []
    for step in islice(iterate(problems.mdp, algorithm, tolerance=0.0, noise=noise), iterations):
        over = step.iteration == iterations or step.verdict.status is not Status.RUNNING
        due = step.iteration > iterations // 2 and step.iteration % LOOK_EVERY == 0
        if over or due:
            preferred = step.q_values
            if isinstance(algorithm, ExplicitKL):
                preferred = policy_of(algorithm, step.q_values, step.prior)
            found = problems.regret(np.nan_to_num(preferred.numpy()))
            seen += [found] if due or not seen else []
    return np.asarray(np.mean(seen, axis=0)), found


Regrets = Mapping[Setting, Floats]


def compute(
    count: int, iterations: int = ITERATIONS, chosen: Iterable[Setting] | None = None
) -> tuple[Regrets, Regrets]:
    """Return the mean and the last regret of every setting, in each of ``count`` problems."""
    wanted = list(settings() if chosen is None else chosen)
    kinds = {
        name: together([make(seed) for seed in range(count)]) for name, make in PROBLEMS.items()
    }
    means, last = {}, {}
    with counting("settings", len(wanted)) as done:
        for number, setting in enumerate(wanted):
            done(number)
            means[setting], last[setting] = regret(kinds[setting.problem], setting, iterations)
    return means, last


def interval(numbers: Floats, least: float = 0.0) -> tuple[float, float, float]:
    """Return a mean with its interval, which ends at the smallest possible number."""
    mean = float(numbers.mean())
    half = float(stats.sem(numbers)) * float(stats.t.ppf((1 + LEVEL) / 2, len(numbers) - 1))
    return mean, max(mean - half, least), mean + half


def gain_interval(more: Floats, less: Floats) -> tuple[float, float, float]:
    """Return by how much regret is smaller, with its interval."""
    return interval(more - less, least=-math.inf)


NEGLIGIBLE = 0.01  # of the random policy's loss


def make(count: int = 50) -> Reproduction:
    """Compute the map, draw it, and test the claims about q."""
    regrets, last = compute(count)
    how = (f"{count} problems of each kind", *SETTINGS)
    return Reproduction("when-q-helps", draw(regrets), table(regrets, last), how, findings(regrets))


def table(regrets: Regrets, last: Regrets) -> Data:
    """Return the mean regret of every setting, its gain over q = 1, and the last regret."""
    measures = "regret", "gain over q = 1", "last regret"
    names = [name for x in measures for name in (x, f"{x}, low", f"{x}, high")]
    rows = []
    for setting, own in regrets.items():
        gain = gain_interval(regrets[setting._replace(q=1.0)], own)
        rows.append((*setting, *interval(own), *gain, *interval(last[setting])))
    return Data((*Setting._fields, *names), rows)


def sufficient(regrets: Regrets, setting: Setting) -> tuple[float, float]:
    """Return the smallest q that is as good as the best one, and its gain over q = 1.

    As good means with a regret that is larger by ``NEGLIGIBLE`` at most.
    """
    by_q = {q: regrets[setting._replace(q=q)] for q in INDICES}
    least = min(float(own.mean()) for own in by_q.values())
    q = next(q for q, own in by_q.items() if own.mean() <= least + NEGLIGIBLE)
    return q, float((by_q[1.0] - by_q[q]).mean())


@in_style
def draw(regrets: Regrets) -> Figure:
    """Draw for each problem the map, and below it regret against temperature."""
    figure, panels = panel_grid(2 * len(PROBLEMS), width=3.8, height=2.9, columns=len(PROBLEMS))
    for column, problem in enumerate(PROBLEMS):
        _draw_map(panels[column], regrets, problem)
        _draw_regret(panels[len(PROBLEMS) + column], regrets, problem)
    panels[0].set_ylabel("error in every iteration, σ")
    panels[len(PROBLEMS)].set_ylabel("regret, Gaussian error, σ = 0.3")
    panels[-1].legend(title="q", ncols=2)
    figure.suptitle("the smallest q that is as good as the best, and what it gains over q = 1")
    return figure


def _draw_map(axes: Axes, regrets: Regrets, problem: str) -> None:
    found = [
        [sufficient(regrets, Setting(problem, error, "gap", 0.9, t, 1.0)) for t in TEMPERATURES]
        for error in ERRORS
    ]
    gains = np.array([[gain for _, gain in row] for row in found])
    texts = [[f"{_name(q)}\n+{gain:.2f}" if q > 1 else "any" for q, gain in row] for row in found]
    heat_map(axes, gains, [f"{t:g}" for t in TEMPERATURES], list(ERRORS), texts)
    axes.set(title=problem, xlabel=r"temperature $\tau$")


def _draw_regret(axes: Axes, regrets: Regrets, problem: str) -> None:
    lines = {_name(q): ("gap", q) for q in INDICES} | {"1, log form": ("log", 1.0)}
    for (form, q), look in zip(lines.values(), looks(list(lines)).values(), strict=True):
        own = [Setting(problem, "Gaussian, 0.3", form, 0.9, t, q) for t in TEMPERATURES]
        mean, low, high = np.array([interval(regrets[setting]) for setting in own]).T
        axes.plot(TEMPERATURES, mean, label=look.name, **look.line)
        axes.fill_between(TEMPERATURES, low, high, color=look.colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", xlabel=r"temperature $\tau$")


def _name(q: float) -> str:
    return "∞" if q == math.inf else f"{q:g}"


def findings(regrets: Regrets) -> list[Finding]:
    """Test the claims about q, in every kind of problem."""
    found = []
    for problem in PROBLEMS:
        usual = Setting(problem, "Gaussian, 0.3", "gap", 0.9, 0.1, 2.0)
        soft, outliers = usual._replace(temperature=3.0), usual._replace(error="outliers, 1")
        found += [
            _compare("q = 2 stands a larger τ than q = 1", regrets, soft, q=1.0),
            _compare("q = 5 stands a larger τ than q = 2", regrets, soft._replace(q=5.0), q=2.0),
            _compare(
                "the log form stands a larger τ than the gap, with q = 1",
                regrets,
                soft._replace(form="log", q=1.0),
                form="gap",
            ),
            _compare("at a small τ q = 2 is better than q = 1", regrets, usual, q=1.0),
            _at_their_best("q = 2 weights outliers down: better than q = 1", regrets, outliers),
            _at_their_best(
                "so does an explicit Tsallis KL divergence",
                regrets,
                outliers._replace(form="explicit", alpha=1.0),
            ),
            _compare(
                "an explicit Tsallis KL divergence is better than KL at the same small τ",
                regrets,
                outliers._replace(form="explicit", alpha=1.0),
                q=1.0,
            ),
            _compare(
                "the Munchausen term averages errors: α = 0.99 is better than 0",
                regrets,
                usual._replace(error="Gaussian, 1", alpha=0.99),
                alpha=0.0,
            ),
        ]
    return found


def _compare(claim: str, regrets: Regrets, setting: Setting, **other: float | str) -> Finding:
    """Test whether a setting has less regret than another one."""
    against = setting._replace(**other)  # type: ignore[arg-type]
    where = f"{setting.problem}, {setting.error}, τ = {setting.temperature:g}"
    return _gain(claim, where, regrets[against], regrets[setting])


def _at_their_best(claim: str, regrets: Regrets, setting: Setting) -> Finding:
    """Test whether q has less regret than q = 1, each at the temperature that is best for it."""
    best = {q: _best_temperature(regrets, setting._replace(q=q)) for q in (1.0, setting.q)}
    where = f"{setting.problem}, {setting.error}, τ = " + ", ".join(
        f"{one.temperature:g} for q = {q:g}" for q, one in best.items()
    )
    return _gain(claim, where, regrets[best[1.0]], regrets[best[setting.q]])


def _best_temperature(regrets: Regrets, setting: Setting) -> Setting:
    others = [one for one in regrets if one._replace(temperature=setting.temperature) == setting]
    return min(others, key=lambda one: float(regrets[one].mean()))


def _gain(claim: str, where: str, more: Floats, less: Floats) -> Finding:
    """Test whether regret falls by more than ``NEGLIGIBLE``."""
    gain, low, high = gain_interval(more, less)
    measured = (
        f"regret {more.mean():.3f} and {less.mean():.3f}: gain {gain:.3f} [{low:.3f}, {high:.3f}]"
    )
    return Finding(claim, where, measured, above(Interval(gain, low, high), NEGLIGIBLE))
