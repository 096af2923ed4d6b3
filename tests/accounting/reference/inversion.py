"""δ(ε) as a ball, for a composition with a Gaussian part, by inverting its moment generating function.

With M(s) = E e^{sL}, c > 0 and g(ω) = M(c + iω)e^{−(c+iω)ε}/((c + iω)(c + 1 + iω)),

    (1/2π) ∫ g(ω) e^{−iωu} dω = e^{cu} δ(ε + u)   for every real u,

so by Poisson summation, with step d and period p = 2π/d,

    (d/2π) Σ_k g(kd) = δ(ε) + Σ_{n≥1} e^{cnp} δ(ε + np) + Σ_{n≥1} e^{−cnp} δ(ε − np).

The last sum is in [0, 1/(e^{cp} − 1)]; the one before in [0, B/(e^{(b−c)p} − 1)], B = M(b)e^{−bε}, for any b > c,
because δ(ε) ≤ M(b)e^{−bε}. The terms beyond the last k fall faster than a geometric series, since the Gaussian part has
|M(c + iω)| = M(c)e^{−μ²ω²/2} and no other part exceeds its M(c).

The moments of a sampled Gaussian are ∫ φ(x)A(x)^α A(−x)^β dx (see `Mixed`), by the trapezoid rule with step h. For
|Im x| ≤ a and θ = kνa < π the terms of A lie in a sector of angle θ: |A(x + iy)| is between cos(θ/2)A(x) and A(x), and
its argument between 0 and θ. The rule therefore errs by at most

    2 e^{a²/2} cos(θ/2)^{−c₋} e^{m|ω|θ} M(c)/(e^{2πa/h} − 1),

c₋ the size of the negative exponents, m = 1, or 2 under ``replace`` where A(x) and A(−x) turn against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import acb, acb_mat, arb
from tests.accounting.reference.laws import Laplacian, Law, Mixed, Normal, Points, Unsupported

__all__ = ["Saddle", "invert", "saddle"]

_DEPTHS = (46.0, 27.0)  # errors of about e^{−46} of δ are aimed at, else of e^{−27}; what is proved is in the ball
_MOST_WORK = 2_000_000


def _log_a(x: np.ndarray, law: Mixed) -> np.ndarray:
    nu, q, k = float(law.nu), float(law.rate), law.rows
    terms = [
        math.log(math.comb(k, j)) + j * math.log(q) + (k - j) * math.log1p(-q) + j * nu * x - (j * nu) ** 2 / 2
        for j in range(k + 1)
    ]
    return np.logaddexp.reduce(terms, axis=0)


def _exponents(kind: str, c: float) -> tuple[float, float]:
    return {"remove": (1 + c, 0.0), "add": (-c, 0.0), "replace": (1 + c, -c)}[kind]


def _log_integrand(x: np.ndarray, law: Mixed, c: float) -> np.ndarray:
    alpha, beta = _exponents(law.kind, c)
    return -x * x / 2 + alpha * _log_a(x, law) + (beta * _log_a(-x, law) if beta else 0.0)


def _range(law: Mixed, c: float, depth: float) -> tuple[float, float]:
    """Where the integrand exceeds e^{−depth} of its greatest value, roughly."""
    reach = math.sqrt(2 * depth) + 1
    far = float(law.nu) * law.rows * (1 + c) + reach
    x = np.linspace(-reach - (far if law.kind == "add" else 0.0), far, 4001)
    height = _log_integrand(x, law, c)
    inside = np.flatnonzero(height > height.max() - depth)
    return min(float(x[inside[0]]), -1.0), max(float(x[inside[-1]]), 1.0)


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
    low, high = _range(law, c, 40.0)
    x = np.linspace(low, high, 1200)
    height = _log_integrand(x, law, c)
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
        spread = max((self.cumulant(1.02 * c) + self.cumulant(0.98 * c) - 2 * self.cumulant(c)) / (0.02 * c) ** 2, 1e-300)
        return self.cumulant(c) - c * epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * (spread + 1 / c**2))


def saddle(laws: list[tuple[Law, int]], log_delta: float) -> float:
    """An ε at which log δ is roughly the one given (0 if it is less at 0)."""
    point = Saddle(laws)
    low, high = -6.0, 11.0
    for _ in range(28):
        middle = (low + high) / 2
        c = math.exp(middle)
        found = point.log_delta(point.slope(c), c)
        low, high = (middle, high) if found > log_delta else (low, middle)
    return max(point.slope(math.exp(low)), 0.0)


@dataclass(frozen=True)
class _Nodes:
    """Σ t_j e^{iωℓ_j} and how it is from the moments: a constant part, and the trapezoid rule's part."""

    terms: list[arb]
    losses: list[arb]
    cut: arb
    law: Mixed | None = None
    step: arb = arb(0)
    c: float = 0.0

    def error(self, omega: float, total: arb) -> arb:
        """|Σ − M(c + iω)| at most."""
        if self.law is None:
            return self.cut
        law, h = self.law, float(self.step)
        rate = (2 if law.kind == "replace" else 1) * omega * float(law.nu) * law.rows
        a = max(min(2 * math.pi / h - rate, 0.9 * math.pi / (float(law.nu) * law.rows)), 1e-3)
        width = arb(a)
        theta = law.nu * law.rows * width
        negative = 0.0 if law.kind == "remove" else self.c
        turns = (2 if law.kind == "replace" else 1) * arb(omega) * theta
        size = (width * width / 2 + turns).exp() / (theta / 2).cos() ** arb(negative)
        rule = 2 * size / ((2 * arb.pi() * width / self.step).exp() - 1)
        # M(c) ≤ Σ + its own error, which is of the same size or less: total is the sum with that allowed for
        return (rule * total + self.cut).upper()


