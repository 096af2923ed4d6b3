"""The traced program of a forward and a backward pass: what it may hold, what is changed in it, how it is compiled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from discreet.torch.cuda.reductions import NotCompiled

__all__ = ["compiled_program", "deterministic", "known_as_compiling", "masks_from_halves", "require_plain"]

ATEN = torch.ops.aten
SAME = {ATEN.detach.default, ATEN.alias.default}
MOVED = {ATEN.permute.default, ATEN.view.default, ATEN._unsafe_view.default}


def masks_from_halves(traced: Any) -> None:
    """Let the backward pass of ReLU read what is held in half precision, so that its float32 output is released.

    The derivative is 1 where the output is positive. Rounding to bfloat16 keeps the sign, but for numbers below 2^−134.
    Where what is held has another layout in memory, the output stays: kernels of PyTorch may rest on its layout.
    """
    graph = traced.graph
    order = {node: place for place, node in enumerate(graph.nodes)}
    held: dict[Any, tuple[Any, list[Any]]] = {}
    for half in graph.output_node().all_input_nodes:
        if half.target is not ATEN._to_copy.default or half.kwargs.get("dtype") is not torch.bfloat16:
            continue
        source, steps = half.args[0], []
        while source.target in SAME | MOVED:
            steps.append(source)
            source = source.args[0]
        held.setdefault(source, (half, steps))
    for node in list(graph.nodes):
        if node.target is not ATEN.threshold_backward.default or node.args[2] != 0:
            continue
        source = node.args[1]
        while source.target in SAME:
            source = source.args[0]
        half, steps = held.get(source, (None, []))
        if half is not None and order[half] < order[node]:
            with graph.inserting_before(node):
                mask = graph.call_function(ATEN.le.Scalar, (_undone(graph, half, steps), 0))
                zero = graph.call_function(ATEN.zeros_like.default, (node.args[0],))
                chosen = graph.call_function(ATEN.where.self, (mask, zero, node.args[0]))
            node.replace_all_uses_with(chosen)
            graph.erase_node(node)
    graph.eliminate_dead_code()
    traced.recompile()


def _undone(graph: Any, moved: Any, steps: list[Any]) -> Any:
    """The entries of ``moved`` where they were before some steps, of which the first is the last that was taken."""
    for step in steps:
        if step.target is ATEN.permute.default:
            turned = [step.args[1].index(axis) for axis in range(len(step.args[1]))]
            moved = graph.call_function(ATEN.permute.default, (moved, turned))
        elif step.target in MOVED:
            shape = list(step.args[0].meta["val"].shape)
            moved = graph.call_function(ATEN.reshape.default, (moved, shape))
    return moved


def require_plain(traced: Any) -> None:
    """Refuse a program with tensors that are no inputs, which may hold made-up examples, or with random numbers."""
    for node in traced.graph.nodes:
        if node.op == "get_attr":
            value = getattr(traced, node.target)
            if isinstance(value, Tensor) and value.numel() > 1:
                raise NotCompiled("the loss uses a tensor that is neither a parameter nor a buffer of the model")
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None and schema.is_mutable:
            changed = [
                a for a, s in zip(node.args, schema.arguments, strict=False) if s.alias_info and s.alias_info.is_write
            ]
            if any(getattr(one, "op", "") == "placeholder" for one in changed):
                raise NotCompiled("the forward pass writes into a buffer, a parameter or the batch")
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            names = [argument.name for argument in node.target._schema.arguments]
            given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
            if "scaled_dot_product" not in str(node.target) or given.get("dropout_p", 0.0) != 0.0:
                raise NotCompiled("dropout and other random numbers are not compiled")


def compiled_program(program: Any, inputs: list[Tensor]) -> Any:
    """The program, compiled for inputs like these."""
    import torch._inductor

    return torch._inductor.compile(program, inputs)


@contextmanager
def known_as_compiling() -> Iterator[None]:
    """Lets models leave out what reads entries, as they do for PyTorch's compiler."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def deterministic() -> Iterator[None]:
    """Deterministic kernels of PyTorch alone, without filling new tensors; what was set before is set again."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.utils.deterministic.fill_uninitialized_memory = fills
