"""The sampler for GPUs, in its NumPy form: keystream, tables, law, and that its three ways to decide agree."""

from __future__ import annotations

import copy
import math
import weakref
from fractions import Fraction

import numpy as np
import pytest

from discreet.noise import Bits
from discreet.torch.cuda.keystream import chacha20
from discreet.torch.cuda.sampling import SLACK, Scale, exactly, first_look, first_words, sample, second_look
from discreet.torch.cuda.tables import FIRST_OF_TAIL, LAST_STRIP, POINT, Tables, gaussian_tables

KEY = np.array(
    [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89], np.uint32
)
CHI_SQUARE_LIMIT = 4.8  # in standard deviations of Wilson and Hilferty's approximation: error probability below 1e-6


# --- keystream --------------------------------------------------------------------------------------------------------


def rfc_block(key: bytes, nonce: str, counter: int) -> bytes:
    """A block in the layout of RFC 8439: a counter of 32 bits, and a nonce of 96 bits."""
    first, second, third = np.frombuffer(bytes.fromhex(nonce), dtype="<u4")
    whole = np.array([counter | int(first) << 32], dtype=np.uint64).view(np.int64)
    return chacha20(np.frombuffer(key, dtype="<u4"), whole, int(second), int(third))[:, 0].astype("<u4").tobytes()


def test_keystream_has_the_vectors_of_rfc_8439() -> None:
    # Section 2.3.2.
    found = rfc_block(bytes(range(32)), "000000090000004a00000000", 1)
    assert found.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    # Appendix A.1, vectors 1 and 2.
    found = rfc_block(bytes(32), "00" * 12, 0)
    assert found.hex() == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    found = rfc_block(bytes(32), "00" * 12, 1)
    assert found.hex() == (
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )


def test_keystream_is_that_of_another_implementation() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    nonce = np.array([5, 0, 2, 7], dtype="<u4").tobytes()
    other = Cipher(algorithms.ChaCha20(KEY.astype("<u4").tobytes(), nonce), None).encryptor().update(bytes(128))
    ours = chacha20(KEY, np.array([5, 6]), 2, 7).T.astype("<u4").tobytes()
    assert ours == other


def test_no_two_samples_share_words() -> None:
    first, second = first_words(KEY, np.arange(4096))
    blocks = chacha20(KEY, np.arange(512), 0, 0).T.reshape(-1, 2)
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == sorted(map(tuple, blocks.tolist()))


# --- tables -----------------------------------------------------------------------------------------------------------


def proposed(tables: Tables) -> np.ndarray:
    """How many of the 2^22 leading bits of a trial propose each outcome, by enumeration of what the samplers read."""
    words = np.arange(1 << 22, dtype=np.uint64)
    slot = (words >> np.uint64(12)).astype(np.int64)
    entry = tables.packed[slot]
    own = (words & np.uint64(4095)) < (entry & np.uint64(0xFFFF))
    outcome = np.where(own, slot, ((entry >> np.uint64(32)) & np.uint64(0xFFFF)).astype(np.int64))
    return np.bincount(outcome, minlength=1024)


def strip_weight(strip: int) -> tuple[Fraction, Fraction]:
    """Enclosure of exp(−j²/(2·128²)) by another route than the tables': mpmath's interval arithmetic."""
    from mpmath import iv

    iv.prec = 700
    value = iv.exp(-(iv.mpf(strip) ** 2) / (2 * 128**2))
    return Fraction(*_ratio(value.a)), Fraction(*_ratio(value.b))


def _ratio(end) -> tuple[int, int]:
    sign, mantissa, exponent, _ = end._mpi_[0] if hasattr(end, "_mpi_") else end._mpf_
    whole = int(-mantissa if sign else mantissa)
    return (whole << exponent, 1) if exponent >= 0 else (whole, 1 << -exponent)


