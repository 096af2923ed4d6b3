"""Where to integrate and how finely, chosen in floats: nothing here is part of a proof.

A poor choice makes a ball of `inversion` wide, never wrong.
"""

from __future__ import annotations

import math

import numpy as np
from tests.accounting.reference.laws import Amplified, Laplacian, Law, Mixed, Normal, Points, Unsupported

__all__ = [
    "ANGLES",
    "Saddle",
    "choose_period",
    "epsilon_near",
    "exponents",
    "last_frequency",
    "log_decay",
    "span",
    "trapezoid_step",
]


def _log_a(x: np.ndarray, law: Mixed) -> np.ndarray:
    nu, q, k = float(law.nu), float(law.rate), law.rows
    if k == 1:
        return np.logaddexp(math.log1p(-q), nu * x - (nu * nu / 2 - math.log(q)))
    terms = [
        math.log(math.comb(k, j)) + j * math.log(q) + (k - j) * math.log1p(-q) + j * nu * x - (j * nu) ** 2 / 2
        for j in range(k + 1)
    ]
    return np.logaddexp.reduce(terms, axis=0)


def exponents(kind: str, c: float) -> tuple[float, float]:
    return {"remove": (1 + c, 0.0), "add": (-c, 0.0), "replace": (1 + c, -c)}[kind]


def log_integrand(x: np.ndarray, law: Mixed, c: float) -> np.ndarray:
    alpha, beta = exponents(law.kind, c)
    return -x * x / 2 + alpha * _log_a(x, law) + (beta * _log_a(-x, law) if beta else 0.0)


def span(law: Mixed, c: float, depth: float) -> tuple[float, float]:
    """Where the integrand exceeds e^{−depth} of its greatest value, roughly."""
    reach = math.sqrt(2 * depth) + 1
    far = float(law.nu) * law.rows * (1 + c) + reach
    x = np.linspace(-reach - (far if law.kind == "add" else 0.0), far, 401)
    height = log_integrand(x, law, c)
    inside = np.flatnonzero(height > height.max() - depth)
    cell = float(x[1] - x[0])
    return min(float(x[inside[0]]) - cell, -1.0), max(float(x[inside[-1]]) + cell, 1.0)


def log_moment(law: Law, c: float) -> float:
    """log E e^{cL} in floats: for choosing points only."""
    match law:
        case Normal(mu_squared):
            return float(mu_squared) * c * (c + 1) / 2
        case Laplacian(shift):
            e0 = float(shift)
            first = c * e0 + math.log((c + 1) / (2 * c + 1))
            return first + math.log1p(math.exp(-(2 * c + 1) * e0) * c / (c + 1))
        case Points(losses, weights):
            exponents = np.log([max(float(w), 1e-300) for w in weights]) + c * np.array([float(x) for x in losses])
            return float(np.logaddexp.reduce(exponents))
        case Amplified():
            raise Unsupported("moments of sampled Laplace noise")
    low, high = span(law, c, 40.0)
    x = np.linspace(low, high, 300)
    height = log_integrand(x, law, c)
    top = float(height.max())
    return top + math.log(float(np.exp(height - top).sum()) * (x[1] - x[0]) / math.sqrt(2 * math.pi))


class Saddle:
    """K(c) = log E e^{cL} of a whole composition, in floats."""

    def __init__(self, laws: list[tuple[Law, int]]) -> None:
        self.laws = laws
        self._known: dict[float, float] = {}

    def cumulant(self, c: float) -> float:
        """K(c)."""
        if c not in self._known:
            self._known[c] = sum(n * log_moment(law, c) for law, n in self.laws)
        return self._known[c]

    def slope(self, c: float) -> float:
        """K′(c), roughly."""
        return (self.cumulant(c * 1.0005) - self.cumulant(c * 0.9995)) / (0.001 * c)

    def best(self, epsilon: float, tilt: float = 0.0, least: float = 0.0) -> float:
        """The c > ``least`` at which K(c) − c(ε + tilt) − log c(c + 1) is least."""

        def height(log_c: float) -> float:
            c = least + math.exp(log_c)
            return self.cumulant(c) - c * (epsilon + tilt) - math.log(c * (c + 1))

        grid = np.linspace(-7.0, 12.0, 20)
        values = [height(float(u)) for u in grid]
        place = int(np.nanargmin(values))
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, 19)])
        for _ in range(12):
            first, second = low + (high - low) * 0.382, low + (high - low) * 0.618
            low, high = (low, second) if height(first) < height(second) else (first, high)
        return least + math.exp((low + high) / 2)

    def log_delta(self, epsilon: float, c: float) -> float:
        """log δ, roughly."""
        spread = max(
            (self.cumulant(1.02 * c) + self.cumulant(0.98 * c) - 2 * self.cumulant(c)) / (0.02 * c) ** 2, 1e-300
        )
        return (
            self.cumulant(c) - c * epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * (spread + 1 / c**2))
        )


