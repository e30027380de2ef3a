"""The solver: agreement with independent algorithms, honest endings, resumption, noise."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from mviq.tabular import (
    ALGORITHMS,
    MDP,
    Diagnostics,
    ExplicitKL,
    Noise,
    Status,
    algorithm,
    chain,
    from_gym,
    garnet,
    iterate,
    lock_in_chain,
    optimal_q_values,
    solve,
)
from mviq.tsallis import Family


def dense(mdp: MDP) -> np.ndarray:
    return mdp.transitions.toarray().reshape(mdp.states, mdp.actions, mdp.states)


def test_greedy_without_munchausen_is_plain_value_iteration() -> None:
    mdp = garnet(50, seed=1)
    transitions, q_values = dense(mdp), np.zeros((50, 4))
    for state in islice(iterate(mdp, algorithm("vi")), 60):
        q_values = mdp.rewards + mdp.discount * transitions @ q_values.max(axis=1)
        np.testing.assert_allclose(state.q_values, q_values, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(
        solve(mdp, algorithm("vi"), tolerance=1e-12).q_values, optimal_q_values(mdp), atol=1e-10
    )


@pytest.mark.parametrize("mdp", [garnet(50, seed=2), from_gym("FrozenLake-v1")], ids=str)
def test_m_vi_written_out_in_numpy(mdp: MDP) -> None:
    """Munchausen value iteration of Vieillard et al., with no code of ours."""
    alpha, tau, low = 0.9, 0.03, -1.0
    transitions, q_values = dense(mdp), np.zeros(mdp.rewards.shape)
    for state in islice(iterate(mdp, algorithm("m-vi")), 100):
        log_pi = q_values / tau - logsumexp(q_values / tau, axis=1, keepdims=True)
        value = (np.exp(log_pi) * (q_values - tau * log_pi)).sum(axis=1)
        value[mdp.terminal] = 0.0
        bonus = alpha * np.clip(tau * log_pi, low, 0.0)
        q_values = mdp.rewards + bonus + mdp.discount * transitions @ value
        q_values[mdp.terminal] = 0.0
        np.testing.assert_allclose(state.q_values, q_values, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_named_algorithm_solves_a_chain(name: str) -> None:
    mdp = chain()
    solution = solve(mdp, algorithm(name))
    assert solution.status is Status.CONVERGED
    assert solution.greedy.tolist() == [1] * mdp.states
    np.testing.assert_allclose(solution.policy.sum(axis=1), 1.0)


def test_the_taylor_policy_is_exact_at_two_only() -> None:
    mdp = garnet(50, seed=3)

    def q_values(q: float, method: str) -> np.ndarray:
        point = Family(q=q, temperature=1.0, policy_method=method, munchausen_alpha=0.0)
        return solve(mdp, point).q_values

    np.testing.assert_allclose(q_values(2.0, "taylor"), q_values(2.0, "exact"), atol=1e-9)
    assert np.abs(q_values(3.0, "taylor") - q_values(3.0, "exact")).max() > 1e-3


def test_actions_that_are_not_available_change_nothing() -> None:
    """Adding an action nobody can take leaves every algorithm where it was."""
    small = garnet(20, actions=3, seed=4)
    rows = np.zeros((20, 4, 20))
    rows[:, :3] = dense(small)
    can = np.ones((20, 4), dtype=bool)
    can[:, 3] = False
    rewards = np.pad(small.rewards, ((0, 0), (0, 1)))
    large = MDP.from_arrays(rows, rewards, 0.9, available=can)
    for name in ALGORITHMS:
        one, two = solve(small, algorithm(name)), solve(large, algorithm(name))
        assert one.iterations == two.iterations
        np.testing.assert_allclose(two.q_values[:, :3], one.q_values, atol=1e-10)
        assert (two.q_values[:, 3] == -np.inf).all()
        assert (two.policy[:, 3] == 0).all()


def test_a_terminal_state_is_worth_nothing_whatever_the_entropy() -> None:
    mdp = from_gym("FrozenLake-v1")
    for point in (algorithm("soft-vi", temperature=1.0), Family(temperature=1.0, form="log")):
        solution = solve(mdp, point)
        assert (solution.values[mdp.terminal] == 0).all()
        assert (solution.q_values[mdp.terminal] == 0).all()


def test_alpha_times_tau_instead_of_alpha_diverges() -> None:
    """The algorithm box as printed: at τ = 10, α = .9 the factor is 9."""
    for seed in range(3):
        mdp = garnet(50, seed=seed)
        printed = solve(mdp, Family(temperature=10.0, munchausen_alpha=9.0))
        assert printed.status is Status.DIVERGED
        assert printed.iterations < 30
        assert np.isnan(printed.policy).all()


@pytest.mark.parametrize("q", [2.0, 3.0])
def test_the_gap_form_at_a_large_temperature_is_not_called_converged(q: float) -> None:
    for seed in range(6):
        mdp = garnet(50, seed=seed)
        gap = solve(mdp, Family(q=q, temperature=10.0), max_iterations=3000)
        log = solve(mdp, Family(q=q, temperature=10.0, form="log"), max_iterations=3000)
        assert gap.status in (Status.CYCLING, Status.LIMIT)
        assert gap.history[-1].bellman_residual > 0.1
        assert log.status is Status.CONVERGED


def test_the_limit_is_reported() -> None:
    solution = solve(garnet(50), algorithm("vi"), max_iterations=5)
    assert (solution.status, solution.iterations) == (Status.LIMIT, 5)
    assert "5 iterations" in solution.reason


def test_a_caller_can_stop() -> None:
    solution = solve(garnet(50), algorithm("vi"), stop=lambda state: state.iteration == 7)
    assert (solution.status, solution.iterations) == (Status.LIMIT, 7)
    assert "asked to stop" in solution.reason


@pytest.mark.parametrize("noise", [None, Noise(0.1, seed=3)])
@pytest.mark.parametrize("name", ["mvi", "kl-vi", "tkl-vi"])
def test_resumption_is_bit_for_bit(name: str, noise: Noise | None) -> None:
    mdp, point = garnet(50, seed=5), algorithm(name)
    through = list(islice(iterate(mdp, point, noise=noise), 40))
    kept = through[14]  # a state from the middle, used after the run went on
    resumed = list(islice(iterate(mdp, point, kept, noise=noise), 25))
    for one, two in zip(through[15:], resumed, strict=True):
        assert one.iteration == two.iteration
        assert torch.equal(one.q_values, two.q_values)
        assert one.residual == two.residual
        assert one.verdict == two.verdict


def test_solve_in_two_parts_ends_as_in_one() -> None:
    mdp, point = garnet(50, seed=6), algorithm("mvi")
    whole = solve(mdp, point)
    first = solve(mdp, point, max_iterations=50)
    second = solve(mdp, point, state=first.state)
    assert second.status is whole.status
    assert second.iterations == whole.iterations
    np.testing.assert_array_equal(second.q_values, whole.q_values)
    np.testing.assert_array_equal(np.array([*first.history, *second.history]), whole.history)


def test_noise_is_the_same_for_a_seed_and_other_for_another() -> None:
    mdp, point = garnet(50), algorithm("vi")

    def noisy(seed: int) -> np.ndarray:
        return solve(mdp, point, noise=Noise(0.5, seed), max_iterations=20).q_values

    np.testing.assert_array_equal(noisy(1), noisy(1))
    assert np.abs(noisy(1) - noisy(2)).max() > 0.1


def test_a_noisy_run_ends_at_the_limit() -> None:
    solution = solve(garnet(20), algorithm("vi"), noise=Noise(0.5), max_iterations=2500)
    assert solution.status is Status.LIMIT


def test_kl_averages_errors_that_value_iteration_does_not() -> None:
    """Error propagation: with the same noise the KL-regularised policies lose less."""
    losses: dict[str, list[float]] = {"vi": [], "tsallis-vi": [], "kl-vi": [], "m-vi": []}
    losses |= {"tkl-vi": [], "mvi": []}
    for seed in range(5):
        mdp = garnet(30, discount=0.9, seed=seed)
        best = float(mdp.start @ optimal_q_values(mdp).max(axis=1))
        for name, found in losses.items():
            changes = {"temperature": 1.0} | ({"clip": None} if name == "m-vi" else {})
            point = algorithm(name, **changes)
            watch = Diagnostics(every=0, values_every=10)
            run = solve(mdp, point, noise=Noise(1.0, seed), max_iterations=200, diagnostics=watch)
            found.append(best - np.mean([record.policy_value for record in run.history[109::10]]))
    for name in ("kl-vi", "m-vi", "tkl-vi", "mvi"):  # an entropy alone does not average
        assert np.mean(losses[name]) < 0.3 * np.mean(losses["vi"])
        assert np.mean(losses[name]) < 0.3 * np.mean(losses["tsallis-vi"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: algorithm("q-learning"), "algorithm must be one of vi, "),
        (lambda: algorithm("kl-vi", q=2.0), "q of kl-vi must be 1.0, got 2.0"),
        (lambda: algorithm("vi", q=2.0), "q of vi must be inf, got 2.0"),
        (lambda: algorithm("mvi", prior="fixed"), "mvi has no prior"),
        (lambda: algorithm("tkl-vi", form="gap"), "tkl-vi has no form"),
        (lambda: ExplicitKL(q=math.inf), "q must be at least 1 and finite"),
        (lambda: ExplicitKL(temperature=0.0), "temperature must be a finite number > 0"),
        (lambda: ExplicitKL(prior="sliding"), "prior must be one of"),
        (lambda: solve(chain(), algorithm("vi"), max_iterations=0), "max_iterations"),
        (lambda: solve(chain(), algorithm("vi"), tolerance=-1.0), "tolerance must be ≥ 0"),
        (lambda: solve(chain(), algorithm("vi"), tolerance=math.nan), "tolerance must be ≥ 0"),
    ],
)
def test_mistakes_are_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_large_and_small_rewards_converge_to_the_same_relative_answer() -> None:
    """Rounding is measured against the values, so that rewards of 1e12 converge as well."""
    mdp = lock_in_chain()
    large = MDP(mdp.transitions, 1e12 * mdp.rewards, mdp.discount, mdp.start, mdp.terminal)
    solution = solve(large, algorithm("vi"))
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(solution.values[0], 0.95**7 * 20e12, rtol=1e-12)


@pytest.mark.parametrize("name", ["vi", "soft-vi", "mvi", "m-vi", "tkl-vi"])
def test_recentring_changes_the_speed_and_nothing_else(name: str) -> None:
    mdp, point = garnet(100, discount=0.99, seed=8), algorithm(name)
    plain = solve(mdp, point, tolerance=1e-11)
    quick = solve(mdp, point, tolerance=1e-11, recentre=True)
    assert quick.iterations < plain.iterations / 5
    np.testing.assert_allclose(quick.q_values, plain.q_values, rtol=0, atol=1e-8)
    pairs = zip(iterate(mdp, point), iterate(mdp, point, recentre=True), strict=False)
    for one, two in islice(pairs, 60):  # on the way they differ by a constant
        assert float((one.q_values - two.q_values).std()) < 1e-11


def test_recentring_needs_an_endless_process() -> None:
    with pytest.raises(ValueError, match="without terminal states"):
        solve(from_gym("FrozenLake-v1"), algorithm("vi"), recentre=True)


def test_the_sweep_does_not_depend_on_threads_or_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, point = garnet(3000, seed=9), algorithm("mvi", temperature=1.0)
    whole = solve(mdp, point, max_iterations=20).q_values
    before = torch.get_num_threads()
    monkeypatch.setattr("mviq.tabular.sweep.CHUNK", 7)
    np.testing.assert_array_equal(solve(mdp, point, max_iterations=20).q_values, whole)
    assert torch.get_num_threads() == before
