"""Examples for PyTorch: a dataset that gives batches of a fixed physical size, padded with blank examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_map

from discreet.errors import InvalidInput

__all__ = ["Batch", "TorchRows"]


@dataclass(frozen=True)
class Batch:
    """A physical batch: as many slots as every other one; blank examples in the slots that no row is in.

    Args:
        fields: the parts of an example, each with one entry a slot: a tuple of tensors, or a mapping of names to them.
            Where persons are examples, the k entries of a slot stand one after another.
        present: which slots hold a row. Blank examples contribute exactly zero, whatever the loss says of them.
    """

    fields: Any
    present: torch.Tensor

    @property
    def x(self) -> Any:
        """The first part of an example; the whole mapping where the parts have names."""
        return self.fields if isinstance(self.fields, Mapping) else self.fields[0]

    @property
    def y(self) -> Any:
        """The second part of an example; for parts with names, the one called ``labels`` or ``y``."""
        if isinstance(self.fields, Mapping):
            return self.fields["labels" if "labels" in self.fields else "y"]
        if len(self.fields) < 2:
            raise InvalidInput("examples have one part only, so that a batch has no y.")
        return self.fields[1]

    def __getitem__(self, name: Any) -> Any:
        return self.fields[name]


class TorchRows:
    """The rows of a training, which only a vault should hold: their number, some of them, and physical batches.

    Args:
        data: a tuple of tensors or arrays of equal length, such as (x, y); a mapping of names to them; or a map-style
            `torch.utils.data.Dataset` whose examples all have the same shape.

    Raises:
        InvalidInput: it is none of these, or a data loader, whose order of rows no event describes.
    """

    def __init__(self, data: Any, chosen: NDArray[np.int64] | None = None) -> None:
        self._source = data if isinstance(data, _Source) else _source(data)
        self._chosen = chosen

    def __len__(self) -> int:
        return self._source.count if self._chosen is None else len(self._chosen)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Which rows of the source these are."""
        return np.arange(self._source.count, dtype=np.int64) if self._chosen is None else self._chosen

    def take(self, indices: NDArray[np.int64]) -> TorchRows:
        """The dataset of the given rows."""
        return TorchRows(self._source, indices if self._chosen is None else self._chosen[indices])

    def batch(self, which: NDArray[np.int64], slots_of: NDArray[np.int64], slots: int, device: Any) -> Batch:
        """A physical batch with row ``which[k]`` in slot ``slots_of[k]`` and blank examples elsewhere."""
        places = torch.from_numpy(slots_of)
        present = torch.zeros(slots, dtype=torch.bool)
        present[places] = True
        indices = which if self._chosen is None else self._chosen[which]
        parts = self._source.parts(indices) if len(indices) else self._source.blank

        def placed(part: torch.Tensor, blank: torch.Tensor) -> torch.Tensor:
            whole = blank.new_zeros((slots, *blank.shape[1:]))
            if len(indices):
                whole[places] = _finite(part)
            return whole.to(device)

        if isinstance(parts, Mapping):
            fields: Any = {name: placed(parts[name], blank) for name, blank in self._source.blank.items()}
        else:
            fields = tuple(placed(part, blank) for part, blank in zip(parts, self._source.blank, strict=True))
        return Batch(self.entries(fields), present.to(device))

    @property
    def rows_each(self) -> int:
        """Rows of an example: 1, or k where persons are examples."""
        return self._source.rows_each or 1

    def no_rows(self) -> TorchRows:
        """No examples at all, of the same shapes and types; it holds no row."""
        blank, each = self._source.blank, self._source.rows_each
        return TorchRows(_Source(0, lambda indices: blank, blank, each))

    def grouped(self, members: NDArray[np.int64]) -> TorchRows:
        """Examples of several rows each: example i has rows ``members[i]``."""
        each, numbers = members.shape[1], self.numbers

        def regrouped(part: torch.Tensor) -> torch.Tensor:
            return part.reshape(-1, each, *part.shape[1:])

        def parts(indices: NDArray[np.int64]) -> Any:
            return tree_map(regrouped, self._source.parts(numbers[members[indices].ravel()]))

        return TorchRows(_Source(len(members), parts, tree_map(regrouped, self._source.blank), each))

    def entries(self, fields: Any) -> Any:
        """Parts with one entry a slot, as parts with one entry a row: those of a slot one after another."""
        return fields if self._source.rows_each is None else tree_map(lambda part: part.flatten(0, 1), fields)

    def public_examples(self, slots: int, device: Any, entry: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        """A batch of made-up examples of the rows' shapes and types: ``entry`` fills a blank part."""
        blank = self._source.blank

        def made(part: torch.Tensor) -> torch.Tensor:
            return entry(part.new_zeros((slots, *part.shape[1:]))).to(device)

        fields: Any = {k: made(v) for k, v in blank.items()} if isinstance(blank, Mapping) else tuple(map(made, blank))
        return Batch(fields, torch.ones(slots, dtype=torch.bool, device=device))


def _finite(part: torch.Tensor) -> torch.Tensor:
    """Entries that are not finite count as 0, as everywhere in the library: 0·NaN would reach other examples."""
    return torch.nan_to_num(part, 0.0, 0.0, 0.0) if part.is_floating_point() else part


@dataclass(frozen=True)
class _Source:
    count: int
    parts: Callable[[NDArray[np.int64]], Any]
    blank: Any  # the parts of no rows at all: shapes and types, which are public
    rows_each: int | None = None  # where parts have a second axis, of the rows of an example


def _source(data: Any) -> _Source:
    if isinstance(data, torch.utils.data.DataLoader):
        raise InvalidInput(
            "a data loader shuffles rows in an order that no privacy event describes; pass its dataset, from which "
            "batches are drawn as they are accounted. Nothing was released."
        )
    if isinstance(data, torch.utils.data.TensorDataset):
        data = data.tensors
    if isinstance(data, Mapping):
        named = {str(name): torch.as_tensor(part) for name, part in data.items()}
        _require_equal_lengths(list(named.values()))
        count = len(next(iter(named.values())))
        return _Source(count, lambda i: {k: v[torch.from_numpy(i)] for k, v in named.items()}, _none_of(named))
    if isinstance(data, tuple | list) and data and all(hasattr(part, "shape") and len(part.shape) for part in data):
        tensors = tuple(torch.as_tensor(part) for part in data)
        _require_equal_lengths(tensors)
        return _Source(len(tensors[0]), lambda i: tuple(t[torch.from_numpy(i)] for t in tensors), _none_of(tensors))
    if (
        not isinstance(data, tuple)
        and hasattr(data, "__getitem__")
        and hasattr(data, "__len__")
        and not isinstance(data, str | bytes)
    ):
        return _collated_source(data)
    raise InvalidInput(
        "data must be a tuple of tensors such as (x, y), a mapping of names to tensors, or a map-style torch dataset; "
        f"got {type(data).__name__}. Nothing was released."
    )


def _require_equal_lengths(parts: Sequence[torch.Tensor]) -> None:
    if not parts or any(part.ndim == 0 or len(part) != len(parts[0]) for part in parts) or not len(parts[0]):
        raise InvalidInput("the parts of a dataset must have one entry a row, as many each, and at least one row.")


def _none_of(parts: Any) -> Any:
    if isinstance(parts, Mapping):
        return {name: part[:0] for name, part in parts.items()}
    return tuple(part[:0] for part in parts)


def _collated_source(data: Any) -> _Source:
    from torch.utils.data import default_collate

    if not len(data):
        raise InvalidInput("a dataset needs at least one row.")

    def one(index: int) -> Any:
        found = default_collate([data[index]])  # by itself: beside others its type would decide about theirs
        if isinstance(found, torch.Tensor):
            return (found,)
        return dict(found) if isinstance(found, Mapping) else tuple(found)

    def parts(indices: NDArray[np.int64]) -> Any:
        try:
            examples = [one(int(i)) for i in indices]
            if isinstance(blank, Mapping):
                return {name: torch.cat([e[name].to(part.dtype) for e in examples]) for name, part in blank.items()}
            return tuple(torch.cat([e[k].to(part.dtype) for e in examples]) for k, part in enumerate(blank))
        except (RuntimeError, TypeError, KeyError, IndexError, AttributeError):
            raise InvalidInput("examples must be tensors or numbers, all of the same shape and type.") from None

    try:
        blank = _none_of(one(0))
    except (RuntimeError, TypeError):
        raise InvalidInput("examples must be tensors or numbers, all of the same shape and type.") from None
    return _Source(len(data), parts, blank)
