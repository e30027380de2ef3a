"""Settling, cycling and drifting, told apart on sequences made for it."""

from collections.abc import Callable

import pytest
import torch

from mviq.tabular.status import Moment, Status, Verdict, start_watching


def watch(sequence: Callable[[int], float], limit: int = 60_000, noisy: bool = False) -> Verdict:
    """Feed x_k = sequence(k) to the watch, as action values, until it has a verdict."""

    def values(k: int) -> torch.Tensor:
        return torch.tensor([[sequence(k), 1.0]], dtype=torch.float64)

    eyes = start_watching(1.0, values(0))
    for k in range(1, limit):
        residual = abs(sequence(k) - sequence(k - 1))
        eyes, verdict = eyes.look(Moment(k, residual, values(k)), 1e-8, 1.0, noisy=noisy)
        if verdict.status is not Status.RUNNING:
            return verdict
    return Verdict(Status.LIMIT)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.999, -0.5, -0.99, -0.9995])
def test_geometric_sequences_converge(ratio: float) -> None:
    assert watch(lambda k: ratio**k).status is Status.CONVERGED


@pytest.mark.parametrize("period", [2, 3, 7, 50])
def test_a_cycle_is_found_with_its_period(period: int) -> None:
    verdict = watch(lambda k: 0.3**k + (k % period) / period)
    assert verdict.status is Status.CYCLING
    assert int(verdict.reason.split()[1].rstrip(",")) % period == 0


def test_wandering_without_a_period_is_cycling() -> None:
    orbit = [0.3]
    for _ in range(20_000):  # the logistic map: bounded, chaotic
        orbit.append(3.9 * orbit[-1] * (1 - orbit[-1]))
    verdict = watch(orbit.__getitem__)
    assert verdict.status is Status.CYCLING
    assert "no fixed period" in verdict.reason


def test_growth_and_steady_drift_are_divergence() -> None:
    assert watch(lambda k: 1.1**k).status is Status.DIVERGED
    assert watch(lambda k: -0.5 * k).status is Status.DIVERGED
    assert watch(lambda k: float("nan") if k > 3 else 1.0 * k).status is Status.DIVERGED


def test_noise_is_no_cycle() -> None:
    noise = torch.randn(5000, generator=torch.Generator().manual_seed(0)).tolist()
    assert watch(noise.__getitem__, limit=5000, noisy=True).status is Status.LIMIT
