"""Objective perturbation in centred and weighted columns, then scale and offset: what "auto" takes for two classes.

Five releases, whose shares of the budget (in 1/σ²) are fixed beforehand:

1. the *mean* row, unless columns are many: what rows have in common tells nothing, but takes up their length;
2. *energies* of the columns (`discreet.solvers.parts.column_weights`), and from them weights w_j ∝ (f_j + τ)^−¼. The exponent
   ½ would bring all columns that can be told from noise to one scale, which is best where rare columns tell most; 0
   leaves them, which is best where common ones do. Nobody may look, so it is the middle;
3. the *perturbed minimiser* of the loss on rows centred and weighted so and clipped anew. Its ridge is chosen for the
   direction alone: much larger than would be right for the length of θ;
4. two *histograms*, by which scale and offset are fitted (`discreet.solvers.parts.recalibration`), so that the ridge costs neither
   the rarer class nor the calibration of probabilities.

Releases: two Gaussians, `events.ObjectivePerturbation`, two Gaussians; see ``docs/maths/weighted_perturbation.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import PURE_REFUSED, Guarantee, rough_multiplier
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain, Logistic
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.mapped import ColumnWeights
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.objective_perturbation import CUT, DRIFT, public_tolerance
from discreet.solvers.parts.column_weights import (
    LENGTHEN,
    column_weights,
    made_energies,
    released_energies,
    released_mean,
)
from discreet.solvers.parts.recalibration import fitted_line

__all__ = ["WeightedPerturbation", "default"]

_SHRINK, _SHRINK_WIDE = 0.8, 3.0
"""λ = ν·L·R·(0.8 + 3·d/n). A column of energy f has curvature n·f/4, and f is about 1/d: the ridge that balances its
noise σ = νL grows with d/n (Hoerl–Kennard 1970). The constants were chosen on the problems of
``bench/synthetic.py``; ``bench/defaults.py`` sweeps them."""
BAG_OF_WORDS = 1000
_WORD_CUT, _WORD_SHRINK = 0.25, 2.0
"""Sparse rows of at least so many columns are taken for bags of words: λ = 2·ν·L·R and slopes cut at ¼. In a bag of
words most directions have next to no curvature, so noise in a score is νLR/λ = ½ whatever the dimension; less ridge is
noise, and more would stop at what the commonest words tell. With slopes cut at ¼ every row counts in full until it is
right by a margin of 1.1, from where on the others are heard: kinds of text that are rare within their class."""
_LOG_DET = 0.1  # of ε at most
_LEAST_SCALE = 0.5
"""The ridge has shrunk the scores. Where counts are mostly noise they must not take away the rest: with classes of one
size any direction that was found is better than none, and with unequal ones the offset still decides."""
_TAU, _POWER = 0.25, 0.25
_CENTRE_SHARE = 0.05
_MOST_COLUMNS, _MOST_ENTRIES, _FAINT = 1000, 1e7, 1e-2
"""Centred rows are dense: no more columns and entries than these. Bags of words have little in common anyway. Centred
rows differ in length, and clipping them costs what less noise brings unless √d·ν/n is above a hundredth."""


@dataclass(frozen=True)
class WeightedPerturbation:
    """Mean, energies, the perturbed minimiser of centred and weighted rows, a fit of scale and offset.

    Args:
        noise_multiplier: scale of the tilt over the bound on a weighted row's gradient; 0 is the minimiser itself.
        energy_multiplier: noise over the bound of `ColumnSecondMoment`.
        place_multiplier: noise in the counts that tell where scores lie.
        line_multiplier: noise in the counts by which scale and offset are fitted.
        regularisation: λ, in units of the sum of losses of weighted rows.
        damping: τ in units of the squared row norm.
        power: weights are (energy + τ)^−power.
        slope_bound: ℓ2 bound on a weighted row's gradient.
        deviation: see `ObjectivePerturbation`.
        spread: see `ColumnSecondMoment`.
        centred: whether rows are centred; needs a constant column.
        centre_multiplier: noise over the bound of `RowSum`.
    """

    noise_multiplier: float
    energy_multiplier: float
    place_multiplier: float
    line_multiplier: float
    regularisation: float
    damping: float
    power: float = 0.25
    slope_bound: float = math.inf
    deviation: float = 1e-3
    spread: float = 25.0
    centred: bool = False
    centre_multiplier: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")
        if not 0 <= self.power <= 1:
            raise InvalidInput(f"power must be between 0 and 1, got {self.power!r}.")

    def steps(self, problem: Problem) -> Steps:
        """Up to five releases. The minimiser without noise needs no weights, and its scale and offset no fit."""
        _check(problem)
        if not self.noise_multiplier:
            exact = RidgeMinimiser(problem.rows, problem.loss, self.regularisation, self.slope_bound)
            return (yield PerturbedMinimum(exact, 0.0, self.deviation, 0.0))
        rows, d = problem.rows, problem.rows.n_features
        if self.centred and not rows.intercept:
            raise InvalidInput("rows without a constant column cannot be centred; fit an intercept, or centre_share=0.")
        centre, explained = None, np.zeros(d)
        if self.centred:
            centre, explained = yield from released_mean(problem, self.centre_multiplier)
        energies = yield from released_energies(problem, self.energy_multiplier, self.spread)
        weights = column_weights(energies, rows, self.damping, self.power, explained)
        through = ColumnWeights(rows, weights, centre)
        query = RidgeMinimiser(rows, problem.loss, self.regularisation, self.slope_bound, through=through)
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier)
        found = yield PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance)
        theta = found.copy()
        theta[:d] *= weights / LENGTHEN  # on average over rows as they are given, what it was on clipped ones
        if centre is not None:
            theta[-1] -= float(theta[:d] @ centre) / rows.intercept
        # a row's slope of 1 moves its own score by ⟨x, (∇²J)⁻¹x⟩, at most as if columns had nothing in common
        held = problem.n * made_energies(energies, rows, weights, explained)
        leverage = float((held / (problem.loss.smoothness(Domain()) * held + self.regularisation)).sum())
        anchor = float(found[-1]) * rows.intercept
        noise = self.place_multiplier, self.line_multiplier
        return (yield from fitted_line(problem, theta, *noise, leverage, anchor, _LEAST_SCALE))


def _check(problem: Problem) -> None:
    if not isinstance(problem.domain, WholeSpace):
        raise InvalidInput(
            f"weighted perturbation has no constraint, but the problem has {type(problem.domain).__name__}; "
            "use solver='objective_perturbation'."
        )
    if problem.ridge:
        raise InvalidInput(
            "weighted perturbation chooses its own ridge; for alpha > 0 use solver='objective_perturbation'."
        )
    if problem.rows.outputs != 1 or not problem.loss.slope_sign_fixed:
        raise InvalidInput("weighted perturbation is for two classes: labels −1 and +1, one score a row.")


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    regularisation: float | None = None,
    slope_bound: float | None = None,
    power: float | None = None,
    spread: float = 25.0,
    energy_share: float = 0.05,
    place_share: float = 0.02,
    line_share: float = 0.08,
    centre_share: float | None = None,
    damping: float | None = None,
) -> WeightedPerturbation:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: public facts: two classes, no constraint, no ridge of the user's.
        guarantee: what to keep.
        regularisation: λ in units of the sum; by default ν·L·R·(0.8 + 3·d/n), for bags of words (sparse rows of at
            least 1000 columns) 2·ν·L·R, and so large that log det is at most a tenth of ε.
        slope_bound: ℓ2 bound on a weighted row's gradient; by default that of a logistic slope at a score of 0, for
            bags of words half of it, and other losses' own.
        power: weights are (energy + τ)^−power, by default ¼; 0 leaves columns as they are.
        spread: over how many entries a row's squared length is expected to be spread.
        energy_share: of the budget (in 1/σ²) for the energies.
        place_share: of the budget for where scores lie.
        line_share: of the budget for scale and offset.
        centre_share: of the budget for the mean row; 0 leaves rows uncentred. By default a twentieth, or 0 for more
            than 1000 columns (or 1e7 entries), little noise (√d·ν/n ≤ 0.01), and models without an intercept.
        damping: τ in units of the squared row norm; by default (ν/2)²·radius²/(norm²·n), where a column's chance
            variance in a gradient sum is a quarter of the noise's.

    Raises:
        InvalidInput: not two classes, a constraint or ridge, rows without bound, pure DP, or shares that leave nothing.
        HypothesisViolated: the loss has no bounded curvature.
    """
    _check(problem)
    rows, n = problem.rows, problem.n
    power = _POWER if power is None else power
    if not rows.bounded:
        raise InvalidInput("weighted perturbation needs a row_norm; give one, or use solver='objective_perturbation'.")
    if centre_share is None:
        small = rows.n_features <= min(_MOST_COLUMNS, _MOST_ENTRIES / n)
        faint = guarantee.private and rough_multiplier(guarantee) * math.sqrt(rows.n_features) > _FAINT * n
        centre_share = _CENTRE_SHARE if small and faint and rows.intercept else 0.0
    shares = (energy_share, place_share, line_share)
    if not (min(shares) > 0 and centre_share >= 0 and sum(shares) + centre_share < 1):
        raise InvalidInput(
            f"shares must be positive (centre_share may be 0) and leave some budget for the minimiser, got {shares!r} "
            f"and centre_share={centre_share!r}."
        )
    if not math.isfinite(problem.loss.smoothness(Domain())):
        raise HypothesisViolated(f"{type(problem.loss).__name__} has unbounded curvature; use a smoothed loss.")
    words = problem.sparse and rows.n_features >= BAG_OF_WORDS
    if slope_bound is None:
        cut = isinstance(problem.loss, Logistic) and guarantee.private
        slope_bound = (_WORD_CUT if words else CUT) * rows.radius if cut else math.inf
    if not guarantee.private:
        return WeightedPerturbation(0.0, 0.0, 0.0, 0.0, regularisation or 0.0, damping or 1 / n, power, slope_bound)
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet import events
    from discreet.accounting import calibrate

    left = 1 - sum(shares) - centre_share
    nu = calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit) / math.sqrt(left)
    if regularisation is None:
        bounds = RidgeMinimiser(rows, problem.loss, 1.0, slope_bound)
        shrink = nu * bounds.gradient_bound * rows.radius
        shrink *= _WORD_SHRINK if words else _SHRINK + _SHRINK_WIDE * rows.n_features / n
        regularisation = max(
            shrink, guarantee.unit.rows_per_unit * bounds.curvature_bound / (_LOG_DET * guarantee.epsilon)
        )
    tau = max(_TAU * nu**2, 1.0) * (rows.radius / rows.norm) ** 2 / n if damping is None else damping

    def make(noise: float) -> WeightedPerturbation:
        """All noise in proportion: ``noise`` is that of one release with the whole budget."""
        energy, place, line = (noise / math.sqrt(share) for share in shares)
        return WeightedPerturbation(
            noise / math.sqrt(left), energy, place, line, regularisation, tau, power, slope_bound,
            guarantee.epsilon / DRIFT, spread, centre_share > 0,
            noise / math.sqrt(centre_share) if centre_share else 0.0,
        )  # fmt: skip

    return calibrated(make, problem, guarantee)
