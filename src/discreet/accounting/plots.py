"""Pictures of a guarantee: δ(ε), and what the best attacker can do.

By (ε, δ)-DP for every ε at once, a test that tells two neighbours apart with false-positive rate α has

    true-positive rate(α) ≤ min over ε ≥ 0 of min( e^ε·α + δ(ε), 1 − e^{−ε}·(1 − δ(ε) − α) ),

the trade-off function of the release (Dong–Roth–Su 2022, proposition 2.13; Wasserman–Zhou 2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.text import checked_path
from discreet.units import Adjacency, Unit

__all__ = ["FALSE_POSITIVE_RATES", "figure_of", "max_true_positive_rates", "plot", "sampled_curve", "saved"]

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)

Array = NDArray[np.float64]
Delta = Callable[[float], float]


def sampled_curve(event: Event, adjacency: Adjacency, points: int = 48) -> tuple[Array, Array]:
    """Points (ε, upper δ(ε)) from ε = 0 to where δ is 1e-10, or as far as the release's own bound goes.

    Example:
        >>> from discreet.events import Gaussian
        >>> epsilons, deltas = sampled_curve(Gaussian(1.0), "add-remove", points=5)
        >>> round(float(deltas[0]), 4)  # the total variation distance, 2Φ(½) − 1
        0.3829
    """
    from discreet import accounting

    if points < 2:
        raise InvalidInput(f"a curve needs at least 2 points, got {points}.")
    privacy = accounting.curve(event, adjacency)
    farthest = privacy.epsilon(1e-10).upper
    if math.isinf(farthest):
        farthest = 20.0
    epsilons = max(farthest, 1e-6) * np.linspace(0.0, 1.0, points) ** 1.5  # closer together where δ is large
    return epsilons, np.array([privacy.delta(float(e)).upper for e in epsilons])


def max_true_positive_rates(
    epsilons: Array, deltas: Array, false_positive_rates: Iterable[float] = FALSE_POSITIVE_RATES
) -> list[float]:
    """The most true positives that any attack can have at each false-positive rate, from points of the curve.

    Any subset of points gives a valid bound; more points give a tighter one.

    Example:
        >>> max_true_positive_rates(np.array([0.0]), np.array([0.25]), [0.125])
        [0.375]
    """
    rates = []
    for alpha in false_positive_rates:
        if not 0 <= alpha <= 1:
            raise InvalidInput(f"a false-positive rate must be in [0, 1], got {alpha!r}.")
        with np.errstate(over="ignore"):
            low = np.exp(np.minimum(epsilons, 700)) * alpha + deltas
            high = 1 - np.exp(-epsilons) * (1 - deltas - alpha)
        rates.append(float(min(1.0, np.min(low), np.min(high))))
    return rates


def figure_of(width: float, height: float) -> Any:
    """An empty figure that needs no display.

    Raises:
        InvalidInput: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("pictures need matplotlib: pip install 'discreet[report]'.") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def saved(figure: Any, path: Any) -> None:
    """Write a figure; the ending of the path picks the format.

    Raises:
        InvalidInput: matplotlib writes no such format.
    """
    place = checked_path(path)
    known = figure.canvas.get_supported_filetypes()
    if place.suffix.lower().lstrip(".") not in known:
        raise InvalidInput(f"{place.name} must end in one of .{', .'.join(sorted(known))}.")
    figure.savefig(place, dpi=150)


def plot(event: Event, adjacency: Adjacency, path: str | PathLike[str], *, points: int = 48) -> tuple[Array, Array]:
    """Draw the privacy curve and the attacker's trade-off curve side by side into a file.

    Args:
        event: what was released.
        adjacency: the relation, or a `Unit`; it is written on the picture.
        path: where to; the ending picks the format (png, svg, pdf).
        points: how finely the curve is sampled.

    Returns:
        The points (ε, upper δ(ε)) that were drawn.

    Raises:
        InvalidInput: matplotlib is not installed, or does not write such a format.
    """
    figure = figure_of(10, 4.2)
    epsilons, deltas = sampled_curve(event, adjacency, points)
    left, right = figure.subplots(1, 2)

    left.semilogy(epsilons, np.maximum(deltas, 1e-12), color="C0")
    left.set(xlabel="ε", ylabel="δ(ε), upper bound", title="Privacy curve")
    left.grid(alpha=0.3)

    alphas = np.geomspace(1e-4, 1, 200)
    right.loglog(alphas, max_true_positive_rates(epsilons, deltas, alphas), color="C3", label="best possible attack")
    right.loglog(alphas, alphas, color="0.6", linestyle=":", label="guessing")
    beside = {"textcoords": "offset points", "ha": "right"}
    for alpha, most in zip(FALSE_POSITIVE_RATES, max_true_positive_rates(epsilons, deltas), strict=True):
        right.plot([alpha], [most], "o", color="C3")
        right.annotate(f"{100 * most:.3g} % at {100 * alpha:g} %", (alpha, most), (-8, 6), **beside)
    right.set(xlabel="false-positive rate", ylabel="true-positive rate", title="What an attacker can do")
    right.legend(loc="lower right")
    right.grid(alpha=0.3)
    figure.suptitle(f"relation: {Unit.of(adjacency)}")
    saved(figure, path)
    return epsilons, deltas
