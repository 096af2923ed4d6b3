"""Excess-risk bounds as code: each theorem with its constants, its hypotheses checked.

Bounds that take a ``noise_std`` hold for whatever the accountant calibrated; ``*_rate`` functions put in the
noise of a zCDP budget in closed form. All are about the empirical risk. The proofs are in
``docs/maths/theory.md``, and the tests run each algorithm and compare.
"""

from discreet.theory.bound import Bound, gaussian_noise_std, top_exponential, top_gaussian, zcdp_budget
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
from discreet.theory.perturbation import (
    best_output_regularisation,
    exponential_mechanism,
    exponential_mechanism_continuous,
    objective_perturbation,
    objective_perturbation_constrained,
    output_perturbation,
    output_perturbation_inf,
)
from discreet.theory.sparse import (
    log_packing,
    sparse_descent_gaussian,
    sparse_descent_pure,
    sparse_descent_smooth,
    sparse_descent_strongly_convex,
    sparse_erm_lower_bound,
    sparse_mean_gaussian,
    sparse_mean_laplace,
    sparse_mean_lower_bound,
    sparse_stationarity,
)

__all__ = [
    "Bound",
    "average_iterate",
    "best_frank_wolfe_iterations",
    "best_output_regularisation",
    "best_step",
    "contraction_factor",
    "excess_risk",
    "exponential_mechanism",
    "exponential_mechanism_continuous",
    "frank_wolfe",
    "frank_wolfe_rate",
    "gaussian_noise_std",
    "glm_curvature",
    "gradient_descent_rate",
    "hard_thresholding",
    "hard_thresholding_by_peeling",
    "last_iterate",
    "last_iterate_decaying",
    "log_packing",
    "objective_perturbation",
    "objective_perturbation_constrained",
    "output_perturbation",
    "output_perturbation_inf",
    "rank_bound",
    "sampled_gradient_bound",
    "selection_gap",
    "smooth_average_iterate",
    "sparse_descent_gaussian",
    "sparse_descent_pure",
    "sparse_descent_smooth",
    "sparse_descent_strongly_convex",
    "sparse_erm_lower_bound",
    "sparse_mean_gaussian",
    "sparse_mean_laplace",
    "sparse_mean_lower_bound",
    "sparse_stationarity",
    "strongly_convex_last_iterate",
    "suffix_average",
    "thresholding_expansion",
    "top_exponential",
    "top_gaussian",
    "zcdp_budget",
]
