"""Memory that an engine uses again in every pass.

Memory that is new to the process is handed out page by page when it is first written to, which takes longer than the
arithmetic of a small layer. Tensors of the same size in every pass are therefore kept.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

__all__ = ["Workspace"]


class Workspace:
    """Tensors in host memory by name. What one holds is undefined until it is written, and lost when it is asked again.

    Example:
        >>> workspace = Workspace()
        >>> first = workspace.empty("gradients", (2, 3), torch.float32)
        >>> first.shape, workspace.empty("gradients", (3, 2), torch.float32).data_ptr() == first.data_ptr()
        (torch.Size([2, 3]), True)
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, Tensor] = {}

    def empty(self, name: Hashable, shape: Sequence[int], kind: torch.dtype) -> Tensor:
        """The tensor of this name, with the given shape and type."""
        size, held = math.prod(shape), self._held.get(name)
        if held is None or held.numel() < size or held.dtype != kind:
            held = self._held[name] = torch.empty(size, dtype=kind)
        return held[:size].view(*shape)
