"""Lets benchmarks run where PyTorch, Triton and NumPy are installed and the other dependencies are not (a lent GPU)."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

_STOOD_IN: list[str] = []


def stood_in_for() -> list[str]:
    """The packages that are not installed here and for which something else stands."""
    return list(_STOOD_IN)


def prepare() -> None:
    """Make ``discreet`` importable from the source tree; compiled loops for host memory become plain ones."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
    if importlib.util.find_spec("numba") is None:
        _STOOD_IN.append("numba")
        numba: Any = types.ModuleType("numba")
        numba.njit = lambda *function, **options: function[0] if function else lambda inner: inner
        sys.modules["numba"] = numba
    if importlib.util.find_spec("cryptography") is None:  # keys are then given by the benchmark
        _STOOD_IN.append("cryptography")
        for name in ("cryptography", "cryptography.hazmat", "cryptography.hazmat.primitives"):
            sys.modules[name] = types.ModuleType(name)
        ciphers: Any = types.ModuleType("cryptography.hazmat.primitives.ciphers")
        ciphers.Cipher = ciphers.algorithms = ciphers.modes = None
        sys.modules[ciphers.__name__] = ciphers
