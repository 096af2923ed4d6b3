"""Private scales: location and scale of rows (and targets) are released first, and gradients are taken in them.

A *scale model* is a frozen dataclass of settings, its noise multipliers among them. Its generator `released` makes the
model's releases and returns `Coordinates`, which are public from then on: the query of the clipped gradient sum there,
how a noisy mean gradient becomes a direction, and the way back to the coefficients of the user's columns. There are
five, and no others:

* `Full`: the second moment XᵀX; a direction is the gradient through its damped inverse;
* `Diagonal`: the second moments of the columns, with or without the mean row; columns are centred and brought nearer to
  one scale. Weighted perturbation takes the same estimates (`Diagonal.estimated`) before its minimiser;
* `Single`: location and scale of the targets, and the scale of one projection of the rows: one step size for all
  weights and one for the offset;
* `Residual`: location and scale of the targets, XᵀX, and on the way the spread of the residuals, the unit of the
  width of Huber's loss and of the smoothing of a quantile's;
* `Location`: the location of the targets alone, where noise leaves nothing else to learn.
"""

from typing import TypeAlias

from discreet.solvers.parts.private_scales.base import Coordinates
from discreet.solvers.parts.private_scales.diagonal import ColumnScales, Diagonal
from discreet.solvers.parts.private_scales.full import Full
from discreet.solvers.parts.private_scales.residual import Residual
from discreet.solvers.parts.private_scales.single import Location, Single

__all__ = ["ColumnScales", "Coordinates", "Diagonal", "Full", "Location", "Residual", "Scales", "Single"]

Scales: TypeAlias = Full | Diagonal | Single | Residual | Location
"""The closed set of scale models."""
