"""The statements of the paper: that they are measured, and that a wrong operator would be seen."""

import math
import re
from pathlib import Path

import pytest
import torch

from mviq import tsallis
from mviq.cli.main import main
from mviq.paper.theorems import CHECKS, Statement, measure, name_of
from mviq.paper.theorems.samples import (
    contraction,
    draw_values,
    family_step,
    garnets,
    lock_in_problem,
    repeat,
)
from mviq.paper.theorems.statement import excess, worst

NAMES = [name_of(check) for check in CHECKS]
DOCS = Path(__file__).parents[2] / "docs"
MATHEMATICS, ERRATA = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("mathematics.md", "errata.md")
)

HOLD = {
    "kl-average",
    "limit-at-one",
    "entropy-flatter",
    "sparsemax-projection",
    "support-shrinks",
    "theorem-2-exact",
    "divergence-grows",
    "log-monotone",
    "pseudo-additivity",
    "strong-convexity",
    "conjugate-gradient",
    "evaluation-contraction",
    "regularised-optimum",
    "theorem-3-fixed-prior",
    "visitation-gradient",
    "advantage-learning",
    "log-ratio",
    "log-off-support",
    "extended-log",
    "tsallis-vi",
}
FAIL = {
    "f-divergence",
    "closed-form",
    "theorem-2-truncation",
    "divergence-norm",
    "munchausen-advantage",
    "mvi-at-one",
    "gap-identity",
}


@pytest.fixture(scope="module")
def measured() -> dict[str, Statement]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    statements = {name_of(check): measure(check) for check in CHECKS}
    torch.set_num_threads(threads)
    return statements


def check_named(name: str) -> Statement:
    return CHECKS[NAMES.index(name)]()


@pytest.mark.parametrize("name", NAMES)
def test_the_corrected_statement_holds(measured: dict[str, Statement], name: str) -> None:
    statement = measured[name]
    assert statement.name == name
    assert statement.residual <= statement.tolerance


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_on_the_printed_statement(measured: dict[str, Statement], name: str) -> None:
    verdict = measured[name].verdict
    if name in HOLD:
        assert verdict == "holds"
    elif name in FAIL:
        assert verdict == "fails"
    else:
        assert verdict.startswith("holds only for ")


@pytest.mark.parametrize("name", sorted(set(NAMES) - HOLD))
def test_an_erratum_has_a_correction_and_a_clear_counterexample(
    measured: dict[str, Statement], name: str
) -> None:
    statement = measured[name]
    assert statement.corrected
    assert re.search(r"\d", statement.evidence)
    assert statement.printed_residual is not None
    assert statement.printed_residual > 0.04 > 1000 * statement.tolerance


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) >= HOLD | FAIL


def percentage(statement: Statement, pattern: str) -> int:
    found = re.search(rf"(\d+)% of draws at {pattern}", statement.evidence)
    assert found, statement.evidence
    return int(found[1])


def test_the_magnitudes_of_the_taylor_policy(measured: dict[str, Statement]) -> None:
    assert percentage(measured["theorem-2-main-rule"], "q = 5") == pytest.approx(45, abs=1.5)
    assert percentage(measured["theorem-2-error"], "q = 3") == pytest.approx(82, abs=1.5)
    error = measured["theorem-2-error"].printed_residual
    assert error is not None
    assert 0.5 < error < 0.7


def test_the_chain_locks_in_far_below_its_optimum(measured: dict[str, Statement]) -> None:
    evidence = measured["theorem-3-previous-policy"].evidence
    assert "2.00 of 13.97" in evidence
    assert evidence.count("13.97") == 3


@pytest.mark.parametrize("alpha", [0.5, 0.9])
@pytest.mark.parametrize("discount", [0.5, 0.7])
def test_the_extended_logarithm_converges_at_the_larger_of_both_rates(
    measured: dict[str, Statement], alpha: float, discount: float
) -> None:
    assert "at the rate max(α, γ)" in (measured["large-temperature"].corrected or "")
    problem = garnets()._replace(discount=discount)
    hot = tsallis.Family(q=2.0, temperature=10.0, munchausen_alpha=alpha, form="log")
    step = family_step(problem, hot)
    moves = [repeat(step, torch.zeros_like(problem.rewards), most).last_step for most in (11, 31)]
    rate = float((moves[1].max() / moves[0].max()) ** (1 / 20))
    assert rate == pytest.approx(max(alpha, discount), abs=0.01)


def scaled(name: str, factor: float = 1 + 1e-6) -> object:
    """Return an operator whose result is off by a millionth."""
    operator = getattr(tsallis, name)

    def broken(*arguments: object, **keywords: object) -> object:
        result = operator(*arguments, **keywords)
        return result * factor

    return broken


