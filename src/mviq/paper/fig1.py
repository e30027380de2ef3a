"""Figure 1: the q-logarithm, the q-exponential and the Tsallis entropy component, q = 1 to 5.

The paper draws the physics convention, ln_q x = (x^(1−q) − 1)/(1−q). mviq's is its mirror image,
ln_q x = (x^(q−1) − 1)/(q−1), and there the caption's "flatter" and "steeper" change sides. The
upper row is the paper's figure, the lower row its counterpart in mviq's convention.
"""

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from mviq.drawing.style import in_style
from mviq.paper.family_curves import (
    FamilyCurve,
    curve,
    data_of,
    draw_family,
    draw_points,
    point,
    points,
    two_rows,
)
from mviq.paper.reproduction import Finding, Reproduction
from mviq.paper.theorems.samples import Deformed, slope
from mviq.tsallis import exp_q, exp_q_physics, log_q, log_q_physics

INDICES = (1, 2, 3, 4, 5)
MEAN, DEVIATION = 2.0, 1.0
SETTINGS = (
    f"q = 1 to 5; π is the density of N({MEAN:g}, {DEVIATION:g}); slopes by differentiation",
    "physics: ln_q x = (x^(1−q) − 1)/(1−q), the paper's eq. (2); mviq: (x^(q−1) − 1)/(q−1)",
)


def make() -> Reproduction:
    """Compute the curves, draw them, and test the caption's claims."""
    curves = compute()
    return Reproduction("fig1", draw(curves), data_of(curves), SETTINGS, findings(curves))


def gaussian(x: Tensor, mean: float | Tensor, deviation: float | Tensor) -> Tensor:
    """Return the density of N(mean, deviation²) at x.

    >>> gaussian(torch.tensor([0.0]), 0.0, 1.0)
    tensor([0.3989])
    """
    height = deviation * math.sqrt(2 * math.pi)
    return (-((x - mean) / deviation).square() / 2).exp() / height


def component(x: Tensor, q: float) -> Tensor:
    """Return −π ln_q π at the density π(x) of the figure: the integrand of its Tsallis entropy."""
    density = gaussian(x, MEAN, DEVIATION)
    return -density * log_q(density, q)


def compute() -> list[FamilyCurve]:
    """Return every curve of the figure, panel by panel."""
    positive, line, actions = _grid(0.02, 3, 597), _grid(-3, 2, 501), _actions()
    area, steepest = "entropy_area", "entropy_steepest_slope"
    return [
        *(curve("log_physics", q, positive, log_q_physics(positive, q)) for q in INDICES),
        *(_exponential_up_to_its_pole(q) for q in INDICES),
        *(curve("entropy_component", q, actions, component(actions, q)) for q in INDICES),
        *(curve("log_mviq", q, positive, log_q(positive, q)) for q in INDICES),
        *(curve("exp_mviq", q, line, exp_q(line, q)) for q in INDICES),
        *(point(area, q, q, torch.trapezoid(component(actions, q), actions)) for q in INDICES),
        *(point(steepest, q, q, slope(component, actions, q).abs().max()) for q in INDICES),
    ]


def _exponential_up_to_its_pole(q: int) -> FamilyCurve:
    # exp_q has a pole at x = 1/(q−1): points spaced by height follow the curve up to it.
    heights = _grid(1, 8, 401)
    x = torch.cat([_grid(-3, 0, 301)[:-1], log_q_physics(heights, q)])
    return curve("exp_physics", q, x, exp_q_physics(x, q))


def _grid(low: float, high: float, count: int) -> Tensor:
    return torch.linspace(low, high, count, dtype=torch.float64)


def _actions() -> Tensor:
    return _grid(MEAN - 6 * DEVIATION, MEAN + 6 * DEVIATION, 601)


def findings(curves: Sequence[FamilyCurve]) -> list[Finding]:
    """Test each claim of the caption in both conventions and on both sides of x = 1 or x = 0."""
    above, below = _grid(1, 3, 201)[1:], _grid(0, 1, 201)[1:-1]
    # All exp_q are finite below the nearest pole, 1/4, and positive above the nearest zero, −1/4.
    left, right = _grid(-0.25, 0, 201)[1:-1], _grid(0, 0.25, 201)[1:-1]
    return [
        _standard_at_one(),
        _monotone("ln_q flatter with q", "physics, x > 1", log_q_physics, above, -1),
        _monotone("ln_q flatter with q", "physics, x < 1", log_q_physics, below, -1),
        _monotone("ln_q flatter with q", "mviq, x > 1", log_q, above, -1),
        _monotone("ln_q flatter with q", "mviq, x < 1", log_q, below, -1),
        _monotone("exp_q steeper with q", "physics, 0 < x < 1/4", exp_q_physics, right, 1),
        _monotone("exp_q steeper with q", "physics, −1/4 < x < 0", exp_q_physics, left, 1),
        _monotone("exp_q steeper with q", "mviq, 0 < x < 1/4", exp_q, right, 1),
        _monotone("exp_q steeper with q", "mviq, −1/4 < x < 0", exp_q, left, 1),
        _entropy_flatter(curves),
        _one_entropy(),
    ]


def _monotone(claim: str, where: str, function: Deformed, x: Tensor, sign: int) -> Finding:
    """Test that the slope rises (or falls) at every step of q, at all points of a grid."""
    slopes = torch.stack([slope(function, x, q) for q in INDICES])
    moving = (sign * slopes.diff(dim=0) > 0).all(0)
    middle = len(x) // 2
    direction = "rises" if sign > 0 else "falls"
    measured = (
        f"slope {direction} with q at {int(moving.sum())} of {len(x)} points; at x = "
        f"{x[middle]:.3g}: {slopes[0, middle]:.3g} (q = 1), {slopes[-1, middle]:.3g} (q = 5)"
    )
    return Finding(claim, where, measured, bool(moving.all()))


