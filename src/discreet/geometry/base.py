"""What a set knows, and the capabilities that solvers ask for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput

__all__ = [
    "Array",
    "Atomic",
    "Geometry",
    "InfProjectable",
    "LinearOracle",
    "Projectable",
    "Width",
    "as_vector",
    "check_dimension",
    "check_order",
    "check_radius",
    "euclidean_norm",
]

Array: TypeAlias = NDArray[np.float64]


class Width(NamedTuple):
    """A Gaussian width E sup_{c ∈ 𝒞} ⟨c, g⟩, g ~ N(0, I), with its standard error (0 for a closed form)."""

    value: float
    standard_error: float = 0.0


@runtime_checkable
class Projectable(Protocol):
    """A set with a Euclidean projection."""

    def project(self, theta: ArrayLike) -> Array:
        """The point of the set nearest to ``theta`` in the ℓ2 norm."""


@runtime_checkable
class InfProjectable(Protocol):
    """A set with an ℓ∞ projection."""

    def project_inf(self, theta: ArrayLike) -> Array:
        """A point of the set nearest to ``theta`` in the ℓ∞ norm (there may be several)."""


@runtime_checkable
class LinearOracle(Protocol):
    """A set over which linear functions can be minimised."""

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """A point of the set at which ⟨·, gradient⟩ is least."""


@runtime_checkable
class Atomic(LinearOracle, Protocol):
    """The convex hull of finitely many atoms, so that a private selection among them can replace the linear oracle.

    The scores are linear in the gradient and the oracle's choice is the atom of the *least* score. When each row moves
    the gradient by at most b in ℓ∞, each score moves by at most ``max_abs_inner(b)``.
    """

    def n_atoms(self, d: int) -> int:
        """How many atoms there are in dimension ``d``."""

    def atom(self, index: int, d: int) -> Array:
        """The atom of this index."""

    def scores(self, gradient: ArrayLike) -> Array:
        """⟨atom, gradient⟩ for every atom, in the order of their indices."""

    def max_abs_inner(self, linf_bound: float) -> float:
        """The largest |⟨atom, g⟩| over all atoms and all ‖g‖∞ ≤ ``linf_bound``."""


class Geometry(ABC):
    """A closed set 𝒞 of parameters.

    Quantities that depend on the dimension take it as ``d``, since a ball is declared by its radius alone.
    """

    convex: ClassVar[bool] = True

    @abstractmethod
    def norm(self, theta: ArrayLike) -> float:
        """The gauge (Minkowski functional) inf{t ≥ 0 : θ ∈ t𝒞}; inf when no multiple of the set holds θ."""

    @abstractmethod
    def dual_norm(self, vector: ArrayLike) -> float:
        """The support function sup_{c ∈ 𝒞} ⟨c, v⟩, so that ⟨u, v⟩ ≤ norm(u)·dual_norm(v) wherever norm(u) is finite."""

    @abstractmethod
    def radius_in(self, d: int, order: int = 2) -> float:
        """The largest ‖θ‖ over the set, in the ℓ2 (``order=2``) or ℓ1 (``order=1``) norm."""

    @abstractmethod
    def diameter(self, d: int, order: int = 2) -> float:
        """The largest ‖u − v‖ over the set, in the ℓ2 (``order=2``) or ℓ1 (``order=1``) norm."""

    @abstractmethod
    def gaussian_width(self, d: int) -> Width:
        """E sup_{c ∈ 𝒞} ⟨c, g⟩ for a standard normal g in dimension ``d``."""

    @abstractmethod
    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether θ lies in the set, up to a tolerance relative to the set's size."""


def as_vector(values: ArrayLike) -> Array:
    """The values as a float64 vector.

    Raises:
        InvalidInput: they are not one-dimensional.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InvalidInput(f"expected a vector, got an array of shape {vector.shape}; flatten matrices first.")
    return vector


def check_radius(radius: float) -> None:
    """Refuse a radius that is not a positive finite number."""
    if not (math.isfinite(radius) and radius > 0):
        raise InvalidInput(f"radius must be a positive finite number, got {radius}.")


def check_dimension(d: int, own: int | None = None) -> None:
    """Refuse a dimension that is not positive, or that differs from the set's own."""
    if d < 1:
        raise InvalidInput(f"the dimension must be at least 1, got {d}.")
    if own is not None and d != own:
        raise InvalidInput(f"the set lives in dimension {own}, but was asked about dimension {d}.")


def check_order(order: int) -> None:
    """Refuse a norm other than ℓ1 and ℓ2."""
    if order not in (1, 2):
        raise InvalidInput(f"order must be 1 or 2, got {order}.")


def euclidean_norm(vector: Array) -> float:
    """‖v‖₂ without overflow."""
    largest = float(np.max(np.abs(vector), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(vector / largest))