def epsilon_near(laws: list[tuple[Law, int]], log_delta: float) -> float:
    """An ε at which log δ is roughly the one given (0 if it is less at 0)."""
    point = Saddle(laws)
    low, high = -6.0, 11.0
    for _ in range(28):
        middle = (low + high) / 2
        c = math.exp(middle)
        found = point.log_delta(point.slope(c), c)
        low, high = (middle, high) if found > log_delta else (low, middle)
    return max(point.slope(math.exp(low)), 0.0)


def trapezoid_step(law: Law, n: int, c: float, mu: float, most: float, depth: float) -> float:
    """The widest trapezoid step whose error in the n-th power, beside the Gaussian part's decay, is e^{−depth}."""
    if not isinstance(law, Mixed):
        return 0.0
    nu = float(law.nu) * law.rows
    turns = 2 if law.kind == "replace" else 1
    omega = np.linspace(0.0, most, 60)
    limit = 0.9 * math.pi / nu
    negative = 0.0 if law.kind == "remove" else c

    def enough(h: float) -> bool:
        a = np.minimum(2 * math.pi / h - turns * omega * nu, limit)
        if a.min() <= 0:
            return False
        exponent = a * a / 2 + turns * omega * nu * a - 2 * math.pi * a / h - negative * np.log(np.cos(nu * a / 2))
        allowed = np.minimum((mu * omega) ** 2 / 2 - depth, -2.0) - math.log(n)
        return bool((exponent - allowed).max() < 0)

    low, high = 1e-5, 1.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def log_decay(law: Mixed, c: float, omega: float, theta: float) -> float:
    """log of the bound of `_decayed` for |M(c + iω)|/M(c), in floats."""
    nu, q = float(law.nu), float(law.rate)
    a = theta / nu
    low, high = span(law, c, 40.0)
    x = np.linspace(low, high, 200)
    height = log_integrand(x, law, c)

    def angle(y: np.ndarray) -> np.ndarray:
        drawn = q * np.exp(np.minimum(nu * y - nu * nu / 2, 500.0))
        return np.arctan2(drawn * math.sin(theta), 1 - q + drawn * math.cos(theta))

    turned = angle(x) + (angle(-x) if law.kind == "replace" else 0.0)
    negative = 0.0 if law.kind == "remove" else c
    whole = np.logaddexp.reduce(height)
    return float(
        np.logaddexp.reduce(height - omega * turned) - whole + a * a / 2 - negative * math.log(math.cos(theta / 2))
    )


ANGLES = (0.1, 0.25, 0.5, 0.9, 1.4)


def last_frequency(others: list[tuple[Law, int]], c: float, mu: float, goal: float) -> float:
    """An ω beyond which the terms are below e^{goal} of the first, roughly."""
    mixed = [(law, n) for law, n in others if isinstance(law, Mixed) and law.rows == 1]
    limit = math.sqrt(-2 * goal) / mu if mu else math.inf
    omega = min(1.0, limit)
    for _ in range(80):
        decay = -((mu * omega) ** 2) / 2
        if decay > goal and (omega > 0.3 * limit or not mu):
            decay += sum(n * min(min(log_decay(law, c, omega, t) for t in ANGLES), 0.0) for law, n in mixed)
        if decay - math.log(omega) < goal:
            return omega
        omega *= 1.2
    raise Unsupported("the moments do not decay")


def choose_period(point: Saddle, epsilon: float, c: float, goal: float) -> tuple[float, float]:
    """A period and a b > c for which both aliasing sums are below e^{goal}."""
    period = (5.0 - goal) / c
    for _ in range(60):
        b = min(point.best(epsilon, period, least=c), 4 * c + 20)  # a larger one needs a longer table of nodes
        if point.cumulant(b) - b * epsilon - (b - c) * period < goal:
            return period, b
        period *= 1.15
    raise Unsupported("no period")
