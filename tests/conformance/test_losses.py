"""Every loss: derivatives by finite differences, constants by search, stability at the ends of the floats, kernels."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.losses import (
    OWN,
    CappedPoisson,
    Domain,
    Huber,
    Logistic,
    Loss,
    Poisson,
    Quantile,
    Sigmoid,
    SmoothedHinge,
    Softmax,
    Squared,
    Tabulated,
    Tukey,
    Welsch,
)

SOURCE = Path(__file__).parents[2] / "src"
LABELS = [-1.0, 1.0]
REALS = [-1.3, 0.0, 0.4, 2.0]
COUNTS = [0.0, 1.0, 7.0]
SCALAR: list[tuple[Loss, list[float]]] = [
    (Squared(), REALS),
    (Logistic(), LABELS),
    (Huber(), REALS),
    (Huber(width=0.3), REALS),
    (SmoothedHinge(), LABELS),
    (SmoothedHinge(width=0.25), LABELS),
    (SmoothedHinge(width=3.0), LABELS),
    (Poisson(), COUNTS),
    (CappedPoisson(4), COUNTS),
    (CappedPoisson(9), COUNTS),
    (Quantile(level=0.3), REALS),
    (Quantile(level=0.9, width=0.5), REALS),
    (Welsch(), REALS),
    (Welsch(width=0.3), REALS),
    (Tukey(), REALS),
    (Tukey(width=0.8), REALS),
    (Sigmoid(), LABELS),
    (Sigmoid(steepness=3.0), LABELS),
]
CASES = pytest.mark.parametrize(
    ("loss", "targets"), SCALAR, ids=lambda value: repr(value) if isinstance(value, Loss) else ""
)
# Irrational-looking scores stay clear of every kink by more than the finite-difference step.
SCORES = np.sin(np.arange(1, 400)) * 4.0


def test_no_loss_is_left_out() -> None:
    """`Tabulated` is any of them by its table: `tests/losses/test_tabulated.py`."""
    known = {type(loss) for loss, _ in SCALAR} | {Softmax, Tabulated}
    assert {kind for kind in Loss.__subclasses__() if kind.__module__.startswith("discreet.")} == known == OWN


def kinks(loss: Loss, y: float) -> list[float]:
    """The scores at which the slope or the curvature jumps."""
    if isinstance(loss, Huber | Tukey):  # Tukey's third derivative jumps there, its curvature does not
        return [y - loss.width, y + loss.width]
    if isinstance(loss, SmoothedHinge):
        return [y * 1.0, y * (1.0 - loss.width)]
    if isinstance(loss, Quantile):
        return [y - loss.level * loss.width, y + (1 - loss.level) * loss.width]
    return []


def smooth_scores(loss: Loss, y: float, step: float) -> np.ndarray:
    keep = np.ones(SCORES.shape, dtype=bool)
    for kink in kinks(loss, y):
        keep &= np.abs(SCORES - kink) > 2 * step
    return SCORES[keep]


@CASES
def test_slope_is_the_derivative_of_the_value(loss: Loss, targets: list[float]) -> None:
    step = 1e-6
    for y in targets:
        z = smooth_scores(loss, y, step)
        difference = (loss.value(z + step, y) - loss.value(z - step, y)) / (2 * step)
        np.testing.assert_allclose(loss.slope(z, y), difference, rtol=1e-6, atol=1e-7)


@CASES
def test_curvature_is_the_derivative_of_the_slope(loss: Loss, targets: list[float]) -> None:
    step = 1e-6
    for y in targets:
        z = smooth_scores(loss, y, step)
        difference = (loss.slope(z + step, y) - loss.slope(z - step, y)) / (2 * step)
        np.testing.assert_allclose(loss.curvature(z, y), difference, rtol=1e-6, atol=1e-7)


@CASES
def test_slope_is_monotone_just_where_the_loss_is_called_convex(loss: Loss, targets: list[float]) -> None:
    z = np.sort(np.concatenate([SCORES, *[kinks(loss, y) for y in targets]]))
    for y in targets:
        rises, bends = np.all(np.diff(loss.slope(z, y)) >= 0), np.all(loss.curvature(z, y) >= 0)
        assert rises == bends == loss.convex


@CASES
@pytest.mark.parametrize("score_bound", [0.0, 0.1, 0.9, 3.0])
def test_constants_hold_and_are_attained_within_one_percent(
    loss: Loss, targets: list[float], score_bound: float
) -> None:
    domain = Domain(score_bound, min(targets), max(targets))
    labelled = loss.slope_sign_fixed
    ys = np.asarray(LABELS if labelled else np.linspace(domain.target_low, domain.target_high, 201))
    z = np.linspace(-score_bound, score_bound, 4001)[:, None]
    slopes = np.abs(loss.slope(z, ys))
    assert slopes.max() <= loss.lipschitz(domain) * (1 + 1e-12)
    assert slopes.max() >= 0.99 * loss.lipschitz(domain)
    if not loss.smooth:
        assert loss.smoothness(domain) == math.inf
        return
    changes = np.abs(np.diff(loss.slope(z, ys), axis=0))
    assert np.all(changes <= loss.smoothness(domain) * np.diff(z, axis=0) * (1 + 1e-9) + 1e-15)
    # A kink may sit on the edge of the domain, so curvature is also looked up just inside it.
    inner = np.concatenate([z, z * (1 - 1e-9)]) if score_bound else z
    largest = loss.curvature(inner, ys).max()
    assert largest <= loss.smoothness(domain) * (1 + 1e-12)
    if score_bound > 0:
        assert largest >= 0.99 * loss.smoothness(domain)


@CASES
def test_unbounded_domain_gives_the_supremum(loss: Loss, targets: list[float]) -> None:
    domain = Domain(math.inf, min(targets), max(targets))
    far = np.asarray([-1e300, -50.0, 50.0, 1e300])[:, None]
    if not loss.convex:  # largest near the target, and nothing far from it
        assert np.abs(loss.slope(far, np.asarray(targets))).max() < 1e-9
        far = np.linspace(-4, 4, 8001)[:, None]
    largest = np.abs(loss.slope(far, np.asarray(targets))).max()
    assert loss.lipschitz(domain) == pytest.approx(largest, rel=1e-6) or (
        math.isinf(loss.lipschitz(domain)) and largest > 1e100
    )
    if loss.slope_sign_fixed:
        z = np.linspace(-20, 20, 1001)
        for y in targets:
            assert np.all(loss.slope(z, y) * -y >= 0)
    elif not isinstance(loss, Poisson | CappedPoisson):
        assert loss.slope(far, 0.0).min() < 0 < loss.slope(far, 0.0).max()


@CASES
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_nan_and_no_warning_at_the_ends_of_the_floats(loss: Loss, targets: list[float], dtype: type) -> None:
    huge = np.finfo(dtype).max
    z = np.asarray([0.0, 1.0, 1e3, 1e30, huge, np.finfo(dtype).tiny], dtype=dtype)
    z = np.concatenate([z, -z])[:, None]
    y = np.asarray(targets if loss.slope_sign_fixed else [*targets, huge, -huge], dtype=dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for compute in (loss.value, loss.slope, loss.curvature):
            result = compute(z, y)
            assert result.shape == (12, len(y))
            assert not np.isnan(result).any()
        assert not np.isnan(loss.mean(z)).any()


@CASES
def test_means_lie_in_the_range_of_the_link(loss: Loss, targets: list[float]) -> None:
    prediction = loss.mean(SCORES)
    if isinstance(loss, Logistic):
        np.testing.assert_allclose(prediction, 0.5 * (1 + np.tanh(SCORES / 2)), rtol=1e-12)
    elif isinstance(loss, Poisson | CappedPoisson):
        np.testing.assert_allclose(np.log(prediction), SCORES, rtol=1e-12)
    else:
        np.testing.assert_array_equal(prediction, SCORES)


@CASES
def test_compiled_slope_agrees(loss: Loss, targets: list[float]) -> None:
    from discreet.losses._kernels import slope_of

    grid = [*SCORES, 0.0, 1e3, -1e3, 1e308, -1e308]
    for y in targets:
        z = np.asarray([*grid, *kinks(loss, y)])
        compiled = np.asarray([slope_of(loss.kind, s, y, loss.parameter, loss.smoothing) for s in z])
        np.testing.assert_allclose(compiled, loss.slope(z, y), rtol=1e-12, atol=1e-12)


def test_kinds_are_distinct_and_softmax_has_no_scalar_slope() -> None:
    from discreet.losses._kernels import slope_of

    kinds = {type(loss): loss.kind for loss, _ in SCALAR} | {Softmax: Softmax.kind}
    assert len(set(kinds.values())) == len(kinds) == 11
    assert math.isnan(slope_of(Softmax.kind, 0.0, 0.0, 3.0, 0.0))


def test_smoothed_losses_are_close_to_the_originals() -> None:
    pinball, smoothed = Quantile(0.8), Quantile(0.8, width=0.2)
    gap = smoothed.value(SCORES, 0.3) - pinball.value(SCORES, 0.3)
    assert gap.min() >= -1e-15
    assert gap.max() <= 0.2 / 8 + 1e-15
    hinge_gap = np.maximum(0, 1 - SCORES) - SmoothedHinge(0.2).value(SCORES, 1.0)
    assert hinge_gap.min() >= -1e-15
    assert hinge_gap.max() <= 0.1 + 1e-15


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_the_pinball_minimiser_is_the_quantile(level: float) -> None:
    y = np.sin(np.arange(1, 1001) * 1.7)
    z = np.linspace(-1, 1, 2001)
    risk = Quantile(level).value(z[:, None], y).mean(axis=1)
    assert z[risk.argmin()] == pytest.approx(np.quantile(y, level), abs=5e-3)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_smoothing_does_not_move_the_quantile_of_even_targets(level: float) -> None:
    y, z = np.linspace(0, 1, 1001), np.linspace(0, 1, 1001)
    slopes = Quantile(level, width=0.2).slope(z[:, None], y).mean(axis=1)
    assert z[np.abs(slopes).argmin()] == pytest.approx(level, abs=2e-3)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_softmax_derivatives(classes: int) -> None:
    loss = Softmax(classes)
    rng = np.random.default_rng(7)
    z = rng.normal(size=(50, classes)) * 3
    y = rng.integers(classes, size=50)
    step = 1e-6
    for k in range(classes):
        shift = step * np.eye(classes)[k]
        slope = (loss.value(z + shift, y) - loss.value(z - shift, y)) / (2 * step)
        np.testing.assert_allclose(loss.slope(z, y)[:, k], slope, atol=1e-8)
        curvature = (loss.slope(z + shift, y) - loss.slope(z - shift, y)) / (2 * step)
        np.testing.assert_allclose(loss.curvature(z, y)[:, :, k], curvature, atol=1e-8)
    np.testing.assert_allclose(loss.mean(z).sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("score_bound", [0.0, 0.2, 1.0, 8.0])
def test_softmax_constants(classes: int, score_bound: float) -> None:
    loss, domain = Softmax(classes), Domain(score_bound)
    rng = np.random.default_rng(11)
    corners = np.asarray(list(itertools.product([-score_bound, score_bound], repeat=classes)))
    inside = rng.uniform(-score_bound, score_bound, size=(20_000, classes))
    z = np.concatenate([corners, inside])
    zeros = np.zeros(len(z), dtype=int)
    norms = np.linalg.norm(loss.slope(z, zeros), axis=1)
    assert norms.max() <= loss.lipschitz(domain) * (1 + 1e-12)
    assert norms.max() >= 0.99 * loss.lipschitz(domain)
    eigenvalues = np.linalg.eigvalsh(loss.curvature(z, zeros))
    assert eigenvalues.min() >= -1e-12
    assert eigenvalues.max() <= loss.smoothness(domain) * (1 + 1e-12)
    if classes == 2 or score_bound in (0.0, 8.0):
        assert eigenvalues.max() >= 0.99 * loss.smoothness(domain)


def test_softmax_with_two_classes_is_logistic() -> None:
    z = SCORES
    two = np.stack([-z / 2, z / 2], axis=1)
    codes = np.ones(len(z), dtype=int)
    np.testing.assert_allclose(Softmax(2).value(two, codes), Logistic().value(z, 1.0), rtol=1e-12)


def test_softmax_is_stable_and_checks_codes() -> None:
    loss = Softmax(3)
    z = np.asarray([[1e308, -1e308, 0.0], [1e308, 1e308, 1e308], [-1e308] * 3])
    for code in range(3):
        codes = np.full(3, code)
        for result in (loss.value(z, codes), loss.slope(z, codes), loss.curvature(z, codes)):
            assert not np.isnan(result).any()
    with pytest.raises(InvalidInput, match="codes"):
        loss.value(z, [0, 1, 3])
    with pytest.raises(InvalidInput, match="codes"):
        loss.value(z, [0, 1, 0.5])
    with pytest.raises(InvalidInput, match="classes"):
        loss.mean(np.zeros((2, 4)))
    with pytest.raises(InvalidInput, match="shape"):
        loss.slope(z, [0, 1])


def test_compiled_softmax_agrees_and_may_write_in_place() -> None:
    from discreet.losses._kernels import softmax_slopes

    rng = np.random.default_rng(3)
    z = np.concatenate([rng.normal(size=(100, 5)) * 10, [[1e308, 0, -1e308, 3, 4]]])
    y = rng.integers(5, size=101)
    out = np.empty(5)
    for row, code, expected in zip(z, y, Softmax(5).slope(z, y), strict=True):
        softmax_slopes(row, code, out)
        np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
        in_place = row.copy()
        softmax_slopes(in_place, code, in_place)
        np.testing.assert_array_equal(in_place, out)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Huber(width=0.0),
        lambda: Huber(width=math.inf),
        lambda: SmoothedHinge(width=-1.0),
        lambda: SmoothedHinge(width=math.nan),
        lambda: Quantile(level=0.0),
        lambda: Quantile(level=1.0),
        lambda: Quantile(level=0.5, width=-0.1),
        lambda: Softmax(classes=1),
        lambda: Softmax(classes=2.0),  # type: ignore[arg-type]
        lambda: Domain(score_bound=-1.0),
        lambda: Domain(score_bound=math.nan),
        lambda: Domain(target_low=1.0, target_high=0.0),
        lambda: Domain(target_high=math.inf),
        lambda: Logistic().lipschitz(Domain(target_high=2.0)),
        lambda: SmoothedHinge().smoothness(Domain(target_low=-3.0)),
        lambda: Logistic().smoothness(Domain(target_low=0.0)),
    ],
)
def test_bad_parameters_are_refused(make) -> None:
    with pytest.raises(InvalidInput):
        make()


def test_importing_losses_does_not_load_numba() -> None:
    code = "import sys, discreet.losses; sys.exit('numba' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": str(SOURCE)}).returncode == 0
