"""One training in several processes: sampled once, summed exactly, noised once.

**Who does what.** The processes are the ranks of the process group of a model that `DistributedDataParallel` or
`fully_shard` has wrapped; every rank calls the same functions, and holds the same rows. Rank 0 has the vault: it plans,
charges the ledger, draws each batch and its places, and tells the others which row numbers they compute. Each rank
computes every `size`-th physical batch of the logical batch. Their integer sums are added at rank 0 (64-bit integers,
so that the order does not matter). Rank 0 draws the noise, adds it, and sends the noisy sum to the others; each then
moves its own copy, or its own part, of the model.

**Claim.** The noisy sum is that of one process: the same row numbers and places, the same integers, the same draw of
noise. So the event is the same, and for the same bits the released numbers are equal bit for bit, wherever the kernels
of all ranks compute a slot alike. The bound on one row does not rest on that: a row is in one physical batch, which one
rank computes.

**Who sees what.** Every rank holds all rows, and is inside the trust boundary. Sums without noise exist at rank 0, and
partial ones at the ranks that computed or passed them on; they leave no rank but towards rank 0. What is released is
the same on all ranks.

**When a rank is lost.** A sum is complete when every rank has added its part. Where one cannot, the addition fails at
the others, before noise is drawn, and `RankLost` is raised: nothing of that step is released, and its round is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

import numpy as np
import torch
import torch.distributed as processes
from numpy.typing import NDArray
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from discreet.errors import DiscreetError, InvalidInput, RankLost

__all__ = ["ALONE", "Alone", "FollowingRun", "Physical", "Ranks", "ShardedRanks", "ranks_of"]

T = TypeVar("T")
Physical = tuple[NDArray[np.int64], NDArray[np.int64]]
"""A physical batch: which rows of the logical batch, and their slots."""


class Alone:
    """A training in one process: what several would agree on is decided here."""

    first: bool = True
    size: int = 1

    def model(self, wrapped: torch.nn.Module) -> torch.nn.Module:
        """The module that owns the parameters."""
        return wrapped

    def from_first(self, made: Callable[[], T]) -> T:
        """What rank 0 makes, on every rank; where it fails, every rank raises."""
        return made()

    def at_first(self, done: Callable[[], T]) -> T | None:
        """Do something at rank 0 alone, and return its result there; where it fails, every rank raises."""
        return done()

    def agreed(self, made: Callable[[], T]) -> T:
        """What every rank makes for itself; where one fails, every rank raises."""
        return made()

    def shares(self, numbers: NDArray[np.int64], physical: Iterable[Physical]) -> Iterable[Physical]:
        """Tell the others which rows are in the batch, and return the physical batches that this rank computes."""
        return physical

    def added(self, total: list[torch.Tensor]) -> None:
        """Add the integers of all ranks at rank 0."""

    def send(self, released: Any) -> None:
        """Send what was released to the other ranks."""

    def open(self) -> None:
        """Keep the model's wrapper from exchanging anything by itself, for as long as the training lasts."""

    def close(self) -> None:
        """Let the model's wrapper exchange gradients again."""

    def trained(self, parameters: Sequence[torch.nn.Parameter]) -> Sequence[torch.nn.Parameter]:
        """What the optimizer moves, for the parameters of which examples' gradients are taken."""
        return parameters

    def set_gradients(self, parameters: Sequence[torch.nn.Parameter], means: Iterable[torch.Tensor]) -> None:
        """Hand the released means to the optimizer, as gradients."""
        for parameter, mean in zip(parameters, means, strict=True):
            parameter.grad = mean.to(dtype=parameter.dtype, device=parameter.device)

    def require_whole(self, what: str) -> None:
        """Refuse what needs the whole model in one process, where it is split."""

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """While inside, the model's wrapper exchanges nothing by itself."""
        self.open()
        try:
            yield
        finally:
            self.close()


ALONE: Final = Alone()


