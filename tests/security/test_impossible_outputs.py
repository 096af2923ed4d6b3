"""The impossible-output probe: does an output on one data set betray that it was not the neighbouring one?

A release y made on q is *impossible* on q' if no value of the noise gives y there. Floating-point noise has a hole of
this kind (Mironov 2012): q + noise is rounded to a grid that depends on q, so many outputs on 0 cannot occur on 1.
Integer noise on integer data has none, and the conversion to floating point, which comes last, opens none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.noise import (
    GAUSSIAN_LIMIT,
    LAPLACE_LIMIT,
    Bits,
    discrete_gaussian,
    discrete_laplace,
    rounded_gaussian,
    rounded_laplace,
)

TRIALS = 10_000_000
CHUNK = 1_000_000


def _impossible(
    outputs: NDArray[np.float64],
    candidates: Callable[[NDArray[np.float64]], list[NDArray]],
    release: Callable[[NDArray], NDArray[np.float64]],
) -> int:
    """How many outputs no candidate value of the noise reproduces under the other data set."""
    reachable = np.zeros(outputs.shape, dtype=np.bool_)
    for noise in candidates(outputs):
        reachable |= release(noise) == outputs
    return int((~reachable).sum())


def _float_probe(draw: Callable[[int], NDArray[np.float64]], trials: int) -> float:
    """Share of outputs 0.0 + noise that are impossible on 1.0."""

    def candidates(y: NDArray[np.float64]) -> list[NDArray]:
        # Any solution of fl(1 + noise) = y lies within a rounding step of y − 1; all doubles near it are tried.
        near = [y - 1.0]
        for direction in (-np.inf, np.inf):
            step = y - 1.0
            for _ in range(4):
                step = np.nextafter(step, direction)
                near.append(step)
        return near

    return _impossible(0.0 + draw(trials), candidates, lambda noise: 1.0 + noise) / trials


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_the_probe_finds_the_hole_in_floating_point_noise(law: str) -> None:
    generator = np.random.default_rng(1)
    share = _float_probe(lambda n: getattr(generator, law)(size=n), CHUNK)
    # Near 0 doubles are finer than any sum 1 + noise can be: about 43 % of outputs on 0 have such digits.
    assert 0.41 < share < 0.45


@pytest.mark.parametrize("scale", [1.0, 2.0**20, 2.0**40])
@pytest.mark.parametrize(
    ("sampler", "reach"),
    [
        (rounded_gaussian, GAUSSIAN_LIMIT),
        (discrete_gaussian, GAUSSIAN_LIMIT),
        (rounded_laplace, LAPLACE_LIMIT),
        (discrete_laplace, LAPLACE_LIMIT),
    ],
)
def test_integer_noise_has_no_impossible_outputs(sampler: Callable, reach: int, scale: float) -> None:
    # 0 on one side, and up to 2^20 grid steps on the other. Every integer within reach has positive probability.
    bits = Bits.seeded(2)
    grid, other = 2.0**-20, int(min(scale, 2.0**20))

    def release(noise: NDArray[np.int64]) -> NDArray[np.float64]:
        possible = np.abs(noise) <= reach * scale
        return np.where(possible, (other + noise).astype(np.float64) * grid, np.nan)

    def candidates(y: NDArray[np.float64]) -> list[NDArray]:
        return [np.rint(y / grid).astype(np.int64) - other]

    impossible = 0
    for _ in range(TRIALS // CHUNK if scale == 2.0**40 else 1):
        outputs = sampler(scale, CHUNK, bits=bits).astype(np.float64) * grid
        impossible += _impossible(outputs, candidates, release)
    assert impossible == 0


def test_the_same_probe_finds_integer_noise_on_a_grid_that_follows_the_data() -> None:
    # A grid chosen from the data (here, twice as coarse on the neighbour) is the mistake that this probe would show.
    outputs = rounded_gaussian(2.0**20, CHUNK, bits=Bits.seeded(3)).astype(np.float64)

    def release(noise: NDArray[np.int64]) -> NDArray[np.float64]:
        return (1 + noise).astype(np.float64) * 2.0

    share = _impossible(outputs, lambda y: [np.rint(y / 2.0).astype(np.int64) - 1], release) / CHUNK
    assert 0.49 < share < 0.51
