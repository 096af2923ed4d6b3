"""Least squares from noisy moments (AdaSSP), and descent through a noisy second moment (the private Newton method).

Both bounds are conditional on the noise E of the released XᵀX not being unusually large, and say with which probability
that is so. Proofs are in ``docs/maths/theory.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.theory.bound import (
    Bound,
    require,
    require_count,
    require_non_negative,
    require_positive,
    symmetric_noise_norm,
)

__all__ = ["moment_noise_norm", "preconditioned", "sufficient_statistics"]

_OFF_DIAGONAL = 5 / 7
"""The noise of a released second moment off its diagonal, over that on it: √½ but for whole weights 5 : 7."""


def moment_noise_norm(d: int, moment_std: float, failure: float) -> float:
    """‖E‖ but for a probability p, E the noise in a released XᵀX: (10/7)·s·(√d + √ln(2/p)).

    Args:
        d: the dimension.
        moment_std: s, the noise of a diagonal entry: noise multiplier × radius².
        failure: p.

    Example:
        >>> round(moment_noise_norm(100, 1.0, 0.05), 2)
        17.03
    """
    return symmetric_noise_norm(d, _OFF_DIAGONAL * moment_std, failure)


def sufficient_statistics(
    *,
    n: int,
    eigenvalues: Sequence[float],
    moment_std: float,
    cross_std: float,
    target_norm: float,
    ridge: float = 0.0,
    failure: float = 0.05,
) -> Bound:
    """AdaSSP (Wang 2018), E[excess; event] ≤ (A₁ + A₂ + A₃)²/(2n(1 − a)²) on an event of probability 1 − ϱ.

    With κ = s√(d ln(2d²/ϱ)), λ_low = max(0, κ − λ_min), λ_high = max(0, κ − max(0, λ_min − 2s√(2 ln(3/ϱ)))), B = XᵀX +
    ridge + λ_low and ‖E‖ ≤ a·λ_min(B):

        A₁ = λ_high·‖θ*‖/√(λ_min + ridge + λ_high)     the shrinkage,
        A₂ = s_c·√tr(B⁻¹)                                the noise of Xᵀy,
        A₃ = (5/7)s‖θ*‖·√(tr(B⁻¹) + ‖B⁻¹‖)              that of XᵀX.

    The event: the eigenvalue's noise is within its confidence limits (1 − ϱ/3), and ‖E‖ within `moment_noise_norm`
    (1 − 2ϱ/3). Its complement is the price of an inverse: without a constraint the mean over everything need not exist.

    Args:
        n: the number of rows.
        eigenvalues: of XᵀX; zeros where nothing is known: then the bound is free of the data.
        moment_std: s, the noise of the least eigenvalue and of a diagonal entry of XᵀX.
        cross_std: s_c, the noise of an entry of Xᵀy.
        target_norm: ‖θ*‖₂ of the minimiser.
        ridge: n × the problem's ridge; the excess is then that of the regularised risk.
        failure: ϱ, the solver's own.

    Raises:
        HypothesisViolated: ‖E‖ may exceed the least eigenvalue of B: too few dimensions for λ to hold it, or no noise
            and a singular XᵀX.

    Example:
        >>> args = dict(n=10_000, moment_std=10.0, cross_std=10.0, target_norm=1.0)
        >>> blind = sufficient_statistics(eigenvalues=[0.0] * 20, **args)
        >>> strong = sufficient_statistics(eigenvalues=[500.0] * 20, **args)
        >>> round(blind.value, 3), round(strong.value, 4)
        (0.152, 0.0009)
    """
    spectrum = np.asarray(eigenvalues, dtype=np.float64)
    d = len(spectrum)
    require_count(n=n, d=d)
    require_non_negative(moment_std=moment_std, cross_std=cross_std, target_norm=target_norm, ridge=ridge)
    require(bool(np.all(spectrum >= 0)), "eigenvalues of at least 0")
    require(0 < failure < 1, f"a probability of failure in (0, 1), got {failure}")
    least = float(spectrum.min())
    needed = moment_std * math.sqrt(d * math.log(2 * d * d / failure))
    low = max(0.0, needed - least)
    high = max(0.0, needed - max(0.0, least - 2 * moment_std * math.sqrt(2 * math.log(3 / failure))))
    held = least + ridge + low
    error = moment_noise_norm(d, moment_std, 2 * failure / 3)
    require(
        held > error,
        f"the noise of the second moment, up to {error:g}, below the least eigenvalue with its ridge, {held:g}",
    )
    inverse = 1 / (spectrum + ridge + low)
    trace = float(inverse.sum())
    roots = {
        "shrinkage": high * target_norm / math.sqrt(least + ridge + high) if high else 0.0,
        "cross": cross_std * math.sqrt(trace),
        "moment": _OFF_DIAGONAL * moment_std * target_norm * math.sqrt(trace + float(inverse.max())),
    }
    total = sum(roots.values())
    # each part of the square gets its share of the sum
    return Bound.of(
        "AdaSSP, excess risk on an event of probability 1 − ϱ",
        **{name: root * total / (2 * n * (1 - error / held) ** 2) for name, root in roots.items()},
    )


def preconditioned(
    *,
    eigenvalues: Sequence[float],
    damping: float,
    moment_error: float,
    target_norm: float,
    noise_std: float,
    iterations: int,
    suffix: int | None = None,
    score_square: float | None = None,
    quadratic: bool = True,
) -> Bound:
    """θ ← θ − P⁻¹(∇𝓛 + ξ), P = Ĥ₊ + λ, mean of the last m of T iterates, given ‖Ĥ − H‖ ≤ e ≤ λ, where ∇²𝓛 ⪯ H.

    In the coordinates P^½θ it is descent of step 1 on a function whose Hessian lies between 0 and 1. Convex 𝓛:

        E excess ≤ ‖θ*‖²_P/(2m) + (T/m)·σ²·tr(P⁻¹),

    with ‖θ*‖²_P ≤ ‖θ*‖²_H + (λ + 2e)‖θ*‖² and tr(P⁻¹) ≤ Σ 1/(h_i + λ − e). Quadratic 𝓛 of Hessian H (least squares in
    which no residual is cut), with w₀ = h_min/(h_min + λ + 2e) and both maxima over w₀ ≤ w ≤ 1:

        E excess ≤ ½‖θ*‖²_P·max w(1 − w)^{2(T − m + 1)} + ½σ²·tr(P⁻¹)·T·max min(w, 1/(m²w)).

    Args:
        eigenvalues: h_i of H (smoothness·XᵀX/n and the ridge); zeros where nothing is known.
        damping: λ, in units of H.
        moment_error: e, in units of H (`moment_noise_norm` / n, with its probability).
        target_norm: ‖θ*‖₂, θ_0 being 0.
        noise_std: σ, of each coordinate of the mean gradient.
        iterations: T.
        suffix: m; None takes the last half, as the solver does.
        score_square: ‖θ*‖²_H; None takes max h_i·‖θ*‖².
        quadratic: whether 𝓛 is a quadratic with Hessian H.

    Raises:
        HypothesisViolated: e exceeds λ, or equals it where an eigenvalue is 0.

    Example:
        >>> args = dict(eigenvalues=[0.1] * 10, target_norm=1.0, noise_std=0.001, iterations=100)
        >>> exact = preconditioned(damping=0.02, moment_error=0.01, **args)
        >>> convex = preconditioned(damping=0.02, moment_error=0.01, quadratic=False, **args)
        >>> round(exact.value, 6), round(convex.value, 6)
        (3e-06, 0.001582)
    """
    spectrum = np.asarray(eigenvalues, dtype=np.float64)
    points = iterations - iterations // 2 if suffix is None else suffix
    require_count(d=len(spectrum), iterations=iterations, suffix=points)
    require_non_negative(moment_error=moment_error, target_norm=target_norm, noise_std=noise_std)
    require_positive(damping=damping)
    require(bool(np.all(spectrum >= 0)), "eigenvalues of at least 0")
    require(points <= iterations, f"a suffix of at most the {iterations} iterates, got {points}")
    least = float(spectrum.min())
    require(
        moment_error <= damping and least + damping - moment_error > 0,
        f"a damping above the noise of the second moment: {damping:g} against {moment_error:g}",
    )
    if score_square is None:
        score_square = float(spectrum.max()) * target_norm**2
    require_non_negative(score_square=score_square)
    start = score_square + (damping + 2 * moment_error) * target_norm**2
    noise = noise_std**2 * float((1 / (spectrum + damping - moment_error)).sum())
    theorem = "descent preconditioned by a noisy second moment, given its noise"
    if not quadratic:
        return Bound.of(theorem, start=start / (2 * points), privacy=iterations / points * noise)
    weakest = least / (least + damping + 2 * moment_error)
    power = 2 * (iterations - points + 1)
    slowest = max(weakest, 1 / (power + 1))  # w(1 − w)^p rises up to 1/(p + 1) and falls after
    noisiest = max(weakest, 1 / points)  # min(w, 1/(m²w)) has its peak at 1/m
    return Bound.of(
        theorem,
        start=start / 2 * slowest * (1 - slowest) ** power,
        privacy=iterations / (2 * points**2 * noisiest) * noise,
    )