class Ranks(Alone):
    """The ranks of a `DistributedDataParallel` model, seen from one of them."""

    def __init__(self, wrapped: torch.nn.Module, group: processes.ProcessGroup) -> None:
        self.wrapped, self.group = wrapped, group
        self.rank, self.size = processes.get_rank(self.group), processes.get_world_size(self.group)
        self.first = self.rank == 0
        self._source = processes.get_global_rank(self.group, 0)
        on_gpu = processes.get_backend(self.group) == "nccl"
        self._device = next(wrapped.parameters()).device if on_gpu else torch.device("cpu")

    def model(self, wrapped: torch.nn.Module) -> torch.nn.Module:
        """The module inside the wrapper."""
        return cast("torch.nn.Module", wrapped.module)

    def from_first(self, made: Callable[[], T]) -> T:
        """What rank 0 makes, sent to every rank."""
        value, problem = self._tried(made) if self.first else (None, None)
        value, problem = self._told((value, problem))
        if problem is not None:
            raise problem
        return cast("T", value)

    def at_first(self, done: Callable[[], T]) -> T | None:
        """Do something at rank 0 alone; None elsewhere."""
        value, problem = self._tried(done) if self.first else (None, None)
        problem = self._told(problem)
        if problem is not None:
            raise problem
        return value

    def agreed(self, made: Callable[[], T]) -> T:
        """What every rank makes for itself, after all have said that they could."""
        value, problem = self._tried(made)
        problems: list[DiscreetError | None] = [None] * self.size
        with self._together():
            processes.all_gather_object(problems, problem, group=self.group)
        if problem is not None:
            raise problem
        for rank, other in enumerate(problems):
            if other is not None:
                raise RankLost(f"rank {rank} refused: {other}")
        return cast("T", value)

    def shares(self, numbers: NDArray[np.int64], physical: Iterable[Physical]) -> Iterable[Physical]:
        """Every ``size``-th physical batch; blank ones at the end, so that all ranks have as many."""
        every = list(physical)
        none = np.empty(0, dtype=np.int64)
        every += [(none, none)] * (-len(every) % self.size)
        self._told((numbers, every))
        return every[self.rank :: self.size]

    def heard(self) -> tuple[NDArray[np.int64], Sequence[Physical]]:
        """The row numbers that rank 0 has drawn, and the physical batches that this rank computes."""
        numbers, every = self._told(None)
        return numbers, every[self.rank :: self.size]

    def added(self, total: list[torch.Tensor]) -> None:
        """Add the integers of all ranks at rank 0, exactly."""
        for one in total:
            sent = one.to(self._device).contiguous()
            with self._together():
                processes.reduce(sent, self._source, processes.ReduceOp.SUM, group=self.group)
            one.copy_(sent)

    def send(self, released: Any) -> None:
        """Send a released step: its tensors, and the number beside them."""
        self._told(released.within)
        for one in released.gradients:
            self._exchanged(one)

    def received(self, shapes: Sequence[Any]) -> tuple[list[torch.Tensor], float | None]:
        """The tensors of these shapes, and the number, that rank 0 has released."""
        within = self._told(None)
        return [self._exchanged(torch.empty(tuple(shape), dtype=torch.float64)) for shape in shapes], within

    def open(self) -> None:
        """Keep the wrapper from exchanging gradients or buffers: gradients of examples are clipped before they meet."""
        self.wrapped.require_backward_grad_sync = self.wrapped.require_forward_param_sync = False

    def close(self) -> None:
        """Let the wrapper exchange gradients and buffers again."""
        self.wrapped.require_backward_grad_sync = self.wrapped.require_forward_param_sync = True

    def _tried(self, made: Callable[[], T]) -> tuple[T | None, DiscreetError | None]:
        try:
            return made(), None
        except DiscreetError as problem:
            return None, problem

    def _told(self, what: Any) -> Any:
        """Rank 0's ``what``, on every rank."""
        carried = [what]
        with self._together():
            processes.broadcast_object_list(carried, self._source, group=self.group, device=self._device)
        return carried[0]

    def _exchanged(self, tensor: torch.Tensor) -> torch.Tensor:
        """Rank 0's tensor, on every rank."""
        sent = tensor.to(self._device).contiguous()
        with self._together():
            processes.broadcast(sent, self._source, group=self.group)
        return sent

    @contextmanager
    def _together(self) -> Iterator[None]:
        """What torch says of a lost process, as an error that says what it means for the training."""
        try:
            yield
        except (RuntimeError, ValueError) as problem:
            raise RankLost(
                f"another process of the training is gone or out of step ({type(problem).__name__}). Nothing of this "
                "step was released, and its round stays charged; start again from a checkpoint."
            ) from problem