def _standard_at_one() -> Finding:
    x = _grid(0.02, 3, 597)
    density = gaussian(x, MEAN, DEVIATION)
    standard = torch.stack([x.log(), x.log(), x.exp(), x.exp(), -density * density.log()])
    functions = (log_q, log_q_physics, exp_q, exp_q_physics, component)
    gaps = [
        torch.stack([function(x, q) for function in functions]) - standard
        for q in (1 - 1e-9, 1.0, 1 + 1e-9)
    ]
    worst = torch.stack(gaps).abs().max().item()
    measured = f"within 1e-9 of q = 1, at most {worst:.0e} from ln, exp and −π ln π"
    return Finding("q = 1 is the standard case", "physics and mviq", measured, worst < 1e-6)


def _entropy_flatter(curves: Sequence[FamilyCurve]) -> Finding:
    _, areas = points(curves, "entropy_area")
    _, slopes = points(curves, "entropy_steepest_slope")
    measured = (
        f"steepest slope {slopes[0]:.3f} (q = 1), {slopes[-1]:.3f} (q = 5); "
        f"area S_q {areas[0]:.3f}, {areas[-1]:.3f}"
    )
    falls = bool((areas[1:] < areas[:-1]).all() and (slopes[1:] < slopes[:-1]).all())
    return Finding("Tsallis entropy flatter with q", "physics and mviq", measured, falls)


def _one_entropy() -> Finding:
    pi = gaussian(_actions(), MEAN, DEVIATION)
    gaps = [pi.pow(q) * log_q_physics(pi, q) - pi * log_q(pi, q) for q in INDICES]
    worst = torch.stack(gaps).abs().max().item()
    measured = f"−π^q ln_q π (physics) and −π ln_q π (mviq) differ by at most {worst:.1g}"
    return Finding("one entropy, same q in both", "physics and mviq", measured, worst < 1e-12)


@in_style
def draw(curves: Sequence[FamilyCurve]) -> Figure:
    """Draw the paper's three panels, and mviq's counterparts below."""
    figure, panels, mirrored = two_rows(
        "The paper’s figure, in the physics convention of its eq. (2)",
        "The same in mviq’s convention: the index $q$ becomes $2-q$",
    )
    # The notes say where the caption's claim holds, and stand where there is room.
    _draw_logarithm(panels[0], curves, "log_physics", r"$\ln_q x=(x^{1-q}-1)/(1-q)$")
    _note(panels[0], "flatter with $q$\nfor $x>1$", 2.2, 1.7)
    _draw_exponential(panels[1], curves, "exp_physics", r"$\exp_q x=[1+(1-q)x]_+^{1/(1-q)}$")
    _note(panels[1], "steeper with $q$\nfor $x>0$", -1.3, 3.4)
    _draw_component(panels[2], curves)
    _draw_logarithm(mirrored[0], curves, "log_mviq", r"$\ln_q x=(x^{q-1}-1)/(q-1)$")
    _note(mirrored[0], "flatter with $q$\nfor $x<1$", 0.55, 0.75)
    _draw_exponential(mirrored[1], curves, "exp_mviq", r"$\exp_q x=[1+(q-1)x]_+^{1/(q-1)}$")
    _note(mirrored[1], "steeper with $q$\nfor $x<0$, until 0", -1.6, 2.2)
    _draw_flatness(mirrored[2], curves)
    return figure


def _draw_logarithm(axes: Axes, curves: Sequence[FamilyCurve], panel: str, title: str) -> None:
    draw_family(axes, curves, panel)
    axes.axvline(1, color="0.5", linewidth=0.8)
    axes.set(xlim=(0, 3), ylim=(-3, 3), xlabel="$x$", ylabel=r"$\ln_q x$", title=title)
    axes.legend(loc="lower right", handlelength=3.2)


def _draw_exponential(axes: Axes, curves: Sequence[FamilyCurve], panel: str, title: str) -> None:
    draw_family(axes, curves, panel)
    axes.axvline(0, color="0.5", linewidth=0.8)
    axes.set(xlim=(-3, 2), ylim=(-0.1, 6), xlabel="$x$", ylabel=r"$\exp_q x$", title=title)


def _note(axes: Axes, text: str, x: float, y: float) -> None:
    axes.text(x, y, text, ha="center", va="center", color="0.3", style="italic")


def _draw_component(axes: Axes, curves: Sequence[FamilyCurve]) -> None:
    draw_family(axes, curves, "entropy_component")
    axes.set(xlim=(MEAN - 4.5, MEAN + 4.5), ylim=(0, 0.4), xlabel="$a$")
    axes.set_ylabel(r"$-\pi^q\,\ln_q\pi$")
    axes.set_title(r"entropy component of $\pi=\mathcal{N}(2,1)$")
    _note(axes, "flatter\nwith $q$", MEAN + 3, 0.3)


def _draw_flatness(axes: Axes, curves: Sequence[FamilyCurve]) -> None:
    labels = {"entropy_area": r"area, $S_q(\pi)$", "entropy_steepest_slope": "steepest slope"}
    draw_points(axes, curves, labels)
    axes.set(ylim=(0, None), xticks=INDICES, xlabel="$q$", ylabel="area, slope of the component")
    axes.set_title(r"the same component, here $-\pi\,\ln_q\pi$")
    axes.legend()
