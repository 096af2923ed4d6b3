"""Rows of ``bench/notes.py``: accounting (N3) and the printed formulas."""

from __future__ import annotations

import math

import discreet as dp
from discreet.accounting import adaptive, textbook
from discreet.accounting.upper.classical import advanced_composition as advanced
from discreet.events import (
    Allocation,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    Parallel,
    Poisson,
    PrivateSelection,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
    WithReplacement,
)
from discreet.units import Adjacency
from notes_base import Found, below, item


def narrow(event: Event, delta: float, relation: Adjacency) -> Found:
    """The interval of ε, and whether it is at most 1 % wide."""
    found = dp.accounting.epsilon(event, delta, relation)
    width = (found.upper - found.lower) / found.upper
    return Found(f"[{found.lower:.5g}, {found.upper:.5g}], {100 * width:.2g} % wide", "at most 1 % wide", width <= 0.01)


@item("N3", "Gaussian mechanism, composition", "accounting.epsilon(Repeat(Gaussian(σ), T))")
def gaussian_composition() -> Found:
    found = dp.accounting.epsilon(Repeat(Gaussian(40.0), 100), 1e-6, "replace-one")
    once = dp.accounting.epsilon(Gaussian(4.0), 1e-6, "replace-one")
    return Found(f"{found.upper:.6g}", f"one release of σ/√T {once.upper:.6g}", abs(found.upper - once.upper) < 1e-6)


@item("N3", "advanced and optimal composition", "accounting.upper")
def advanced_composition() -> Found:
    event = Repeat(PureDP(0.1), 100)
    exact = dp.accounting.epsilon(event, 1e-6, "add-remove").upper
    return below(exact, advanced([(0.1, 100)], 1e-6), "advanced composition")


@item("N3", "amplification, Poisson", "accounting.epsilon(Poisson(q, …))")
def amplification() -> Found:
    sampled = dp.accounting.epsilon(Repeat(Poisson(0.01, Gaussian(1.0)), 100), 1e-6, "add-remove").upper
    return below(sampled, dp.accounting.epsilon(Repeat(Gaussian(1.0), 100), 1e-6, "add-remove").upper, "all rows")


@item("N3", "amplification, fixed size", "accounting.epsilon(FixedSize(m, n, …))")
def fixed_size() -> Found:
    sampled = dp.accounting.epsilon(FixedSize(100, 10_000, PureDP(1.0)), 0.0, "replace-one").upper
    return below(sampled, math.log1p(0.01 * math.expm1(1.0)) + 1e-12, "ln(1 + q(e^ε − 1))")


@item("N3", "exponential mechanism, bounded range", "accounting.epsilon(Selection(ε))")
def bounded_range() -> Found:
    event = Repeat(Selection(0.1), 100)
    exact = dp.accounting.epsilon(event, 1e-6, "add-remove").upper
    return below(exact, dp.accounting.epsilon(Repeat(PureDP(0.1), 100), 1e-6, "add-remove").upper, "as pure ε")


@item("N3", "exponential mechanism, repeated", "accounting.epsilon(Repeat(Selection(ε), k))")
def repeated_selection() -> Found:
    return narrow(Repeat(Selection(0.1), 100), 1e-6, "add-remove")


@item("N3", "rare participation, Poisson", "accounting.epsilon(Repeat(Poisson(1e-5, …), k))")
def rare_participation() -> Found:
    return narrow(Repeat(Poisson(1e-5, Gaussian(1.0)), 1000), 1e-7, "replace-one")


@item("N3", "fixed size, repeated, add-remove", "accounting.epsilon(Repeat(FixedSize(m, n, …), k))")
def repeated_fixed_size() -> Found:
    return narrow(Repeat(FixedSize(256, 60_000, Gaussian(2.0)), 2000), 1e-6, "add-remove")


@item("N3", "fixed size, repeated, replace-one", "accounting.epsilon(Repeat(FixedSize(m, n, …), k))")
def replaced_fixed_size() -> Found:
    event = Repeat(FixedSize(256, 60_000, Gaussian(2.0)), 2000)
    found, other = (dp.accounting.epsilon(event, 1e-6, to) for to in ("replace-one", "add-remove"))
    interval = f"[{found.lower:.4g}, {found.upper:.4g}]"
    return Found(
        interval,
        "no dominating pair is better from above; steps of one kind reach the lower end",
        found.lower >= 0.99 * other.lower and found.upper <= 1.3 * found.lower,
    )


@item("N3", "filters", "accounting.adaptive.ZCDPFilter")
def filters() -> Found:
    budget, admitted = adaptive.ZCDPFilter(0.5, "replace-one"), 0
    while budget.affords(Gaussian(20.0)):
        budget.spend(Gaussian(20.0))
        admitted += 1
    return Found(f"{admitted} releases", "ρ/(2/20²) = 100, sums rounded up", admitted in (99, 100))


@item("N3", "private selection", "accounting.epsilon(PrivateSelection(…))")
def private_selection() -> Found:
    found = dp.accounting.epsilon(PrivateSelection(PureDP(1.0), 3.0), 0.0, "add-remove").upper
    return below(found, 3.0, "3ε of Liu and Talwar")


