"""Numerical checks of every theorem, lemma and basic fact of the paper.

A check is a function without arguments that measures one statement and returns it with its
residuals; ``CHECKS`` lists them in the order of the paper.
"""

from mviq.paper.theorems import (
    approximation,
    averaging,
    convergence,
    entropies,
    iteration,
    logarithms,
    munchausen,
    policies,
)
from mviq.paper.theorems.statement import Check, Statement, measure, name_of

__all__ = ["CHECKS", "Check", "Statement", "measure", "name_of"]

CHECKS: tuple[Check, ...] = (
    # Section 2
    convergence.recursion_concave,
    entropies.f_divergence,
    averaging.kl_average,
    # Section 3.1 and appendix B
    logarithms.inverse,
    logarithms.limit_at_one,
    logarithms.log_flatter,
    logarithms.exp_steeper,
    entropies.entropy_flatter,
    policies.sparsemax_projection,
    policies.theorem_1_form,
    policies.theorem_1_root,
    policies.theorem_1_support,
    policies.support_shrinks,
    policies.greedy_limit,
    policies.closed_form,
    approximation.theorem_2_exact,
    approximation.theorem_2_error,
    approximation.theorem_2_main_rule,
    approximation.theorem_2_truncation,
    approximation.theorem_2_forms,
    approximation.theorem_2_support_size,
    approximation.algorithm_1_literal,
    # Section 3.2 and appendix A
    entropies.divergence_grows,
    entropies.divergence_relatives,
    logarithms.log_convexity,
    logarithms.log_monotone,
    logarithms.pseudo_additivity,
    entropies.entropy_bounded,
    entropies.entropy_duality,
    entropies.entropy_logarithm,
    entropies.divergence_forms,
    entropies.divergence_nonnegative,
    entropies.divergence_zero,
    entropies.divergence_infinite,
    # Theorem 3 and appendix C
    convergence.divergence_norm,
    convergence.strong_convexity,
    convergence.conjugate_gradient,
    convergence.evaluation_contraction,
    convergence.regularised_optimum,
    convergence.theorem_3_fixed_prior,
    convergence.theorem_3_previous_policy,
    # Section 3.3 and appendix D
    averaging.visitation_gradient,
    averaging.optimality_conditions,
    averaging.theorem_4_product,
    averaging.theorem_4_expansion,
    averaging.yamano_two_points,
    averaging.yamano_expansion,
    averaging.weighted_average,
    # Section 4 and Algorithm 1
    munchausen.munchausen_advantage,
    munchausen.implicit_kl,
    iteration.mvi_at_one,
    iteration.advantage_learning,
    munchausen.log_ratio,
    munchausen.implicit_tkl,
    munchausen.residual_size,
    munchausen.bregman_step,
    munchausen.log_off_support,
    iteration.extended_log,
    munchausen.gap_identity,
    munchausen.soft_value,
    iteration.munchausen_weight,
    iteration.large_temperature,
    # Section 5
    iteration.tsallis_vi,
)
