"""Descent on rows whose columns are weighted by their own privately released energies: for bags of words.

Three kinds of Gaussian releases, whose shares of the budget are fixed beforehand:

1. *energies* f = (1/n) Σ x_j² (`discreet.solvers.parts.column_weights`);
2. *gradients* of rows weighted by w_j = (f_j + τ)^−½ and clipped anew. In a gradient sum a column's chance variance is
   n·f_j/4 (slopes are ½) and the noise's (νC)²: τ is a quarter of what makes them equal. Below τ nothing is gained by
   more weight, above it columns are brought to one scale;
3. *scale and offset* by two histograms of the scores found (`discreet.solvers.parts.recalibration`): few steps on noisy gradients
   need not have found how long θ is, nor where to cut two classes of unequal size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.mapped import ColumnWeights, Mapped
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.column_weights import LENGTHEN, column_weights, released_energies
from discreet.solvers.parts.recalibration import fitted_line
from discreet.solvers.sparse_descent import steepest

__all__ = ["Reweighted", "default"]

_TAU = 0.25
_PLACE_SHARE = 0.2  # of the fit of scale and offset, for where scores lie


@dataclass(frozen=True)
class Reweighted:
    """Energies, weighted gradients, then a fit of scale and offset.

    Args:
        noise_multiplier: noise over ``clip`` in each gradient; 0 runs without privacy.
        energy_multiplier: noise over the bound of `ColumnSecondMoment`.
        line_multiplier: noise of the fit of scale and offset, over its clip, were it one release; 0 without privacy.
        iterations: number of gradients.
        clip: ℓ2 bound on a weighted row's gradient.
        step: step size in the weighted coordinates.
        damping: τ in units of the squared row norm.
        spread: see `ColumnSecondMoment`.
        line: whether scale and offset are fitted.
    """

    noise_multiplier: float
    energy_multiplier: float
    line_multiplier: float
    iterations: int
    clip: float
    step: float
    damping: float
    spread: float = 25.0
    line: bool = True

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        for name in ("clip", "step", "damping"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(f"{name} must be positive and finite, got {getattr(self, name)!r}.")

    def steps(self, problem: Problem) -> Steps:
        """1 + iterations + 2 releases."""
        _check(problem)
        rows, d = problem.rows, problem.rows.n_features
        energies = yield from released_energies(problem, self.energy_multiplier, self.spread)
        weights, shorten = column_weights(energies, rows, self.damping, 0.5), 1 / LENGTHEN
        through = ColumnWeights(rows, weights)
        inner = problem.ridge * (shorten * weights) ** 2  # the ridge is on θ itself
        theta = problem.start
        for _ in range(self.iterations):
            query = Mapped(GradientSum(rows, problem.loss, theta, self.clip), through)
            total = yield Noisy(query, Gaussian(self.noise_multiplier))
            gradient = total / problem.n
            gradient[..., :d] += inner * theta[..., :d]
            theta = theta - self.step * gradient
        found = theta.copy()
        found[..., :d] *= shorten * weights
        if not (self.line and self.line_multiplier):
            return found
        place, line = (self.line_multiplier / math.sqrt(share) for share in (_PLACE_SHARE, 1 - _PLACE_SHARE))
        # T steps of size η/n along a row move its own score by at most ηT·radius²/n
        leverage = self.step * self.iterations * rows.radius**2
        return (yield from fitted_line(problem, found, place, line, leverage, float(found[-1]) * rows.intercept))


def _check(problem: Problem) -> None:
    if not isinstance(problem.domain, WholeSpace):
        raise InvalidInput(
            f"reweighted steps have no constraint, but the problem has {type(problem.domain).__name__}; "
            "use solver='descent' or 'sparse_descent'."
        )


_REACH = 3.0
"""Scores up to about ±3 are sought: a confidence of 95 %. Public, the same for all data."""

_MOST_ITERATIONS, _EXACT_ITERATIONS = 400, 2000


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    spread: float = 25.0,
    energy_share: float = 0.05,
    line_share: float = 0.1,
    iterations: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    damping: float | None = None,
) -> Reweighted:
    """Noise from the accountant, everything else from public facts.

    T steps of size η with noise √T·κC/n a coordinate move scores by noise of variance (ηTκC/n)²·radius² whatever the
    dimension, which costs ½·β·(ηTκC/n)²·radius² at curvature β = smoothness; stopping early costs D²/(2ηT). The sum is
    least at (ηT)³ = D²n²/(2β·radius²κ²C²), D = 3/radius.

    Args:
        problem: public facts; no constraint.
        guarantee: what to keep.
        spread: over how many entries a row's squared length is expected to be spread.
        energy_share: of the budget (in 1/σ²) for the energies.
        line_share: of the budget for scale and offset; 0 leaves them as the gradients found them.
        iterations: number of gradients.
        step: step size in the weighted coordinates.
        clip: ℓ2 bound on a row's gradient; by default that of the largest slope at θ = 0.
        damping: τ in units of the squared row norm; by default (ν/2)²·radius²/(norm²·n).

    Raises:
        InvalidInput: a constraint, rows without bound under privacy, pure DP, or shares that leave nothing.
    """
    _check(problem)
    rows, n = problem.rows, problem.n
    if not rows.bounded:
        raise InvalidInput("reweighted descent needs a row_norm to choose its steps; give one, or another solver.")
    if not (0 < energy_share < 1 and 0 <= line_share < 1 - energy_share):
        raise InvalidInput(
            f"shares must leave some budget for gradients, got {energy_share!r} for energies and {line_share!r}."
        )
    smoothness = problem.loss.smoothness(Domain(score_bound=_REACH, target_low=-1.0, target_high=1.0))
    smooth = math.isfinite(problem.loss.smoothness(Domain())) and rows.outputs == 1
    line = smooth and line_share > 0
    if not math.isfinite(smoothness):
        smoothness = 10.0  # a kink behaves like a bend over a tenth of the scores
    bound = rows.radius * steepest(problem, guarantee, _REACH) if clip is None else clip
    beta = smoothness * rows.radius**2
    left = 1 - energy_share - (line_share if line else 0.0)

    def make(noise: float) -> Reweighted:
        """All noise in proportion: ``noise`` is that of one release with the whole budget."""
        kappa = noise / math.sqrt(left)
        if noise:
            distance = _REACH * math.sqrt(rows.outputs) / rows.radius
            travel = (distance**2 * n**2 / (2 * beta * (kappa * bound) ** 2)) ** (1 / 3)
            count = int(min(_MOST_ITERATIONS, max(1, math.ceil(beta * travel)))) if iterations is None else iterations
            size = min(1 / beta, travel / count) if step is None else step
        else:
            count, size = iterations or _EXACT_ITERATIONS, 1 / beta if step is None else step
        tau = max(_TAU * kappa**2, 1.0) * (rows.radius / rows.norm) ** 2 / n if damping is None else damping
        return Reweighted(
            kappa * math.sqrt(count),
            noise / math.sqrt(energy_share),
            noise / math.sqrt(line_share) if line else 0.0,
            count,
            bound,
            size,
            tau,
            spread,
            line,
        )

    if not guarantee.private:
        return make(0.0)
    # the plan's length depends on the noise, so first find the noise of one release, then keep the length
    first = make(_one_release(guarantee))

    def kept(noise: float) -> Reweighted:
        made = make(noise)
        return Reweighted(
            noise / math.sqrt(left) * math.sqrt(first.iterations), made.energy_multiplier, made.line_multiplier,
            first.iterations, bound, first.step, first.damping, spread, line,
        )  # fmt: skip

    return calibrated(kept, problem, guarantee)


def _one_release(guarantee: Guarantee) -> float:
    if guarantee.delta == 0:
        raise InvalidInput("delta = 0 asks for pure DP, which Gaussian noise cannot give; choose a pure-ε solver.")
    from discreet import events
    from discreet.accounting import calibrate

    return calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit)
