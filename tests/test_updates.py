"""Updates: known sequences, purity, and what the noise correction claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.updates import (
    Adafactor,
    Adam,
    AdamW,
    Momentum,
    Sgd,
    Svrg,
    Update,
    constant,
    cosine,
    inverse_sqrt,
    inverse_time,
)

PLAIN: list[Update] = [
    Sgd(0.1),
    Momentum(0.05),
    Momentum(0.05, nesterov=True),
    Adam(0.05),
    AdamW(0.05, weight_decay=0.0),
    Adafactor(0.05),
    Adafactor(0.05, shape=(2, 3)),
    Svrg(0.1, period=3),
]


@pytest.mark.parametrize("update", PLAIN, ids=repr)
def test_update_is_pure_and_minimises_a_quadratic(update: Update) -> None:
    scales = np.asarray([1.0, 2.0, 0.5, 1.5, 3.0, 0.7])
    target = np.asarray([1.0, -2.0, 0.5, 3.0, -1.0, 0.0])
    theta, state = np.zeros(6), update.init(6)
    for _ in range(600):
        gradient = scales * (theta - target)
        before = theta.copy(), gradient.copy()
        first, next_state = update(theta, gradient, state)
        again, _ = update(theta, gradient, state)
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(theta, before[0])
        np.testing.assert_array_equal(gradient, before[1])
        theta, state = first, next_state
    # Rules with a fixed step of about 0.05 in every coordinate stop within about that of the target.
    np.testing.assert_allclose(theta, target, atol=0.1)


def run(update: Update, gradients: list[float], start: float = 0.0) -> list[float]:
    theta, state, path = np.asarray([start]), update.init(1), []
    for gradient in gradients:
        theta, state = update(theta, np.asarray([gradient]), state)
        path.append(float(theta[0]))
    return path


def test_sgd_follows_its_schedule() -> None:
    assert run(Sgd(inverse_time(1.0)), [1.0, 1.0, 1.0]) == pytest.approx([-1, -1.5, -1.5 - 1 / 3])


def test_heavy_ball_and_nesterov_by_hand() -> None:
    assert run(Momentum(1.0, decay=0.5), [1.0, 1.0, 0.0]) == pytest.approx([-1, -2.5, -3.25])
    # velocities 1, 1.5, 0.75; directions g + v/2 = 1.5, 1.75, 0.375
    assert run(Momentum(1.0, decay=0.5, nesterov=True), [1.0, 1.0, 0.0]) == pytest.approx([-1.5, -3.25, -3.625])


def test_adam_by_hand() -> None:
    """The first step is η·sign(g); the second by the formulas with both running means started at zero."""
    first = -0.1 * 2 / (2 + 1e-8)
    m, v = 0.9 * 0.2 + 0.1 * -1, 0.999 * 0.004 + 0.001 * 1
    second = first - 0.1 * (m / (1 - 0.81)) / (math.sqrt(v / (1 - 0.999**2)) + 1e-8)
    assert run(Adam(0.1), [2.0, -1.0]) == pytest.approx([first, second], rel=1e-12)


def test_adamw_decays_apart_from_the_gradient() -> None:
    plain, decayed = run(Adam(0.1), [2.0], start=5.0), run(AdamW(0.1, weight_decay=0.3), [2.0], start=5.0)
    assert plain[0] - decayed[0] == pytest.approx(0.1 * 0.3 * 5.0)


def test_adam_takes_the_noise_out_of_its_second_moment() -> None:
    """E v̂ = g² + σ²; the corrected moment is g² to within sampling error, where the plain one is 50 times too large.

    30 000 coordinates see the same gradient with independent noise. v̂ averages w-weighted squares, so one coordinate
    has a standard deviation of about (σ⁴·2 + 4g²σ²)^½·(Σw²)^½ ≈ 0.24; six standard errors of the mean are 0.0083.
    """
    rng = np.random.default_rng(8)
    d, g, sigma, steps = 30_000, 0.2, 1.4, 400
    update = Adam(0.1, second_decay=0.99, floor=1e-300)
    state = update.init(d)
    raw = Adam(0.1, second_decay=0.99)
    for _ in range(steps):
        _, state = update.direction(g + sigma * rng.standard_normal(d), state, sigma)
    start = 1 - 0.99**steps
    corrected = state.second / start - state.noise / start
    assert state.noise / start == pytest.approx(sigma**2)
    assert corrected.mean() == pytest.approx(g**2, abs=0.0083)
    assert (state.second / start).mean() == pytest.approx(g**2 + sigma**2, abs=0.0083)
    # The default floor is one standard deviation of pure noise squares.
    floor = raw.second_moment(state).min()
    pure = corrected.std()
    assert floor == pytest.approx(sigma**2 * math.sqrt(2 * 0.01 / 1.99), rel=0.02)
    assert floor == pytest.approx(pure, rel=0.1)


def test_adam_correction_tracks_noise_that_changes() -> None:
    update = Adam(0.1, second_decay=0.5)
    state = update.init(1)
    for sigma in (1.0, 3.0):
        _, state = update.direction(np.zeros(1), state, sigma)
    assert state.noise / (1 - 0.25) == pytest.approx((0.25 * 1 + 0.5 * 9) / 0.75)


def test_corrected_adam_tells_strong_coordinates_from_weak_ones() -> None:
    """Under noise, plain Adam moves in proportion to g; corrected Adam moves strong coordinates nearly alike."""
    rng = np.random.default_rng(9)
    g, sigma, steps = np.asarray([2.0, 1.0]), 3.0, 4000
    travelled = {}
    for told in (0.0, sigma):
        update = Adam(0.01, second_decay=0.999)
        theta, state = np.zeros(2), update.init(2)
        for _ in range(steps):
            theta, state = update(theta, g + sigma * rng.standard_normal(2), state, noise_std=told)
        travelled[told] = theta[0] / theta[1]
    assert travelled[0.0] > 1.6
    assert travelled[sigma] < 1.3


def test_adafactor_first_step_and_factoring() -> None:
    assert run(Adafactor(0.1), [4.0]) == pytest.approx([-0.1])
    relative = run(Adafactor(), [4.0], start=10.0)
    assert relative == pytest.approx([10.0 - 0.01 * 10.0])
    update = Adafactor(1.0, shape=(2, 3))
    gradient = np.outer([1.0, 3.0], [1.0, 2.0, 5.0]).ravel()  # rank one, so the factored moment is exact
    _, state = update(np.zeros(6), gradient, update.init(6))
    np.testing.assert_allclose(update.second_moment(state), gradient**2, rtol=1e-12)


@pytest.mark.parametrize("shape", [None, (100, 300)])
def test_adafactor_takes_the_noise_out(shape: tuple[int, int] | None) -> None:
    rng = np.random.default_rng(10)
    d, g, sigma = 30_000, 1.0, 2.0
    update = Adafactor(0.1, shape=shape)
    state = update.init(d)
    for _ in range(500):
        _, state = update(np.zeros(d), g + sigma * rng.standard_normal(d), state, noise_std=sigma)
    moments = state.rows - state.noise
    # The weights of the last mean sum to one and their squares to about 500^−0.8 ≈ 0.007; six standard errors.
    assert moments.mean() == pytest.approx(g**2, abs=6 * math.sqrt((2 * sigma**4 + 4 * sigma**2) * 0.007 / d))
    assert update.second_moment(state).min() > 0


def test_svrg_uses_both_gradients() -> None:
    update = Svrg(1.0, period=2)
    state = update.init(1)
    assert update.due(state)
    theta = np.asarray([5.0])
    theta, state = update(theta, np.asarray([1.0]), state)
    assert theta == 4.0
    assert state.anchor == 5.0
    assert not update.due(state)
    theta, state = update(theta, np.asarray([3.0]), state, at_anchor=np.asarray([2.5]))
    assert theta == 4.0 - (3.0 - 2.5 + 1.0)
    assert update.due(state)
    difference, _ = update(theta, np.asarray([0.5]), state, at_anchor=np.zeros(1))
    both, _ = update(theta, np.asarray([3.0]), state, at_anchor=np.asarray([2.5]))
    assert difference == both
    with pytest.raises(InvalidInput, match="no anchor yet"):
        update(theta, theta, update.init(1), at_anchor=theta)


def test_svrg_reaches_the_minimum_that_sgd_only_circles() -> None:
    rng = np.random.default_rng(11)
    centres = rng.normal(size=50)
    curvatures = rng.uniform(0.5, 1.5, size=50)
    best = float(curvatures @ centres / curvatures.sum())
    errors = []
    for update in (Svrg(0.3, period=20), Sgd(0.3)):
        theta, state, tail = np.zeros(1), update.init(1), []
        for _ in range(600):
            i = rng.integers(50)
            if isinstance(update, Svrg) and update.due(state):
                theta, state = update(theta, np.mean(curvatures * (theta - centres), keepdims=True), state)
            elif isinstance(update, Svrg):
                at_anchor = curvatures[i] * (state.anchor - centres[i])
                theta, state = update(theta, curvatures[i] * (theta - centres[i]), state, at_anchor=at_anchor)
            else:
                theta, state = update(theta, curvatures[i] * (theta - centres[i]), state)
            tail.append(abs(float(theta[0]) - best))
        errors.append(np.mean(tail[-100:]))
    assert errors[0] < 1e-6
    assert errors[1] > 1e-2


def test_schedules() -> None:
    assert [constant(0.3)(t) for t in range(3)] == [0.3] * 3
    assert inverse_sqrt(1.0)(3) == 0.5
    assert inverse_time(2.0, offset=2.0)(0) == 1.0
    rise = cosine(1.0, total=12, warmup=2)
    assert [rise(t) for t in (0, 1, 2)] == pytest.approx([0.5, 1.0, 1.0])
    assert rise(7) == pytest.approx(0.5)
    assert rise(12) == pytest.approx(0.0)
    assert rise(99) == pytest.approx(0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sgd(0.0),
        lambda: Sgd(math.nan),
        lambda: Momentum(0.1, decay=1.0),
        lambda: Adam(0.1, first_decay=-0.1),
        lambda: Adam(0.1, eps=0.0),
        lambda: Adam(0.1, floor=-1.0),
        lambda: AdamW(0.1, weight_decay=-1.0),
        lambda: Adafactor(clip=0.0),
        lambda: Adafactor(shape=(2, 2)).init(5),
        lambda: Svrg(0.1, period=0),
        lambda: cosine(1.0, total=2, warmup=2),
        lambda: inverse_sqrt(-1.0),
        lambda: Adam(0.1)(np.zeros(1), np.zeros(1), Adam(0.1).init(1), noise_std=-1.0),
        lambda: Adafactor()(np.zeros(1), np.zeros(1), Adafactor().init(1), noise_std=math.nan),
    ],
)
def test_bad_parameters_are_refused(make) -> None:
    with pytest.raises(InvalidInput):
        make()
