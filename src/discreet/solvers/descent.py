"""Noisy projected gradient descent, full batch or sampled: DP-SGD and all its optimizers.

Releases: one Gaussian gradient sum a step, each row's gradient clipped to ``clip`` (Bassily–Smith–Thakurta 2014; Abadi
et al. 2016). Everything else — the update, the projection, the choice of iterate — is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.losses import Domain, Poisson
from discreet.measurements import FixedSizeSampling, Noisy, PoissonSampling, Sampling
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.updates import Momentum, Schedule, Sgd, Svrg, Update

__all__ = ["Descent", "default"]


@dataclass(frozen=True)
class Descent:
    """θ ← Π(update(θ, noisy mean gradient)), ``iterations`` times.

    Args:
        noise_multiplier: noise over ``clip``; 0 is plain gradient descent.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient.
        update: rule from `discreet.updates`.
        sampling: batches; None takes all rows each step.
        iterate: ``"last"``, the ``"average"``, or the average of the last half (``"suffix"``).
    """

    noise_multiplier: float
    iterations: int
    clip: float
    update: Update
    sampling: Sampling | None = None
    iterate: Literal["last", "average", "suffix"] = "average"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if self.iterate not in ("last", "average", "suffix"):
            raise InvalidInput(f"iterate must be 'last', 'average' or 'suffix', got {self.iterate!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One noisy gradient a step; SVRG takes its anchor's gradient from all rows."""
        project = problem.domain.project if isinstance(problem.domain, Projectable) else None
        if project is None:
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = problem.start.ravel()
        state = self.update.init(theta.size)
        mean, kept = np.zeros_like(theta), 0
        for t in range(self.iterations):
            # SVRG: the anchor's gradient is of all rows; between anchors a batch releases the change since the anchor
            svrg = self.update if isinstance(self.update, Svrg) else None
            anchor = state.anchor if svrg and not svrg.due(state) else None
            sampling = None if svrg and anchor is None else self.sampling
            rows = sampling.expected_rows(problem.n) if sampling else problem.n
            total = yield Noisy(self._query(problem, theta, anchor), Gaussian(self.noise_multiplier), sampling)
            noise_std = self.noise_multiplier * self.clip / rows
            gradient = total.ravel() / rows + problem.ridge * theta
            if svrg and anchor is not None:
                theta, state = svrg(theta, gradient, state, noise_std=noise_std, at_anchor=problem.ridge * anchor)
            else:
                theta, state = self.update(theta, gradient, state, noise_std=noise_std)
            theta = np.asarray(project(theta))
            if self.iterate == "average" or (self.iterate == "suffix" and 2 * (t + 1) > self.iterations):
                kept += 1
                mean += (theta - mean) / kept
        if self.iterate == "last":
            return theta.reshape(problem.rows.shape)
        if not problem.domain.convex:  # an average of sparse points is not sparse
            mean = np.asarray(project(mean))
        return mean.reshape(problem.rows.shape)

    def _query(self, problem: Problem, theta: NDArray[np.float64], anchor: NDArray[np.float64] | None) -> GradientSum:
        shape = problem.rows.shape
        at_anchor = None if anchor is None else anchor.reshape(shape)
        return GradientSum(problem.rows, problem.loss, theta.reshape(shape), self.clip, at_anchor)


_REACH, _REACH_OF_CLASSES = 5.0, 10.0
"""Scores up to about ±5 are reachable: a model's confidence from 0.7 % to 99.3 %; with several classes, ±10. Public,
the same for all data, from ``bench/defaults.py``."""

_SCORE_NOISE = 1.0
"""Two classes: what noise may add to a row's score at least, by the travel; from ``bench/defaults.py``."""

