"""What a theorem returns, and the arithmetic that theorems share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from types import MappingProxyType

import numpy as np

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry import L1Ball
from discreet.units import Adjacency, Unit

__all__ = [
    "Bound",
    "expected_max_abs_normal",
    "gamma_noise_std",
    "gaussian_noise_std",
    "harmonic",
    "require",
    "require_count",
    "require_non_negative",
    "require_positive",
    "symmetric_noise_norm",
    "top_exponential",
    "top_gaussian",
    "zcdp_budget",
]

_SUMMED = 10**6  # terms of the harmonic series that are added up


@dataclass(frozen=True)
class Bound:
    """A proved bound: its value, the parts that add up to it, the theorem it comes from, and of what it is one.

    Example:
        >>> bound = Bound.of("an example", optimisation=0.25, privacy=0.5)
        >>> float(bound), dict(bound.parts)
        (0.75, {'optimisation': 0.25, 'privacy': 0.5})
    """

    value: float
    parts: Mapping[str, float] = field(repr=False)
    theorem: str
    quantity: str = "excess risk"

    @classmethod
    def of(cls, theorem: str, **parts: float) -> Bound:
        """The bound that is the sum of these parts."""
        return cls(sum(parts.values()), MappingProxyType(parts), theorem)

    def capped(self, trivial: float) -> Bound:
        """The bound, or the trivial one where that is less: what holds for every answer in the set.

        Example:
            >>> bound = Bound.of("an example", privacy=7.0).capped(2.0)
            >>> float(bound), dict(bound.parts)
            (2.0, {'trivial': 2.0})
        """
        if not trivial < self.value:
            return self
        return Bound(trivial, MappingProxyType({"trivial": trivial}), self.theorem, self.quantity)

    def __float__(self) -> float:
        return float(self.value)


def require(holds: bool, hypothesis: str) -> None:
    """Refuse to state a theorem outside its hypotheses."""
    if not holds:
        raise HypothesisViolated(f"the theorem needs {hypothesis}.")


def require_positive(**values: float) -> None:
    """Every value must be positive and finite."""
    for name, value in values.items():
        if not (_is_finite(value) and value > 0):
            raise HypothesisViolated(f"the theorem needs a positive finite {name}, got {value!r}.")


def require_non_negative(**values: float) -> None:
    """Every value must be finite and at least 0."""
    for name, value in values.items():
        if not (_is_finite(value) and value >= 0):
            raise HypothesisViolated(f"the theorem needs a finite {name} of at least 0, got {value!r}.")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def require_count(**values: int) -> None:
    """Every value must be a positive integer."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise HypothesisViolated(f"the theorem needs a positive integer {name}, got {value!r}.")


