"""The figures: their numbers against independent formulas, their look, their files."""

import csv
import io
from collections import defaultdict
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from mviq.paper import fig1, fig2
from mviq.paper import reproduction as drawings
from mviq.paper.artefacts import ARTEFACTS
from mviq.paper.reproduction import Finding, Reproduction

INDICES = [1, 2, 3, 4, 5]
Panels = dict[str, dict[float, tuple[np.ndarray, np.ndarray]]]


@pytest.fixture(scope="module", params=["fig1", "fig2"])
def drawing(request) -> Reproduction:
    return ARTEFACTS[request.param].make()


@pytest.fixture(scope="module")
def first() -> Panels:
    return read(drawings.reproduction_files(fig1.make())["fig1.csv"])


@pytest.fixture(scope="module")
def second() -> Panels:
    return read(drawings.reproduction_files(fig2.make())["fig2.csv"])


def read(content: bytes) -> Panels:
    """Read a figure's CSV as x and y by panel and q."""
    rows = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(io.StringIO(content.decode())):
        rows[row["panel"]][float(row["q"])].append((float(row["x"]), float(row["y"])))
    return {
        panel: {q: tuple(np.array(points).T) for q, points in family.items()}
        for panel, family in rows.items()
    }


def column(panels: Panels, panel: str) -> np.ndarray:
    return np.concatenate([y for _, y in panels[panel].values()])


def assert_follows(family, formula, tolerance=1e-10):
    """Every curve of a family agrees with a formula in high precision, at a few of its points."""
    assert sorted(family) == INDICES
    for q, (x, y) in family.items():
        for i in np.linspace(0, len(x) - 1, 23).astype(int):
            exact = formula(mpmath.mpf(x[i]), q)
            assert abs(y[i] - exact) <= tolerance * max(1, abs(exact)), (q, x[i])


def log_physics(x, q):
    return mpmath.log(x) if q == 1 else (x ** (1 - q) - 1) / (1 - q)


def log_ours(x, q):
    return log_physics(x, 2 - q)


def gaussian(mean):
    return lambda x: mpmath.npdf(x, mean, 1)


# Figure 1


def test_the_logarithms_are_those_of_the_two_conventions(first):
    assert_follows(first["log_physics"], log_physics)
    assert_follows(first["log_mviq"], log_ours)


def test_the_exponentials_invert_the_logarithms(first):
    assert_follows(first["exp_mviq"], lambda x, q: exp_ours(x, q))
    # x has twelve digits in the table, and near a pole they decide the height
    for q, (x, y) in first["exp_physics"].items():
        assert x == pytest.approx([float(log_physics(height, q)) for height in y], abs=1e-10)


def exp_ours(x, q):
    return mpmath.exp(x) if q == 1 else max(0, 1 + (q - 1) * x) ** (mpmath.mpf(1) / (q - 1))


def test_the_exponential_of_physics_ends_at_its_pole(first):
    for q, (x, y) in first["exp_physics"].items():
        assert np.isfinite(y).all()
        assert y.max() == pytest.approx(8)
        assert q == 1 or x.max() < 1 / (q - 1)


def test_the_entropy_component_is_written_in_the_physics_logarithm(first):
    density = gaussian(2)
    assert_follows(
        first["entropy_component"], lambda x, q: -(density(x) ** q) * log_physics(density(x), q)
    )


def test_the_area_of_the_component_is_the_tsallis_entropy_of_the_gaussian(first):
    density = gaussian(2)
    for q, (_, (area,)) in first["entropy_area"].items():
        exact = mpmath.quad(lambda x, q=q: -density(x) * log_ours(density(x), q), [-8, 2, 12])
        assert area == pytest.approx(float(exact), abs=1e-6)
    assert column(first, "entropy_area")[0] == pytest.approx(np.log(2 * np.pi * np.e) / 2, abs=1e-6)


def test_the_steepest_slope_is_that_of_the_drawn_curve(first):
    for q, (x, y) in first["entropy_component"].items():
        (slope,) = first["entropy_steepest_slope"][q][1]
        assert slope == pytest.approx(np.abs(np.gradient(y, x)).max(), rel=2e-3)


def test_fig1_finds_flatter_and_steeper_on_opposite_sides_in_the_two_conventions():
    holds = {(f.claim, f.where): f.holds for f in fig1.make().findings}
    assert holds == {
        ("q = 1 is the standard case", "physics and mviq"): True,
        ("ln_q flatter with q", "physics, x > 1"): True,
        ("ln_q flatter with q", "physics, x < 1"): False,
        ("ln_q flatter with q", "mviq, x > 1"): False,
        ("ln_q flatter with q", "mviq, x < 1"): True,
        ("exp_q steeper with q", "physics, 0 < x < 1/4"): True,
        ("exp_q steeper with q", "physics, −1/4 < x < 0"): False,
        ("exp_q steeper with q", "mviq, 0 < x < 1/4"): False,
        ("exp_q steeper with q", "mviq, −1/4 < x < 0"): True,
        ("Tsallis entropy flatter with q", "physics and mviq"): True,
        ("one entropy, same q in both", "physics and mviq"): True,
    }


