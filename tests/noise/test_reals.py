from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.noise.reals import Uniform, below, exp_minus, floor_log2
from discreet.noise.strips import scaled_floor

rationals = st.builds(
    lambda x, y, k: Fraction(x, y) * Fraction(2) ** k,
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.integers(-120, 12),
)


@given(rationals, st.integers(1, 400))
@settings(max_examples=400, deadline=None)
def test_exp_minus_encloses_the_exponential(x: Fraction, bits: int) -> None:
    lower, upper = exp_minus(x, bits)
    with mpmath.workprec(bits + 200):
        value = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert lower <= value <= upper
    assert upper - lower <= 2


@given(rationals.filter(bool))
def test_floor_log2(x: Fraction) -> None:
    k = floor_log2(x)
    assert Fraction(2) ** k <= x < Fraction(2) ** (k + 1)


def _never() -> int:
    raise AssertionError("no further bits are needed")


def test_below_is_decided_by_the_first_bits_that_settle_it() -> None:
    third = Fraction(1, 3)

    def real(bits: int) -> tuple[int, int]:
        return int(third * 2**bits), int(third * 2**bits) + 1

    assert below(Uniform(_never, 0x5555, 16 + 1), real)  # 0x5555 / 2^17 < 1/6
    assert not below(Uniform(_never, 0x5556, 16), real)
    # 0x5555 / 2^16 is the beginning of 1/3 itself: only the following bits tell.
    for words, answer in (([0], True), ([0x5555555555555555] * 3 + [0x5555555555555556], False)):
        source = iter(words)
        assert below(Uniform(lambda source=source: next(source), 0x5555, 16), real) is answer  # type: ignore[misc]
        assert next(source, None) is None, "exactly as many words as were needed"


@pytest.mark.parametrize(
    ("prefix", "word", "expected"), [(0, 0, 0), (0x5555, 0, 0), (0x5555, 2**64 - 1, 1), (0xFFFF, 7, 2)]
)
def test_scaled_floor_reads_on_when_the_next_integer_is_near(prefix: int, word: int, expected: int) -> None:
    assert scaled_floor(Uniform(lambda: word, prefix, 16), 3) == expected