@item("N3", "last iterate, accounting", "accounting.LastIterate")
def last_iterate_accounting() -> Found:
    hidden = dp.accounting.epsilon(LastIterate(60.0, 300, 0.96), 1e-6, "replace-one").upper
    return below(hidden, dp.accounting.epsilon(Repeat(Gaussian(60.0), 300), 1e-6, "replace-one").upper, "every step")


@item("N0–N4", "printed formulas", "accounting.textbook.table")
def printed_formulas() -> Found:
    known = {
        "noisy gradient descent, rank bound",
        "objective perturbation, noise term",
        "noisy gradient descent, factor of the rank",
    }
    wrong = [t.name for t in textbook.table(1.0, 1e-5, 100) if not t.holds]
    wrong += [m.name for m in textbook.misprints(1e-5, 100, 1000, rank=5) if not m.holds]
    return Found(f"{len(wrong)} false at ε = 1, δ = 1e-5", "; ".join(sorted(known)), set(wrong) == known)


@item("N3", "group privacy", "accounting.epsilon(…, Unit('replace-one', k))")
def group_privacy() -> Found:
    exact = dp.accounting.epsilon(Laplace(4.0), 0.0, dp.Unit("add-remove", 3)).upper
    return below(exact, 3 / 4.0 + 1e-12, "kε")


@item("N3", "parallel composition", "accounting.epsilon(Parallel(…))")
def parallel() -> Found:
    exact = dp.accounting.epsilon(Parallel([PureDP(0.5), PureDP(1.0)]), 0.0, "add-remove").upper
    return below(exact, 1.0 + 1e-12, "the larger ε")


@item("N3", "mixed releases", "accounting.epsilon(Compose([Gaussian, Laplace, …]))")
def mixed() -> Found:
    leaves = [Gaussian(5.0), Laplace(8.0), DiscreteGaussian(6.0, 10), DiscreteLaplace(9.0, 10)]
    leaves += [RandomizedResponse(0.2), Selection(0.2), ApproxDP(0.1, 1e-8)]
    whole = dp.accounting.epsilon(Compose(leaves), 1e-6, "replace-one").upper
    basic = sum(dp.accounting.epsilon(one, 1e-6 / 7, "replace-one").upper for one in leaves)
    return below(whole, basic, "basic composition, δ/7 each")


@item("N3", "trade-off function", "accounting.tradeoff")
def trade_off() -> Found:
    from statistics import NormalDist

    normal, errors = NormalDist(), []
    for alpha in (0.01, 0.2, 0.5):
        found = dp.accounting.tradeoff(Gaussian(2.0), "add-remove")(alpha)
        errors.append(abs(found.lower - normal.cdf(normal.inv_cdf(1 - alpha) - 0.5)))
    return below(max(errors), 1e-3, "Gaussian, largest deviation below")


@item("N3", "amplification, with replacement", "accounting.epsilon(WithReplacement(m, n, …))")
def with_replacement() -> Found:
    found = dp.accounting.epsilon(WithReplacement(100, 10_000, Gaussian(2.0)), 1e-6, "replace-one").upper
    return below(found, dp.accounting.epsilon(Gaussian(2.0), 1e-6, "replace-one").upper, "all rows")


@item("N3", "epochs, every row in one batch", "accounting.epsilon(Allocation(t, …))")
def epochs() -> Found:
    found = dp.accounting.epsilon(Allocation(100, Gaussian(1.0)), 1e-6, "add-remove").upper
    sampled = dp.accounting.epsilon(Repeat(Poisson(0.01, Gaussian(1.0)), 100), 1e-6, "add-remove").upper
    return below(found, sampled, "Poisson batches")


@item("N3", "permute-and-flip", "accounting.epsilon(Selection(ε, 'permute-and-flip'))")
def permute_and_flip() -> Found:
    event = Repeat(Selection(0.1, "permute-and-flip"), 100)
    pure = dp.accounting.epsilon(Repeat(PureDP(0.1), 100), 1e-6, "add-remove").upper
    return below(dp.accounting.epsilon(event, 1e-6, "add-remove").upper, pure * (1 + 1e-9), "as pure ε")


@item("N3", "calibration", "accounting.calibrate")
def calibration() -> Found:
    noise = dp.accounting.calibrate(lambda s: Repeat(Poisson(0.01, Gaussian(s)), 500), 1.0, 1e-6, "add-remove")
    found = dp.accounting.epsilon(Repeat(Poisson(0.01, Gaussian(noise)), 500), 1e-6, "add-remove").upper
    return Found(f"σ = {noise:.4g}", f"ε = {found:.6g} of 1", 0.999 < found <= 1.0)


@item("N3", "last iterate, cyclic batches", "accounting.LastIterate(…, batches=l)")
def last_iterate_cyclic() -> Found:
    c, batches, turns = 0.99, 20, 50
    power = c ** (batches * (turns - 1))
    inner = c ** (2 * batches - 2) * (1 - c * c) / (1 - c**batches) ** 2 * (1 - power) / (1 + power)
    found = dp.accounting.epsilon(LastIterate(5.0, batches * turns, c, batches=batches), 1e-5, "add-remove").upper
    printed = dp.accounting.epsilon(Gaussian(5.0 / math.sqrt(1 + inner)), 1e-5, "add-remove").upper
    return Found(f"{found:.5g}", f"Bok, Su and Altschuler's table {printed:.5g}", abs(found - printed) < 1e-6)