def law_is_exact(tables: Tables) -> bool:
    """Whether W_j counts the words that propose j, and the tables keep u = j + X with probability κ·exp(−cu²)/W_j ≤ 1.

    Checked are the figures that the samplers read: outcomes of all words, heights A_j, what counts as certain, and the
    sums of the tail.
    """
    counts = proposed(tables)
    if not np.array_equal(counts[: FIRST_OF_TAIL + 1], tables.weights) or counts[FIRST_OF_TAIL + 1 :].any():
        return False
    for slot in range(1024):
        entry, own, other = int(tables.packed[slot]), slot, tables.others[slot]
        for strip, bits in ((own, (entry >> 16) & 0xFFFF), (other, entry >> 48)):
            if strip < FIRST_OF_TAIL:
                least = strip_weight(strip + 1)[0] * tables.kappa / tables.weights[strip]
                if Fraction(bits, 1024) > least:  # keeps somewhere more often than with the probability wanted
                    return False
            elif bits:
                return False
    tail = [0, *tables.tail.tolist()]
    for strip in range(len(tables.heights)):
        low, high = (tables.kappa * end for end in strip_weight(strip))
        if strip < FIRST_OF_TAIL:
            weight = Fraction(int(counts[strip]))
        else:
            k = strip - FIRST_OF_TAIL
            weight = Fraction(int(counts[FIRST_OF_TAIL])) * Fraction(tail[k + 1] - tail[k], 1 << 64)
        height = int(tables.heights[strip])
        if high > weight or not height <= low / weight * 2**64 <= height + 1 + Fraction(1, 2**60):
            return False
    return True


def test_the_tables_give_exactly_the_density() -> None:
    assert law_is_exact(gaussian_tables())


@pytest.mark.parametrize("bug", ["threshold", "alias", "certain", "height", "tail"])
def test_a_wrong_table_is_found(bug: str) -> None:
    tables = copy.copy(gaussian_tables())
    tables.packed, tables.heights, tables.tail = tables.packed.copy(), tables.heights.copy(), tables.tail.copy()
    slot = next(s for s in range(200) if 0 < tables.thresholds[s] < 4096)
    if bug == "threshold":
        tables.packed[slot] += np.uint64(1)
    elif bug == "alias":
        tables.packed[slot] += np.uint64(1 << 32)
    elif bug == "certain":
        tables.packed[slot] += np.uint64(1 << 16)
    elif bug == "height":
        tables.heights[300] += np.uint64(2)
    else:
        tables.tail[3] += np.uint64(1 << 58)
    assert not law_is_exact(tables)


def test_the_tail_goes_on_to_24_standard_deviations() -> None:
    tables, left = gaussian_tables(), Fraction(gaussian_tables().weights[-1], 1 << 22)
    for level, following in zip(tables.levels, [*tables.levels[1:], None], strict=True):
        assert level.mass == left * (1 << 22)
        for strip in (level.first, level.first + len(level.sums) - 1):
            assert tables.kappa * strip_weight(strip)[1] <= level.weight(strip)
        left *= Fraction((1 << 64) - level.sums[-1], 1 << 64)
        assert (following.first if following else LAST_STRIP) == level.first + len(level.sums)
    assert left < Fraction(1, 2**400)
    assert POINT > 700


# --- samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1000.3, 2.0**20, 1.37 * 2.0**36, 2.0**42])
def test_the_three_ways_to_decide_agree(sigma: float) -> None:
    scale, tables, places = Scale.at_least(sigma), gaussian_tables(), np.arange(4000)
    assert scale is not None
    once, settled = first_look(KEY, places, scale, tables)
    twice, left = second_look(KEY, places, scale, tables)
    assert not left.any()
    assert np.array_equal(once[settled], twice[settled])
    doubtful = [*np.flatnonzero(~settled)[:25], *range(25)]
    assert [exactly(KEY, int(i), scale, tables) for i in doubtful] == twice[doubtful].tolist()
    assert np.array_equal(sample(KEY, 4000, scale), twice)


