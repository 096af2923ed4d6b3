"""Writes golden.json: (event, relation, ε) ↦ δ to 25 digits, by methods that share nothing with the accountants.

- closed form: one Gaussian; T of them; one sampled Gaussian or Laplace (mpmath, 40 digits);
- direct integration: δ of T = 2, 3 sampled Gaussians as the mean of the last step's closed form over the earlier steps;
- enumeration: discrete losses, every outcome of every step (by counts);
- inversion: T ≤ 100 sampled Gaussians by an mpmath Laplace inversion at 40 digits on a contour twice as long and a
  grid twice as
  fine as its error asks for.

Run: python tests/accounting/make_golden.py
"""

# ruff: noqa: E741
from __future__ import annotations

import itertools
import json
from math import comb
from pathlib import Path

import mpmath as mp

from discreet import events as ev

mp.mp.dps = 40
CASES: list[dict[str, object]] = []


def record(event: ev.Event, relation: str, epsilon: float, delta: mp.mpf, source: str) -> None:
    CASES.append(
        {
            "event": event.to_dict(),
            "adjacency": relation,
            "epsilon": epsilon,
            "delta": mp.nstr(delta, 25),
            "source": source,
        }
    )


def gaussian_delta(epsilon, mu):
    e, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


def gaussians() -> None:
    for sigma, steps, relation in itertools.product(
        (0.5, 1.0, 2.0, 10.0, 1000.0), (1, 10, 1000), ("add-remove", "replace-one")
    ):
        reach = 2 if relation == "replace-one" else 1
        mu = mp.sqrt(steps) * reach / mp.mpf(sigma)
        for quantile in (3, 7):
            epsilon = float(mp.mpf(quantile) * mu + mu * mu / 2)
            record(ev.Repeat(ev.Gaussian(sigma), steps), relation, epsilon, gaussian_delta(epsilon, mu), "closed form")


class Sampled:
    """One step of a sampled Gaussian in one direction, in units of C."""

    def __init__(self, sigma, q, kind):
        self.s, self.q, self.kind = mp.mpf(sigma), mp.mpf(q), kind

    def w(self, x):
        return mp.log(1 - self.q + self.q * mp.exp((x - mp.mpf(1) / 2) / self.s**2))

    def loss(self, x):
        if self.kind == "remove":
            return self.w(x)
        if self.kind == "add":
            return -self.w(x)
        return self.w(x) - self.w(-x)

    def density(self, x):
        base = mp.npdf(x, 0, self.s)
        return base if self.kind == "add" else (1 - self.q) * base + self.q * mp.npdf(x, 1, self.s)

    def where(self, loss):
        """x with loss(x) = loss, or None."""
        if self.kind == "replace":
            a = mp.exp(-mp.mpf(1) / 2 / self.s**2) * self.q
            # (1 − q + a z)/(1 − q + a/z) = e^l, z = e^{x/σ²}
            el = mp.exp(loss)
            b = (1 - self.q) * (1 - el)
            z = (-b + mp.sqrt(b * b + 4 * a * a * el)) / (2 * a)
            return self.s**2 * mp.log(z)
        l = loss if self.kind == "remove" else -loss
        inside = (mp.exp(l) - 1 + self.q) / self.q
        return None if inside <= 0 else self.s**2 * mp.log(inside) + mp.mpf(1) / 2

    def delta(self, epsilon):
        x = self.where(epsilon)
        if x is None:
            return (1 - mp.exp(epsilon)) if self.kind == "remove" else mp.mpf(0)
        s, q = self.s, self.q
        if self.kind == "add":  # losses above ε lie left of x
            p = mp.ncdf(x, 0, s)
            other = (1 - q) * p + q * mp.ncdf(x, 1, s)
            return p - mp.exp(epsilon) * other
        base = mp.ncdf(-x, 0, s)
        p = (1 - q) * base + q * mp.ncdf(-(x - 1), 0, s)
        other = base if self.kind == "remove" else (1 - q) * base + q * mp.ncdf(-(x + 1), 0, s)
        return p - mp.exp(epsilon) * other

    def two(self, epsilon):
        """δ of two steps by one integral; the points split the range where the integrand bends."""
        s = self.s
        cuts = [x for x in (self.where(mp.mpf(epsilon)), mp.mpf(0), mp.mpf(1)) if x is not None]
        points = sorted({-12 * s, *cuts, *[c + k * s for c in cuts for k in (-4, -1, 1, 4)], 1 + 12 * s})
        return mp.quad(lambda x: self.density(x) * self.delta(epsilon - self.loss(x)), points)

    def inverted(self, epsilon, steps):
        """δ of many steps by Laplace inversion through a saddle point, M(s) by the trapezoid rule in x."""
        s2, e = self.s**2, mp.mpf(epsilon)
        h = self.s / 24
        xs = [k * h for k in range(int(-14 * self.s / h), int((14 * self.s + 1) / h) + 1)]
        weights = [h * self.density(x) for x in xs]
        losses = [self.loss(x) for x in xs]
        del s2

        def moment(z):
            return mp.fsum(w * mp.exp(z * l) for w, l in zip(weights, losses, strict=True))

        with mp.workdps(15):
            c = min(
                (mp.mpf(k) / 8 for k in range(1, 200)),
                key=lambda c: steps * mp.log(moment(c)) - c * e - mp.log(c * (c + 1)),
            )
        period = 90 / c + 10 * e
        spacing = 2 * mp.pi / period
        total, k = mp.mpf(0), 0
        top = None
        while True:
            z = c + 1j * spacing * k
            term = mp.exp(steps * mp.log(moment(z)) - z * e) / (z * (z + 1))
            total += mp.re(term) * (mp.mpf(1) / 2 if k == 0 else 1)
            top = top or abs(term)
            if abs(term) < mp.mpf(10) ** -24 * top:
                return total * spacing / mp.pi
            k += 1


