"""The enclosed eigenvalue against exact elimination in fractions, whatever the float64 eigenvalue says."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.queries.kernels import cholesky
from discreet.queries.sums.certified_eigenvalue import least_eigenvalue, room


def definite(matrix, shift):
    """Whether every pivot of matrix − shift·I is positive, in fractions."""
    rows = [[Fraction(int(v)) - (shift if i == j else 0) for j, v in enumerate(row)] for i, row in enumerate(matrix)]
    for k in range(len(rows)):
        if rows[k][k] <= 0:
            return False
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return True


def grams(rng):
    """Integer Gram matrices of every kind: tiny and of trace near 2^57, singular, nearly so, and of equal rows."""
    for _ in range(60):
        d = int(rng.integers(1, 7))
        n = int(rng.integers(1, 2 * d + 2))
        X = rng.integers(-(2**13), 2**13, (n, d)) // (d * 2 ** rng.integers(0, 14, d))
        times = int(2 ** rng.integers(0, 25))
        yield (
            d,
            [
                [times * sum(int(a) * int(b) for a, b in zip(X[:, i], X[:, j], strict=True)) for j in range(d)]
                for i in range(d)
            ],
        )
    yield 2, [[2**56, 2**56 - 1], [2**56 - 1, 2**56]]
    yield 3, [[2**55 + 3 * (i == j) for j in range(3)] for i in range(3)]


def no_convergence(matrix):
    raise np.linalg.LinAlgError


HINTS = {
    "good": np.linalg.eigvalsh,
    "high": lambda matrix: np.full(len(matrix), 1e17),
    "low": lambda matrix: np.full(len(matrix), -1e17),
    "none": lambda matrix: np.full(len(matrix), np.nan),
    "error": no_convergence,
}


@pytest.mark.parametrize("hint", HINTS)
def test_within_its_room_of_the_exact_eigenvalue(hint, monkeypatch):
    monkeypatch.setattr(np.linalg, "eigvalsh", HINTS[hint])
    rng = np.random.default_rng(1)
    positive = 0
    for d, exact in grams(rng):
        gram = np.array(exact, np.int64)
        assert gram.trace() <= 2**57
        q = least_eigenvalue(gram)
        assert definite(exact, q - room(d))
        assert not definite(exact, q + room(d))
        positive += q > room(d)
    assert positive > 20  # in that many cases 0 would not have been an answer


def test_every_outcome_of_a_factorisation_is_bounded():
    """At shifts around the eigenvalue: success only below it and failure only above it, up to 9γT + 3uT."""
    rng = np.random.default_rng(2)
    outcomes = []
    for d, exact in grams(rng):
        gram = np.array(exact, np.int64)
        trace = int(gram.trace())
        slack = Fraction(10 * (d + 3) * trace, 2**53) + 1
        q = least_eigenvalue(gram)
        for s in sorted({max(0, q + int(k) * room(d) // 4) for k in range(-4, 9)}):
            matrix = gram - np.diag(np.full(d, float(s)))
            ends = cholesky.factors(matrix, np.zeros((d, d)))
            assert definite(exact, s - slack) if ends else not definite(exact, s + slack)
            outcomes.append(ends)
    assert 100 < sum(outcomes) < len(outcomes) - 100


def test_empty_data_has_the_eigenvalue_zero():
    assert least_eigenvalue(np.zeros((4, 4), np.int64)) == 0