def test_what_fixed_precision_leaves_open_is_decided_exactly() -> None:
    scale = Scale.at_least(2.0**20)
    assert scale is not None
    tables, places = gaussian_tables(), np.arange(20_000)
    unsettled = places[~first_look(KEY, places, scale, tables)[1]]
    _, left = second_look(KEY, unsettled, scale, tables, 1 << 52)
    assert 5 <= left.sum() < len(left)
    assert np.array_equal(sample(KEY, 20_000, scale, 1 << 52), sample(KEY, 20_000, scale, SLACK))


def test_a_wrong_error_bound_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four terms of the series fixed precision decides wrongly, and disagrees with the exact routine."""
    from discreet.torch.cuda import sampling

    scale, tables = Scale.at_least(2.0**20), gaussian_tables()
    assert scale is not None
    strip, x = np.full(64, 500, dtype=np.uint64), (np.arange(64, dtype=np.uint64) << np.uint64(58)) + np.uint64(12345)

    def errors() -> list[int]:
        found = sampling._kept(strip, x, tables).tolist()
        exact = [tables.kept(500, Fraction(int(place), 1 << 64), 64)[0] for place in x]
        return [abs(a - b) for a, b in zip(found, exact, strict=True)]

    assert max(errors()) <= 36
    monkeypatch.setattr(sampling, "TERMS", 4)
    assert max(errors()) > SLACK


def chi_square(samples: np.ndarray, sigma: float) -> float:
    """z-value of the χ² statistic against P(k) = Φ((k + ½)/σ) − Φ((k − ½)/σ), in cells that expect at least 20."""
    from scipy.stats import norm

    most = int(6 * sigma) + 2
    k = np.arange(-most, most + 1)
    observed = np.bincount(np.clip(samples, -most, most) + most, minlength=2 * most + 1)
    expected = (norm.sf((abs(k) - 0.5) / sigma) - norm.sf((abs(k) + 0.5) / sigma)) * samples.size
    cells = np.cumsum(expected) // 20
    observed, expected = (np.bincount(np.unique(cells, return_inverse=True)[1], v) for v in (observed, expected))
    free = len(observed) - 1
    value = ((observed - expected) ** 2 / np.maximum(expected, 1.0)).sum()
    return ((value / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))


@pytest.mark.parametrize("sigma", [0.7, 40.0])
def test_samples_have_the_law_of_rounded_gaussians(sigma: float) -> None:
    """Fixed key; a sampler with the right law would have failed here with probability below 1e-6."""
    scale = Scale.at_least(sigma)
    assert scale is not None
    samples = sample(KEY, 300_000, scale)
    assert abs(chi_square(samples, float(scale.sigma))) < CHI_SQUARE_LIMIT
    assert chi_square(samples, 1.02 * float(scale.sigma)) > CHI_SQUARE_LIMIT  # the test sees an error of 2 %
    assert chi_square(abs(samples), float(scale.sigma)) > CHI_SQUARE_LIMIT  # and a sign that is lost


def test_noise_is_never_smaller_than_asked_for() -> None:
    for sigma in (0.125, 0.3, 1.0, 1.7e6 / 3, math.nextafter(2.0**20, math.inf), math.nextafter(2.0**21, 0), 2.0**42):
        scale = Scale.at_least(sigma)
        assert scale is not None
        assert Fraction(sigma) <= scale.sigma <= Fraction(sigma) * (1 + Fraction(1, 2**20))
        assert 2**20 <= scale.multiplier < 2**21
        assert 16 <= scale.shift <= 61
        widest = scale.multiplier * len(gaussian_tables().heights) << 31
        assert widest + (1 << (scale.shift - 1)) < 1 << 63  # the kernels' products fit 63 bits
    assert Scale.at_least(0.1) is None
    assert Scale.at_least(2.0**43) is None


def test_a_key_is_drawn_for_each_tensor_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from discreet.torch.cuda import noise

    keys = []

    def on_host(device, key, count, scale):
        keys.append((key, key.copy()))
        return torch.from_numpy(sample(key, count, scale))

    monkeypatch.setattr(noise, "sample_on", on_host)
    bits = Bits.seeded(3)
    first, second = (noise.drawn(bits, 100, 50.0, torch.device("cpu")) for _ in range(2))
    assert not torch.equal(first, second)
    assert not np.array_equal(keys[0][1], keys[1][1])
    assert not any(key.any() for key, _ in keys)


def test_noise_is_drawn_for_a_part_of_the_tensors_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry gets the reference's sample of its part's key, and what was added is dropped before the next part."""
    torch = pytest.importorskip("torch")
    from discreet.torch.cuda import noise

    drawn, alive = [], []

    def on_host(device, key, count, scale):
        alive.append(sum(one() is not None for one, _, _ in drawn))
        found = torch.from_numpy(sample(key, count, scale))
        drawn.append((weakref.ref(found), key.copy(), count))
        return found

    monkeypatch.setattr(noise, "sample_on", on_host)
    monkeypatch.setattr(noise, "LEAST", 50)
    total = [torch.full(shape, 5) for shape in ((10, 10), (7,), (), (60, 2), (3, 40), (100,), (1,))]
    found = noise.released(Bits.seeded(1), total, 50.0, 0.25)
    assert [tuple(one.shape) for one in found] == [tuple(one.shape) for one in total]
    assert [count for _, _, count in drawn] == [100 + 7 + 1 + 120, 120, 101]
    assert alive == [0, 0, 0]
    assert len({key.tobytes() for _, key, _ in drawn}) == 3
    scale = Scale.at_least(50.0)
    wanted = np.concatenate([sample(key, count, scale) for _, key, count in drawn])
    assert torch.cat([one.reshape(-1) for one in found]).tolist() == (0.25 * (wanted + 5)).tolist()


