"""Clipped sums as one program: forward and backward pass traced and compiled, sums by kernels, all in one CUDA graph.

The forward and the backward pass of a batch are run once on made-up examples and traced to a program of tensor
operations, whose outputs are what `discreet.torch.cuda.reductions` holds of each parameter. PyTorch's compiler makes
kernels of the program. Squared lengths, clipping factors and integer sums follow by kernels of this library. On a GPU
everything is recorded in a CUDA graph and replayed, so that no step waits for Python.

The claim is that of `discreet.torch.engine`; docs/maths/torch.md proves it. Hypothesis (H) is a statement about the
program that is replayed, and `check_slots` tests exactly this one, because `sums_of` runs nothing else.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from discreet.errors import InvalidInput
from discreet.torch.blocks import in_blocks
from discreet.torch.cuda import segments
from discreet.torch.cuda.choice import reduction_of, worth_keeping
from discreet.torch.cuda.program import (
    compiled_program,
    deterministic,
    known_as_compiling,
    masks_from_halves,
    require_plain,
)  # fmt: skip
from discreet.torch.cuda.reductions import NotCompiled, Reduction, Vectors, channels_last
from discreet.torch.engine import Clip
from discreet.torch.engines import TrainingGradients
from discreet.torch.taps import Recorder
from discreet.torch.uses import DirectUse, Target, Use

__all__ = ["CompiledGradients", "NotCompiled"]

LARGEST = 2.0**31
"""Integers are added in 32 bits: slots × grid must be below this."""
FINEST = 2.0**50
"""The most integers to a unit of gradient: entries below 2^−60, whose squares may be lost, then become zero."""
SMALLEST = 2.0**-100
"""Weights below this count as zero: those that float32 has only with few digits may come out larger."""
GAP = 64
"""Sums of parameters begin at multiples of this many entries of the common tensor."""
ROUNDED = torch.bfloat16
"""The type to which factors of products over time are rounded, and products that are kept."""


class CompiledGradients(TrainingGradients):
    """Clipped sums of examples' gradients of one model and one loss, compiled for batches of one shape.

    Python code of ``forward`` runs once, when this is made: what it computes must depend on its argument and on the
    model's parameters and buffers alone.

    Args:
        model: The model, on a GPU (in host memory the program runs uncompiled, for tests).
        clip: How the gradient of one example is bounded.
        forward: The losses of the slots, a vector, or their mean; it runs the model.
        examples: Made-up examples with the shapes, types and devices of every batch.
        slots: Number of rows of every batch.
        grid: Whole steps to the clipping bound. ``slots * grid`` must be below 2^31.
        kernels: False runs the traced program without PyTorch's compiler.

    Raises:
        NotCompiled: see there.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        clip: Clip,
        forward: Callable[[Any], Tensor],
        examples: Any,
        *,
        slots: int,
        grid: float,
        kernels: bool = True,
    ) -> None:
        super().__init__(model, clip, slots=slots, grid=grid, exact=True)
        if slots * grid >= LARGEST:
            raise NotCompiled("slots × grid must be below 2^31")
        if any(p.dtype != torch.float32 for p in self.parameters):
            raise NotCompiled("parameters must be float32")
        device = self.parameters[0].device
        if device.type == "cuda" and (importlib.util.find_spec("triton") is None or torch.version.hip):
            raise NotCompiled("kernels are written in Triton, for GPUs with CUDA")
        if torch.get_float32_matmul_precision() == "highest":
            raise NotCompiled("products in full float32 are asked for; torch.set_float32_matmul_precision('high')")
        self.forward = forward
        leaves, self._structure = tree_flatten(examples)
        self._fields: list[Tensor] = [leaf.to(device).clone() for leaf in leaves]
        self._present = torch.ones(slots, dtype=torch.bool, device=device)
        self._bound = torch.tensor(clip.bound, dtype=torch.float64, device=device)
        self._graph: Any = None
        self._inputs: list[Tensor] = [*model.parameters(), *model.buffers(), *self._fields]
        self._addresses = [tensor.data_ptr() for tensor in self._inputs]
        try:
            with deterministic():
                self._make(device.type == "cuda", kernels)
        except (InvalidInput, NotCompiled):
            raise
        except Exception as problem:  # of tracing, of compilers, of capturing: nothing was released
            raise NotCompiled(f"the loss could not be compiled ({type(problem).__name__})") from problem

    # --- made once ----------------------------------------------------------------------------------------------------

    def _make(self, on_gpu: bool, kernels: bool) -> None:
        program = self._traced()
        self._arrange()
        with torch.no_grad():
            self._program = compiled_program(program, self._inputs) if on_gpu and kernels else program
            if on_gpu:
                self._capture()

    def _traced(self) -> Any:
        """The program from parameters, buffers and fields to the tensors that reductions hold."""
        from torch.fx.experimental.proxy_tensor import make_fx

        fields = tree_unflatten(self._fields, self._structure)
        with self.watch():
            loss = self.forward(fields)
        recorder, self._recorder = self._recorder, None
        assert recorder is not None
        self._differentiate(recorder, loss, None)
        at_once, self._kept = _used_once(recorder.uses), worth_keeping(recorder.uses, ROUNDED)
        recorder.uses = []
        del loss

        def program(*inputs: Tensor) -> list[Tensor]:
            with self.watch():
                recorder = self._recorder
                assert recorder is not None
                recorder.uses = _Reducing(at_once, self._reduced)
                loss = self.forward(fields)
            self._differentiate(recorder, loss, None)
            self._reductions = self._collected(recorder)
            return [tensor for reduction in self._reductions for tensor in reduction.held]

        with known_as_compiling():
            traced = make_fx(program, tracing_mode="real")(*self._inputs)
        for reduction in self._reductions:
            reduction.shapes = [tuple(tensor.shape) for tensor in reduction.held]
            reduction.held = []
        require_plain(traced)
        masks_from_halves(traced)
        return traced

    def _reduced(self, uses: Sequence[Use]) -> Reduction | DirectUse:
        return reduction_of(uses, self.grid, ROUNDED, self._kept)

    def _collected(self, recorder: Recorder) -> list[Reduction]:
        """All reductions; gradients of vectors are put together, layer by layer if layers are clipped alone."""
        found: list[Reduction] = []
        vectors: dict[int, list[DirectUse]] = {}
        waiting: dict[int, list[Use]] = {}
        for use in recorder.uses:
            if isinstance(use, Reduction):
                found.append(use)
            else:
                waiting.setdefault(id(use.target.parameter), []).append(use)
        for uses in waiting.values():
            for part in in_blocks(uses):
                reduced = self._reduced(part)
                if isinstance(reduced, Reduction):
                    found.append(reduced)
                else:
                    vectors.setdefault(self._row(reduced.target), []).append(reduced)
        return [*(Vectors(uses) for uses in vectors.values()), *found]

    def _row(self, target: Target) -> int:
        """The row of squared lengths to which a parameter's are added: its layer's, or the only one."""
        return self._groups[id(target.parameter)] if self.clip.style == "per-layer" else 0

    def _arrange(self) -> None:
        """Where each reduction writes: rows of squared lengths, and places in the common tensor of sums."""
        self._lines, first = [], 0
        for reduction in self._reductions:
            self._lines.append((first, first + reduction.parts))
            first += reduction.parts
        self._places: dict[int, int] = {}
        self._together: set[int] = set()
        end = 0
        for reduction in self._reductions:
            if isinstance(reduction, Vectors):
                end = -(-end // GAP) * GAP
                reduction.first = end
                for target in reduction.targets:
                    self._places[id(target.parameter)] = end
                    self._together.add(id(target.parameter))
                    end += target.parameter.numel()
        for parameter in self.parameters:
            if id(parameter) not in self._places:
                end = -(-end // GAP) * GAP
                self._places[id(parameter)] = end
                end += parameter.numel()
        self.flat = torch.zeros(-(-end // GAP) * GAP, dtype=torch.int32, device=self._present.device)
        """The sums of all parameters, one after another; what lies between them is zero."""
        self.sums = self.views(self.flat)
        rules = {id(r.target.parameter): r.rule for r in self._reductions if not isinstance(r, Vectors)}
        for name, layer, _ in self._layers:
            words = [rules[id(p)] for p in layer.parameters() if id(p) in rules]
            self.report[name] = f"{type(layer).__name__}: {words[0] if words else Vectors.rule}, compiled"

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parts of a tensor like ``flat``, one for each of ``parameters``, with its channels where it has them."""
        found = []
        for p in self.parameters:
            part = flat[self._places[id(p)] :][: p.numel()]
            turned = channels_last(p) and id(p) not in self._together
            found.append(part.as_strided(p.shape, p.stride()) if turned else part.view(p.shape))
        return found

    def _capture(self) -> None:
        current, other = torch.cuda.current_stream(), torch.cuda.Stream()
        torch._C._cuda_clearCublasWorkspaces()  # each stream has its own, and those of tracing are not used again
        other.wait_stream(current)
        with torch.cuda.stream(other):
            for _ in range(2):
                self._run()
        current.wait_stream(other)
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._run()

    # --- every step ---------------------------------------------------------------------------------------------------

    def sums_of(
        self, forward: Callable[[Any], Tensor], fields: Any, present: Tensor, bound: float | None = None
    ) -> list[Tensor]:
        """The clipped sum of a batch, int32, one tensor for each of ``parameters``; the next call overwrites them."""
        if forward is not self.forward:
            raise InvalidInput("another loss than the one that was compiled")
        leaves, structure = tree_flatten(fields)
        same = structure == self._structure and all(
            isinstance(new, Tensor) and new.shape == held.shape and new.dtype == held.dtype
            for new, held in zip(leaves, self._fields, strict=True)
        )
        if not same:
            raise InvalidInput("a batch has other shapes or types than the examples that the loss was compiled for")
        bound = Clip(self.clip.bound if bound is None else bound).bound
        if self.grid / bound > FINEST:
            raise InvalidInput("the clipping bound is too small for compiled sums; use exact sums without compiling")
        if self._addresses != [tensor.data_ptr() for tensor in self._inputs]:
            raise InvalidInput("parameters or buffers have moved in memory since the loss was compiled")
        for new, held in zip(leaves, self._fields, strict=True):
            held.copy_(new)
        self._present.copy_(present)
        self._bound.fill_(bound)
        if self._graph is not None:
            self._graph.replay()
        else:
            with torch.no_grad(), deterministic():
                self._run()
        return self.sums

    def _run(self) -> None:
        """All of a step on the tensors that hold its inputs."""
        outputs = list(self._program(*self._inputs))
        held = []
        for reduction in reversed(self._reductions):
            count = len(reduction.shapes)
            held.append(outputs[-count:])
            del outputs[-count:]
        held.reverse()
        squares = torch.empty(self._lines[-1][1], self.slots, dtype=torch.float64, device=self._present.device)
        for reduction, tensors, (first, last) in zip(self._reductions, held, self._lines, strict=True):
            reduction.measure(tensors, squares[first:last])
        weights = segments.MARGIN * self._weights(self._by_row(squares), self._present, self._bound)
        weights = torch.where(weights < SMALLEST, 0.0, weights).float()
        self.flat.zero_()
        sums = dict(zip(map(id, self.parameters), self.sums, strict=True))
        while held:  # what a reduction holds is released as soon as it is summed
            reduction, tensors = self._reductions[len(held) - 1], held.pop()
            if isinstance(reduction, Vectors):
                total = self.flat[reduction.first : reduction.first + reduction.size]
            else:
                total = reduction.target.of(sums[id(reduction.target.parameter)])
            reduction.add(tensors, weights[self._row(reduction.target)], total)
            del tensors

    def _by_row(self, squares: Tensor) -> Tensor:
        if self.clip.style != "per-layer":
            return squares.sum(0)[None]
        rows = torch.zeros(len(self._layers), self.slots, dtype=torch.float64, device=squares.device)
        for reduction, (first, last) in zip(self._reductions, self._lines, strict=True):
            rows[self._row(reduction.target)] += squares[first:last].sum(0)
        return rows


class _Reducing(list[Any]):
    """Uses of which those of parameters that are used once are reduced when they are recorded."""

    def __init__(self, at_once: set[int], reduced: Callable[[Sequence[Use]], Any]) -> None:
        super().__init__()
        self.at_once, self.reduced = at_once, reduced

    def append(self, use: Any) -> None:
        """Keep a use, or what it is reduced to."""
        super().append(self.reduced([use]) if id(use.target.parameter) in self.at_once else use)


def _used_once(uses: Sequence[Use]) -> set[int]:
    """Parameters of which no two uses concern the same rows."""
    by_parameter: dict[int, list[Use]] = {}
    for use in uses:
        by_parameter.setdefault(id(use.target.parameter), []).append(use)
    return {key for key, found in by_parameter.items() if len(in_blocks(found)) == len(found)}
