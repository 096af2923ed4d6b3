"""Descent with momentum on rows centred and scaled column by column: what "auto" takes for several classes.

Three kinds of Gaussian releases, whose shares of the budget (in 1/σ²) are fixed beforehand:

1. the *mean* row: what rows have in common tells no class, takes up their length, and is the one direction so much
   steeper than the others that steps must be short for its sake;
2. *energies* of the columns (`discreet.solvers.parts.column_weights`), and from them weights w_j ∝ (f_j + τ)^−½: columns that
   can be told from noise are brought to one scale, which both noise and steps ask for;
3. *gradients* of rows centred and weighted so (`queries.sums.scaled_gradient`), with momentum; the last iterate is
   the answer. The clip is less than a row's gradient at θ = 0, so most rows pull with one strength at first. Of many
   rows each step takes a Poisson sample: what a smaller sum loses to noise, amplification gives back.

Only the *travel*, the sum of all step sizes, matters for noise: whatever d, T or the clip, it puts noise of standard
deviation c = travel·κ·C·R/n into a row's score (κ the noise multiplier of one release with the whole budget, C the
clip, R a row's length). The best c hardly depends on the problem, so c is fixed and the travel follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Softmax
from discreet.measurements import Noisy, PoissonSampling
from discreet.mechanisms import Gaussian
from discreet.queries.sums.scaled_gradient import LARGEST_WEIGHT, ScaledGradientSum, Scaling
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.column_weights import LENGTHEN, column_weights, released_energies, released_mean
from discreet.updates import Momentum

__all__ = ["ScaledDescent", "default"]

# constants are from bench/defaults.py
_SCORE_NOISE = 1.6
_LEAST_CLIP, _MOST_CLIP, _CLIP_AT_NOISE = 0.4, 0.7, 0.036
"""The clip over a row's length: 0.036/√ν, ν = √d·κ/n the noise in a mean gradient, from 0.4 to 0.7. Accuracy hardly
depends on it; but a small clip makes probabilities too sure, which less noise does not mend."""
_DECAY = 0.85
_LONGEST = 100.0
"""A step times clip times row length: beyond twice this, scores were seen to swing."""
_FEWEST, _MOST = 24, 60
_TAU, _LEAST_NOISE, _POWER = 5.0, 1.0, 0.5
_CONSTANT = 0.5
"""Weight of the constant column: of centred rows it tells little, and takes up length as any other column does."""
_CENTRE_SHARE, _ENERGY_SHARE = 0.03, 0.03
_SPREAD = 25.0
_RATE, _LEAST_BATCH = 0.2, 3000
"""A step takes a fifth of the rows, if that leaves 3000: it takes a fifth of the time, and noise grows by a few per
cent where there is much (1 % at ε = 0.1, 7 % at 1), by a quarter where there is little (ε = 8)."""
_EXACT_STEPS, _EXACT_PACE = 2000, 3.0
"""Without noise: steps of 3/β, β = R²/2 the largest curvature that there can be. Heavy ball is stable up to
2(1 + decay)/β (Polyak 1964)."""


@dataclass(frozen=True)
class ScaledDescent:
    """Mean, energies, then ``iterations`` gradients with momentum.

    Args:
        noise_multiplier: noise over ``clip`` in each gradient; 0 runs without privacy.
        centre_multiplier: noise over the bound of `RowSum`.
        energy_multiplier: noise over the bound of `ColumnSecondMoment`.
        iterations: number of gradients.
        clip: ℓ2 bound on the gradient of a row as centred and scaled.
        step: step size in the scaled coordinates.
        decay: of the momentum.
        damping: τ in units of the squared row norm.
        power: weights are (energy + τ)^−power.
        spread: see `ColumnSecondMoment`.
        centred: whether rows are centred; needs a constant column.
        sampling: batches of the gradients; None takes all rows each step.
    """

    noise_multiplier: float
    centre_multiplier: float
    energy_multiplier: float
    iterations: int
    clip: float
    step: float
    decay: float
    damping: float
    power: float = 0.5
    spread: float = 25.0
    centred: bool = True
    sampling: PoissonSampling | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")
        if not 0 <= self.power <= 1:
            raise InvalidInput(f"power must be between 0 and 1, got {self.power!r}.")

    def steps(self, problem: Problem) -> Steps:
        """2 + iterations releases, or one less where rows are not centred."""
        _check(problem)
        rows, n = problem.rows, problem.n
        centre, explained = np.zeros(rows.n_features), np.zeros(rows.n_features)
        if self.centred:
            centre, explained = yield from released_mean(problem, self.centre_multiplier)
        energies = yield from released_energies(problem, self.energy_multiplier, self.spread)
        weights = column_weights(energies, rows, self.damping, self.power, explained) / LENGTHEN
        scaling, unit = on_grid(rows, weights, centre)
        update = Momentum(self.step * unit**2, self.decay)  # the query's rows are longer by 1/unit
        used = self.sampling.expected_rows(n) if self.sampling else n
        theta, state = problem.start, update.init(math.prod(rows.shape))
        for _ in range(self.iterations):
            query = ScaledGradientSum(scaling, problem.loss, theta, self.clip / unit)
            total = yield Noisy(query, Gaussian(self.noise_multiplier), self.sampling)
            moved, state = update(theta.ravel(), total.ravel() / used, state)
            theta = moved.reshape(rows.shape)
        return scaling.scores(theta)


def on_grid(rows: RowSpec, weights: NDArray[np.float64], centre: NDArray[np.float64]) -> tuple[Scaling, float]:
    """Weights (with the constant column's) in whole multiples of the unit returned, and the centre in row steps."""
    full = np.concatenate([weights, np.full(rows.dimension - rows.n_features, _CONSTANT)])
    unit = float(full.max()) / LARGEST_WEIGHT
    length = float(np.linalg.norm(centre))
    inside = centre * min(1.0, rows.norm / length) if length > 0 else centre
    steps = np.trunc(inside / rows.unit).astype(np.int64)
    return Scaling(rows, np.clip(np.rint(full / unit), 1, LARGEST_WEIGHT).astype(np.int64), steps), unit


def _check(problem: Problem) -> None:
    if not isinstance(problem.domain, WholeSpace):
        raise InvalidInput(
            f"scaled descent has no constraint, but the problem has {type(problem.domain).__name__}; "
            "use solver='descent'."
        )
    if problem.ridge:
        raise InvalidInput("scaled descent stops early instead of a ridge; for alpha > 0 use solver='descent'.")
    if not isinstance(problem.loss, Softmax):
        raise InvalidInput("scaled descent is for several classes; for two use solver='weighted_perturbation'.")
    if not problem.rows.bounded:
        raise InvalidInput("scaled descent needs a row_norm; give one, or use solver='objective_perturbation'.")


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    score_noise: float | None = None,
    iterations: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    decay: float | None = None,
    power: float | None = None,
    damping: float | None = None,
    centre_share: float | None = None,
    energy_share: float | None = None,
    spread: float | None = None,
    rate: float | None = None,
) -> ScaledDescent:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: public facts: several classes, no constraint, no ridge of the user's.
        guarantee: what to keep.
        score_noise: c, the standard deviation of the noise in a score, 1.6 by default: the travel follows.
        iterations: number of gradients; by default so many that no step is too long, from 24 to 60.
        clip: ℓ2 bound on the gradient of a scaled row; by default 0.4 of the radius under much
            noise, and up to 0.7 under little.
        step: step size in scaled coordinates in place of the one that ``score_noise`` gives.
        decay: of the momentum, by default 0.85.
        power: weights are (energy + τ)^−power, by default ½; 0 leaves columns as they are.
        damping: τ in units of the squared row norm; by default 5·max(κ, 1)/n, about four standard deviations of the
            noise in an energy.
        centre_share: of the budget (in 1/σ²) for the mean row, by default 3 %; 0 leaves rows uncentred, as models
            without an intercept must.
        energy_share: of the budget for the energies, by default 3 %.
        spread: over how many entries a row's squared length is expected to be spread, by default 25.
        rate: Poisson sampling rate of the gradients' batches; 1 takes all rows at each step. By default a fifth, or
            what makes batches of 3000 rows.

    Raises:
        InvalidInput: not several classes, a constraint or ridge, rows without bound, pure DP, or shares that leave
            nothing.
    """
    _check(problem)
    rows, n = problem.rows, problem.n
    decay = _DECAY if decay is None else decay
    power, spread = _POWER if power is None else power, _SPREAD if spread is None else spread
    if not 0 <= decay < 1:
        raise InvalidInput(f"decay must lie in [0, 1), got {decay!r}.")
    if step is not None and score_noise is not None:
        raise InvalidInput("score_noise chooses the step, which was given too: leave one out.")
    if centre_share is None:
        centre_share = _CENTRE_SHARE if rows.constant else 0.0
    shares = (centre_share, _ENERGY_SHARE if energy_share is None else energy_share)
    if not (shares[0] >= 0 and shares[1] > 0 and sum(shares) < 1):
        raise InvalidInput(
            "centre_share (which may be 0) and energy_share must be positive and leave some budget for gradients, "
            f"got {shares!r}."
        )
    centred = centre_share > 0
    if centred and not rows.constant:
        raise InvalidInput("rows without a constant column cannot be centred; fit an intercept, or centre_share=0.")
    if rate is None:
        rate = min(1.0, max(_RATE, _LEAST_BATCH / n)) if guarantee.private else 1.0
    batches = PoissonSampling(rate) if rate != 1 else None
    if not guarantee.private:
        size = min(_EXACT_PACE, 2 + decay) / (rows.radius**2 / 2) if step is None else step
        count = _EXACT_STEPS if iterations is None else iterations
        tau = 1 / n if damping is None else damping
        free = math.inf if clip is None else clip
        return ScaledDescent(0.0, 0.0, 0.0, count, free, size, decay, tau, power, spread, centred, batches)
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet import events
    from discreet.accounting import calibrate

    kappa = calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit)
    share = _CLIP_AT_NOISE / math.sqrt(math.sqrt(rows.dimension) * kappa / n)
    bound = min(_MOST_CLIP, max(_LEAST_CLIP, share)) * rows.radius if clip is None else clip
    # the travel times C·R; a step goes 1/(1 − decay) times as far in the end
    way = (_SCORE_NOISE if score_noise is None else score_noise) * n / kappa
    most = _LONGEST / (1 - decay)
    count = math.ceil(min(_MOST, max(_FEWEST, way / most))) if iterations is None else iterations
    size = min(way / max(1, count), most) * (1 - decay) / (bound * rows.radius) if step is None else step
    tau = _TAU * max(kappa, _LEAST_NOISE) / n if damping is None else damping

    def make(noise: float) -> ScaledDescent:
        """All noise in proportion: ``noise`` is that of one release with the whole budget."""
        centre, energy = (noise / math.sqrt(share) if share else 0.0 for share in shares)
        gradient = noise * rate * math.sqrt(count / (1 - sum(shares)))
        return ScaledDescent(gradient, centre, energy, count, bound, size, decay, tau, power, spread, centred, batches)

    return calibrated(make, problem, guarantee)
