"""The engine of a training: clipped sums, the norms that an adaptive bound needs, and the check on made-up examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.torch.engine import Clip, ExampleGradients, Reduction, check_slots, require_computed
from discreet.torch.rows import Batch, TorchRows
from discreet.torch.taps import Recorder
from discreet.torch.untrained import Buffers, Fingerprints

__all__ = ["Forward", "TrainingGradients", "checked_engine", "in_words"]

MOST_WORDS = 200
"""Characters that are shown of another library's message."""
Forward: TypeAlias = Callable[[Batch], torch.Tensor]
"""From a batch to its losses, one a slot; it runs the model."""


class TrainingGradients(ExampleGradients):
    """Clipped sums of examples' gradients, which remembers how long the gradients of the last batch were."""

    norms: torch.Tensor
    """ℓ2 lengths of the gradients of the last sum's slots, before clipping. Not private: used inside a round alone."""

    made_up: Batch | None = None
    """Made-up examples of the rows' shapes and types, on which the engine was checked."""

    check: Callable[[Forward], None] | None = None
    """Tests other losses of the model on those examples; None where nothing is tested."""

    losses: Forward | None = None
    """Losses of the model for further tests: those that were asked for, or the usual ones."""

    modes: frozenset[tuple[bool, ...]] = frozenset()
    """In which modes, training or not, module by module, the model has been tested."""

    separate: bool = True
    """False until the first losses of a loop have been seen to keep slots apart."""

    rows_each: int = 1
    """Rows of a slot, where persons are examples: losses of rows are averaged over them."""

    @property
    def mode(self) -> tuple[bool, ...]:
        """Which modules are in training mode now."""
        return tuple(module.training for module in self.model.modules())

    def require_tested_mode(self) -> None:
        """Test the model once more where it is in another mode than it was; a pass that is recorded is kept.

        Raises:
            HypothesisViolated: slots depend on each other in this mode.
        """
        if self.check is None or self.losses is None or self.mode in self.modes:
            return
        pending, self._recorder = self._recorder, None
        self.check(self.losses)
        self._recorder = pending

    def _differentiate(
        self, recorder: Recorder, loss: torch.Tensor, reduction: Reduction | None, sign: float = 1.0
    ) -> None:
        require_computed(loss)
        if self.rows_each > 1 and tuple(loss.shape) == (self.slots * self.rows_each,):
            loss = loss.reshape(self.slots, self.rows_each).mean(1)
        if self.exact and not self.separate and tuple(loss.shape) == (self.slots,):
            self._require_separate(recorder, loss)
            self.separate = True
        super()._differentiate(recorder, loss, reduction, sign)

    def _require_separate(self, recorder: Recorder, loss: torch.Tensor) -> None:
        """Refuse losses of a loop of which one has a gradient at the examples of others.

        Losses that keep slots apart are never refused, whatever the examples are: what one of them leaves at another
        slot is zero times something, which is zero or not a number. So it may be asked about examples that are private.
        """
        for slot in {0, self.slots - 1}:
            start = torch.zeros_like(loss)
            start[slot] = 1.0
            recorder.uses.clear()
            with self._recording(recorder):
                torch.autograd.grad(loss, recorder.tap, start, retain_graph=True, allow_unused=True)
            with torch.no_grad():
                squares = sum(block.square_lengths() for _, block in self._blocks(recorder.uses))
            others = torch.as_tensor(squares).reshape(-1)
            others = others[torch.arange(len(others), device=others.device) != slot]
            if bool((others.isfinite() & (others > 0)).any()):
                raise HypothesisViolated(
                    "the loss of one slot depends on other slots, so the bound on one example cannot be certified; "
                    "make it a function of the slot's own example. Nothing of this step was released."
                )

    def _weights(self, squares: torch.Tensor, present: torch.Tensor, bound: float | torch.Tensor) -> torch.Tensor:
        self.norms = squares.sum(0).sqrt()
        return super()._weights(squares, present, bound)

    def clipped_difference(
        self, losses: Callable[[], torch.Tensor], anchor: Sequence[torch.Tensor], present: torch.Tensor, bound: float
    ) -> list[torch.Tensor]:
        """The sum over present slots of the clipped differences of gradients at the weights and at an anchor.

        Both gradients of a slot are uses of the same parameters, of which the second counts negatively; they are added
        before they are measured.

        Args:
            losses: the losses of the slots, or their mean; it runs the model.
            anchor: other weights, one tensor for each of ``parameters``; none for plain gradients.
            present: which slots hold an example.
            bound: the clipping bound.
        """
        with self.watch():
            loss = losses()
        if not anchor:
            return self.clipped_sum(loss, present, bound)
        recorder = self._recorded()
        self._differentiate(recorder, loss, None)
        before = [parameter.data for parameter in self.parameters]
        try:
            for parameter, other in zip(self.parameters, anchor, strict=True):
                parameter.data = other
            with self.watch():
                loss = losses()
            second = self._recorded()
            self._differentiate(second, loss, None, -1.0)
        finally:
            for parameter, own in zip(self.parameters, before, strict=True):
                parameter.data = own
        recorder.uses += second.uses
        with torch.no_grad():
            return self._sums(recorder, present.to(self.parameters[0].device), bound)

    def _recorded(self) -> Recorder:
        recorder, self._recorder = self._recorder, None
        assert recorder is not None, "a pass was watched"
        return recorder


