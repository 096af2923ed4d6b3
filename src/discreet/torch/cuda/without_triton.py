"""What stands for Triton on machines without it: kernels can be read there, and are never launched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["tl", "triton"]


def _as_it_is(value: Any) -> Any:
    return value


def _jit(function: Any = None, **options: Any) -> Any:
    return _as_it_is if function is None else function


triton = SimpleNamespace(jit=_jit)
tl = SimpleNamespace(constexpr=_as_it_is)