def test_slopes_in_the_table_support_the_verdict_on_the_logarithm(first):
    for panel, flatter_above in (("log_physics", True), ("log_mviq", False)):
        x = first[panel][1][0]
        slopes = np.array([np.gradient(first[panel][q][1], x) for q in INDICES])
        falls = (np.diff(slopes, axis=0) < 0).all(0)
        assert (falls[x > 1.05] == flatter_above).all()
        assert (falls[(x > 0.05) & (x < 0.95)] != flatter_above).all()


def test_a_verdict_follows_the_numbers():
    curves = fig1.compute()
    growing = [replace(c, y=-c.y) if c.panel == "entropy_area" else c for c in curves]
    (finding,) = [f for f in fig1.findings(growing) if f.claim.startswith("Tsallis entropy")]
    assert not finding.holds

    curves = fig2.compute()
    growing = [replace(c, y=1.5 - c.y) if c.panel == "support_exact" else c for c in curves]
    finding = next(f for f in fig2.findings(growing) if f.claim.startswith("truncation"))
    assert not finding.holds


# Figure 2


def test_the_tsallis_kl_component_is_the_papers(second):
    one, two = gaussian(2.75), gaussian(3.25)
    assert_follows(second["tkl_component"], lambda x, q: -one(x) * log_physics(two(x) / one(x), q))


def test_the_area_of_the_component_is_the_divergence_of_the_gaussians(second):
    one, two = gaussian(2.75), gaussian(3.25)
    for q, (x, y) in second["tkl_component"].items():
        exact = mpmath.quad(lambda x, q=q: one(x) * log_ours(one(x) / two(x), q), [-9, 0, 3, 12])
        assert np.trapezoid(y, x) == pytest.approx(float(exact), abs=1e-8)
        if q == 1:
            assert exact == pytest.approx(0.125)


def test_every_policy_is_a_distribution_over_the_same_actions(second):
    for panel in ("boltzmann", "policy_q2", "policy_q50", "policy_q2_colder"):
        ((actions, probabilities),) = second[panel].values()
        assert len(actions) == 1001
        assert probabilities.sum() == pytest.approx(1, abs=1e-9)
        assert (probabilities >= 0).all()


def test_the_input_is_the_stated_mixture(second):
    ((actions, probabilities),) = second["boltzmann"].values()
    density = 0.55 * np.exp(-((actions + 1.5) ** 2) / 0.98) + 0.45 * np.exp(
        -((actions - 1.5) ** 2) / 0.98
    )
    assert probabilities == pytest.approx(density / density.sum(), abs=1e-12)


@pytest.mark.parametrize(
    ("panel", "temperature"), [("policy_q2", 0.3), ("policy_q2_colder", 0.3 / 49)]
)
def test_the_policies_of_index_two_are_projections_onto_the_simplex(second, panel, temperature):
    values = second["boltzmann"][1][1]
    assert second[panel][2][1] == pytest.approx(projection(values / temperature), abs=1e-9)


def projection(point):
    """Return the nearest distribution, by bisection on the amount taken off every entry."""
    low, high = point.min() - 1, point.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(point - middle, 0, None).sum() > 1 else (low, middle)
    return np.clip(point - low, 0, None)


def test_at_temperature_one_the_projection_returns_the_input():
    values = fig2.boltzmann(fig2.actions())
    assert fig2.policy(values, 2, 1.0).numpy() == pytest.approx(values.numpy(), abs=1e-12)


def test_the_policy_of_index_fifty_is_stationary(second):
    z = second["boltzmann"][1][1] / 0.3
    policy = second["policy_q50"][50][1]
    kept = policy > 0
    psi = z[kept] - (policy[kept] ** 49 - 1) / 49  # ln_q π = z − ψ on the support
    assert np.ptp(psi) < 1e-7
    assert (z[~kept] <= psi.mean() - 1 / 49 + 1e-7).all()


def test_the_support_shrinks_with_the_index_and_with_the_temperature(second):
    for panel in ("support_exact", "support_sparsemax"):
        pairs = sorted(
            (x, y) for xs, ys in second[panel].values() for x, y in zip(xs, ys, strict=True)
        )
        shares = [y for _, y in pairs]
        assert shares == sorted(shares, reverse=True)
        assert shares[0] == 1
    exact = {q: share for q, (_, (share,)) in second["support_exact"].items()}
    for panel, q in (("policy_q2", 2), ("policy_q50", 50)):
        assert (second[panel][q][1] > 0).mean() == pytest.approx(exact[q])
    assert 0.2 < exact[2] < 0.8
    assert exact[50] < 0.01


def test_the_papers_pairing_of_index_and_temperature_keeps_more(second):
    exact = {q: share for q, (_, (share,)) in second["support_exact"].items()}
    paired = dict(zip(*second["support_sparsemax"][2], strict=True))
    assert all(exact[q] <= paired[q] for q in paired if q >= 2)
    assert all(exact[q] >= paired[q] for q in paired if q <= 2)