def checked_engine(
    model: torch.nn.Module,
    clip: Clip,
    rows: TorchRows,
    forward: Forward | None = None,
    *,
    slots: int,
    grid: float,
    exact: bool = True,
) -> TrainingGradients:
    """The engine for a model, after a test that what a slot adds depends on that slot alone.

    The test runs the model on made-up examples of the rows' shapes and types, so that a refusal says nothing of a row.

    Args:
        model: the model.
        clip: how gradients are bounded.
        rows: the rows, of which shapes and types are used.
        forward: losses of a batch; by default the squared length of the model's output.
        slots: the size of a physical batch.
        grid: whole steps to the bound.
        exact: without it nothing is claimed of roundings, and nothing is tested.

    Raises:
        HypothesisViolated: slots depend on each other.
        InvalidInput: the model has layers that mix examples, or cannot be run on made-up examples.
    """
    engine = TrainingGradients(model, clip, slots=slots, grid=grid, exact=exact)
    engine.rows_each = rows.rows_each
    if exact:
        engine.made_up = rows.public_examples(slots, engine.parameters[0].device, _entries)
        engine.check = partial(_check, engine, engine.made_up, rows.no_rows())
        engine.losses = forward or _output_losses(model)
        engine.check(engine.losses)
        engine.separate = False
    return engine


def _check(engine: TrainingGradients, made: Batch, shapes: TorchRows, losses: Forward) -> None:
    """Test losses of made-up examples; the model is left as it was."""
    buffers, before = Buffers(engine.model), Fingerprints(engine.model)
    try:
        check_slots(engine, lambda fields: losses(Batch(shapes.entries(fields), made.present)), made.fields)
    except HypothesisViolated:
        engine.separate = False
        raise
    finally:
        buffers.restore()
    before.require_same(engine.model)
    engine.modes |= {engine.mode}


def in_words(problem: Exception) -> str:
    """An error on made-up examples, which tells nothing of a row: its kind, and how its message begins.

    Example:
        >>> in_words(ValueError("expected 3 columns, got 2"))
        'ValueError: expected 3 columns, got 2'
    """
    said = str(problem).strip().partition("\n")[0]
    said = said if len(said) <= MOST_WORDS else said[:MOST_WORDS] + "…"
    return f"{type(problem).__name__}: {said}" if said else type(problem).__name__


def _entries(blank: torch.Tensor) -> torch.Tensor:
    """Made-up entries: a wave for numbers; 0 and 1 for whole numbers, which are codes in every vocabulary."""
    places = torch.arange(blank.numel(), dtype=torch.float64).reshape(blank.shape)
    if blank.is_floating_point():
        return torch.sin(places).to(blank.dtype)
    return (torch.sin(places) > 0).to(blank.dtype)


def _output_losses(model: torch.nn.Module) -> Forward:
    def losses(batch: Batch) -> torch.Tensor:
        try:
            found = model(**batch.fields) if isinstance(batch.fields, Mapping) else model(batch.x)
        except (TypeError, RuntimeError, ValueError, IndexError) as problem:
            raise InvalidInput(
                f"the model could not be run on made-up examples as model(batch.x) ({in_words(problem)}); say by "
                "forward=… how the losses of a batch are computed. Nothing was released."
            ) from problem
        values = list(found.values()) if isinstance(found, Mapping) else found
        outputs = [t for t in tree_leaves(values) if isinstance(t, torch.Tensor) and t.is_floating_point() and t.ndim]
        outputs = [t for t in outputs if len(t) % len(batch.present) == 0 and len(t) and t.requires_grad]
        if not outputs:
            raise InvalidInput(
                "the model's output has no entry a slot; say by forward=… how the losses of a batch are computed."
            )
        return outputs[0].reshape(len(batch.present), -1).square().sum(1)

    return losses
