"""Constraint sets, one file each: projection, linear oracle, gauge and dual norm, diameters, Gaussian width.

What a set can do is a type: a solver asks for a `Projectable`, a `LinearOracle` or an `Atomic` set and the type checker
(or ``isinstance``) tells whether it has one. The maths of each is in ``docs/maths/geometry.md``.
"""

from discreet.geometry.base import Array, Atomic, Geometry, InfProjectable, LinearOracle, Projectable, Width
from discreet.geometry.box import Box
from discreet.geometry.groups import GroupInfL1Ball, GroupL1Ball
from discreet.geometry.l1_ball import L1Ball
from discreet.geometry.l2_ball import L2Ball
from discreet.geometry.polytope import Polytope
from discreet.geometry.simplex import Simplex
from discreet.geometry.span import DataProjector
from discreet.geometry.sparse_set import SparseSet
from discreet.geometry.whole_space import WholeSpace

__all__ = [
    "Array",
    "Atomic",
    "Box",
    "DataProjector",
    "Geometry",
    "GroupInfL1Ball",
    "GroupL1Ball",
    "InfProjectable",
    "L1Ball",
    "L2Ball",
    "LinearOracle",
    "Polytope",
    "Projectable",
    "Simplex",
    "SparseSet",
    "WholeSpace",
    "Width",
]