KINDS = {"add-remove": ("remove", "add"), "replace-one": ("replace",)}


def sampled() -> None:
    for sigma, q, relation in itertools.product((0.5, 1.0, 4.0), (0.001, 0.1, 0.9), KINDS):
        steps = [Sampled(sigma, q, kind) for kind in KINDS[relation]]
        for epsilon in (0.05, 1.0):
            value = max(step.delta(mp.mpf(epsilon)) for step in steps)
            if value > mp.mpf("1e-250"):
                record(ev.Poisson(q, ev.Gaussian(sigma)), relation, epsilon, value, "closed form")
    for (sigma, q, epsilon), relation in itertools.product(
        ((1.0, 0.1, 0.5), (0.7, 0.01, 0.2), (2.0, 0.5, 0.8), (4.0, 0.02, 0.01)), KINDS
    ):
        value = max(Sampled(sigma, q, kind).two(epsilon) for kind in KINDS[relation])
        record(ev.Repeat(ev.Poisson(q, ev.Gaussian(sigma)), 2), relation, epsilon, value, "direct integration")
    for (sigma, q, steps, epsilon), relation in itertools.product(
        ((1.0, 0.1, 10, 1.5), (1.5, 0.2, 50, 4.0), (0.8, 0.05, 100, 3.0), (4.0, 0.3, 100, 2.0), (2.0, 0.05, 30, 0.3)),
        KINDS,
    ):
        value = max(Sampled(sigma, q, kind).inverted(epsilon, steps) for kind in KINDS[relation])
        record(ev.Repeat(ev.Poisson(q, ev.Gaussian(sigma)), steps), relation, epsilon, value, "inversion")


def enumerated(losses, probabilities, infinite, steps, epsilon):
    """δ of steps-fold composition of a few atoms: every count of every atom."""
    e, total = mp.mpf(epsilon), mp.mpf(0)
    kinds = len(losses)
    for counts in itertools.product(range(steps + 1), repeat=kinds - 1):
        rest = steps - sum(counts)
        if rest < 0:
            continue
        all_counts = [*counts, rest]
        ways, left = 1, steps
        for c in all_counts:
            ways *= comb(left, c)
            left -= c
        loss = mp.fsum(c * l for c, l in zip(all_counts, losses, strict=True))
        if loss > e:
            mass = mp.fprod(p**c for c, p in zip(all_counts, probabilities, strict=True))
            total += ways * mass * (1 - mp.exp(e - loss))
    return total + (1 - (1 - mp.mpf(infinite)) ** steps)


