"""From a guarantee to noise: rehearse a solver for its events, then find the least noise that keeps the guarantee."""

from discreet.calibration.guarantee import Guarantee

__all__ = ["Guarantee"]
