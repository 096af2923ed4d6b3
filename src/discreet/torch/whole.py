"""Modules without a rule of their own: gradients of each example by differentiating the module once an example.

``torch.func.vmap`` does this for all examples together. Where it cannot (an operation that it does not know, control
flow that depends on values), the module runs once an example. Either way a module is only given one example at a time,
so its gradients are those of the example whatever the module computes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils._pytree import tree_flatten, tree_unflatten

from discreet.errors import InvalidInput
from discreet.torch.taps import Recorder, with_slots
from discreet.torch.uses import DirectUse, Target

__all__ = ["LOOP", "VMAP", "Whole"]

VMAP = "vmap(grad) of this module"
LOOP = "gradient of this module, one example at a time"


class _Run(Function):  # type: ignore[misc]
    """The module's outputs for all slots; its backward pass records the gradients of its parameters."""

    @staticmethod
    def forward(ctx: Any, run: _Call, tap: Tensor, *batched: Tensor) -> tuple[Tensor, ...]:
        ctx.run, ctx.devices, kind = run, [tap.device] if tap.is_cuda else [], tap.device.type
        ctx.precision = kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
        ctx.state = torch.random.get_rng_state(), [torch.cuda.get_rng_state(device) for device in ctx.devices]
        ctx.save_for_backward(*batched)
        outputs = run.forward(batched)
        ctx.mark_non_differentiable(*(t for t in outputs if not t.is_floating_point()))
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        with torch.random.fork_rng(devices=ctx.devices):  # the same dropout as in the forward pass
            torch.random.set_rng_state(ctx.state[0])
            for device, state in zip(ctx.devices, ctx.state[1], strict=True):
                torch.cuda.set_rng_state(state, device)
            with torch.autocast(*ctx.precision):
                inputs = ctx.run.backward(ctx.saved_tensors, gradients)
        return None, None, *inputs


