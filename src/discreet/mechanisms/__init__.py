"""Noise with its event: one file a mechanism."""

from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.peeling import LaplacePeeling, Peeling
from discreet.mechanisms.selection import Choice
from discreet.mechanisms.top_choices import TopChoices

__all__ = ["Choice", "Gaussian", "Laplace", "LaplacePeeling", "Mechanism", "Peeling", "TopChoices"]