def test_samples_have_32_bits_only_where_the_farthest_one_fits() -> None:
    torch = pytest.importorskip("torch")
    from discreet.torch.cuda import noise
    from discreet.torch.cuda.tables import LAST_STRIP, STRIPS

    for sigma in (0.3, 2.0**20, 2.0**26, 2.0**26.3, 2.0**26.5, 2.0**27, 2.0**40):
        scale = Scale.at_least(sigma)
        assert scale is not None
        farthest = math.ceil(float(scale.sigma) * LAST_STRIP / STRIPS)
        assert noise._kind(float(scale.sigma)) is torch.int64 or farthest < 2**31
    assert noise._kind(2.0**20) is torch.int32


def test_a_training_adds_the_noise_of_the_device_to_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from discreet.mechanisms import Gaussian
    from discreet.torch.cuda import noise
    from discreet.torch.engine import Clip, ExampleGradients
    from discreet.torch.rounds import ClippedGradientSum, GradientRound

    keys = []

    def on_host(device, key, count, scale):
        keys.append(key.copy())
        return torch.from_numpy(sample(key, count, scale))

    engine = ExampleGradients(torch.nn.Linear(5, 3), Clip(1.0), slots=4, grid=2.0**20)
    query = ClippedGradientSum(engine, 0.5, share_within=0.1)
    made = GradientRound(query, Gaussian(1.3), None, None, "cpu")
    total = [torch.full_like(one, 7) for one in query.zero()]
    assert not noise.available(torch.device("cpu"), 1.3 * query.bound, 19)
    monkeypatch.setattr(noise, "available", lambda device, sigma, count: True)
    monkeypatch.setattr(noise, "sample_on", on_host)
    released = made._noisy(total, Bits.seeded(0))
    scale = Scale.at_least(math.nextafter(1.3 * query.bound, math.inf))
    (key,) = keys
    wanted = sample(key, 19, scale) + 7
    assert torch.cat([one.reshape(-1) for one in released.gradients]).tolist() == (query.grid * wanted[:18]).tolist()
    assert released.within == pytest.approx(wanted[18] / (2 * query.half_weight))
    assert scale.sigma >= Fraction(1.3) * query.bound  # never less noise than the event says