class _Call:
    """One call of a module: which inputs have the slot as first axis, and how outputs are put together again."""

    def __init__(self, whole: Whole, recorder: Recorder, arguments: Any) -> None:
        self.whole, self.recorder = whole, recorder
        leaves, self.structure = tree_flatten(arguments)
        self.leaves = leaves
        self.batched = [
            place
            for place, leaf in enumerate(leaves)
            if isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == recorder.slots
        ]
        for place, leaf in enumerate(leaves):
            if place not in self.batched and isinstance(leaf, Tensor) and leaf.requires_grad:
                leaves[place] = with_slots(leaf, recorder.slots, type(whole.module).__name__)
                self.batched.append(place)
        self.output: Any = None

    def _one(self, parameters: dict[str, Tensor], inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Outputs for one example, from inputs with a first axis of 1."""
        leaves = list(self.leaves)
        for place, value in zip(self.batched, inputs, strict=True):
            leaves[place] = value
        args, kwargs = tree_unflatten(leaves, self.structure)
        found = torch.func.functional_call(self.whole.module, parameters, args, kwargs)
        outputs, self.output = tree_flatten(found)
        if not all(isinstance(t, Tensor) and t.dim() and t.shape[0] == 1 for t in outputs):
            raise InvalidInput(f"the outputs of {type(self.whole.module).__name__} must be tensors with one row a slot")
        return tuple(outputs)

    def _values(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.whole.module.named_parameters()}

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Outputs of all slots."""
        values = self._values()

        def one(*example: Tensor) -> tuple[Tensor, ...]:
            return tuple(t[0] for t in self._one(values, [x[None] for x in example]))

        def together() -> tuple[Tensor, ...]:
            return torch.func.vmap(one, randomness="different")(*inputs)

        def in_turn() -> tuple[Tensor, ...]:
            found = [one(*(x[i] for x in inputs)) for i in range(self.recorder.slots)]
            return tuple(torch.stack(t) for t in zip(*found, strict=True))

        return self._either(together, in_turn)

    def backward(self, inputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor | None]:
        """Record the gradients of the parameters, and give those of the inputs."""
        values = self._values()
        trained = {name: values[name] for name in self.whole.targets}
        smooth = [x.is_floating_point() for x in inputs]

        def one(example: Sequence[Tensor], given: Sequence[Tensor]) -> Any:
            def of(parameters: dict[str, Tensor], moving: list[Tensor]) -> tuple[Tensor, ...]:
                queue = iter(moving)
                full = [next(queue) if s else x for x, s in zip(example, smooth, strict=True)]
                outputs = self._one({**values, **parameters}, [x[None] for x in full])
                return tuple(t[0] for t in outputs if t.is_floating_point())

            outputs, pull = torch.func.vjp(of, trained, [x for x, s in zip(example, smooth, strict=True) if s])
            return pull(tuple(g.to(t.dtype) for g, t in zip(given, outputs, strict=True)))

        given = [g for g in gradients if g.is_floating_point()]

        def together() -> Any:
            return torch.func.vmap(one, randomness="different")(list(inputs), given)

        def alone(example: Sequence[Tensor], given: Sequence[Tensor]) -> Any:
            """Gradients of each example by an ordinary backward pass, for functions that torch.func does not know."""
            leaves = [x.detach().requires_grad_(s) for x, s in zip(example, smooth, strict=True)]
            moving = {name: values[name].detach().requires_grad_() for name in trained}
            with torch.enable_grad():
                outputs = self._one({**values, **moving}, [x[None] for x in leaves])
            outputs = tuple(t for t in outputs if t.is_floating_point())
            starts = [g[None].to(t.dtype) for g, t in zip(given, outputs, strict=True)]
            pairs = [(t, g) for t, g in zip(outputs, starts, strict=True) if t.requires_grad]
            wanted = [*moving.values(), *(x for x, s in zip(leaves, smooth, strict=True) if s)]
            found = torch.autograd.grad([t for t, _ in pairs], wanted, [g for _, g in pairs], materialize_grads=True)
            return dict(zip(moving, found, strict=False)), list(found[len(moving) :])

        def in_turn() -> Any:
            found = [alone([x[i] for x in inputs], [g[i] for g in given]) for i in range(self.recorder.slots)]
            parameters = {name: torch.stack([f[0][name] for f in found]) for name in trained}
            return parameters, [torch.stack(t) for t in zip(*(f[1] for f in found), strict=True)]

        parameters, moving = self._either(together, in_turn)
        for name, target in self.whole.targets.items():
            self.recorder.record(DirectUse(target, parameters[name].detach()))
        queue = iter(moving)
        return [next(queue) if s else None for s in smooth]

    def _either(self, together: Callable[[], Any], in_turn: Callable[[], Any]) -> Any:
        before = self.recorder.suspended
        self.recorder.suspended = True
        try:
            if self.whole.vectorised:
                try:
                    with warnings.catch_warnings():  # an operation that vmap knows only as a loop is no news
                        warnings.filterwarnings("ignore", message="There is a performance drop")
                        return together()
                except InvalidInput:
                    raise
                except (RuntimeError, NotImplementedError, ValueError):
                    self.whole.vectorised = False
            return in_turn()
        finally:
            self.recorder.suspended = before


class Whole:
    """A module that is recorded as a whole, together with all modules in it."""

    def __init__(self, module: nn.Module) -> None:
        self.module, self.vectorised = module, True
        self.targets = {name: Target(p) for name, p in module.named_parameters() if p.requires_grad}

    @property
    def rule(self) -> str:
        """How its gradients are computed, in words."""
        return VMAP if self.vectorised else LOOP

    def __call__(self, module: nn.Module, recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        """The module's output, recorded."""
        call = _Call(self, recorder, (args, kwargs))
        outputs = _Run.apply(call, recorder.tap, *(call.leaves[place] for place in call.batched))
        return tree_unflatten(list(outputs), call.output)