def test_the_nearest_gaussian_under_kl_matches_the_moments(second):
    between = 0.55 * 0.45 * 3**2  # the variance of the two means
    deviation = np.sqrt(0.7**2 + between)
    assert second["width_as_reference"][1][1][0] == pytest.approx(deviation, abs=0.02)


def test_a_fitted_reference_covers_and_a_fitted_policy_takes_one_mode(second):
    reference, fitted = (column(second, f"width_as_{side}") for side in ("reference", "policy"))
    assert (np.diff(reference) >= 0).all()
    assert (reference[1:] > reference[0]).all()
    assert fitted[0] > 1.4  # KL: both modes
    assert fitted[1:] == pytest.approx(0.7, abs=0.1)  # one mode has deviation 0.7


@pytest.mark.parametrize("q", [2, 5])
def test_the_fits_are_minima_of_the_divergence(second, q):
    axis = np.linspace(-8, 8, 401)
    target = fig2.boltzmann(fig2.actions(8, 401)).numpy()
    means, widths = np.meshgrid(np.linspace(-2, 1, 61), np.linspace(0.4, 2.2, 91), indexing="ij")
    family = np.exp(-(((axis - means[..., None]) / widths[..., None]) ** 2) / 2)
    family /= family.sum(-1, keepdims=True)
    with np.errstate(over="ignore", divide="ignore"):
        to_reference = (target**q * family ** (1.0 - q)).sum(-1)
    to_policy = (family**q * target ** (1.0 - q)).sum(-1)
    for side, cost in (("reference", to_reference), ("policy", to_policy)):
        best = widths.flat[cost.argmin()]
        assert second[f"width_as_{side}"][q][1][0] == pytest.approx(best, abs=0.03)


def test_fig2_finds_where_each_claim_holds():
    holds = {(f.claim, f.where): f.holds for f in fig2.make().findings}
    assert holds == {
        ("q = 1 is KL", "physics and mviq"): True,
        ("one divergence, same q in both", "physics and mviq"): True,
        ("large π1/π2 cost more", "physics and mviq"): True,
        ("more covering than KL", "the reference (2nd argument)"): True,
        ("more covering than KL", "the policy (1st argument)"): False,
        ("truncation grows with q", "mviq’s convention"): True,
        ("truncation grows with q", "physics, eq. (2) read literally"): False,
        ("same effect through τ", "mviq, q = 2 and some τ"): True,
        ("same effect through τ", "mviq, q = 2 and τ/(q−1), Theorem 1"): False,
    }


# What holds for every figure


def test_the_figure_names_both_conventions(drawing):
    words = " ".join(text.get_text() for text in drawing.figure.findobj(Text))
    assert "physics" in words
    assert "mviq" in words


def test_no_text_is_cut_off_and_no_two_titles_meet(drawing):
    canvas = FigureCanvasAgg(drawing.figure)
    canvas.draw()
    frame, renderer = drawing.figure.bbox, canvas.get_renderer()
    texts = [t for t in drawing.figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    labels = [axes.title for axes in drawing.figure.findobj(match=_is_axes)]
    labels += [axes.yaxis.label for axes in drawing.figure.findobj(match=_is_axes)]
    assert len(labels) == 12
    for text in labels:
        box = text.get_window_extent(renderer)
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1, text.get_text()
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1, text.get_text()
    boxes = [text.get_window_extent(renderer) for text in labels]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(text.get_fontsize() >= 8 for text in texts)


def _is_axes(artist) -> bool:
    return hasattr(artist, "yaxis")


def test_all_numbers_in_the_table_are_finite(drawing):
    assert drawing.data.columns == ("panel", "q", "x", "y")
    assert all(np.isfinite(row[1:]).all() for row in drawing.data.rows)


def test_the_same_figure_twice_is_the_same_bytes(drawing):
    again = drawings.reproduction_files(ARTEFACTS[drawing.name].make())
    assert drawings.reproduction_files(drawing) == again
    assert set(again) == {f"{drawing.name}.{suffix}" for suffix in ("png", "svg", "csv")}
    assert again[f"{drawing.name}.png"].startswith(b"\x89PNG")
    assert b"<svg" in again[f"{drawing.name}.svg"]
    assert b"dc:date" not in again[f"{drawing.name}.svg"]
    assert again[f"{drawing.name}.csv"].startswith(b"panel,q,x,y\n")


def test_the_verdict_says_where():
    def finding(claim, where, holds):
        return Finding(claim, where, "", holds)

    good, bad = finding("a", "here", True), finding("a", "there", False)
    assert drawings.verdict([good]) == "agrees"
    assert drawings.verdict([bad]) == "does not agree"
    assert drawings.verdict([good, bad]) == "agrees in part: “a” only for here"
    other = finding("b", "here", False)
    assert drawings.verdict([good, other]) == "agrees in part: “b” not for here"
