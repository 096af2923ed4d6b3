"""Projections in decimal arithmetic: nearest in the set, to many more digits than float64 has."""

from decimal import Context, Decimal, localcontext

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.geometry import Box, GroupL1Ball, L1Ball, L2Ball, Polytope, Simplex, SparseSet, WholeSpace
from discreet.geometry.long_projection import has_long_projection, project_long

D = 5
SETS = [
    WholeSpace(),
    L2Ball(1.3),
    L1Ball(0.9),
    Simplex(2.0),
    Box(-0.2, [0.1, 0.2, 0.3, 0.4, 0.5]),
    GroupL1Ball([0, 0, 1, 2, 2], 0.8),
]


def long(values):
    return [Decimal(float(v)) for v in values]


def inner(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))


@pytest.mark.parametrize("domain", SETS, ids=lambda domain: type(domain).__name__)
def test_nearest_point_to_fifty_digits(domain):
    """⟨w − p, c − p⟩ ≤ 1e-50 for points c of the set: the condition that only the nearest point satisfies."""
    rng = np.random.default_rng(1)
    with localcontext(Context(prec=60)):
        for _ in range(60):
            w = long(rng.normal(size=D) * 10.0 ** rng.integers(-3, 4))
            p = project_long(domain, w)
            back = project_long(domain, p)
            assert max(abs(x - y) for x, y in zip(p, back, strict=True)) <= Decimal("1e-50")
            away = [x - y for x, y in zip(w, p, strict=True)]
            size = 1 + max(abs(x) for x in w)
            for _ in range(8):
                c = project_long(domain, long(rng.normal(size=D) * 10.0 ** rng.integers(-3, 4)))
                toward = [x - y for x, y in zip(c, p, strict=True)]
                assert inner(away, toward) <= Decimal("1e-50") * size * (1 + max(abs(x) for x in c))
            near = domain.project([float(x) for x in w])
            assert np.allclose([float(x) for x in p], near, rtol=1e-12, atol=1e-12)


def test_only_sets_with_a_closed_form_are_known():
    assert all(has_long_projection(domain) for domain in SETS)
    for domain in (SparseSet(2), Polytope(np.eye(D))):
        assert not has_long_projection(domain)
        with pytest.raises(InvalidInput, match=type(domain).__name__):
            project_long(domain, [Decimal(1)] * D)
