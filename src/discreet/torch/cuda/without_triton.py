"""What stands for Triton on machines without it: kernels can be read there, and are never launched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["tl", "triton"]


def _as_it_is(value: Any) -> Any:
    return value


triton = SimpleNamespace(jit=_as_it_is)
tl = SimpleNamespace(constexpr=_as_it_is)
