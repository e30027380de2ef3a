"""Figure 2: the Tsallis KL component of two Gaussians, and how Tsallis policies truncate.

The upper row is the paper's figure: the component, and the Tsallis policies of q = 2 and q = 50 of
one input. The lower row holds the measurements behind the caption's claims: which argument of the
divergence covers the mass, how the support shrinks with q, and what a lower temperature does.
"""

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from mviq.drawing.style import BLUE, in_style
from mviq.paper.family_curves import (
    FamilyCurve,
    curve,
    data_of,
    draw_family,
    draw_points,
    of_panel,
    point,
    points,
    two_rows,
)
from mviq.paper.fig1 import gaussian
from mviq.paper.reproduction import Finding, Reproduction
from mviq.tsallis import divergence, exp_q_physics, log_q, log_q_physics, policy, support

INDICES = (1, 2, 3, 4, 5)
MEANS = (2.75, 3.25)

ACTIONS = 1001
MIXTURE = ((0.55, -1.5, 0.7), (0.45, 1.5, 0.7))  # weight, mean, deviation
TEMPERATURE = 0.3
MODERATE, LARGE = 2, 50
SUPPORT_INDICES = (1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50)

SETTINGS = (
    f"component: π1 = N({MEANS[0]}, 1), π2 = N({MEANS[1]}, 1), q = 1 to 5",
    "input: Boltzmann policy "
    + " + ".join(f"{weight} N({mean}, {deviation}²)" for weight, mean, deviation in MIXTURE)
    + f", on {ACTIONS} actions from −4 to 4",
    f"policies: exact Tsallis policy with the input as values, temperature τ = {TEMPERATURE} "
    "(q = 2 with τ = 1 is the projection onto the simplex: it returns the input)",
    "covering: standard deviation of the Gaussian nearest to the same mixture, on 201 actions from "
    "−8 to 8",
)


def make() -> Reproduction:
    """Compute the curves, draw them, and test the caption's claims."""
    curves = compute()
    return Reproduction("fig2", draw(curves), data_of(curves), SETTINGS, findings(curves))


def component(x: Tensor, q: float) -> Tensor:
    """Return π1 ln_q(π1/π2): the integrand of the Tsallis KL divergence of the two Gaussians."""
    first, second = (gaussian(x, mean, 1.0) for mean in MEANS)
    return first * log_q(first / second, q)


def actions(reach: float = 4, count: int = ACTIONS) -> Tensor:
    """Return an action axis from −reach to reach."""
    return torch.linspace(-reach, reach, count, dtype=torch.float64)


def boltzmann(axis: Tensor) -> Tensor:
    """Return the bimodal input on an action axis: a Boltzmann policy of its own logarithm."""
    modes = [weight * gaussian(axis, mean, deviation) for weight, mean, deviation in MIXTURE]
    return _normalised(torch.stack(modes).sum(0))


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def compute() -> list[FamilyCurve]:
    """Return every curve of the figure, panel by panel."""
    line = torch.linspace(-7, 10, 851, dtype=torch.float64)
    components = [curve("tkl_component", q, line, component(line, q)) for q in INDICES]
    return [*components, *_policies(), *_nearest_gaussians(), *_supports()]


def _policies() -> list[FamilyCurve]:
    axis = actions()
    values = boltzmann(axis)
    colder = TEMPERATURE / (LARGE - 1)
    return [
        curve("boltzmann", 1, axis, values),
        curve("policy_q2", MODERATE, axis, policy(values, MODERATE, TEMPERATURE)),
        curve("policy_q50", LARGE, axis, policy(values, LARGE, TEMPERATURE)),
        curve("policy_q2_colder", MODERATE, axis, policy(values, MODERATE, colder)),
    ]


def _supports() -> list[FamilyCurve]:
    """Return the share of actions kept along q at one τ, and along τ/(q−1) at q = 2."""
    values = boltzmann(actions())
    exact = [
        point("support_exact", q, q, _share_kept(values, q, TEMPERATURE)) for q in SUPPORT_INDICES
    ]
    paired = [
        point("support_sparsemax", 2, q, _share_kept(values, 2, TEMPERATURE / (q - 1)))
        for q in SUPPORT_INDICES
        if q > 1
    ]
    return exact + paired


def _share_kept(values: Tensor, q: float, temperature: float) -> float:
    return support(values, q, temperature).double().mean().item()


def _nearest_gaussians() -> list[FamilyCurve]:
    """Return the widths of the Gaussians g that minimise D_q(input‖g) and D_q(g‖input)."""
    axis = actions(8, 201)  # far enough that no Gaussian is cut off at the ends
    means = torch.linspace(-2.5, 2.5, 51, dtype=torch.float64)
    deviations = torch.linspace(0.3, 3.0, 136, dtype=torch.float64)
    widths = deviations.expand(len(means), -1).flatten()
    grid = gaussian(axis, means.view(-1, 1, 1), deviations.view(1, -1, 1)).flatten(0, 1)
    family, target = _normalised(grid), boltzmann(axis).expand_as(grid)
    as_reference = {q: widths[divergence(target, family, q).argmin()] for q in INDICES}
    as_policy = {q: widths[divergence(family, target, q).argmin()] for q in INDICES}
    return [
        *(point("width_as_reference", q, q, as_reference[q].item()) for q in INDICES),
        *(point("width_as_policy", q, q, as_policy[q].item()) for q in INDICES),
    ]


