"""The constrained minimiser's true divergence, over a disc, against the profile of the minimiser without a set.

Inside the disc the density is that of the unconstrained minimiser. On its circle θ = r·n the tilt is any
b = −∇J(θ) − m·n with m ≥ 0, and (φ, m) ↦ b has the Jacobian r·τᵀ∇²J τ + m with τ the tangent, so the density in φ is an
integral over m. Both parts are quadratures of smooth functions.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from discreet.accounting.exact.objective_perturbation import objective_profile
from discreet.accounting.exact.pairs import GaussianPair
from discreet.events import ObjectivePerturbation

ANGLES = np.linspace(0, 2 * np.pi, 361)[:-1]
DEPTHS = (np.arange(200) + 0.5) / 200


def derivatives(theta, rows, ridge):
    """∇J and ∇²J (as h11, h12, h22) at points (2, …) for logistic rows (x, y) in the plane."""
    gradient = ridge * theta
    curved = [ridge, 0.0, ridge]
    for (x1, x2), y in rows:
        s = 1 / (1 + np.exp(np.clip(y * (x1 * theta[0] + x2 * theta[1]), -700, 700)))
        gradient = gradient - y * s * np.array([x1, x2])[:, None, None]
        curved = [h + s * (1 - s) * c for h, c in zip(curved, (x1 * x1, x1 * x2, x2 * x2), strict=True)]
    return gradient, curved


def masses(rows, ridge, sigma, radius):
    """Probabilities of polar cells inside the disc, and of arcs of its circle."""
    normal = np.array([np.cos(ANGLES), np.sin(ANGLES)])
    theta = radius * normal[:, None, :] * DEPTHS[None, :, None]
    g, (h11, h12, h22) = derivatives(theta, rows, ridge)
    density = norm.pdf(g[0], scale=sigma) * norm.pdf(g[1], scale=sigma) * (h11 * h22 - h12**2)
    step = ANGLES[1]
    inside = density * radius * DEPTHS[:, None] * (radius / len(DEPTHS)) * step
    g, (h11, h12, h22) = derivatives(radius * normal[:, None, :], rows, ridge)
    tangent = np.array([-normal[1], normal[0]])
    bend = h11 * tangent[0] ** 2 + 2 * h12 * tangent[0] * tangent[1] + h22 * tangent[1] ** 2
    m = np.linspace(0, 12 * sigma + 4 + 2 * ridge * radius, 1501)[:, None]
    b = g + m * normal[:, None, :]
    values = norm.pdf(b[0], scale=sigma) * norm.pdf(b[1], scale=sigma) * (radius * bend + m)
    return np.concatenate([inside.ravel(), np.trapezoid(values, m[:, 0], axis=0) * step])


OTHERS = [((0.6, 0.5), 1.0), ((-0.3, 0.9), -1.0), ((0.8, -0.6), -1.0)]
ONE, OPPOSITE = ((1.0, 0.0), 1.0), ((1.0, 0.0), -1.0)


@pytest.mark.parametrize(("sigma", "ridge", "eps"), [(2.0, 1.0, 1.0), (1.0, 2.0, 0.6), (3.0, 0.3, 1.0)])
@pytest.mark.parametrize("radius", [0.4, 3.0])
@pytest.mark.parametrize("others", [[], OTHERS * 3], ids=len)
def test_minimising_within_a_disc_costs_no_more(others, radius, sigma, ridge, eps):
    base, more, turned = (masses(rows, ridge, sigma, radius) for rows in (others, [*others, ONE], [*others, OPPOSITE]))
    assert base.sum() == pytest.approx(1, abs=2e-4)
    event = ObjectivePerturbation(sigma, math.log1p(0.25 / ridge), link=1 / ridge)
    for relation, pairs in {"add-remove": [(more, base), (base, more)], "replace-one": [(more, turned)]}.items():
        found = max(float(np.maximum(p - math.exp(eps) * q, 0).sum()) for p, q in pairs)
        bound = float(objective_profile(event, relation)(np.array([eps]))[0])
        assert found <= bound + 2e-4


def test_the_disc_hides_little_of_a_contradicting_row():
    """A row against thirty others has its whole slope on the circle: the divergence is nearly that of the gradient."""
    others, sigma, ridge, eps = [((1.0, 0.0), -1.0)] * 30, 1.0, 1.0, 1.0
    p, q = (masses(rows, ridge, sigma, 3.0) for rows in ([*others, ONE], others))
    found = float(np.maximum(p - math.exp(eps) * q, 0).sum())
    assert (
        found
        <= objective_profile(ObjectivePerturbation(sigma, math.log1p(0.25), link=1.0), "add-remove")(np.array([eps]))[0]
    )
    assert found > 0.25 * GaussianPair(1.0).profile(np.array([eps]))[0]
