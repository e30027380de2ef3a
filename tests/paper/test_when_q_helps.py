"""Regret under errors: problems solved together are those solved alone, and limits are right."""

import math

import numpy as np
import pytest

from mviq.paper import when_q_helps
from mviq.paper.when_q_helps import ERRORS, INDICES, PROBLEMS, Setting, compute, together
from mviq.tabular import Noise, greedy_policy, optimal_q_values, policy_values


@pytest.mark.parametrize("problem", PROBLEMS)
def test_together_is_each_alone(problem):
    alone = [PROBLEMS[problem](seed) for seed in range(3)]
    problems = together(alone)
    q_values = np.random.default_rng(0).standard_normal(problems.rewards.shape)
    for i, mdp in enumerate(alone):
        best = optimal_q_values(mdp).max(1)
        best[mdp.terminal] = 0
        np.testing.assert_allclose(problems.best[i], best, atol=1e-9)
        lost, at_random = (
            (best - policy_values(mdp, policy)).mean()
            for policy in (greedy_policy(q_values[i]), np.full_like(mdp.rewards, 1 / mdp.actions))
        )
        share = problems.regret(q_values.reshape(-1, mdp.actions))[i]
        assert share == pytest.approx(lost / at_random)


@pytest.mark.parametrize("kind", ["gaussian", "outliers", "constant"])
def test_the_standard_deviation_of_errors_is_their_scale(kind):
    errors = Noise(3.0, seed=1, kind=kind).draw(5, (1000, 400))
    assert float(errors.std()) == pytest.approx(3.0, rel=0.05)
    assert float((errors == 0).double().mean()) == pytest.approx(
        0.99 if kind == "outliers" else 0, abs=1e-3
    )


def test_heavy_tails_are_students():
    errors = Noise(2.0, kind="heavy-tailed").draw(1, (1000, 400)).abs()
    assert float(errors.median()) == pytest.approx(2 * 0.8165, rel=0.02)  # t of 2 degrees, at 3/4
    assert float(errors.max()) > 200


@pytest.mark.parametrize("kind", ["gaussian", "constant"])
def test_only_constant_errors_stay(kind):
    noise = Noise(1.0, kind=kind)
    assert noise.draw(1, (5, 2)).equal(noise.draw(2, (5, 2))) == (kind == "constant")


def test_without_errors_a_small_temperature_is_harmless_and_a_large_one_is_not():
    settings = [
        Setting(problem, "no error", "gap", 0.9, temperature, q)
        for problem in PROBLEMS
        for temperature in (0.001, 10.0)
        for q in (1.0, 2.0, math.inf)
    ]
    regrets, _ = compute(2, chosen=settings)
    for setting, regret in regrets.items():
        harmless = setting.temperature < 1 or setting.q == math.inf
        assert (regret.max() < 1e-3) == harmless, setting


def test_an_explicit_divergence_averages_errors_in_its_policy():
    """Its action values are those of one iteration, as noisy as without a divergence."""
    explicit = [Setting(problem, "Gaussian, 1", "explicit", 1.0, 1.0, 1.0) for problem in PROBLEMS]
    means, last = compute(4, chosen=explicit)
    for setting in explicit:
        assert means[setting].max() < 0.05
        assert last[setting].max() < 0.05


def test_every_claim_is_tested_in_every_kind_of_problem():
    regrets, last = compute(2, iterations=2)
    findings = when_q_helps.findings(regrets)
    assert len(findings) == len({finding.claim for finding in findings}) * len(PROBLEMS)
    data = when_q_helps.table(regrets, last)
    assert len(data.rows) == len(regrets) > len(PROBLEMS) * len(ERRORS) * len(INDICES)
    assert len(when_q_helps.draw(regrets).axes) == 2 * len(PROBLEMS)
