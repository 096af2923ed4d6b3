"""What users declare about interactions, read by public facts only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.utils.validation import check_is_fitted

from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.estimators.features import Features
from discreet.refinement import Cells, ColumnBlock, Refinement
from discreet.text import shortened

__all__ = ["Interacting", "check_interactions", "chosen_in_words", "crossable_columns", "declared_interactions"]


@dataclass(eq=False, repr=False)
class Interacting:
    """The parameter of models that choose interactions.

    Args:
        interactions: ``"auto"``, False, or a list of pairs of columns.
    """

    _: KW_ONLY
    interactions: Any = "auto"

    def _interactions(self) -> Any:
        return self.interactions

    @property
    def interactions_(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns whose interaction the model has, chosen by the fit or declared."""
        check_is_fitted(self, "coef_")
        encoder = self._features.encoder  # type: ignore[attr-defined]
        return () if encoder is None else encoder.crosses


def check_interactions(asked: Any, schema: Any) -> None:
    """Refuse what is neither False, "auto" nor pairs of columns of a schema.

    Raises:
        InvalidInput: with the reason. Nothing was released.
    """
    if asked is False or (isinstance(asked, str) and asked == "auto"):
        return
    if isinstance(asked, str | bool) or not isinstance(asked, Iterable):
        raise InvalidInput(
            f"interactions must be False, 'auto' or a list of pairs of columns, got {shortened(asked)}. Nothing was "
            "released."
        )
    if schema is None:
        raise InvalidInput("interactions name columns of a schema, and none was given. Nothing was released.")


def declared_interactions(schema: Any, asked: Any) -> Any:
    """The schema with the pairs of columns that were asked for as its crosses, beside those that it has."""
    if schema is None or asked is False or isinstance(asked, str):
        return schema
    known = schema if isinstance(schema, Schema) else Schema(schema)
    return Schema(dict(known), (*known.crosses, *asked))


def crossable_columns(features: Features) -> tuple[ColumnBlock, ...]:
    """The columns among which a fit may choose interactions: none of plain arrays or of a schema with crosses."""
    return () if features.encoder is None else features.encoder.column_blocks


def chosen_in_words(refinement: Refinement) -> str:
    """The pairs of columns and the columns of finer resolution that a fit chose, with the number of their cells."""
    pairs = [f"{left} × {right}" for left, right in refinement.pairs]
    finer = [
        f"{name} in {view.width} cells" if isinstance(view, Cells) else f"{name} finer"
        for name, view in refinement.finer
    ]
    return ", ".join([*pairs, *finer]) or "nothing"
