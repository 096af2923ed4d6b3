"""An encoder whose rows are refined: knots where the rows are, and crosses of pairs of columns that a fit chose.

What it knows beyond a schema was released by a private fit, so it may be shown and saved as the coefficients may.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.data.columns import Boolean, Column, Numeric
from discreet.data.encoding import Encoder
from discreet.refinement import Cells, Groups, Knots, Refinement, View

__all__ = ["RefinedEncoder"]

_BESIDE = 1e-9  # of the scale: places on either side of a jump


class RefinedEncoder(Encoder):
    """Encodes by the schema, then by a refinement.

    Args:
        encoder: of the schema.
        refinement: of its columns.

    Example:
        >>> from discreet.data.schema import Schema
        >>> from discreet.refinement import RefinedBlock, Refinement
        >>> encoder = Encoder(Schema({"age": Numeric(0, 100), "smoker": Boolean()}))
        >>> blocks = (RefinedBlock((0, 1), (Knots((0.0, 0.5, 1.0)), Knots((0.0, 1.0)))),)
        >>> refined = RefinedEncoder(encoder, Refinement(encoder.column_blocks, blocks))
        >>> refined.feature_names_out[:3]
        ('age ~ 0 × smoker = False', 'age ~ 0 × smoker = True', 'age ~ 50 × smoker = False')
        >>> refined.transform({"age": [75], "smoker": ["no"]}).toarray().round(3)
        array([[0. , 0. , 0.5, 0. , 0.5, 0. ]])
    """

    def __init__(self, encoder: Encoder, refinement: Refinement) -> None:
        super().__init__(encoder.schema, target=encoder.target, encoding=encoder.encoding)
        self.refinement = refinement

    def transform(self, data: Any) -> Any:
        """Encode a table: n × `n_features`, a CSR array."""
        return self.refinement.apply(super().transform(data))

    @property
    def n_features(self) -> int:
        """The number of refined features."""
        return self.refinement.n_features

    @property
    def feature_names_out(self) -> tuple[str, ...]:
        """A name for each feature, made of public facts and released values."""
        found: list[str] = []
        for block in self.refinement.blocks:
            names = [self._names(j, view) for j, view in zip(block.columns, block.views, strict=True)]
            products = names[0] if len(names) == 1 else [f"{a} × {b}" for a in names[0] for b in names[1]]
            found.extend(products)
        return tuple(found)

    @property
    def entry_bound(self) -> float:
        """The largest entry that a refined row may have."""
        return self.refinement.scale * max(block.weight for block in self.refinement.blocks)

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """The column of the table, or the two columns, that each feature is made of."""
        columns = self.refinement.columns
        names = [" × ".join(columns[j].name for j in block.columns) for block in self.refinement.blocks]
        return tuple(
            name for name, block in zip(names, self.refinement.blocks, strict=True) for _ in range(block.width)
        )

    @property
    def partitions(self) -> tuple[tuple[int, int], ...]:
        """None: intervals are for columns as the schema declares them."""
        return ()

    @property
    def crosses(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns that the fit chose."""
        return self.refinement.pairs

    @property
    def places(self) -> dict[tuple[str, ...], Any]:
        """The positions of the features of each column, (name,), and of each pair, (left, right)."""
        columns, found = self.refinement.columns, dict[tuple[str, ...], list[int]]()
        for block, start in zip(self.refinement.blocks, self.refinement.starts, strict=True):
            key = tuple(columns[j].name for j in block.columns)
            found.setdefault(key, []).extend(range(start, start + block.width))
        return {key: np.array(positions) for key, positions in found.items()}

    def knots(self, name: str) -> tuple[float, ...]:
        """The places between 0 and 1 at which any effect of a column of numbers, alone or in a pair, may bend.

        Where it may jump there are two, on either side.
        """
        j = next(k for k, column in enumerate(self.refinement.columns) if column.name == name)
        bends = {0.0, 1.0}
        for block in self.refinement.blocks:
            for k, view in zip(block.columns, block.views, strict=True):
                if k == j and isinstance(view, Knots):
                    bends.update(view.at)
                elif k == j and isinstance(view, Cells):
                    bends.update(edge + side for edge in view.edges for side in (-_BESIDE, _BESIDE))
        return tuple(sorted(bends))

    def _names(self, j: int, view: View) -> list[str]:
        """What each feature of a view is about."""
        name = self.refinement.columns[j].name
        column: Column = self.schema[name]
        match view:
            case Groups(of):
                return _group_names(name, self._blocks[name].names, of)
            case Knots(at) if isinstance(column, Numeric):
                return [f"{name} ~ {knot:.6g}" for knot in column.unscale(np.array(at))]
            case Knots() if isinstance(column, Boolean):
                return [f"{name} = {value}" for value in column.categories]
            case Cells(edges) if isinstance(column, Numeric):
                return [f"{name} from {edge:.6g}" for edge in column.unscale(np.array([0.0, *edges]))]
        return [name] if view.width == 1 else [f"{name} {k}" for k in range(view.width)]


def _group_names(name: str, levels: Sequence[str], of: Sequence[int]) -> list[str]:
    """The level's own name for a group of one, and "other levels" for one of several."""
    members: dict[int, list[str]] = {}
    for level, group in zip(levels, of, strict=True):
        members.setdefault(group, []).append(level)
    return [found[0] if len(found) == 1 else f"{name}=other levels" for _, found in sorted(members.items())]
