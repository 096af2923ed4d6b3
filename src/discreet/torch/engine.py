"""Clipped sums of examples' gradients as exact integers.

``ExampleGradients`` runs a PyTorch model on a batch with a fixed number of slots, and gives the sum over slots of each
example's gradient, clipped, in whole steps of a grid. The claim (docs/maths/torch.md): for fixed weights of the model,
the integers that one slot adds have ℓ2 length at most ``integer_bound``, and they are added exactly. It rests on
hypothesis (H): what a slot's tensors hold depends on the example in this slot, and on no other one; `check_slots` tests
it on the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from discreet.errors import InvalidInput
from discreet.torch.blocks import Block, block_of, in_blocks
from discreet.torch.bookkeeping import float_block_of
from discreet.torch.means import sum_over_slots
from discreet.torch.models import check_model, fix
from discreet.torch.rules import Rule, rule_of
from discreet.torch.slots import check_slots
from discreet.torch.taps import Recorder
from discreet.torch.uses import Use
from discreet.torch.whole import Whole
from discreet.torch.workspace import Workspace

__all__ = ["Clip", "ExampleGradients", "check_model", "check_slots", "fix", "require_computed"]

Reduction = Literal["mean", "sum", "none"]
_BEFORE = "choose the trained parameters before that. Nothing was released of this step"
MARGIN = 1 - 2.0**-20
"""Outweighs all roundings between a gradient and its integers, for models of up to 2^31 parameters."""
STABILITY = 0.01
"""γ of automatic clipping, C/(‖g‖ + γ): the value of Bu, Wang, Zha and Karypis (2023), who found no effect of it."""


@dataclass(frozen=True)
class Clip:
    """How the gradient of one example is bounded.

    Args:
        bound: The ℓ2 length C that a clipped gradient has at most.
        style: "flat" multiplies by min(1, C/‖g‖). "per-layer" does this with each of the L layers that are trained,
            with C/√L. "automatic" multiplies by C/(‖g‖ + 0.01), which needs no search for C (Bu et al. 2023).
    """

    bound: float
    style: Literal["flat", "per-layer", "automatic"] = "flat"

    def __post_init__(self) -> None:
        if not (isinstance(self.bound, int | float) and 1e-12 <= self.bound <= 1e12):  # far from underflow
            raise InvalidInput(f"the clipping bound must be a positive number from 1e-12 to 1e12, got {self.bound!r}")
        if self.style not in ("flat", "per-layer", "automatic"):
            raise InvalidInput('the style of clipping must be "flat", "per-layer" or "automatic"')


class ExampleGradients:
    """Clipped sums of examples' gradients of one model.

    Args:
        model: The model; parameters with ``requires_grad`` are trained. Layers that mix examples are refused.
        clip: How the gradient of one example is bounded.
        slots: Number of rows of every batch. A batch with fewer examples has absent slots.
        grid: Integers of one clipping bound: a gradient of length ``bound`` becomes integers of length ``grid`` at
            most, so one integer is worth ``bound / grid``. ``slots * grid`` must be below 2^53.
        exact: False sums in floating point, for speed; then nothing is claimed about roundings, and what is returned
            are floats in the same unit.

    Example:
        >>> model = nn.Linear(3, 1)
        >>> engine = ExampleGradients(model, Clip(1.0), slots=2, grid=2.0**30)
        >>> x, y = torch.ones(2, 3), torch.zeros(2)
        >>> with engine.watch():
        ...     loss = (model(x)[:, 0] - y).square()
        >>> sums = engine.clipped_sum(loss, present=torch.tensor([True, False]))
        >>> [tuple(total.shape) for total in sums], engine.integer_bound == 2**30
        ([(1, 3), (1,)], True)
        >>> sum(int(total.square().sum()) for total in sums) <= engine.integer_bound**2
        True
    """

    def __init__(self, model: nn.Module, clip: Clip, *, slots: int, grid: float, exact: bool = True) -> None:
        check_model(model)
        if not (isinstance(slots, int) and slots >= 1):
            raise InvalidInput("the number of slots must be a positive whole number")
        if not (math.isfinite(grid) and grid >= 2 and slots * grid < 2.0**53):
            raise InvalidInput("the grid must be at least 2, and slots × grid below 2^53")
        self.model, self.clip, self.slots, self.grid, self.exact = model, clip, slots, float(grid), exact
        self.parameters: list[Parameter] = [p for p in model.parameters() if p.requires_grad]
        if not self.parameters:
            raise InvalidInput("no parameter of the model requires a gradient")
        if any(p.is_complex() for p in self.parameters):
            raise InvalidInput("complex parameters are not supported; train real and imaginary parts as two parameters")
        if sum(p.numel() for p in self.parameters) > 2**31:
            raise InvalidInput("models of more than 2^31 trained parameters are not supported")
        self.integer_bound: float = self.grid
        self._names = {id(p): name for name, p in reversed(list(model.named_parameters(remove_duplicate=False)))}
        self._layers: list[tuple[str, nn.Module, Rule]] = []
        self._find_layers("", model, set())
        self._groups, self._trained = self._layers_of_parameters(), set(map(id, self.parameters))
        self.report: dict[str, str] = {name: self._described(layer, rule) for name, layer, rule in self._layers}
        self._recorder: Recorder | None = None
        self._workspace = Workspace()

    # --- the model ----------------------------------------------------------------------------------------------------

    def _find_layers(self, name: str, module: nn.Module, seen: set[int]) -> None:
        """List the outermost modules that have a rule, or parameters without one."""
        if id(module) in seen or not any(p.requires_grad for p in module.parameters()):
            return
        seen.add(id(module))
        lists = [child for child in module.children() if isinstance(child, nn.ParameterList | nn.ParameterDict)]
        own = any(p.requires_grad for part in (module, *lists) for p in part.parameters(recurse=False))
        parametrised = nn.utils.parametrize.is_parametrized(module)
        rule = None if parametrised else rule_of(module)
        if rule is not None:
            self._layers.append((name, module, rule))
        elif own or parametrised:
            self._layers.append((name, module, Whole(module)))
        else:
            for child, inner in module.named_children():
                self._find_layers(f"{name}.{child}" if name else child, inner, seen)

    def _layers_of_parameters(self) -> dict[int, int]:
        """The layer of each parameter by identity; a parameter of several layers belongs to the first."""
        groups: dict[int, int] = {}
        for place, (_, layer, _) in enumerate(self._layers):
            for parameter in layer.parameters():
                groups.setdefault(id(parameter), place)
        return groups

    @staticmethod
    def _described(layer: nn.Module, rule: Rule) -> str:
        return f"{type(layer).__name__}: {rule.rule if isinstance(rule, Whole) else 'own rule'}"

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Record the forward passes of the model inside; `clipped_sum` takes a loss that was computed from them."""
        device = self.parameters[0].device
        recorder = Recorder(self.slots, torch.zeros((), device=device, requires_grad=True))
        self._recorder = recorder
        with self._recording(recorder):
            yield

    @contextmanager
    def _recording(self, recorder: Recorder) -> Iterator[None]:
        """Forward passes inside are recorded; also those that a checkpointed model repeats in its backward pass."""
        for _, layer, rule in self._layers:
            layer.forward = _recording(layer, rule, recorder)
        try:
            yield
        finally:
            for _, layer, _ in self._layers:
                del layer.forward

    # --- the sum ------------------------------------------------------------------------------------------------------

    def clipped_sum(
        self, loss: Tensor, present: Tensor, bound: float | None = None, reduction: Reduction | None = None
    ) -> list[Tensor]:
        """The sum over present slots of the clipped gradients, in integers: one tensor for each of ``parameters``.

        A slot that is absent, or whose gradient is not finite, adds exactly zero.

        Args:
            loss: The losses of the slots, a vector, or their mean or sum, a scalar, computed inside `watch`.
            present: Which slots hold an example, a vector of truth values.
            bound: A clipping bound for this sum instead of that of ``clip``; an integer is then worth bound / grid.
            reduction: What the loss is; by default "none" for a vector, and "mean" for a scalar.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise InvalidInput("the loss must be computed inside watch(), once for each clipped sum")
        bound = Clip(self.clip.bound if bound is None else bound).bound
        self._differentiate(recorder, loss, reduction)
        with torch.no_grad():
            return self._sums(recorder, present.to(self.parameters[0].device), bound)

    def sums_of(
        self, forward: Callable[[Any], Tensor], fields: Any, present: Tensor, bound: float | None = None
    ) -> list[Tensor]:
        """The clipped sum of a batch whose losses are ``forward(fields)``; see `clipped_sum`."""
        with self.watch():
            loss = forward(fields)
        return self.clipped_sum(loss, present, bound)

    def _differentiate(self, recorder: Recorder, loss: Tensor, reduction: Reduction | None, sign: float = 1.0) -> None:
        """The backward pass of the losses, or of minus the losses, which records the uses of all parameters."""
        require_computed(loss)
        reduction = reduction or ("mean" if loss.dim() == 0 else "none")
        expected = (self.slots,) if reduction == "none" else ()
        if tuple(loss.shape) != expected:
            raise InvalidInput(f"the loss has shape {tuple(loss.shape)}, but {reduction!r} needs {expected}")
        if frozen := [self._names[id(p)] for p in self.parameters if not p.requires_grad]:
            raise InvalidInput(f"{', '.join(frozen)}: frozen since the training was made; {_BEFORE}")
        loss = sum_over_slots(loss, self.slots) if reduction == "mean" else loss
        start = torch.full_like(loss, sign)
        recorder.uses.clear()  # of other backward passes of a loop, which need not keep slots apart
        with self._recording(recorder):
            found = torch.autograd.grad(loss, [recorder.tap, *self.parameters], start, allow_unused=True)
        astray = [self._names[id(p)] for p, g in zip(self.parameters, found[1:], strict=True) if g is not None]
        if astray:
            raise InvalidInput(
                f"{', '.join(astray)}: used outside of the module that owns the parameter, so that the gradients of "
                "examples cannot be told apart; use it in that module's forward pass"
            )
        if not recorder.uses:
            raise InvalidInput(
                "the loss was not computed by the model that is trained, or by none of its trained parameters; nothing "
                "was released of this step"
            )

    def _sums(self, recorder: Recorder, present: Tensor, bound: float) -> list[Tensor]:
        blocks = self._blocks(recorder.uses)
        recorder.uses = []
        squares = torch.zeros(len(self._layers), self.slots, dtype=torch.float64, device=present.device)
        for place, block in blocks:
            squares[place] += block.square_lengths()
        weights = self._weights(squares, present, bound)
        totals = {id(p): torch.zeros(p.shape, dtype=self._kind(p), device=p.device) for p in self.parameters}
        while blocks:  # what a block keeps is released as soon as it is summed
            place, block = blocks.pop()
            block.add(weights[place], totals[id(block.target.parameter)])
            del block
        return [totals[id(p)].to(torch.int64) if self.exact else totals[id(p)] for p in self.parameters]

    def _kind(self, parameter: Parameter) -> torch.dtype:
        """The type of a parameter's sum: whole doubles if exact."""
        return torch.float64 if self.exact or parameter.dtype == torch.float64 else torch.float32

    def _blocks(self, uses: list[Use]) -> list[tuple[int, Block]]:
        by_parameter: dict[int, list[Use]] = {}
        for use in uses:
            if id(use.target.parameter) not in self._trained:
                raise InvalidInput(f"a parameter was replaced or unfrozen since the training was made; {_BEFORE}")
            by_parameter.setdefault(id(use.target.parameter), []).append(use)
        blocks = []
        for parameter, found in by_parameter.items():
            for part in in_blocks(found):
                space = self._workspace
                block = block_of(part, self.grid, space) if self.exact else float_block_of(part, space)
                blocks.append((self._groups[parameter], block))
        self._describe(blocks)
        return blocks

    def _describe(self, blocks: list[tuple[int, Block]]) -> None:
        """Say in the report how each layer's sums were computed; the largest parameter speaks for its layer."""
        largest: dict[int, Block] = {}
        for place, block in blocks:
            before = largest.get(place)
            if before is None or block.target.parameter.numel() > before.target.parameter.numel():
                largest[place] = block
        for place, block in largest.items():
            name, layer, rule = self._layers[place]
            words = rule.rule if isinstance(rule, Whole) else block.rule
            self.report[name] = f"{type(layer).__name__}: {words}"

    def _weights(self, squares: Tensor, present: Tensor, bound: float | Tensor) -> Tensor:
        """Integers for one unit of each layer's gradient, [layers, slots]; zero for slots that add nothing."""
        layers = len(squares)
        total = squares.sum(0)
        counts = present & total.isfinite()
        if self.clip.style == "per-layer":
            part = bound / math.sqrt(layers)
            factors = (part / squares.sqrt()).clamp(max=1.0)
        elif self.clip.style == "flat":
            factors = (bound / total.sqrt()).clamp(max=1.0).expand(layers, -1)
        else:
            factors = (bound / (total.sqrt() + STABILITY)).expand(layers, -1)
        return torch.where(counts, MARGIN * (self.grid / bound) * factors, 0.0)


def require_computed(loss: Any) -> None:
    """Refuse a loss that cannot be differentiated."""
    if not isinstance(loss, Tensor) or not loss.requires_grad:
        raise InvalidInput(
            "the loss must be a tensor that was computed from the model's output with gradients on; nothing was "
            "released of this step"
        )


def _recording(layer: nn.Module, rule: Rule, recorder: Recorder) -> Any:
    """A forward pass of the layer that is recorded, except while the recorder is suspended or gradients are off."""
    usual = layer.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if recorder.suspended or not torch.is_grad_enabled():
            return usual(*args, **kwargs)
        return rule(layer, recorder, *args, **kwargs)

    return forward