def zcdp_budget(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion ρ + 2√(ρ ln(1/δ)) is at most ε (Bun–Steinke 2016, Proposition 1.3).

    A closed form for rates and plans. It is a little pessimistic; the noise of a fit comes from the accountant.

    Example:
        >>> rho = zcdp_budget(1.0, 1e-6)
        >>> round(rho + 2 * math.sqrt(rho * math.log(1e6)), 12)
        1.0
    """
    if not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon}.")
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1, got {delta}.")
    if math.isinf(epsilon):
        return math.inf
    log = math.log(1 / delta)
    # (√(log + ε) − √log)², written without cancellation.
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def gaussian_noise_std(bound: float, n: int, rho: float, adjacency: Adjacency, releases: int = 1) -> float:
    """The noise in each coordinate of a mean of n rows, each of norm at most ``bound``, released so many times for ρ.

    σ = Δ/n·√(releases/(2ρ)), with Δ = 2·bound under replace-one and bound under add-remove.

    Example:
        >>> gaussian_noise_std(1.0, n=100, rho=0.5, adjacency="replace-one", releases=4)
        0.04
    """
    require_positive(bound=bound, rho=rho)
    require_count(n=n, releases=releases)
    return Unit.of(adjacency).sensitivity(bound) / n * math.sqrt(releases / (2 * rho))


def gamma_noise_std(d: int, scale: float) -> float:
    """The standard deviation of each coordinate of noise with density ∝ exp(−‖b‖₂/scale) in d dimensions.

    ‖b‖ is Gamma(d)-distributed and its direction uniform, so E b_j² = E‖b‖²/d = (d + 1)·scale².

    Example:
        >>> gamma_noise_std(3, 0.5)
        1.0
    """
    require_count(d=d)
    require_non_negative(scale=scale)
    return scale * math.sqrt(d + 1)


def symmetric_noise_norm(d: int, off_diagonal_std: float, failure: float) -> float:
    """‖E‖ ≤ 2τ(√d + √ln(2/p)) but for a probability p, E symmetric with independent Gaussian entries.

    Off the diagonal they have standard deviation τ, on it at most √2·τ. Comparing uᵀEu with 2τ⟨g, u⟩ (Slepian–Fernique)
    gives E λ_max ≤ 2τ√d, and λ_max is a √2τ-Lipschitz function of the standard normals behind it.

    Raises:
        HypothesisViolated: p outside (0, 1).

    Example:
        >>> round(symmetric_noise_norm(100, 1.0, 0.05), 2)
        23.84
    """
    require_count(d=d)
    require_non_negative(off_diagonal_std=off_diagonal_std)
    require(0 < failure < 1, f"a probability of failure in (0, 1), got {failure}")
    return 2 * off_diagonal_std * (math.sqrt(d) + math.sqrt(math.log(2 / failure)))


@lru_cache(maxsize=64)
def expected_max_abs_normal(d: int) -> float:
    """E max_i |g_i| over d standard normals."""
    return float(L1Ball(1.0).gaussian_width(d).value)


@lru_cache(maxsize=64)
def harmonic(d: int) -> float:
    """H_d = 1 + 1/2 + … + 1/d: the mean of the largest |w_i| over d Laplace variables of scale 1.

    Example:
        >>> round(harmonic(2), 12), round(harmonic(10**9), 6)
        (1.5, 21.300482)
    """
    require_count(d=d)
    if d > _SUMMED:  # ln d + γ + 1/(2d) − 1/(12d²) + …, alternating: cut after a term of 1e-13
        return math.log(d) + float(np.euler_gamma) + 1 / (2 * d)
    return float((1.0 / np.arange(1, d + 1)).sum())


def top_gaussian(k: int, d: int) -> float:
    """An upper bound on √E‖top_k(g)‖₂² for g ~ N(0, I_d): the noise seen by the worst k of d coordinates.

    For every level t², the top k squares sum to at most kt² + Σ_i(g_i² − t²)₊. At the level that k of d squares
    exceed on average, 2dQ(t) = k with Q the normal tail, the expectation of that is k + 2dt·φ(t), about 2k
    ln(d/k) for k ≪ d.

    Example:
        >>> round(top_gaussian(10, 10_000) ** 2 / (2 * 10 * math.log(1000)), 2), top_gaussian(9, 9)
        (0.92, 3.0)
    """
    require_count(k=k, d=d)
    if k >= d:
        return math.sqrt(d)
    level = -NormalDist().inv_cdf(k / (2 * d))
    return math.sqrt(k + 2 * d * level * NormalDist().pdf(level))


def top_exponential(k: int, d: int) -> float:
    """√E of the sum of squares of the k largest of d standard exponentials, exactly (Rényi's representation).

    The j-th largest has mean Σ_{i=j}^d 1/i and variance Σ_{i=j}^d 1/i². Laplace noise has |w| exponential.

    Example:
        >>> round(top_exponential(1, 1) ** 2, 12)
        2.0
    """
    require_count(k=k, d=d)
    inverse = 1.0 / np.arange(1, d + 1)
    means = np.cumsum(inverse[::-1])[::-1][:k]
    variances = np.cumsum((inverse**2)[::-1])[::-1][:k]
    return math.sqrt(float((means**2 + variances).sum()))