_MOST_ITERATIONS = 400
_DECAY, _MOST_HEAVY_ITERATIONS, _PACE, _FEW_STEPS = 0.9, 200, 3.5, 75
"""Several outputs: with momentum a step goes ten times as far, and is stable up to a size of 2(1 + decay)/β = 3.8/β
(Polyak 1964), of which 3.5/β is taken where steps of 1/β would be more than 75. Noise adds up with the way gone, so it
is free."""


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    step: float | Schedule | None = None,
    update: Update | None = None,
    rate: float | None = None,
    batch_size: int | None = None,
    iterate: Literal["last", "average", "suffix"] = "suffix",
) -> Descent:
    """Descent whose steps come from theory and whose noise comes from the accountant.

    With T steps of size η and noise √T·κ·C/n in each of d coordinates, averaging gives an excess risk of at most
    D²/(2ηT) + ηT·dκ²C²/(2n²): only the travel ηT matters, best at ηT = D·n/(√d·κ·C). η ≤ 1/β asks for
    T ≥ β·ηT steps; more would only cost time. D, the distance to travel, is taken as 5/radius. Classes are told apart
    by scores, to which such noise adds ηT·κC·radius/n whatever d: two classes travel on until that is 1.

    With K outputs (softmax) d counts every output, and that bound is far too careful: noise of size ηTκC/n a coordinate
    costs ½·tr(H)·(ηTκC/n)², and the Hessian's trace is at most (1 − 1/K)·radius² whatever d. A quarter of that, for a
    model that is right most of the time, and D²/(2ηT) with D = 10√K/radius balance at (ηT)³ = D²n²/(2·tr(H)·κ²C²).
    Steps have momentum, which allows η up to 3.5/β, and the clip is a row's gradient at θ = 0.

    Args:
        problem: public facts.
        guarantee: what to keep.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient; by default the largest gradient of a row, or radius × 1 where slopes are
            unbounded, or with several outputs the gradient at θ = 0. Without privacy nothing is clipped, but for
            Poisson gradients.
        step: step size or schedule for plain descent.
        update: another update rule in place of plain descent.
        rate: Poisson sampling rate of batches.
        batch_size: fixed-size batches (replace-one only).
        iterate: which iterate is returned.
    """
    rows, radius = problem.rows, problem.rows.radius
    if rate is not None and batch_size is not None:
        raise InvalidInput("give rate (Poisson batches) or batch_size (fixed-size batches), not both.")
    if update is not None and step is not None:
        raise InvalidInput("step belongs to plain descent; an update rule has its own.")
    sampling: Sampling | None = None
    if rate is not None:
        sampling = PoissonSampling(rate)
    elif batch_size is not None:
        sampling = FixedSizeSampling(batch_size, round(problem.n))
    if not rows.bounded:
        if guarantee.private:
            raise InvalidInput("a private run needs rows of bounded length.")
        raise InvalidInput("descent needs a row_norm to choose its steps; give one, or another solver.")
    domain = Domain(score_bound=_REACH, target_low=-1.0, target_high=1.0)
    slope = min(problem.loss.lipschitz(domain), 1.0) if rows.outputs == 1 else math.sqrt(1 - 1 / rows.outputs)
    counts = isinstance(problem.loss, Poisson)
    if clip is None:
        # without privacy only the Poisson loss is clipped, whose gradients have no step size otherwise
        clip = radius * slope if guarantee.private or counts else math.inf
    if counts:
        # coded counts are at most 1, so beyond e^z = 2 the clipped slope is flat
        domain = Domain(score_bound=math.log(2.0), target_low=0.0, target_high=1.0)
    smoothness = problem.loss.smoothness(domain)
    if not math.isfinite(smoothness):
        smoothness = slope / 0.1  # a kink behaves like a bend over a tenth of the scores
    heavy = rows.outputs > 1 and update is None and step is None and guarantee.private
    beta = smoothness * radius**2 + problem.ridge
    longest = (_PACE if heavy else 1.0) / beta
    distance = (_REACH if rows.outputs == 1 else _REACH_OF_CLASSES) / radius
    if guarantee.private:
        once = calibrated(lambda s: Descent(s, 1, clip, Sgd(1.0)), problem, guarantee)
        noise = once.noise_multiplier * clip / problem.n
        travel = distance / (math.sqrt(math.prod(rows.shape)) * noise)
        if problem.loss.slope_sign_fixed:
            travel = max(travel, _SCORE_NOISE / (radius * noise))
        if rows.outputs > 1:
            trace = (1 - 1 / rows.outputs) / 4 * radius**2
            travel = max(travel, (rows.outputs * distance**2 / (2 * trace * noise**2)) ** (1 / 3))
    else:
        travel = math.inf
    reach = 1 / (1 - _DECAY) if heavy else 1.0  # how much further a step goes in the end
    if iterations is None:
        most = _MOST_HEAVY_ITERATIONS if heavy else _MOST_ITERATIONS
        steps = beta * travel / reach
        if heavy:
            steps = min(steps, max(_FEW_STEPS, travel / (longest * reach)))
        iterations = int(min(most, max(1.0, math.ceil(steps)))) if travel < math.inf else 2000
    if update is None:
        size = min(longest, travel / (reach * iterations)) if step is None else step
        update = Momentum(size, _DECAY) if heavy else Sgd(size)
    chosen = update

    def make(noise_multiplier: float) -> Descent:
        return Descent(noise_multiplier, iterations, clip, chosen, sampling, iterate)

    return calibrated(make, problem, guarantee)