def _a(x: arb, law: Mixed) -> tuple[arb, arb]:
    """A(x) and the mean of j under its terms."""
    q, k, nu = law.rate, law.rows, law.nu
    if k == 1:
        drawn = q * (nu * x - nu * nu / 2).exp()
        total = 1 - q + drawn
        return total, drawn / total
    terms = [math.comb(k, j) * q**j * (1 - q) ** (k - j) * (j * nu * x - (j * nu) ** 2 / 2).exp() for j in range(k + 1)]
    total = sum(terms, arb(0))
    return total, sum((j * t for j, t in enumerate(terms)), arb(0)) / total


def _mixed_nodes(law: Mixed, c: float, h: float, depth: float) -> _Nodes:
    low, high = _range(law, c, depth + 12)
    first, last = math.floor(low / h), math.ceil(high / h)
    alpha, beta = (arb(e) for e in _exponents(law.kind, c))
    step = arb(h)
    scale = step / (2 * arb.pi()).sqrt()
    logs = {}
    mirrored = law.kind == "replace"
    for j in {*range(first, last + 1), *(range(-last, -first + 1) if mirrored else ())}:
        total, share = _a(step * j, law)
        logs[j] = (total.log(), share)
    terms, losses = [], []
    for j in range(first, last + 1):
        x, here = step * j, logs[j][0]
        there = logs[-j][0] if mirrored else arb(0)
        terms.append(scale * (-x * x / 2 + alpha * here + beta * there).exp())
        losses.append(here - there if mirrored else here if law.kind == "remove" else -here)
    # beyond the ends: going out by h the integrand changes by at most e^{h(slope − |x|)}, and the slope only falls
    left = (-alpha) * law.nu * logs[first][1] if law.kind == "add" else arb(0)
    right = arb(0) if law.kind == "add" else alpha * law.nu * law.rows
    if mirrored:
        right += -beta * law.nu * logs[-last][1]
    cut = arb(0)
    for end, slope, term in ((step * -first, left, terms[0]), (step * last, right, terms[-1])):
        ratio = (step * (slope - end)).exp()
        if not ratio < 1:
            raise Unsupported("the tail of the trapezoid rule")
        cut += term * ratio / (1 - ratio)
    return _Nodes(terms, losses, cut.upper(), law, step, c)


def _nodes(law: Law, c: float, h: float, depth: float) -> _Nodes:
    if isinstance(law, Points):
        weights = [w * (arb(c) * loss).exp() for w, loss in zip(law.weights, law.losses, strict=True)]
        return _Nodes(weights, list(law.losses), arb(0))
    assert isinstance(law, Mixed)
    return _mixed_nodes(law, c, h, depth)


def _total(nodes: _Nodes) -> arb:
    """M(c) ≤ this: the sum and its own error, solved for M(c)."""
    total = sum(nodes.terms, arb(0))
    if nodes.law is None:
        return total
    share = nodes.error(0.0, arb(1)) - nodes.cut
    if not share < 0.5:
        raise Unsupported("the trapezoid rule is too coarse")
    return ((total + nodes.cut) / (1 - share)).upper()


def _step(law: Law, n: int, c: float, mu: float, most: float, depth: float) -> float:
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


def _float_decay(law: Mixed, c: float, omega: float, theta: float) -> float:
    """log of the bound of `_decayed` for |M(c + iω)|/M(c), in floats."""
    nu, q = float(law.nu), float(law.rate)
    a = theta / nu
    low, high = _range(law, c, 40.0)
    x = np.linspace(low, high, 800)
    height = _log_integrand(x, law, c)

    def angle(y: np.ndarray) -> np.ndarray:
        drawn = q * np.exp(nu * y - nu * nu / 2)
        return np.arctan2(drawn * math.sin(theta), 1 - q + drawn * math.cos(theta))

    turned = angle(x) + (angle(-x) if law.kind == "replace" else 0.0)
    negative = 0.0 if law.kind == "remove" else c
    whole = np.logaddexp.reduce(height)
    return float(np.logaddexp.reduce(height - omega * turned) - whole + a * a / 2 - negative * math.log(math.cos(theta / 2)))