def findings(curves: Sequence[FamilyCurve]) -> list[Finding]:
    """Test each claim of the caption."""
    values = boltzmann(actions())
    size = int(support(values, LARGE, TEMPERATURE).sum())
    return [
        _kl_at_one(curves),
        _one_divergence(curves),
        _large_ratios_cost_more(curves),
        _covers("the reference (2nd argument)", curves, "width_as_reference"),
        _covers("the policy (1st argument)", curves, "width_as_policy"),
        _truncation_grows(curves),
        _no_truncation_in_physics(),
        _same_support(values, temperature_that_keeps(values, size), "some τ"),
        _same_support(values, TEMPERATURE / (LARGE - 1), "τ/(q−1), Theorem 1"),
    ]


def _stacked(curves: Sequence[FamilyCurve]) -> tuple[Tensor, Tensor]:
    family = of_panel(curves, "tkl_component")
    return torch.from_numpy(family[0].x), torch.stack([torch.from_numpy(c.y) for c in family])


def _kl_at_one(curves: Sequence[FamilyCurve]) -> Finding:
    x, heights = _stacked(curves)
    area, closed = torch.trapezoid(heights[0], x).item(), (MEANS[1] - MEANS[0]) ** 2 / 2
    measured = f"area at q = 1: {area:.6f}; KL in closed form: {closed:.6f}"
    return Finding("q = 1 is KL", "physics and mviq", measured, abs(area - closed) < 1e-9)


def _one_divergence(curves: Sequence[FamilyCurve]) -> Finding:
    x, heights = _stacked(curves)
    first, second = (gaussian(x, mean, 1.0) for mean in MEANS)
    physics = torch.stack([-first * log_q_physics(second / first, q) for q in INDICES])
    gap = (heights - physics).abs().max().item()
    measured = f"−π1 ln_q(π2/π1) (physics), π1 ln_q(π1/π2) (mviq) differ by at most {gap:.1g}"
    return Finding("one divergence, same q in both", "physics and mviq", measured, gap < 1e-12)


def _large_ratios_cost_more(curves: Sequence[FamilyCurve]) -> Finding:
    x, heights = _stacked(curves)
    rises = (heights.diff(dim=0) > 0).all(0)[x < sum(MEANS) / 2]  # there π1 > π2
    areas = torch.trapezoid(heights, x)
    measured = (
        f"where π1 > π2 the component rises with q at {int(rises.sum())} of {len(rises)} points; "
        f"D_q {areas[0]:.3f} (q = 1), {areas[-1]:.3f} (q = 5)"
    )
    return Finding("large π1/π2 cost more", "physics and mviq", measured, bool(rises.all()))


def _covers(where: str, curves: Sequence[FamilyCurve], panel: str) -> Finding:
    """Test whether the Gaussian nearest to the bimodal input is wider than under KL."""
    _, widths = points(curves, panel)
    measured = (
        "width of the Gaussian nearest to two modes: "
        f"{widths[0]:.2f} (q = 1), {widths[1]:.2f} (q = 2), {widths[-1]:.2f} (q = 5)"
    )
    wider = bool((widths[1:] > widths[0]).all())
    return Finding("more covering than KL", where, measured, wider)


def _truncation_grows(curves: Sequence[FamilyCurve]) -> Finding:
    q, kept = points(curves, "support_exact")
    shares = dict(zip(q.tolist(), kept.tolist(), strict=True))
    measured = (
        f"of {ACTIONS} actions {_percent(shares[MODERATE])} kept at q = {MODERATE}, "
        f"{_percent(shares[LARGE])} at q = {LARGE}"
    )
    grows = bool((kept[1:] <= kept[:-1]).all()) and shares[LARGE] < shares[MODERATE] < 1
    return Finding("truncation grows with q", "mviq’s convention", measured, grows)


def _percent(share: float) -> str:
    return f"{round(share * ACTIONS)} ({share:.1%})"


def _no_truncation_in_physics() -> Finding:
    gaps = -torch.logspace(-6, 6, 121, dtype=torch.float64)
    lowest = [exp_q_physics(gaps, q).min().item() for q in (MODERATE, LARGE)]
    measured = (
        f"exp_q x > 0 down to x = −1e6: {lowest[0]:.1g} at q = {MODERATE}, "
        f"{lowest[1]:.1g} at q = {LARGE}: nothing is cut"
    )
    where = "physics, eq. (2) read literally"
    return Finding("truncation grows with q", where, measured, min(lowest) <= 0)