def discrete() -> None:
    for eps0, steps, share in itertools.product((0.1, 1.0986122886681098), (1, 10, 100), (0.3, 0.8)):
        e0 = mp.mpf(eps0)
        epsilon = float(share * steps * eps0)
        p = 1 / (1 + mp.exp(-e0))
        value = enumerated([e0, -e0], [p, 1 - p], 0, steps, epsilon)
        record(ev.Repeat(ev.PureDP(eps0), steps), "replace-one", epsilon, value, "enumeration")
        record(ev.Repeat(ev.RandomizedResponse(eps0, 2), steps), "replace-one", epsilon, value, "enumeration")
        z = mp.exp(e0) + 9
        value = enumerated([e0, mp.mpf(0), -e0], [mp.exp(e0) / z, 8 / z, 1 / z], 0, steps, epsilon)
        record(ev.Repeat(ev.RandomizedResponse(eps0, 10), steps), "replace-one", epsilon, value, "enumeration")
        f = mp.mpf(1e-7)
        value = enumerated([e0, -e0], [(1 - f) * p, (1 - f) * (1 - p)], f, steps, epsilon)
        record(ev.Repeat(ev.ApproxDP(eps0, 1e-7), steps), "add-remove", epsilon, value, "enumeration")
    for scale, bound, relation in itertools.product((1.0, 3.0), (1, 2), ("add-remove", "replace-one")):
        moved = bound * (2 if relation == "replace-one" else 1)
        b, far = mp.mpf(scale) * bound, 400
        xs = range(-far, far + 1)
        for kind in ("laplace", "gaussian"):
            law = [mp.exp(-abs(x) / b) if kind == "laplace" else mp.exp(-(x * x) / (2 * b * b)) for x in xs]
            norm = mp.fsum(law) + (2 * mp.exp(-(far + 1) / b) / (1 - mp.exp(-1 / b)) if kind == "laplace" else 0)
            mass = {x: v / norm for x, v in zip(xs, law, strict=True)}
            atoms: dict[object, mp.mpf] = {}
            for x, p in mass.items():
                loss = (
                    (abs(x - moved) - abs(x)) / b
                    if kind == "laplace"
                    else (moved * moved - 2 * x * moved) / (2 * b * b)
                )
                atoms[loss] = atoms.get(loss, mp.mpf(0)) + p
            if kind == "laplace":  # both half-lines beyond the enumeration
                rest = mp.exp(-(far + 1) / b) / (1 - mp.exp(-1 / b)) / norm
                atoms[moved / b] += rest
                atoms[-moved / b] += rest
            make = ev.DiscreteLaplace if kind == "laplace" else ev.DiscreteGaussian
            for steps in (1, 2):
                epsilon = round(0.6 * steps * float(moved / b), 3)
                total = mp.mpf(0)
                if steps == 1:
                    total = mp.fsum(p * (1 - mp.exp(epsilon - l)) for l, p in atoms.items() if l > epsilon)
                else:
                    items = [(l, p) for l, p in atoms.items() if p > mp.mpf(10) ** -40]
                    for (l1, p1), (l2, p2) in itertools.product(items, items):
                        if l1 + l2 > epsilon:
                            total += p1 * p2 * (1 - mp.exp(epsilon - l1 - l2))
                record(ev.Repeat(make(scale, bound), steps), relation, epsilon, total, "enumeration")
    for scale, relation, epsilon in itertools.product((1.0, 5.0), KINDS, (0.01, 0.1)):
        e0 = mp.mpf(2 if relation == "replace-one" else 1) / scale
        one = lambda e, e0=e0: max(mp.mpf(0), 1 - mp.exp((e - e0) / 2)) if e > -e0 else 1 - mp.exp(e)  # noqa: E731
        record(ev.Laplace(scale), relation, epsilon, one(mp.mpf(epsilon)), "closed form")
        # two: average one(ε − L) over the first loss: atoms ½ at ε₀ and ½e^{−ε₀} at −ε₀, density ¼e^{(l−ε₀)/2} between
        e = mp.mpf(epsilon)
        value = one(e - e0) / 2 + mp.exp(-e0) / 2 * one(e + e0)
        bend = [x for x in (e - e0, e + e0, mp.mpf(0)) if -e0 < x < e0]
        value += mp.quad(lambda l: mp.exp((l - e0) / 2) / 4 * one(e - l), [-e0, *sorted(bend), e0])  # noqa: B023
        record(ev.Repeat(ev.Laplace(scale), 2), relation, epsilon, value, "direct integration")


if __name__ == "__main__":
    gaussians()
    sampled()
    discrete()
    Path(__file__).with_name("golden.json").write_text(json.dumps(CASES, indent=0) + "\n", encoding="utf-8")
    print(len(CASES), "cases")
