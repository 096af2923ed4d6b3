"""How the Fourier accountant tilts a sum of losses, and which window of losses it looks at.

Nothing here proves anything: every choice of a tilt and a window is valid, and what lies outside is charged where the
sum is made (`discreet.accounting.exact.fourier`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.exact.cumulants import Cumulants, log_kappa
from discreet.accounting.exact.pairs import DiscretePair
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["Window", "lattice_norm", "window_for"]

_OUTSIDE, _BLUR = 1 / 80, 1 / 4  # shares of the tolerance: for what lies outside, and for rounding
_LEAST_MARGIN, _MOST_MARGIN = 8.0, 32.0  # of the logarithm of what lies outside
_ROUNDING = 160.0  # units of a tilted sum that rounding takes a step, about


@dataclass(frozen=True)
class Window:
    """Where the tilted sum of the losses lies."""

    c: float  # the tilt
    bottom: float
    top: float
    above: float  # a further tilt that shows how little lies above, and one for below
    below: float
    margin: float  # e^−margin of the tilted mass lies outside, about


def lattice_norm(c: float, spacing: float) -> float:
    """A bound of the ℓ2 norm of e^{−cx}(1 − e^{−x}) on a lattice of x ≥ 0."""
    return math.sqrt(1 / (2 * c * (2 * c + 1) * (c + 1)) / spacing + math.exp(2 * float(log_kappa(c))))


def window_for(guide: Cumulants, steps: int, epsilon: float, log_delta: float, size: int, tolerance: float) -> Window:
    """A tilt, and a window that holds the tilted sum.

    The saddle point loses fewest digits. Where losses have a heavy tail it also lifts that tail into the window: a
    smaller tilt, which loses some of the digits that rounding leaves, may need a much narrower one.

    Args:
        guide: moments of rough laws.
        steps: the number of losses that are summed.
        epsilon: where δ is asked for, about.
        log_delta: log δ there, about.
        size: the number of lattice points.
        tolerance: how much of δ may be lost to what lies outside the window and to rounding.
    """
    guide.refine_near_saddle(epsilon)
    saddle, _, _ = guide.saddle(epsilon)
    cs, moments = guide.known()
    at_saddle = best = _window(guide, saddle, epsilon, log_delta + math.log(_OUTSIDE * tolerance))
    tilts = cs[(cs < saddle) & (cs > saddle / 100)]
    for c in tilts[:: max(1, len(tilts) // 8)].tolist():
        window = _window(guide, c, epsilon, log_delta + math.log(_OUTSIDE * tolerance))
        lead = float(np.interp(c, cs, moments)) - c * epsilon
        blur = _ROUNDING * steps * UNIT_ROUNDOFF * lattice_norm(c, (window.top - window.bottom) / size)
        if (
            math.log(blur / (_BLUR * tolerance)) + lead < log_delta
            and window.top - window.bottom < best.top - best.bottom
        ):
            best = window
    return best if best.top - best.bottom < 0.5 * (at_saddle.top - at_saddle.bottom) else at_saddle


def _window(guide: Cumulants, c: float, epsilon: float, log_rest: float) -> Window:
    """The window that holds the sum tilted by c, but for what is worth e^log_rest of δ."""
    cs, moments = guide.known()
    negative, their_moments = guide.negative()
    here = float(np.interp(c, cs, moments))  # c is one of them
    margin = float(log_kappa(c)) + here - c * epsilon - log_rest
    margin = min(max(margin, _LEAST_MARGIN), _MOST_MARGIN)
    up, lower = cs > c * 1.001, cs < c * 0.999
    top, bottom, above, below = math.inf, -math.inf, c, c
    if up.any():
        ends = (moments[up] - here + margin) / (cs[up] - c)
        top, above = float(ends.min()), float(cs[up][ends.argmin()]) - c
    down = np.concatenate([negative, cs[lower]])
    if len(down):
        ends = (here - margin - np.concatenate([their_moments, moments[lower]])) / (c - down)
        bottom, below = float(ends.max()), c - float(down[ends.argmax()])
    reach = sum(t * float(part.losses.max()) for part, t in guide.parts if isinstance(part, DiscretePair))
    floor = sum(t * float(part.losses.min()) for part, t in guide.parts if isinstance(part, DiscretePair))
    top = max(min(top, reach), epsilon)
    bottom = min(max(bottom, floor), epsilon)
    return Window(c, bottom, top + 1e-9 * abs(top), above, below, margin)
