"""Excess-risk bounds as code: each theorem with its constants, its hypotheses checked.

Bounds that take a ``noise_std`` hold for whatever the accountant calibrated; ``*_rate`` functions put in the
noise of a zCDP budget in closed form. All are about the empirical risk but for those that say population. The proofs
are in ``docs/maths/theory.md``, and the tests run each algorithm and compare.
"""

from discreet.theory.bias_reduced import biased_descent, biased_descent_stationarity
from discreet.theory.bound import (
    Bound,
    gamma_noise_std,
    gaussian_noise_std,
    symmetric_noise_norm,
    top_exponential,
    top_gaussian,
    zcdp_budget,
)
from discreet.theory.descent import (
    average_iterate,
    best_step,
    gradient_descent_rate,
    last_iterate,
    last_iterate_decaying,
    rank_bound,
    sampled_gradient_bound,
    smooth_average_iterate,
    strongly_convex_last_iterate,
    suffix_average,
)
from discreet.theory.frank_wolfe import (
    best_frank_wolfe_iterations,
    frank_wolfe,
    frank_wolfe_rate,
    frank_wolfe_tail,
    glm_curvature,
    selection_gap,
)
from discreet.theory.hard_thresholding import (
    contraction_factor,
    excess_risk,
    hard_thresholding,
    hard_thresholding_by_peeling,
    thresholding_expansion,
)
from discreet.theory.heavy_tailed import balanced_entry_bound, heavy_tailed, shrunken_gradient_error
from discreet.theory.least_squares import moment_noise_norm, preconditioned, sufficient_statistics
from discreet.theory.perturbation import (
    best_output_regularisation,
    exponential_mechanism,
    exponential_mechanism_continuous,
    exponential_mechanism_tail,
    objective_perturbation,
    objective_perturbation_constrained,
    output_perturbation,
    output_perturbation_inf,
)
from discreet.theory.population import output_perturbation_inf_population, sparse_population_lower_bound
from discreet.theory.recovery import l1_recovery, recovery_stretch
from discreet.theory.sparse import (
    log_packing,
    sparse_descent_gaussian,
    sparse_descent_pure,
    sparse_descent_smooth,
    sparse_descent_strongly_convex,
    sparse_erm_gaussian,
    sparse_erm_lower_bound,
    sparse_mean_gaussian,
    sparse_mean_laplace,
    sparse_mean_lower_bound,
    sparse_stationarity,
)
from discreet.theory.stationarity import random_iterate_stationarity

__all__ = [
    "Bound",
    "average_iterate",
    "balanced_entry_bound",
    "best_frank_wolfe_iterations",
    "best_output_regularisation",
    "best_step",
    "biased_descent",
    "biased_descent_stationarity",
    "contraction_factor",
    "excess_risk",
    "exponential_mechanism",
    "exponential_mechanism_continuous",
    "exponential_mechanism_tail",
    "frank_wolfe",
    "frank_wolfe_rate",
    "frank_wolfe_tail",
    "gamma_noise_std",
    "gaussian_noise_std",
    "glm_curvature",
    "gradient_descent_rate",
    "hard_thresholding",
    "hard_thresholding_by_peeling",
    "heavy_tailed",
    "l1_recovery",
    "last_iterate",
    "last_iterate_decaying",
    "log_packing",
    "moment_noise_norm",
    "objective_perturbation",
    "objective_perturbation_constrained",
    "output_perturbation",
    "output_perturbation_inf",
    "output_perturbation_inf_population",
    "preconditioned",
    "random_iterate_stationarity",
    "rank_bound",
    "recovery_stretch",
    "sampled_gradient_bound",
    "selection_gap",
    "shrunken_gradient_error",
    "smooth_average_iterate",
    "sparse_descent_gaussian",
    "sparse_descent_pure",
    "sparse_descent_smooth",
    "sparse_descent_strongly_convex",
    "sparse_erm_gaussian",
    "sparse_erm_lower_bound",
    "sparse_mean_gaussian",
    "sparse_mean_laplace",
    "sparse_mean_lower_bound",
    "sparse_population_lower_bound",
    "sparse_stationarity",
    "strongly_convex_last_iterate",
    "sufficient_statistics",
    "suffix_average",
    "symmetric_noise_norm",
    "thresholding_expansion",
    "top_exponential",
    "top_gaussian",
    "zcdp_budget",
]
