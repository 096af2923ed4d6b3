"""The compiled samplers compute the function that `discreet.noise.strips` defines, bit for bit.

`by_definition` evaluates that function with mpmath on complete (infinite, eventually constant) digit strings, knowing
nothing of tables, intervals or kernels. Streams are written by hand so as to hit every case that the kernels leave
undecided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import pytest

from discreet.noise import Bits, discrete_gaussian, discrete_laplace, rounded_gaussian, rounded_laplace
from discreet.noise import additive as additive_module
from discreet.noise.additive import draw_rounded
from discreet.noise.strips import Strips, strips_for, try_exactly

Script = Callable[[Sequence[int], int], Bits]
DIGITS = 120
#: Repeated for ever it is a real with a denominator near 2^64, hence never exactly on a boundary, as 1/3 can be.
ENDLESS = 0x3C6EF3721E94F82B


def _mp(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


class Definition:
    """Steps 1 to 3 of the construction, for a density exp(−c·u^p)."""

    def __init__(self, power: int, c: Fraction, places: int | None, unit: Fraction) -> None:
        self.power, self.c, self.places, self.unit = power, c, places, unit
        with mpmath.workdps(DIGITS):
            weights = []
            while not weights or weights[-1] > mpmath.mpf(10) ** -(DIGITS - 10):
                weights.append(mpmath.exp(-_mp(c) * len(weights) ** power))
            total = mpmath.fsum(weights)
            self.distribution = []
            running = mpmath.mpf(0)
            for weight in weights:
                running += weight
                self.distribution.append(running / total)

    def sample(self, trials: Sequence[tuple[int, int]], then: int) -> int:
        """The first sample that is kept; after the given trials all words are ``then``."""
        for first, second in [*trials, *([(then, then)] * 50)]:
            value = self._trial(first, second, then)
            if value is not None:
                return value
        raise AssertionError("the repeated trial is never kept: choose another word")

    def _trial(self, first: int, second: int, then: int) -> int | None:
        rest = Fraction(then, 2**64 - 1)  # the digits "then, then, then, …"
        u = (Fraction(first >> 32) + rest) / 2**32
        v = (Fraction(first & (2**31 - 1)) + rest) / 2**31
        x = (Fraction(second) + rest) / 2**64
        with mpmath.workdps(DIGITS):
            j = bisect_right(self.distribution, _mp(u))
            t = x if self.places is None else Fraction(x * self.places // 1, self.places)
            if _mp(v) >= mpmath.exp(-_mp(self.c * ((j + t) ** self.power - j**self.power))):
                return None
        magnitude = int((self.unit * (j + t) + Fraction(1, 2)) // 1)
        negative = bool(first >> 31 & 1)
        if self.places is not None and negative and magnitude == 0:
            return None
        return -magnitude if negative else magnitude


def rounded(power: int, scale: float) -> Definition:
    cuts = 64 if power == 2 else 32
    c = Fraction(1, 2 * cuts**2) if power == 2 else Fraction(1, cuts)
    return Definition(power, c, None, Fraction(scale) / cuts)


def discrete(power: int, scale: float) -> Definition:
    places = int(-(-Fraction(scale) // (64 if power == 2 else 32)))
    c = Fraction(places**2) / (2 * Fraction(scale) ** 2) if power == 2 else places / Fraction(scale)
    return Definition(power, c, places, Fraction(places))


SCALES = [0.3, 3.0, 31.5, 64.0, 100.7, 2.0**31 + 1, 2.0**45 * 1.1, 2.0**51]
CASES = [
    pytest.param(sampler, make(power, scale), scale, id=f"{sampler.__name__}-{scale:g}")
    for sampler, make, power in (
        (rounded_gaussian, rounded, 2),
        (rounded_laplace, rounded, 1),
        (discrete_gaussian, discrete, 2),
        (discrete_laplace, discrete, 1),
    )
    for scale in SCALES
]


@pytest.mark.parametrize(("sampler", "definition", "scale"), CASES)
def test_ordinary_trials_follow_the_definition(
    sampler: Callable, definition: Definition, scale: float, scripted: Script
) -> None:
    words = [int(w) for w in Bits.seeded(11).words(60)]
    got = [int(sampler(scale, bits=scripted(words[i : i + 2], ENDLESS))) for i in range(0, 60, 2)]
    assert got == [definition.sample([(words[i], words[i + 1])], ENDLESS) for i in range(0, 60, 2)]


def _hard_trials(definition: Definition, seed: int) -> list[tuple[int, int]]:
    """Trials next to a boundary of U, of V, or of X, and in the tail."""
    strips = strips_for(definition.power, definition.c, definition.places == 1)
    filler = [int(w) for w in Bits.seeded(seed).words(400)]
    trials = []
    for k, cell in enumerate(strips.cells.tolist()[:: max(1, strips.cells.size // 12)]):  # U on a cell, or beside it
        for near in (-1, 0, 1):
            u = min(max(cell + near, 0), 2**32 - 1)
            trials.append((u << 32 | filler[k] & 0xFFFFFFFF, filler[k + 100]))
    trials.append((0xFFFFFFFF << 32 | filler[30] & 0xFFFFFFFF, filler[31]))  # the tail
    for k in range(12):  # V beside the exact probability of being kept
        first, second = filler[200 + k], filler[250 + k]
        with mpmath.workdps(DIGITS):
            j = bisect_right(definition.distribution, mpmath.mpf(first >> 32) / 2**32)
            t = Fraction(second, 2**64)
            t = t if definition.places is None else Fraction(t * definition.places // 1, definition.places)
            kept = mpmath.exp(-_mp(definition.c * ((j + t) ** definition.power - j**definition.power)))
            v = min(int(kept * 2**31), 2**31 - 1)
        trials += [(first >> 31 << 31 | max(v + near, 0), second) for near in (-1, 0, 1) if v + near < 2**31]
    for k in range(12):  # X beside a place where the result changes
        first, j = filler[300 + k], k
        u = int(strips.cells[j - 1]) + 1 if 0 < j < strips.cells.size else 0
        first = (u << 32) | (first & (1 << 31)) | (k << 20)  # a small V keeps it
        layer_start = definition.unit * (j if u else 0)
        change = (layer_start + Fraction(1, 2)) // 1 + Fraction(1, 2) - layer_start
        if definition.places is not None:
            change = Fraction(max(1, definition.places // 3))
        x = int(change / definition.unit * 2**64)
        trials += [(first, x + near) for near in (-1, 0, 1) if 0 <= x + near < 2**64]
    return trials


@pytest.mark.parametrize("then", [0, ENDLESS, 0x9E3779B91F4A7C15], ids=["zeros", "endless", "other"])
@pytest.mark.parametrize(("sampler", "definition", "scale"), CASES)
def test_hard_trials_follow_the_definition(
    sampler: Callable,
    definition: Definition,
    scale: float,
    then: int,
    scripted: Script,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact_trials = []

    def spy(*arguments: object) -> object:
        exact_trials.append(arguments)
        return try_exactly(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(additive_module, "try_exactly", spy)
    trials = _hard_trials(definition, 12)
    for first, second in trials:
        got = int(sampler(scale, bits=scripted([first, second], then)))
        assert got == definition.sample([(first, second)], then), (hex(first), hex(second))
    assert len(exact_trials) >= len(trials) // 12, "the exact path was hardly used"


@pytest.mark.parametrize(("sampler", "definition", "scale"), CASES[::3])
def test_the_exact_path_alone_gives_the_same_samples(sampler: Callable, definition: Definition, scale: float) -> None:
    compiled = sampler(scale, 300, bits=Bits.seeded(13))
    strips = strips_for(definition.power, definition.c, definition.places == 1)
    words = Bits.seeded(13).words(4000).tolist()
    exact: list[int] = []
    with Bits.seeded(99).reader() as reader:
        for first, second in zip(words[::2], words[1::2], strict=True):
            kept = try_exactly(strips, first, second, reader, definition.places)
            if kept is None:
                continue
            negative, strip, x = kept
            t = Fraction(x.prefix, 1 << x.known)
            if definition.places is not None:
                t = Fraction(t * definition.places // 1, definition.places)
            magnitude = int((definition.unit * (strip + t) + Fraction(1, 2)) // 1)
            if definition.places is None or magnitude or not negative:
                exact.append(-magnitude if negative else magnitude)
    assert exact[:300] == compiled.tolist()


@pytest.mark.parametrize(
    ("power", "c"), [(2, Fraction(1, 8192)), (1, Fraction(1, 32)), (2, Fraction(7, 3)), (1, Fraction(50))]
)
@pytest.mark.parametrize("bits", [32, 64, 200])
def test_the_distribution_function_is_enclosed(power: int, c: Fraction, bits: int) -> None:
    definition = Definition(power, c, None, Fraction(1))
    enclosures = Strips(power, c, one_place=True).distribution(bits)
    with mpmath.workdps(DIGITS):
        for (lower, upper), value in zip(enclosures, definition.distribution, strict=False):
            assert lower <= value * mpmath.mpf(2) ** bits <= upper
            assert upper - lower <= 2
        missing = 1 - definition.distribution[len(enclosures) - 1]
        assert missing < mpmath.mpf(2) ** -bits


def test_layers_too_steep_for_the_kernels_are_refused() -> None:
    with pytest.raises(AssertionError, match="too wide"):
        Strips(2, Fraction(1, 20))
    with pytest.raises(AssertionError, match="too many"):
        Strips(1, Fraction(1, 100))


def test_a_sample_beyond_its_limit_is_refused_rather_than_wrapped(scripted: Script) -> None:
    # 32 leading ones of U give |Z| = 6.4; the same check stands at 64, where thousands are needed.
    strips = strips_for(2, Fraction(1, 8192))
    tail = [0xFFFFFFFF00000000, 0]
    assert int(draw_rounded(strips, Fraction(2**20, 64), 7 * 2**20, None, scripted(tail, 0))) > 6 * 2**20
    with pytest.raises(OverflowError, match="limit"):
        draw_rounded(strips, Fraction(2**20, 64), 6 * 2**20, None, scripted(tail, 0))
