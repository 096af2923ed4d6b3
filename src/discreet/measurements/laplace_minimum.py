"""One release: the minimiser of a regularised objective of sparse rows, plus Laplace noise (output perturbation).

Claim. J_D(θ) = Σℓ + (λ/2)‖θ‖² over at most N rows, all θ or a box; a row's gradient has at most m entries and ℓ2 norm
at most L, its Hessian norm at most β. If one row is replaced, added or removed the minimiser moves by

    ‖Δ‖₁ ≤ (L√m/λ)·(2 + min(√(Nβ/λ), 2Nβ/λ))    and    ‖Δ‖₁ ≤ √d·2L/λ.

Proof. With M_i the mean Hessian of row i between the two minimisers, first-order conditions give λΔ + Σ_i M_iΔ = u over
the rows that both datasets have, where u is the difference of two rows' gradients: ‖u‖₂ ≤ 2L, ‖u‖₁ ≤ 2L√m. The product
with Δ shows that E = Σ ⟨Δ, M_iΔ⟩ ≤ 2L‖Δ‖ − λ‖Δ‖² ≤ L²/λ, and ‖Δ‖₂ ≤ 2L/λ. M_iΔ has at most m entries and
‖M_iΔ‖₂ ≤ min(√β·√⟨Δ, M_iΔ⟩, β‖Δ‖₂), so Σ‖M_iΔ‖₁ ≤ √m·min(√(NβE), Nβ·2L/λ). Now λ‖Δ‖₁ ≤ ‖u‖₁ + Σ‖M_iΔ‖₁. Over a
box the condition has a term of normals ν − ν', each coordinate of which has the sign of Δ's or Δ_j = 0: multiplied by
sign(Δ_j) and added up it only helps. Over other sets this fails: the nearest point of a ball moves in every coordinate.

N must not depend on the rows. The first N rows are used, whatever the relation: between neighbours those differ in one
row that is replaced, added or removed. The point computed is within tolerance/λ of the minimiser in ℓ2 norm, √d times
that in ℓ1, and is rounded to a grid; Laplace noise on the grid is pure ε-DP with ε = 2/noise_multiplier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.data.base import Dataset
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.floats import ROUNDED_UP
from discreet.geometry.box import Box
from discreet.geometry.whole_space import WholeSpace
from discreet.measurements.minimum_noise import check_hypotheses, check_tolerance, on_output_grid, output_grid
from discreet.measurements.questions import Question
from discreet.mechanisms.base import check_multiplier
from discreet.noise.bits import Bits
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.units import Unit

__all__ = ["LaplaceMinimum", "l1_movement"]


def l1_movement(
    *, most_rows: int, d: int, entries: int, gradient_bound: float, curvature_bound: float, regularisation: float
) -> float:
    """The most by which one row replaced, added or removed moves the minimiser in the ℓ1 norm.

    Args:
        most_rows: N, an upper bound on the number of rows.
        d: number of coefficients.
        entries: m, most entries of a row's gradient.
        gradient_bound: L, ℓ2 bound on a row's gradient.
        curvature_bound: β, bound on the norm of a row's Hessian.
        regularisation: λ, in units of the sum of losses.

    Example:
        >>> args = dict(most_rows=100, d=10**6, entries=4, gradient_bound=1.0, curvature_bound=0.25)
        >>> l1_movement(**args, regularisation=25.0)  # √(100·0.25/25) = 1
        0.24
    """
    share = most_rows * curvature_bound / regularisation
    sparse = math.sqrt(entries) * (2 + min(math.sqrt(share), 2 * share))
    return gradient_bound / regularisation * min(sparse, 2 * math.sqrt(d))


@dataclass(frozen=True, eq=False)
class LaplaceMinimum:
    """The minimiser of a regularised objective of sparse rows, plus Laplace noise in every coordinate.

    Args:
        query: the objective, through a `LargestEntries`, over all θ or a box.
        noise_multiplier: noise scale over half of `l1_movement`; 0 means no noise.
        tolerance: public bound on ‖∇J‖ at the point found.
        most_rows: N, public; rows beyond the first N are not used.

    Raises:
        HypothesisViolated: rows that are not made sparse, another set, or a minimiser of unbounded sensitivity.
    """

    query: RidgeMinimiser
    noise_multiplier: float
    tolerance: float
    most_rows: int

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)
        if not self.most_rows >= 1:
            raise InvalidInput(f"most_rows must be at least 1, got {self.most_rows!r}.")
        if not self.noise_multiplier:
            return
        if not isinstance(self.query.through, LargestEntries):
            raise HypothesisViolated("Laplace noise on a minimiser needs rows of few entries: give a sparsity.")
        if not isinstance(self.query.domain, WholeSpace | Box):
            raise HypothesisViolated(
                f"over {type(self.query.domain).__name__} one row may move every coordinate of the minimiser, so "
                "Laplace noise has no bound: minimise over a Box or without constraint (constraint='after')."
            )
        check_hypotheses(self.query, "output perturbation", "the minimiser moves by up to L/λ")
        check_tolerance(self.query, 0.0, self.tolerance)

    def event(self, unit: Unit) -> events.Event:
        """``PureDP(2/noise_multiplier)`` under either relation: among the first N rows an added row replaces one."""
        return events.PureDP(2 / self.noise_multiplier) if self.noise_multiplier else events.NonPrivate()

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Minimise over the first rows, certify, add noise on the output grid."""
        if not self.noise_multiplier:
            return self.query.unrounded(data)
        from discreet.noise import rounded_laplace

        kept = data if len(data) <= self.most_rows else data.take(np.arange(self.most_rows, dtype=np.int64))
        theta = self.query.minimise(kept, self.blank(), self.tolerance)
        error, d = self.tolerance / self.query.regularisation, theta.size
        steps, grid = on_output_grid(theta, error)
        moved = self._moved() + 2 * math.sqrt(d) * error + d * grid
        scale = self.noise_multiplier * moved / 2 * ROUNDED_UP / grid
        return (grid * (steps + rounded_laplace(scale, d, bits=bits)).astype(np.float64)).reshape(theta.shape)

    @property
    def question(self) -> Question:
        """The minimiser over the first rows, of which one is exchanged under either relation: it moves so far in ℓ1."""
        if not self.noise_multiplier:
            return Question(type(self.query).__name__, "l1", 0.0)
        error, d = self.tolerance / self.query.regularisation, math.prod(self.query.rows.shape)
        grid = output_grid(d, error)
        moved = self._moved() + 2 * math.sqrt(d) * error + d * grid
        noise = self.noise_multiplier * moved / 2
        return Question(type(self.query).__name__, "l1", moved, noise, grid, replace_one_factor=1.0)

    def blank(self) -> NDArray[np.float64]:
        """θ = 0."""
        return np.zeros(self.query.rows.shape)

    def _moved(self) -> float:
        query = self.query
        assert isinstance(query.through, LargestEntries)
        return l1_movement(
            most_rows=self.most_rows,
            d=math.prod(query.rows.shape),
            entries=query.through.entries,
            gradient_bound=query.gradient_bound,
            curvature_bound=query.curvature_bound,
            regularisation=query.regularisation,
        )