def misplaced(name: str) -> object:
    """Return a policy operator that sees another temperature."""
    operator = getattr(tsallis, name)

    def broken(values: torch.Tensor, *arguments: object, **keywords: object) -> object:
        return operator(values * (1 + 1e-4), *arguments, **keywords)

    return broken


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("exp_q", "inverse"),
        ("exp_q", "yamano-expansion"),
        ("exp_q", "weighted-average"),
        ("exp_q", "theorem-4-product"),
        ("log_q", "limit-at-one"),
        ("log_q", "entropy-logarithm"),
        ("log_q", "visitation-gradient"),
        ("log_q_physics", "pseudo-additivity"),
        ("log_q_physics", "entropy-duality"),
        ("log_q_physics", "implicit-tkl"),
        ("entropy", "entropy-bounded"),
        ("entropy", "gap-identity"),
        ("entropy", "implicit-kl"),
        ("divergence", "divergence-relatives"),
        ("divergence", "f-divergence"),
        ("divergence", "divergence-norm"),
        ("munchausen_residual", "implicit-tkl"),
        ("soft_value", "tsallis-vi"),
        ("soft_maximum", "munchausen-advantage"),
        ("mirror_index", "entropy-logarithm"),
    ],
)
def test_a_slightly_wrong_operator_is_seen(
    monkeypatch: pytest.MonkeyPatch, operator: str, name: str
) -> None:
    monkeypatch.setattr(tsallis, operator, scaled(operator))
    assert not check_named(name).holds


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("policy_and_normalizer", "kl-average"),
        ("policy", "closed-form"),
        ("policy", "bregman-step"),
        ("policy_and_normalizer", "theorem-1-form"),
        ("policy_and_normalizer", "sparsemax-projection"),
        ("policy_and_normalizer", "log-off-support"),
        ("normalizer", "theorem-2-exact"),
        ("taylor_policy", "theorem-2-exact"),
        ("support", "support-shrinks"),
        ("soft_value", "soft-value"),
    ],
)
def test_a_policy_of_another_temperature_is_seen(
    monkeypatch: pytest.MonkeyPatch, operator: str, name: str
) -> None:
    monkeypatch.setattr(tsallis, operator, misplaced(operator))
    assert not check_named(name).holds


def statement(**changes: object) -> Statement:
    fields = {
        "name": "example",
        "reference": "Example",
        "claim": "claimed",
        "convention": "ours",
        "where": "here",
        "residual": 0.0,
        "tolerance": 1e-12,
    }
    return Statement(**(fields | changes))  # type: ignore[arg-type]


def test_what_a_statement_concludes_from_its_residuals() -> None:
    assert statement().verdict == "holds"
    assert statement(printed_residual=1.0).verdict == "fails"
    assert statement(printed_residual=1.0, only_for="q = 1").verdict == "holds only for q = 1"
    assert statement(printed_residual=1.0).holds
    assert not statement(residual=1.0).holds


def test_nan_is_never_a_success() -> None:
    assert not statement(residual=math.nan).holds
    assert statement(printed_residual=math.nan).verdict == "fails"
    poisoned = torch.tensor([0.0, math.nan, 1.0])
    assert math.isnan(worst(torch.ones(3), poisoned))
    assert math.isnan(excess(poisoned, torch.ones(3)))


def test_excess_counts_only_what_is_above_zero() -> None:
    assert excess(torch.tensor([-1.0, 0.25]), torch.tensor([-3.0])) == 0.25
    assert excess(torch.tensor([-1.0])) == 0.0
    assert worst(torch.tensor([-1.0, 0.25])) == 1.0


def test_the_chain_pays_more_at_its_far_end() -> None:
    problem = lock_in_problem()
    left, right = torch.zeros_like(problem.rewards), torch.zeros_like(problem.rewards)
    left[:, 0], right[:, 1] = 1.0, 1.0
    assert float(problem.value(left)[0]) == pytest.approx(0.1 / 0.05)
    assert float(problem.value(right)[0]) == pytest.approx(20 * 0.95**7)


def test_garnets_are_decision_problems_with_three_successors() -> None:
    problem = garnets()
    assert torch.allclose(problem.transitions.sum(-1), torch.ones(6, 20, 4, dtype=torch.float64))
    assert ((problem.transitions > 0).sum(-1) == 3).all()


def test_a_value_is_the_fixed_point_of_its_backup() -> None:
    problem = garnets()
    policy = draw_values(120, 4).softmax(-1).view_as(problem.rewards)
    value = problem.value(policy)
    assert torch.allclose((policy * problem.backup(value)).sum(-1), value)


def test_iterate_stops_at_a_fixed_point_at_a_limit_and_after_the_most_steps() -> None:
    start = torch.ones(1, 2, 2, dtype=torch.float64)
    settled = repeat(lambda x: x / 2, start)
    assert settled.steps < 50
    assert worst(settled.q_values) < 1e-11
    assert repeat(lambda x: 2 * x, start, limit=100.0).steps == 7
    assert repeat(lambda x: -x, start, most=5).steps == 5
    assert contraction(lambda x: x / 2, start, 3 * start) == 0.5


def test_the_errata_of_the_document_are_those_of_mviq_verify(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [line for line in ERRATA.splitlines() if re.match(r"\| `[a-z0-9-]+` \|", line)]
    named = [line for line in rows if line.split("`")[1] in NAMES]
    assert main(["verify", "--markdown"]) == 0
    expected = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| `")]
    assert named == expected


def test_every_check_the_document_names_exists() -> None:
    named = re.findall(r"mviq verify --only ([a-z0-9-]+)", MATHEMATICS)
    assert named
    for name in named:
        assert any(other.startswith(name) for other in NAMES), name


def test_every_operator_the_document_names_exists() -> None:
    named = set(re.findall(r"`(?:mviq\.)?tsallis\.([A-Za-z_]+)", MATHEMATICS))
    assert named
    assert named <= set(tsallis.__all__)