_ANGLES = (0.1, 0.25, 0.5, 0.9, 1.4)


def _last(others: list[tuple[Law, int]], c: float, mu: float, goal: float) -> float:
    """An ω beyond which the terms are below e^{goal} of the first, roughly."""
    mixed = [(law, n) for law, n in others if isinstance(law, Mixed) and law.rows == 1]
    omega = 1.0
    for _ in range(80):
        decay = -((mu * omega) ** 2) / 2
        if decay > goal:
            decay += sum(n * min(min(_float_decay(law, c, omega, t) for t in _ANGLES), 0.0) for law, n in mixed)
        if decay - math.log(omega) < goal:
            return omega
        omega *= 1.2
    raise Unsupported("the moments do not decay")


def _decayed(law: Mixed, c: float, omega: arb, total: arb) -> arb:
    """|M(c + iw)| at most, for every w ≥ ω: M(c), or less by moving the line of integration to Im x = a.

    There |A(x + ia)^{iw}| = e^{−w arg A(x + ia)} with an argument that is positive and rises with x, so that a sum over
    cells, each factor at its worse end, bounds the integral. (Under ``add`` the line is Im x = −a.)
    """
    if law.rows != 1:
        return total
    theta = min(_ANGLES, key=lambda t: _float_decay(law, c, float(omega), t))
    if _float_decay(law, c, float(omega), theta) > -0.01:
        return total
    sine, cosine = arb(theta).sin_cos()
    q, nu = law.rate, law.nu
    low, high = _range(law, c, 60.0)
    alpha, beta = (arb(e) for e in _exponents(law.kind, c))
    cells = 300
    width = arb((high - low) / cells)

    def at(j: int, sign: int) -> tuple[arb, arb]:
        drawn = q * (nu * sign * (arb(low) + width * j) - nu * nu / 2).exp()
        return (1 - q + drawn).log(), (drawn * sine / (1 - q + drawn * cosine)).atan()

    here = [at(j, 1) for j in range(cells + 1)]
    there = [at(j, -1) for j in range(cells + 1)] if law.kind == "replace" else [(arb(0), arb(0))] * (cells + 1)
    cumulative = [(-(arb(low) + width * j) / arb(2).sqrt()).erfc() / 2 for j in range(cells + 1)]
    bound = arb(0)
    for j in range(cells):
        growth = alpha * here[j + 1 if law.kind != "add" else j][0] + beta * there[j + 1][0]
        mass = cumulative[j + 1] - cumulative[j]
        bound += mass * (growth - omega * (here[j][1] + there[j + 1][1])).exp()
    bound += _beyond(law, c, low, high)
    negative = arb(0.0 if law.kind == "remove" else c)
    shift = arb(theta) / nu
    return (bound * (shift * shift / 2).exp() / arb(theta / 2).cos() ** negative).min(total).upper()


def _beyond(law: Mixed, c: float, low: float, high: float) -> arb:
    """∫ φ(x)A(x)^α A(−x)^β dx outside of [low, high]: there it falls at least like e^{−(|x| − slope)·distance}."""
    alpha, beta = (arb(e) for e in _exponents(law.kind, c))
    bound = arb(0)
    for end, side in ((arb(low), -1), (arb(high), 1)):
        (here, share), (there, other) = _a(end, law), _a(-end, law)
        if law.kind == "add":
            slope = -alpha * law.nu * share if side < 0 else arb(0)
        else:
            slope = alpha * law.nu * law.rows - beta * law.nu * other if side > 0 else arb(0)
        fall = abs(end) - slope
        if not fall > 0:
            raise Unsupported("the tail of an integral")
        value = (-end * end / 2 + alpha * here.log() + beta * there.log()).exp() / (2 * arb.pi()).sqrt()
        bound += value / fall
    return bound


