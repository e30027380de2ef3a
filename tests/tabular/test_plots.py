"""The pictures contain what was computed."""

import numpy as np
import pytest

from mviq.tabular import Diagnostics, algorithm, from_gym, garnet, optimal_q_values, solve
from mviq.tabular.plots import convergence_figure, policy_figure
from mviq.tsallis import Family


def test_one_panel_per_measure_and_one_line_per_run() -> None:
    mdp = garnet(30)
    watch = Diagnostics(values_every=5, optimum=optimal_q_values(mdp))
    runs = {f"q = {q:g}": solve(mdp, Family(q=q), diagnostics=watch) for q in (2.0, 3.0)}
    figure = convergence_figure(runs, "two runs", optimum=1.0)
    assert len(figure.axes) == 8
    residuals = figure.axes[0].lines
    assert [line.get_label() for line in residuals] == ["q = 2: converged", "q = 3: converged"]
    drawn = np.asarray(residuals[0].get_ydata(), dtype=float)
    expected = [record.bellman_residual for record in runs["q = 2"].history]
    np.testing.assert_allclose(drawn, expected)
    assert figure.axes[0].get_yscale() == "log"


def test_a_run_that_converged_lost_no_value() -> None:
    """Its action values are not Q*, which the Munchausen term shifts; its greedy policy is best."""
    mdp = garnet(30)
    optimum = optimal_q_values(mdp)
    best = float(mdp.start @ optimum.max(axis=1))
    watch = Diagnostics(values_every=1, optimum=optimum)
    run = solve(mdp, Family(q=2.0), diagnostics=watch)
    assert run.history[-1].distance_to_optimum > 1
    lost = convergence_figure({"a": run}, "a", optimum=best).axes[1].lines[0]
    drawn = np.asarray(lost.get_ydata(), dtype=float)
    assert drawn[0] > 0.01
    assert drawn[-1] == pytest.approx(0, abs=1e-9)


def test_panels_without_measurements_are_left_out() -> None:
    figure = convergence_figure({"a": solve(garnet(30), algorithm("vi"))}, "residuals only")
    assert len(figure.axes) == 1


def test_a_diverged_run_can_be_drawn() -> None:
    mdp = from_gym("FrozenLake-v1")
    run = solve(mdp, Family(temperature=10.0, munchausen_alpha=9.0), diagnostics=Diagnostics())
    assert run.status.value == "diverged"
    for figure in (convergence_figure({"a": run}, "a"), policy_figure(mdp, {"a": run}, "a")):
        figure.draw_without_rendering()


def test_arrows_point_where_the_policy_goes() -> None:
    mdp = from_gym("FrozenLake-v1", is_slippery=False)
    run = solve(mdp, algorithm("vi"))
    figure = policy_figure(mdp, {"vi": run}, "map")
    left, down, right, up = figure.axes[0].collections
    probable = run.policy[mdp.acting] > 0.01
    assert [arrows.N for arrows in (left, down, right, up)] == probable.sum(axis=0).tolist()
    assert (np.asarray(down.V) > 0).all()  # rows grow downwards
    assert (np.asarray(left.U) < 0).all()


def test_without_a_map_there_is_nothing_to_draw() -> None:
    mdp = garnet(10)
    with pytest.raises(ValueError, match="has no map"):
        policy_figure(mdp, {"vi": solve(mdp, algorithm("vi"))}, "map")


def test_the_name_of_a_problem_is_not_taken_for_mathematics() -> None:
    mdp, name = from_gym("FrozenLake-v1"), r"ice for $\money$"
    runs = {name: solve(mdp, algorithm("vi"))}
    for figure in (policy_figure(mdp, runs, name), convergence_figure(runs, name)):
        assert figure.get_suptitle() == name.replace("$", r"\$")  # as Matplotlib escapes a dollar
