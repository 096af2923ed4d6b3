from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidInput
from discreet.noise import Bits, ball_limit, rounded_gamma_ball
from discreet.noise import ball as ball_module
from discreet.noise.strips import Strips, strips_for


@pytest.mark.parametrize("d", [1, 2, 7])
def test_norm_and_direction_have_their_laws(d: int, error_probability: float) -> None:
    bits = Bits.seeded(1)
    scale = 2.0**30
    sample = np.array([rounded_gamma_ball(scale, d, bits=bits) for _ in range(5000)]) / scale
    norms = np.linalg.norm(sample, axis=1)
    assert stats.kstest(norms, stats.gamma(d).cdf).pvalue > error_probability
    if d > 1:
        # The first coordinate of a uniform direction, mapped to [0, 1], is Beta((d−1)/2, (d−1)/2).
        cosine = (sample[:, 0] / norms + 1) / 2
        assert stats.kstest(cosine, stats.beta((d - 1) / 2, (d - 1) / 2).cdf).pvalue > error_probability
        assert stats.spearmanr(norms, np.abs(sample[:, 0]) / norms).pvalue > error_probability
    for i in range(d):
        assert stats.binomtest(int((sample[:, i] > 0).sum()), 5000).pvalue > error_probability


def test_in_one_dimension_it_is_the_rounded_laplace(error_probability: float) -> None:
    bits = Bits.seeded(2)
    sample = np.array([rounded_gamma_ball(0.8, 1, bits=bits)[0] for _ in range(10_000)])
    for k, chance in ((0, 1 - np.exp(-0.5 / 0.8)), (1, np.exp(-0.5 / 0.8) * (1 - np.exp(-1 / 0.8)) / 2)):
        assert stats.binomtest(int((sample == k).sum()), sample.size, chance).pvalue > error_probability


@pytest.mark.parametrize("scale", [0.3, 5.0, 2.0**40 * 1.3, Fraction(2**45, 3)])
def test_coordinates_are_the_rounded_reals(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[ball_module._Reals] = []

    class Recorded(ball_module._Reals):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            kept.append(self)

    monkeypatch.setattr(ball_module, "_Reals", Recorded)
    got = rounded_gamma_ball(scale, 40, bits=Bits.seeded(3))
    normals, exponentials = kept
    with mpmath.workdps(150):
        g = [mpmath.mpf(x) / 2**normals.known / 64 for x in normals.digits]
        r = mpmath.fsum(mpmath.mpf(x) / 2**exponentials.known / 32 for x in exponentials.digits)
        exact = Fraction(scale)
        length = mpmath.sqrt(mpmath.fsum(x * x for x in g))
        b = [int(mpmath.floor(exact.numerator * r * x / length / exact.denominator + 0.5)) for x in g]
    assert got.tolist() == [-x if negative else x for x, negative in zip(b, normals.negative, strict=True)]


def test_digits_are_refined_until_every_coordinate_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rounded_gamma_ball(2.0**30, 5, bits=Bits.seeded(4))
    refusals = [None, None, None]
    actual_round = ball_module._round

    def hesitant(*arguments: object) -> list[int] | None:
        return refusals.pop() if refusals else actual_round(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ball_module, "_round", hesitant)
    assert np.array_equal(rounded_gamma_ball(2.0**30, 5, bits=Bits.seeded(4)), expected)
    assert not refusals
    # With 64 bits only, a scale of 2^62 leaves some coordinate open in a few of 300 draws.
    monkeypatch.undo()
    open_ended = 0
    for seed in range(300):
        with Bits.seeded(seed).reader() as reader:
            normals = ball_module._Reals(strips_for(2, Fraction(1, 8192)), 5, reader)
            exponentials = ball_module._Reals(strips_for(1, Fraction(1, 32)), 5, reader)
            open_ended += ball_module._round(Fraction(2**62), normals, exponentials) is None
    assert 0 < open_ended < 300


def test_a_settled_coordinate_stays_settled_whatever_the_later_digits() -> None:
    words = iter(Bits.seeded(7).words(4000).tolist())
    settled = 0
    for _ in range(200):
        # Twelve binary digits of each real, and then all continuations by zeros or by ones.
        normals, exponentials = ([next(words) % 2**12 + 1 for _ in range(3)] for _ in range(2))
        coarse = _round(normals, exponentials, 5)
        if coarse is not None:
            settled += 1
            for ends in product((0, 2**64 - 1), repeat=6):
                finer = [(x << 64) + end for x, end in zip(normals + exponentials, ends, strict=True)]
                assert _round(finer[:3], finer[3:], 5 + 64) == coarse
    assert 20 < settled < 180


def _round(normals: list[int], exponentials: list[int], known: int) -> list[int] | None:
    g, r = (SimpleNamespace(digits=digits, known=known) for digits in (normals, exponentials))
    return ball_module._round(Fraction(64), g, r)  # type: ignore[arg-type]


def test_trials_that_the_kernel_leaves_open_keep_their_bits() -> None:
    # Tables whose cells stop every trial, so that each X comes from the exact path with 64 bits or more.
    strips = Strips(2, Fraction(1, 8192))
    with Bits.seeded(5).reader() as reader:
        compiled = ball_module._Reals(strips, 20, reader)
    strips.guide[:] = 0
    strips.cells = np.unique(Bits.seeded(5).words(400) >> np.uint64(32))
    with Bits.seeded(5).reader() as reader:
        exact = ball_module._Reals(strips, 20, reader)
        assert len(exact._late) == 20
        first = list(exact.digits)
        exact.refine()
        assert [x >> 64 for x in exact.digits] == first
        for i, x in exact._late.items():
            assert exact.digits[i] % 2**128 == x.prefix >> (x.known - 128)
    assert compiled.known == 64
    assert exact.digits[0] >> 64 == compiled.digits[0]


def test_the_largest_scale_depends_on_the_dimension() -> None:
    d = 10
    largest = 2**62 // ball_limit(d)
    assert np.abs(rounded_gamma_ball(largest, d, bits=Bits.seeded(6)) / largest).max() < 60
    with pytest.raises(InvalidInput, match="overflow"):
        rounded_gamma_ball(largest + 1, d)


@pytest.mark.parametrize(("scale", "d"), [(0.0, 3), (-1.0, 3), (float("nan"), 3), (1.0, 0), (1.0, 2.0)])
def test_impossible_arguments_are_refused(scale: float, d: int) -> None:
    with pytest.raises(InvalidInput):
        rounded_gamma_ball(scale, d)