def _moments(nodes: _Nodes, spacing: arb, count: int) -> list[acb]:
    """Σ t_j e^{ikdℓ_j} for k = 0 … count − 1, as one matrix product of powers."""
    width = math.isqrt(count - 1) + 1
    turns = [acb(0, spacing * loss).exp() for loss in nodes.losses]
    small = [[acb(1)] * len(turns)]
    for _ in range(width - 1):
        small.append([a * b for a, b in zip(small[-1], turns, strict=True)])
    giant = [a * b for a, b in zip(small[-1], turns, strict=True)]
    large = [[acb(t) for t in nodes.terms]]
    for _ in range((count - 1) // width):
        large.append([a * b for a, b in zip(large[-1], giant, strict=True)])
    product = acb_mat(large) * acb_mat(small).transpose()
    return [product[k // width, k % width] for k in range(count)]


def _ball(radius: arb) -> acb:
    both = (-radius).union(radius)
    return acb(both, both)


def _laplace_moment(shift: arb, s: acb) -> acb:
    """E e^{sL}: ½ at ε₀, ½e^{−ε₀} at −ε₀, the density ¼e^{(l−ε₀)/2} between."""
    return ((s * shift).exp() * (s + 1) + (-(s + 1) * shift).exp() * s) / (2 * s + 1)


def _period(point: Saddle, epsilon: float, c: float, goal: float) -> tuple[float, float]:
    """A period and a b > c for which both aliasing sums are below e^{goal}."""
    period = (5.0 - goal) / c
    for _ in range(60):
        b = point.best(epsilon, period, least=c)
        if point.cumulant(b) - b * epsilon - (b - c) * period < goal:
            return period, b
        period *= 1.15
    raise Unsupported("no period")


def invert(laws: list[tuple[Law, int]], epsilon: float) -> arb:
    """A ball that holds δ(ε) of the finite losses."""
    try:
        return _invert(laws, epsilon, _DEPTHS[0])
    except Unsupported:
        return _invert(laws, epsilon, _DEPTHS[1])


def _invert(laws: list[tuple[Law, int]], epsilon: float, depth: float) -> arb:
    mu_squared = sum((n * law.mu_squared for law, n in laws if isinstance(law, Normal)), arb(0))
    others = [(law, n) for law, n in laws if not isinstance(law, Normal)]
    point = Saddle(laws)
    c = point.best(epsilon)
    goal = point.log_delta(epsilon, c) - depth + 6
    period, b = _period(point, epsilon, c, goal)
    spacing = 2 * arb.pi() / arb(period)
    mu = math.sqrt(float(mu_squared))
    count = int(_last(others, c, mu, goal - point.cumulant(c) + c * epsilon) * period / (2 * math.pi)) + 4
    most = count * 2 * math.pi / period
    product = [acb(1)] * count
    edge, far = arb(1), arb(1)
    for law, n in others:
        if isinstance(law, Laplacian):
            for k in range(count):
                product[k] = product[k] * _laplace_moment(law.shift, acb(arb(c), spacing * k)) ** n
            edge *= abs(_laplace_moment(law.shift, acb(c))) ** n
            far *= abs(_laplace_moment(law.shift, acb(b))) ** n
            continue
        h = _step(law, n, c, mu, most, depth)
        _refuse_if_long(law, c, h, count)
        nodes = _nodes(law, c, h, depth)
        total = _total(nodes)
        for k, value in enumerate(_moments(nodes, spacing, count)):
            product[k] = product[k] * (value + _ball(nodes.error(float((spacing * k).upper()), total))) ** n
        edge *= (_decayed(law, c, spacing * count, total) if isinstance(law, Mixed) else total) ** n
        far *= _total(_nodes(law, b, _step(law, n, b, mu, 0.0, depth), depth)) ** n
    return _sum(product, (edge, far), mu_squared, epsilon, (c, b), spacing)


def _refuse_if_long(law: Law, c: float, h: float, count: int) -> None:
    if isinstance(law, Mixed):
        low, high = _range(law, c, 60.0)
        if (high - low) / h * count > _MOST_WORK or (high - low) / h > 20_000:
            raise Unsupported("too many nodes")
    elif isinstance(law, Points) and len(law.losses) * count > _MOST_WORK:
        raise Unsupported("too many nodes")


def _sum(
    product: list[acb], sizes: tuple[arb, arb], mu_squared: arb, epsilon: float, at: tuple[float, float], spacing: arb
) -> arb:
    edge, far = sizes
    c, b = arb(at[0]), arb(at[1])
    e = arb(epsilon)
    total = arb(0)
    for k, moment in enumerate(product):
        s = acb(c, spacing * k)
        value = moment * (mu_squared * s * (s + 1) / 2 - s * e).exp() / (s * (s + 1))
        total += value.real if k == 0 else 2 * value.real
    omega = spacing * len(product)
    # |g(ω)| ≤ edge/ω² and Σ_{k≥K} 1/(kd)² ≤ 1/(K − 1)d²
    edge *= (mu_squared * (c * (c + 1) - omega * omega) / 2 - c * e).exp()
    rest = (2 * edge / (omega - spacing) / spacing).upper()
    total += (-rest).union(rest)
    period = 2 * arb.pi() / spacing
    behind = 1 / ((c * period).exp() - 1)
    ahead = far * (mu_squared * b * (b + 1) / 2 - b * e).exp() / (((b - c) * period).exp() - 1)
    return spacing / (2 * arb.pi()) * total - arb(0).union((behind + ahead).upper())
