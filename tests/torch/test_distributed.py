"""A training in two processes releases what one process would, bit for bit, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import discreet as dp
from discreet.errors import InvalidInput
from discreet.torch.distributed import ALONE, ranks_of

ROWS = 40
WORKER = """
import os, sys, datetime
import torch
import torch.distributed as processes
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
import test_distributed as shared
rank = int(os.environ["RANK"])
processes.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
model = DistributedDataParallel(shared.network())
shared.compare(rank, model, sys.argv[2])
shared.refuse(rank, model, sys.argv[2])
shared.shard(rank, sys.argv[2])
shared.go_on(rank, model, sys.argv[2])
shared.lose(rank, model, sys.argv[2])
"""
"""What each process runs; the last act ends it."""


def network() -> torch.nn.Module:
    """The model; ranks other than 0 get their first weights from rank 0."""
    torch.manual_seed(int(os.environ.get("RANK", "0")))
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1), torch.nn.Flatten(0))


class Around(torch.nn.Module):
    """`network` with a layer of its own around it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.scale = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(self.inner(x)[:, None]).squeeze(1)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(ROWS, 5, generator=generator), torch.randn(ROWS, generator=generator)


def started(model: torch.nn.Module, **settings):
    declared = {"epsilon": 2.0, "delta": 1e-5, "epochs": 1.5, "expected_batch": 12, "slots": 4, "random_state": 7}
    optimizer = dp.torch.Adam(model.parameters(), 0.1)
    return dp.torch.privatize(model, optimizer, rows(), **(declared | settings))