class ShardedRanks(Ranks):
    """The ranks among which the parameters of a model are split (`torch.distributed.fsdp.fully_shard`).

    Layers gather their parameters before they run, so that gradients of examples are taken of whole ones; the sums are
    whole on every rank, 8 bytes a parameter. Each rank gives its optimizer the part of the released sum that is its.
    """

    def __init__(self, wrapped: torch.nn.Module) -> None:
        self._parts = [p for p in wrapped.parameters() if p.requires_grad]
        first = next(iter(wrapped.parameters()))
        if first.device_mesh.ndim != 1 or not all(isinstance(p, DTensor) for p in wrapped.parameters()):
            raise InvalidInput(
                "parameters must be split by fully_shard, all of them, among the processes of one dimension of a mesh. "
                "Nothing was released."
            )
        super().__init__(wrapped, first.device_mesh.get_group())

    def model(self, wrapped: torch.nn.Module) -> torch.nn.Module:
        """The model itself."""
        return wrapped

    def open(self) -> None:
        """Nothing is exchanged but parameters: without ``.grad`` on whole ones, no gradient is."""

    def close(self) -> None:
        """Keep this rank's part of each parameter alone."""
        for module in self._units():
            module.reshard()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Gather all parameters, so that whoever looks at the model finds the whole ones."""
        for module in self._units():
            module.unshard()
        try:
            yield
        finally:
            self.close()

    def _units(self) -> list[FSDPModule]:
        return [module for module in self.wrapped.modules() if isinstance(module, FSDPModule)]

    def trained(self, parameters: Sequence[torch.nn.Parameter]) -> Sequence[torch.nn.Parameter]:
        """This rank's parts of the parameters."""
        return self._parts

    def set_gradients(self, parameters: Sequence[torch.nn.Parameter], means: Iterable[torch.Tensor]) -> None:
        """Hand this rank's part of the released means to the optimizer; whole copies of what it moves are outdated."""
        self.close()
        for part, mean in zip(self._parts, means, strict=True):
            whole = mean.to(dtype=part.dtype, device=part.device)
            part.grad = distribute_tensor(whole, part.device_mesh, part.placements, src_data_rank=None)

    def require_whole(self, what: str) -> None:
        """Refuse what needs the whole model in one process."""
        raise InvalidInput(f"{what} is not supported for a model that is split by fully_shard.")


class FollowingRun:
    """The charged run of rank 0, as another rank follows it; it has neither ledger nor randomness.

    Args:
        rows: the same rows as rank 0 has.
        planned: how many measurements rank 0 has charged.
        done: how many of them were used before.
    """

    def __init__(self, rows: Any, planned: int, done: int) -> None:
        self._rows, self.planned, self.done = rows, planned, done

    def answer(self, measurement: Any) -> Any:
        """This rank's part of the next measurement."""
        self.done += 1
        return measurement.follow(self._rows)

    def close(self) -> None:
        """Rank 0 notes in the ledger how the run ended."""


def ranks_of(model: torch.nn.Module) -> Alone:
    """The ranks of a model's wrapper; `ALONE` for a model that is in one process.

    Raises:
        InvalidInput: the parameters are split in another way than by `fully_shard` along one dimension.
    """
    if isinstance(model, DistributedDataParallel):
        return Ranks(model, model.process_group)
    return ShardedRanks(model) if any(isinstance(p, DTensor) for p in model.parameters()) else ALONE
