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

from flint import acb, acb_mat, arb
from tests.accounting.reference.laws import Laplacian, Law, Mixed, Normal, Points, Unsupported
from tests.accounting.reference.saddle import (
    ANGLES,
    Saddle,
    choose_period,
    exponents,
    last_frequency,
    log_decay,
    span,
    trapezoid_step,
)

__all__ = ["invert"]

_DEPTHS = (46.0, 36.0, 27.0)  # errors of e^{−46} of δ are aimed at, or where that is long of e^{−36}, e^{−27}
_MOST_FREQUENCIES = 6_000


@dataclass(frozen=True)
class _Nodes:
    """Σ t_j e^{iωℓ_j} and how it is from the moments: a constant part, and the trapezoid rule's part."""

    terms: list[arb]
    losses: list[arb]
    cut: arb
    law: Mixed | None = None
    step: arb | None = None
    c: float = 0.0

    def error(self, omega: float, total: arb) -> arb:
        """|Σ − M(c + iω)| at most."""
        if self.law is None or self.step is None:
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
    low, high = span(law, c, depth + 12)
    first, last = math.floor(low / h), math.ceil(high / h)
    alpha, beta = (arb(e) for e in exponents(law.kind, c))
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


def _decayed(law: Mixed, c: float, omega: arb, total: arb) -> arb:
    """|M(c + iw)| at most, for every w ≥ ω: M(c), or less by moving the line of integration to Im x = a.

    There |A(x + ia)^{iw}| = e^{−w arg A(x + ia)} with an argument that is positive and rises with x, so that a sum over
    cells, each factor at its worse end, bounds the integral. (Under ``add`` the line is Im x = −a.)
    """
    if law.rows != 1:
        return total
    theta = min(ANGLES, key=lambda t: log_decay(law, c, float(omega), t))
    if log_decay(law, c, float(omega), theta) > -0.01:
        return total
    sine, cosine = arb(theta).sin_cos()
    q, nu = law.rate, law.nu
    low, high = span(law, c, 60.0)
    alpha, beta = (arb(e) for e in exponents(law.kind, c))
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
    alpha, beta = (arb(e) for e in exponents(law.kind, c))
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


def invert(laws: list[tuple[Law, int]], epsilon: float, effort: int = 8_000_000) -> arb:
    """A ball that holds δ(ε) of the finite losses; ``effort`` is the most nodes × frequencies of one law."""
    for depth in _DEPTHS[:-1]:
        try:
            return _invert(laws, epsilon, depth, effort)
        except Unsupported:
            continue
    return _invert(laws, epsilon, _DEPTHS[-1], effort)


def _invert(laws: list[tuple[Law, int]], epsilon: float, depth: float, effort: int) -> arb:
    mu_squared = sum((n * law.mu_squared for law, n in laws if isinstance(law, Normal)), arb(0))
    others = [(law, n) for law, n in laws if not isinstance(law, Normal)]
    point = Saddle(laws)
    c = point.best(epsilon)
    goal = point.log_delta(epsilon, c) - depth + 6
    period, b = choose_period(point, epsilon, c, goal)
    spacing = 2 * arb.pi() / arb(period)
    mu = math.sqrt(float(mu_squared))
    count = int(last_frequency(others, c, mu, goal - point.cumulant(c) + c * epsilon) * period / (2 * math.pi)) + 4
    if count > _MOST_FREQUENCIES:
        raise Unsupported("too many frequencies")
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
        h = trapezoid_step(law, n, c, mu, most, depth)
        _refuse_if_long(law, c, h, count, effort)
        nodes = _nodes(law, c, h, depth)
        total = _total(nodes)
        for k, value in enumerate(_moments(nodes, spacing, count)):
            product[k] = product[k] * (value + _ball(nodes.error(float((spacing * k).upper()), total))) ** n
        edge *= (_decayed(law, c, spacing * count, total) if isinstance(law, Mixed) else total) ** n
        far *= _total(_nodes(law, b, trapezoid_step(law, n, b, mu, 0.0, depth), depth)) ** n
    return _sum(product, (edge, far), mu_squared, epsilon, (c, b), spacing)


def _refuse_if_long(law: Law, c: float, h: float, count: int, effort: int) -> None:
    if isinstance(law, Mixed):
        low, high = span(law, c, 60.0)
        if (high - low) / h * count > effort or (high - low) / h > 20_000:
            raise Unsupported("too many nodes")
    elif isinstance(law, Points) and len(law.losses) * count > effort:
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
