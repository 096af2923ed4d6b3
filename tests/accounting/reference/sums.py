"""δ(ε) as a ball, by closed forms and by finite sums of positive terms.

δ of a composition is the mean of one part's profile over the losses of the others: δ(ε) = Σ w δ₁(ε − l). The one part
may be all Gaussians together, all Laplace releases of one scale together, one sampled Gaussian, or nothing, whose
profile is (1 − e^ε)₊. The others are finitely many losses, which are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from flint import acb, arb, arb_poly
from tests.accounting.reference.laws import Amplified, Laplacian, Law, Mixed, Normal, Points, Unsupported

__all__ = ["enumerate_losses", "gaussian_profile", "laplace_profile", "mixed_profile", "positive_sum"]

Profile = Callable[[arb], arb]
_MOST_TERMS = 12_000
_NEGLIGIBLE = arb(2) ** -400


def _above(x: arb) -> arb:
    """P(N(0, 1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def nothing_profile(epsilon: arb) -> arb:
    """(1 − e^ε)₊: no release at all."""
    if epsilon >= 0:
        return arb(0)
    value = -epsilon.expm1()
    return value if epsilon < 0 else arb(0).union(value.upper()) if value.upper() > 0 else arb(0)


def gaussian_profile(mu_squared: arb, epsilon: arb) -> arb:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    mu = mu_squared.sqrt()
    return _above(epsilon / mu - mu / 2) - epsilon.exp() * _above(epsilon / mu + mu / 2)


def laplace_profile(shift: arb, times: int, epsilon: arb) -> arb:
    """``times`` Laplace releases, each moved by ε₀ scales, by residues.

    M(s)ⁿ = Σ_j C(n, j) e^{−jε₀} e^{s(n−2j)ε₀} (s + 1)^{n−j} s^j/(2s + 1)ⁿ, so δ(ε) is the sum over those j with
    u = (n − 2j)ε₀ − ε > 0 of C(n, j)e^{−jε₀} times the residues of (s + 1)^{n−j−1} s^{j−1} e^{su}/(2s + 1)ⁿ at
    −½, at 0 (j = 0) and at −1 (j = n). Where u = 0 they add up to 0.
    """
    total = arb(0)
    for j in range(times + 1):
        u = (times - 2 * j) * shift - epsilon
        if u <= 0:
            continue
        value = _residue_at_half(times, j, u)
        value += 1 if j == 0 else 0
        value -= (-u).exp() if j == times else 0
        if not u > 0:
            value = arb(0).union(value)
        total += math.comb(times, j) * (-j * shift).exp() * value
    return total


def _residue_at_half(n: int, j: int, u: arb) -> arb:
    """With t = s + ½: the coefficient of t^{n−1} in (t + ½)^{n−j−1}(t − ½)^{j−1}e^{tu}, times e^{−u/2}/2ⁿ."""
    half = arb(1) / 2
    product = arb_poly([u**i / math.factorial(i) for i in range(n)])
    for sign, power in ((1, n - j - 1), (-1, j - 1)):
        if power < 0:  # 1/(t ± ½) as a power series
            product *= arb_poly([sign * 2 * arb(-2 * sign) ** i for i in range(n)])
        else:
            product *= arb_poly([sign * half, 1]) ** power
    return product[n - 1] * (-u / 2).exp() / arb(2) ** n


def mixed_profile(law: Mixed, epsilon: arb) -> arb:
    """One sampled Gaussian: the likelihood ratio rises with x, so δ is a difference of two tails."""
    if law.rows != 1:
        raise Unsupported("a closed form for several rows")
    nu, q, ratio = law.nu, law.rate, epsilon.exp()
    if law.kind == "replace":
        # (1 − q + bz)/(1 − q + b/z) = e^ε with z = e^{νx}, b = qe^{−ν²/2}
        b = q * (-nu * nu / 2).exp()
        linear = (1 - q) * (1 - ratio)
        root = (linear * linear + 4 * b * b * ratio).sqrt()
        z = (root - linear) / (2 * b) if epsilon >= 0 else 2 * b * ratio / (root + linear)
        x = z.log() / nu
        p = (1 - q) * _above(x) + q * _above(x - nu)
        return p - ratio * ((1 - q) * _above(x) + q * _above(x + nu))
    inside = (ratio if law.kind == "remove" else 1 / ratio) - 1 + q
    if inside <= 0:
        return 1 - ratio if law.kind == "remove" else arb(0)
    if not inside > 0:
        raise Unsupported("ε at the edge of the losses")
    x = (inside / q).log() / nu + nu / 2
    if law.kind == "remove":
        return (1 - q) * _above(x) + q * _above(x - nu) - ratio * _above(x)
    return _above(-x) - ratio * ((1 - q) * _above(-x) + q * _above(nu - x))


def amplified_profile(law: Amplified, epsilon: arb) -> arb:
    """q·δ(1 + (α − 1)/q), or (1 − α(1 − q))·δ(αq/(1 − α(1 − q))), by the definition of both mixtures; α = e^ε."""
    q, ratio = law.rate, epsilon.exp()
    if law.kind == "remove":
        inside = (ratio - 1 + q) / q
        if inside <= 0:
            return 1 - ratio
        weight = q
    else:
        weight = 1 - ratio * (1 - q)
        if weight <= 0:
            return arb(0)
        inside = ratio * q / weight
    if not (inside > 0 and weight > 0):
        raise Unsupported("ε at the edge of the losses")
    return weight * laplace_profile(law.shift, 1, inside.log())


def amplified_beside(law: Amplified, mu_squared: arb, epsilon: arb) -> arb:
    """One release of Laplace noise on a sample beside Gaussians: E δ_G(ε − L), an integral between two atoms.

    With noise at x, likelihoods of moved to unmoved are e^{−s} left of 0, e^{2x−s} on [0, s] and e^s right of s.
    """
    s, q, mu = law.shift, law.rate, mu_squared.sqrt()
    sign, root = (1 if law.kind == "remove" else -1), arb(2).sqrt()

    def gaussian(e: acb) -> acb:
        return ((e / mu - mu / 2) / root).erfc() / 2 - e.exp() * ((e / mu + mu / 2) / root).erfc() / 2

    def part(unmoved: acb, moved: acb, ratio: acb, analytic: bool) -> acb:
        mass = (1 - q) * unmoved + q * moved if law.kind == "remove" else unmoved
        return mass * gaussian(epsilon - sign * (1 - q + q * ratio).log(analytic))

    far = (-s).exp()
    total = part(acb(1) / 2, acb(far) / 2, acb(far), False) + part(acb(far) / 2, acb(1) / 2, acb(1 / far), False)
    total += acb.integral(
        lambda x, analytic: part((-x).exp() / 2, (x - s).exp() / 2, (2 * x - s).exp(), analytic), acb(0), acb(s)
    )
    return total.real


def _repeated(law: Points, times: int) -> list[tuple[arb, arb]]:
    """Losses and probabilities of ``times`` independent draws."""
    if law.lattice:
        if len(law.losses) == 1:
            return [(times * law.losses[0], law.weights[0] ** times)]
        step = law.losses[1] - law.losses[0]
        weights = _binomial(law, times) if len(law.losses) == 2 else list(arb_poly(list(law.weights)) ** times)
        return [(times * law.losses[0] + i * step, w) for i, w in enumerate(weights)]
    if len(law.losses) ** times > 4 * _MOST_TERMS:
        raise Unsupported("too many terms")
    found = [(arb(0), arb(1))]
    for _ in range(times):
        found = [(a + b, v * w) for a, v in found for b, w in zip(law.losses, law.weights, strict=True)]
    return found


def _binomial(law: Points, times: int) -> list[arb]:
    no, yes = law.weights
    weight = no**times
    found = [weight]
    for i in range(times):
        weight = weight * yes / no * (times - i) / (i + 1)
        found.append(weight)
    return found


def enumerate_losses(laws: Iterable[tuple[Points, int]]) -> tuple[list[tuple[arb, arb]], arb]:
    """Every sum of losses with its probability, and a bound of the probability that was left out."""
    found, missing = [(arb(0), arb(1))], arb(0)
    for law, times in laws:
        size = (len(law.losses) - 1) * times + 1 if law.lattice else len(law.losses) ** times
        if size * len(found) > _MOST_TERMS:
            raise Unsupported("too many terms")
        kept = []
        for loss, weight in _repeated(law, times):
            for other, share in found:
                product = weight * share
                if product < _NEGLIGIBLE:
                    missing += product.abs_upper()
                else:
                    kept.append((loss + other, product))
        found = kept
        missing += times * law.missing
    return found, missing.upper()


def positive_sum(laws: list[tuple[Law, int]], epsilon: float) -> arb:
    """A ball that holds δ(ε) of the finite losses."""
    points = [(law, n) for law, n in laws if isinstance(law, Points)]
    smooth = [(law, n) for law, n in laws if not isinstance(law, Points)]
    found, missing = enumerate_losses(points)
    profile = _profile(smooth)
    total = arb(0)
    for loss, weight in found:
        total += weight * profile(arb(epsilon) - loss)
    return total + arb(0).union(missing)


def _profile(smooth: list[tuple[Law, int]]) -> Profile:
    if not smooth:
        return nothing_profile
    if all(isinstance(law, Normal) for law, _ in smooth):
        mu_squared = sum((n * law.mu_squared for law, n in smooth if isinstance(law, Normal)), arb(0))
        return lambda e: gaussian_profile(mu_squared, e)
    noisy = [law for law, n in smooth if isinstance(law, Amplified) and n == 1]
    normal = [(law, n) for law, n in smooth if isinstance(law, Normal)]
    if len(noisy) == 1 and normal and len(normal) + 1 == len(smooth):
        beside = sum((n * law.mu_squared for law, n in normal), arb(0))
        return lambda e: amplified_beside(noisy[0], beside, e)
    if len(smooth) == 1:
        law, n = smooth[0]
        if isinstance(law, Laplacian):
            return lambda e: laplace_profile(law.shift, n, e)
        if isinstance(law, Amplified) and n == 1:
            return lambda e: amplified_profile(law, e)
        if isinstance(law, Mixed) and n == 1:
            return lambda e: mixed_profile(law, e)
    raise Unsupported("no closed form")