def temperature_that_keeps(values: Tensor, size: int) -> float:
    """Return a temperature at which sparsemax (q = 2) keeps exactly the ``size`` best actions.

    It keeps action k iff Σ_j (v_j − v_k)_+ < τ: the answer lies between two such sums.

    >>> temperature_that_keeps(torch.tensor([3.0, 2.0, 0.0]), size=2)  # from 1 to 5
    3.0
    """
    best = values.sort(descending=True).values
    last_kept, first_cut = ((best[:size] - best[k]).sum().item() for k in (size - 1, size))
    return (last_kept + first_cut) / 2


def _same_support(values: Tensor, temperature: float, name: str) -> Finding:
    """Compare the support of sparsemax at a temperature with that of the large q."""
    wanted = support(values, LARGE, TEMPERATURE)
    reached = support(values, MODERATE, temperature)
    common, others = int((reached & wanted).sum()), int((reached & ~wanted).sum())
    measured = (
        f"q = {MODERATE}, τ = {temperature:.2g} keeps {common} of the {int(wanted.sum())} actions "
        f"of q = {LARGE}, τ = {TEMPERATURE}, and {others} others"
    )
    same = bool((reached == wanted).all())
    return Finding("same effect through τ", f"mviq, q = {MODERATE} and {name}", measured, same)


@in_style
def draw(curves: Sequence[FamilyCurve]) -> Figure:
    """Draw the paper's three panels, and the measurements below."""
    colder = rf"$q={MODERATE}$, $\tau={TEMPERATURE}/{LARGE - 1}$ in place of $q={LARGE}$"
    figure, panels, measured = two_rows(
        "The paper’s figure; policies in mviq’s convention of $q$",
        "The measurements behind its claims",
    )
    _draw_component(panels[0], curves)
    _draw_policy(panels[1], curves, "policy_q2", rf"$q={MODERATE}$, $\tau={TEMPERATURE}$")
    _draw_policy(panels[2], curves, "policy_q50", rf"$q={LARGE}$, $\tau={TEMPERATURE}$")
    _draw_widths(measured[0], curves)
    _draw_supports(measured[1], curves)
    _draw_policy(measured[2], curves, "policy_q2_colder", colder)
    return figure


def _draw_component(axes: Axes, curves: Sequence[FamilyCurve]) -> None:
    draw_family(axes, curves, "tkl_component")
    axes.set(xlim=(-3, 7), xlabel="$a$", ylabel="Tsallis KL component")
    axes.set_title(
        r"$-\pi_1\,\ln_q^{\,\mathrm{physics}}(\pi_2/\pi_1)=\pi_1\,\ln_q^{\,\mathrm{mviq}}(\pi_1/\pi_2)$"
    )
    axes.legend(handlelength=3.2)


def _draw_policy(axes: Axes, curves: Sequence[FamilyCurve], panel: str, setting: str) -> None:
    (given,), (result,) = of_panel(curves, "boltzmann"), of_panel(curves, panel)
    kept = result.y > 0
    x, y, few = result.x[kept], result.y[kept], kept.sum() < 10
    label = f"Tsallis policy: {kept.sum()} of {len(kept)} actions"
    axes.fill_between(given.x, given.y, 1e-9, color="0.82", label="input: a Boltzmann policy")
    axes.vlines(x, 1e-9, y, color=BLUE, linewidth=1 if few else 0.6)
    axes.plot([], [], color=BLUE, linewidth=3, label=label)  # hairlines are too thin for a legend
    if few:
        axes.plot(x, y, "o", color=BLUE, markersize=4)
        for action, probability in zip(x, y, strict=True):
            axes.text(action - 0.15, probability, f"{probability:.2f}", ha="right", va="center")
    axes.set(xlim=(-4, 4), ylim=(1e-6, 30), yscale="log", xlabel="$a$")
    axes.set(yticks=[10.0**k for k in range(-6, 1)], ylabel="probability of an action")
    axes.minorticks_off()
    axes.set_title(setting)
    axes.legend(loc="upper right")


def _draw_widths(axes: Axes, curves: Sequence[FamilyCurve]) -> None:
    labels = {
        "width_as_reference": r"$g$ as reference: min $D_q(\pi\Vert g)$",
        "width_as_policy": r"$g$ as policy: min $D_q(g\Vert\pi)$",
    }
    draw_points(axes, curves, labels)
    axes.set(ylim=(0, 2.9), xticks=INDICES, xlabel="$q$", ylabel="standard deviation of $g$")
    axes.set_title(r"Gaussian $g$ nearest to the two-mode input $\pi$")
    axes.legend(loc="upper right")


def _draw_supports(axes: Axes, curves: Sequence[FamilyCurve]) -> None:
    exact, paired = r"index $q$, at $\tau$", r"index 2, at $\tau/(q-1)$"
    draw_points(axes, curves, {"support_exact": exact, "support_sparsemax": paired})
    axes.set(xscale="log", yscale="log", xlabel="$q$", ylabel="share of actions kept")
    axes.set_title(rf"actions kept at $\tau={TEMPERATURE}$, or at $\tau/(q-1)$")
    axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend()
