"""Sparse gradients and the *population* risk F(θ) = E ℓ(θ; z) of n independent rows: stochastic convex optimisation.

After Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024, with explicit constants; proofs in ``docs/maths/theory.md``.
"""

from __future__ import annotations

import math

from discreet.theory.bound import Bound, require, require_count, require_non_negative, require_positive
from discreet.theory.fingerprinting import spaced
from discreet.theory.perturbation import output_perturbation_inf
from discreet.theory.sparse import log_packing
from discreet.units import Adjacency, Unit

__all__ = ["output_perturbation_inf_population", "sparse_population_lower_bound"]


def output_perturbation_inf_population(
    *, n: int, d: int, sparsity: int, lipschitz: float, regularisation: float, noise_std: float, target_norm: float
) -> Bound:
    """`output_perturbation_inf` on new rows: λ‖θ*‖²/2 + 2L√s·σ·E max|g_i| + 2L²/(λn), θ* the best for the population.

    Replacing a row moves the minimiser of a λ-strongly convex mean by at most 2L/(λn), so new rows' losses exceed the
    old ones' by at most L times that on average (Bousquet–Elisseeff 2002; Shalev-Shwartz et al. 2010).

    Raises:
        HypothesisViolated: a constant that is not positive.

    Example:
        >>> args = dict(d=10**4, sparsity=4, lipschitz=1.0, regularisation=0.1, noise_std=0.001, target_norm=1.0)
        >>> round(output_perturbation_inf_population(n=1000, **args).parts["stability"], 12)
        0.02
    """
    require_count(n=n)
    empirical = output_perturbation_inf(
        d=d,
        sparsity=sparsity,
        lipschitz=lipschitz,
        regularisation=regularisation,
        noise_std=noise_std,
        target_norm=target_norm,
    )
    stability = 2 * lipschitz**2 / (regularisation * n)
    return Bound.of(f"{empirical.theorem}, population risk", **empirical.parts, stability=stability)


def sparse_population_lower_bound(
    *, n: int, d: int, s: int, bound: float, radius: float, epsilon: float, adjacency: Adjacency, delta: float = 0.0
) -> Bound:
    """No (ε, δ)-DP algorithm has a smaller worst-case expected excess population risk on ‖θ‖₂ ≤ R.

    The class is that of convex, L-Lipschitz losses with s-sparse gradients. The larger of two bounds for linear losses:
    without privacy, whether one coordinate is a little more often L or −L; with it, which of M supports a row of each
    of K blocks has, where a block's number of rows is now binomial, and E e^{εK_j} takes the place of e^{εk} in
    `sparse_erm_lower_bound`.

    Example:
        >>> args = dict(n=10_000, d=10**6, s=10, bound=1.0, radius=1.0, adjacency="replace-one")
        >>> lower = [sparse_population_lower_bound(epsilon=eps, **args) for eps in (0.01, 10.0)]
        >>> [round(float(one.value), 4) for one in lower], [next(iter(one.parts)) for one in lower]
        ([0.0884, 0.0025], ['privacy', 'statistics'])
    """
    require_count(n=n, d=d, s=s)
    require_positive(bound=bound, radius=radius, epsilon=epsilon)
    require_non_negative(delta=delta)
    require(delta < 1, f"δ < 1, got {delta}")
    unit = Unit.of(adjacency)
    require(unit.rows_per_unit == 1, "one row a unit")
    private = _packed_blocks(n, d, s, epsilon, delta, 1 if unit.relation == "replace-one" else 2)
    statistical = _two_points(n)
    scale = radius * bound
    if private > statistical:
        return Bound.of("block packing lower bound, population risk", privacy=scale * private)
    return Bound.of("two-point lower bound, population risk", statistics=scale * statistical)


def _two_points(n: int) -> float:
    """max over γ of γ(1 − √(n·KL/2)), KL = γ·ln((1 + γ)/(1 − γ)) of one row: Le Cam and Pinsker, at L = R = 1."""
    shares = (i / (64 * math.sqrt(n)) for i in range(1, 64))
    return max(g * max(0.0, 1 - math.sqrt(n * g * math.atanh(g))) for g in shares)


def _packed_blocks(n: int, d: int, s: int, epsilon: float, delta: float, per_row: int) -> float:
    """The largest excess at L = R = 1 that the construction proves: q√K·P(miss)/8, each block having q of the mass."""
    best, step = 0.0, math.expm1(min(epsilon * per_row, 700.0))
    for sparsity in {min(2**j, s) for j in range(s.bit_length() + 1)}:
        for blocks in spaced(d // sparsity):
            log_m = log_packing(d // blocks, sparsity)
            growths = [log_m - math.log(c) for c in (1.5, 2, 4)]  # of ln E e^{εK_j}
            if delta > 0:
                growths += [math.log1p(math.expm1(min(epsilon, 700.0)) / (c * delta)) for c in (2, 4)]
            for growth in growths:
                if growth <= 0:
                    continue
                share = min(math.expm1(min(growth / n, 700.0)) / step, 1 / blocks)
                grown = n * math.log1p(share * step)
                hit = math.exp(min(grown - log_m, 0.0))
                if delta > 0:
                    hit += delta * math.expm1(min(grown, 700.0)) / math.expm1(min(epsilon, 700.0))
                best = max(best, share * math.sqrt(blocks) * max(0.0, 1 - hit) / 8)
    return best