def losses(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (scores - y).square()


def _losses_of(model, batch) -> torch.Tensor:
    return losses(model(batch.x), batch.y)


SETTINGS = {
    "plain": {"average": 0.9},
    "add-remove": {"adjacency": "add-remove", "n_public": ROWS, "clip": dp.torch.QuantileBound(0.7)},
    "bands": {"bands": 2},
    "svrg": {"svrg": dp.torch.Svrg(2, 0.5)},
}


def _state(trainer) -> dict[str, torch.Tensor]:
    return dict(trainer.parts.module.state_dict()) | {
        "average/" + name: value for name, value in trainer.averaged.state_dict().items()
    }


def compare(rank: int, model, folder: str) -> None:
    """Both trainings of `SETTINGS`, the first with a checkpoint after its second step."""
    start = {name: value.clone() for name, value in model.module.state_dict().items()}
    for name, settings in SETTINGS.items():
        model.module.load_state_dict(start)
        ledger = dp.Ledger() if rank == 0 else f"{folder}/nothing-of-rank-1.db"
        trainer = started(model, ledger=ledger, **settings)
        batches, saved = 0, False
        for batch in trainer:
            later = partial(_losses_of, model, batch)
            trainer.step(later if name == "svrg" else later())
            batches += 1
            if name == "plain" and trainer.steps_done == 2 and not saved:
                trainer.save(f"{folder}/training.pt")
                saved = True
        torch.save(
            {"state": _state(trainer), "certificate": str(trainer.privacy_), "event": trainer.privacy_.event.to_json(),
             "batches": batches, "spent": trainer.spent()}, f"{folder}/{name}.{rank}",
        )  # fmt: skip
        assert model.require_backward_grad_sync
        assert rank or [charge.status for charge in ledger.history()] == ["completed"]


def shard(rank: int, folder: str) -> None:
    """The first training with parameters that are split, in the layers and in the model around them."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    model = Around()
    model.load_state_dict(torch.load(f"{folder}/start"))
    fully_shard(model.inner[0])
    fully_shard(model)
    refused = ""
    try:
        started(model, average=0.9)
    except InvalidInput as problem:
        refused = str(problem)
    trainer = started(model).fit(losses)
    try:
        trainer.save(f"{folder}/never.pt")
    except InvalidInput as problem:
        refused += str(problem)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    state = {name: value.full_tensor() for name, value in model.state_dict().items()}
    torch.save(
        {"state": state, "event": trainer.privacy_.event.to_json(), "refused": refused}, f"{folder}/shard.{rank}"
    )


def go_on(rank: int, model, folder: str) -> None:
    """A training that ends after its first step, and is resumed by both processes."""
    ledger = dp.Ledger(f"{folder}/budget.db", epsilon=2.0, delta=1e-4, adjacency="replace-one") if rank == 0 else None
    trainer = started(model, ledger=ledger, random_state=None, average=0.5)
    for batch in trainer:
        trainer.step(losses(model(batch.x), batch.y))
        if trainer.steps_done == 1:
            break
    trainer.save(f"{folder}/again.pt")
    if rank == 0:
        trainer.journal.close()
    optimizer = dp.torch.Adam(model.parameters(), 0.1)
    again = dp.torch.resume(f"{folder}/again.pt", model, optimizer, rows(), ledger=ledger).fit(losses)
    torch.save(
        {"state": _state(again), "same": again.privacy_ == trainer.privacy_, "steps": again.steps_done},
        f"{folder}/again.{rank}",
    )
    assert rank or [charge.status for charge in ledger.history()] == ["completed"]


def lose(rank: int, model, folder: str) -> None:
    """Rank 1 ends in the middle of a step; rank 0 must not release it, nor refuse to say so."""
    trainer = started(model, expected_batch=40, epochs=2)
    before = [p.detach().clone() for p in model.parameters()]
    try:
        for batch in trainer:
            if rank == 1:
                os._exit(0)
            trainer.step(losses(model(batch.x), batch.y))
    except dp.errors.RankLost as problem:
        same = all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        Path(folder, "lost").write_text(f"{same} {trainer.steps_done} {all(p.grad is None for p in before)} {problem}")
    os._exit(0)


def refuse(rank: int, model, folder: str) -> None:
    """The ledger of rank 0 refuses, so that both raise; then a model that rank 1 alone cannot use."""
    found = []
    ledger = dp.Ledger(epsilon=0.5, delta=1e-4, adjacency="replace-one")
    for settings in ({"ledger": ledger}, {"forward": _not_at_rank_one}):
        try:
            started(model, **settings)
        except dp.errors.DiscreetError as problem:
            found.append(f"{type(problem).__name__} {problem}")
    found.append(f"{len(ledger.history())} {model.require_backward_grad_sync}")
    Path(folder, f"refused.{rank}").write_text("\n".join(found))


def _not_at_rank_one(batch) -> torch.Tensor:
    raise InvalidInput(f"refused at {os.environ['RANK']}")


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """What two processes wrote that ran `compare`, `refuse` and `lose`."""
    found = tmp_path_factory.mktemp("ranks")
    torch.save(Around().state_dict(), found / "start")
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", WORKER, str(Path(__file__).parent), str(found)]
    running = [subprocess.Popen(command, env=environment | {"RANK": str(rank)}) for rank in (0, 1)]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    return found


def test_two_processes_release_what_one_does_bit_for_bit(folder) -> None:
    """Fails where noise is drawn by each rank, a physical batch is left out or counted twice, or sums are in floats."""
    for name, settings in SETTINGS.items():
        model = network()
        alone = started(model, **settings).fit(losses)
        for rank in (0, 1):
            found = torch.load(folder / f"{name}.{rank}")
            for key, value in _state(alone).items():
                assert torch.equal(value, found["state"][key]), (name, rank, key)
            assert found["event"] == alone.privacy_.event.to_json()
            assert found["certificate"] == str(alone.privacy_)
            assert found["spent"] == alone.spent()
        shares = [torch.load(folder / f"{name}.{rank}")["batches"] for rank in (0, 1)]
        assert shares[0] == shares[1] > alone.plan.steps  # each rank has computed some physical batches of each step
    model = network()
    resumed = dp.torch.resume(folder / "training.pt", model, dp.torch.Adam(model.parameters(), 0.1), rows())
    assert resumed.steps_done == 2
    assert list(resumed) == []  # the rounds after the checkpoint are spent
    assert not (folder / "nothing-of-rank-1.db").exists()


def test_parameters_that_are_split_move_as_whole_ones(folder) -> None:
    model = Around()
    model.load_state_dict(torch.load(folder / "start"))
    alone = started(model).fit(losses)
    for rank in (0, 1):
        found = torch.load(folder / f"shard.{rank}")
        for key, value in model.state_dict().items():
            assert torch.equal(value, found["state"][key]), (rank, key)
        assert found["event"] == alone.privacy_.event.to_json()
        assert "average=… is not supported" in found["refused"]
        assert "checkpoint is not supported" in found["refused"]
    assert not (folder / "never.pt").exists()


def test_both_processes_go_on_from_a_checkpoint(folder) -> None:
    first, second = (torch.load(folder / f"again.{rank}") for rank in (0, 1))
    assert first["steps"] == second["steps"] == 5
    assert first["same"]
    assert second["same"]
    for key, value in first["state"].items():
        assert torch.equal(value, second["state"][key]), key


def test_a_step_that_a_rank_left_is_not_released(folder) -> None:
    assert (folder / "lost").read_text().startswith("True 0 True another process")


def test_all_ranks_refuse_or_none(folder) -> None:
    for rank in (0, 1):
        budget, model, after = (folder / f"refused.{rank}").read_text().split("\n")
        assert budget.startswith("BudgetExceeded")
        assert model.startswith(f"InvalidInput refused at {rank}")
        assert after == "0 True"


def test_a_plain_model_is_trained_by_its_process_alone() -> None:
    assert ranks_of(network()) is ALONE
    assert ALONE.from_first(lambda: 3) == ALONE.agreed(lambda: 3) == ALONE.at_first(lambda: 3) == 3
