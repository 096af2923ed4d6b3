"""LSTM, GRU and plain recurrent layers while they are recorded: one step of time after the other, by their formulas."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from discreet.errors import InvalidInput
from discreet.torch import taps
from discreet.torch.taps import Recorder, with_slots
from discreet.torch.uses import Target

__all__ = ["recurrent", "recurrent_is_covered"]


def recurrent_is_covered(layer: nn.RNNBase) -> bool:
    """Whether a layer is recorded by its own rule: batch first, and no projection of the state."""
    return bool(layer.batch_first and layer.proj_size == 0)


class _Shift(Function):  # type: ignore[misc]
    """Zeros [slots, T, p] that are added to what a state contributes; records states and the gradients they met."""

    @staticmethod
    def forward(ctx: Any, tap: Tensor, shape: tuple[int, ...], note: Any) -> Tensor:
        ctx.note = note
        return torch.zeros(shape, dtype=note[4], device=tap.device)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        recorder, states, of_weight, of_bias, _ = ctx.note
        recorder.matrix(of_weight, torch.stack(states, 1), g.detach(), False)
        if of_bias is not None:
            recorder.vector(of_bias, taps.recorded_sum(g.detach(), recorder.slots))
        return None, None, None


def _step(
    layer: nn.RNNBase, from_input: Tensor, from_state: Tensor, state: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """The next state and cell."""
    if isinstance(layer, nn.LSTM):
        enter, forget, change, leave = (from_input + from_state).chunk(4, 1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * change.tanh()
        return leave.sigmoid() * cell.tanh(), cell
    if isinstance(layer, nn.GRU):
        (ir, iz, change), (hr, hz, kept) = from_input.chunk(3, 1), from_state.chunk(3, 1)
        update = (iz + hz).sigmoid()
        return (1 - update) * (change + (ir + hr).sigmoid() * kept).tanh() + update * state, cell
    total = from_input + from_state
    return (total.relu() if layer.nonlinearity == "relu" else total.tanh()), cell


def _pass(
    layer: nn.RNNBase, recorder: Recorder, x: Tensor, ending: str, state: Tensor, cell: Tensor, backwards: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, last state and last cell of one layer in one direction."""

    def named(kind: str) -> tuple[Tensor | None, Target | None]:
        parameter = getattr(layer, kind + ending, None)
        return parameter, Target(parameter) if parameter is not None and parameter.requires_grad else None

    (w_in, of_w_in), (b_in, of_b_in) = named("weight_ih_"), named("bias_ih_")
    (w_state, of_w_state), (b_state, of_b_state) = named("weight_hh_"), named("bias_hh_")
    assert w_in is not None
    assert w_state is not None
    entered = taps.linear(recorder, x, w_in, b_in, of_w_in, of_b_in).unbind(1)
    w_state, b_state = w_state.detach(), None if b_state is None else b_state.detach()
    states: list[Tensor] = []
    note = (recorder, states, of_w_state, of_b_state, x.dtype)
    shifts = _Shift.apply(recorder.tap, (len(x), len(entered), w_state.shape[0]), note).unbind(1)
    outputs: list[Tensor] = []
    times = range(len(entered))
    order = list(reversed(times)) if backwards else list(times)
    kept: dict[int, Tensor] = {}
    for t in order:
        kept[t] = state.detach()
        state, cell = _step(layer, entered[t], functional.linear(state, w_state, b_state) + shifts[t], state, cell)
        outputs.append(state)
    states.extend(kept[t] for t in times)
    return torch.stack(outputs[::-1] if backwards else outputs, 1), state, cell


def recurrent(layer: nn.RNNBase, recorder: Recorder, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
    """Outputs and last states of ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``, whose arguments these are."""
    if not isinstance(input, Tensor):
        raise InvalidInput("packed sequences are not supported: pad the sequences and mask the loss")
    x = with_slots(input, recorder.slots, type(layer).__name__)
    directions = 2 if layer.bidirectional else 1
    zeros = x.new_zeros(layer.num_layers * directions, len(x), layer.hidden_size)
    start, cells = (zeros, zeros) if hx is None else (hx if isinstance(layer, nn.LSTM) else (hx, zeros))
    last_states, last_cells = [], []
    for depth in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            place = depth * directions + direction
            ending = f"l{depth}" + ("_reverse" if direction else "")
            out, state, cell = _pass(layer, recorder, x, ending, start[place], cells[place], bool(direction))
            outputs.append(out)
            last_states.append(state)
            last_cells.append(cell)
        x = torch.cat(outputs, -1) if directions == 2 else outputs[0]
        if depth + 1 < layer.num_layers:
            x = functional.dropout(x, layer.dropout, layer.training)
    ends = torch.stack(last_states)
    return x, (ends, torch.stack(last_cells)) if isinstance(layer, nn.LSTM) else ends
