"""A training that is killed anywhere and resumed releases no more than was charged, on noise that was never used."""

from __future__ import annotations

import os
import signal
import traceback

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.torch.journal import Journal

torch.set_num_threads(1)
N, ROUNDS = 40, 8  # with N slots each logical batch is one physical one
X = torch.ones(N, 400) / 40


def parts():
    model = torch.nn.Linear(400, 1)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    return model, torch.optim.SGD(model.parameters(), 1.0, momentum=0.5)


def scores(out, _):
    return out.squeeze(1) * 0.0


def started(ledger, **settings):
    model, optimizer = parts()
    declared = {"epsilon": 1.0, "delta": 1e-4, "epochs": ROUNDS / 2, "expected_batch": 20, "slots": N} | settings
    return dp.torch.privatize(model, optimizer, (X, torch.zeros(N)), ledger=ledger, **declared)


def resumed(path, ledger):
    return dp.torch.resume(path, *parts(), (X, torch.zeros(N)), ledger=ledger)


def take(trainer, steps):
    """Run some steps and return the gradients that they released."""
    found = []
    iterator = iter(trainer)
    while len(found) < steps and (batch := next(iterator, None)) is not None:
        trainer.step(scores(trainer.model(batch.x), batch.y))
        found.append(trainer.model.weight.grad.clone().numpy())
    return found


def test_a_resumed_training_goes_on_where_it_was_saved(tmp_path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-3, adjacency="replace-one")
    trainer = started(ledger)
    take(trainer, 3)
    trainer.save(tmp_path / "training")
    weight, momentum = trainer.model.weight.detach().clone(), trainer.optimizer.state_dict()["state"]
    trainer.journal.close()
    again = resumed(tmp_path / "training", ledger)
    assert torch.equal(again.model.weight, weight)
    assert torch.equal(again.optimizer.state_dict()["state"][0]["momentum_buffer"], momentum[0]["momentum_buffer"])
    assert again.privacy_ == trainer.privacy_
    assert again.rounds_begun == 3
    assert len(take(again, 99)) == ROUNDS - 3
    (charge,) = ledger.history()
    assert charge.status == "completed"
    with pytest.raises(InvalidInput, match="not an open charge"):
        resumed(tmp_path / "training", ledger)


def test_rounds_after_the_checkpoint_are_lost_and_not_repeated(tmp_path) -> None:
    """Fails for a training that repeats them, with the same noise or with other noise beyond the plan."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=1.0, delta=1e-3, adjacency="replace-one")
    trainer = started(ledger)
    released = take(trainer, 2)
    trainer.save(tmp_path / "training")
    released += take(trainer, 3)  # seen by somebody, and then the process dies
    trainer.journal.close()
    again = resumed(tmp_path / "training", ledger)
    assert again.rounds_begun == 5
    released += take(again, 99)
    assert len(released) == ROUNDS
    # all gradients are zero, so that what was released is noise: no two draws of it are related
    correlation = np.corrcoef(np.stack([one.ravel() for one in released])) - np.eye(ROUNDS)
    assert np.abs(correlation).max() < 6 / np.sqrt(400)  # 28 pairs: by chance with probability below 1e-7


def test_even_a_seed_does_not_repeat_noise_after_a_resume(tmp_path) -> None:
    trainer = started(None, random_state=3)
    trainer.save(tmp_path / "training")
    first = take(trainer, 2)
    trainer.journal.close()
    second = take(resumed(tmp_path / "training", None), 2)
    assert abs(np.corrcoef(first[0].ravel(), second[0].ravel())[0, 1]) < 0.3


def test_an_epoch_by_allocation_is_not_continued_by_another_process(tmp_path) -> None:
    trainer = started(None, sampling="allocation", epochs=2, epsilon=float("inf"))
    take(trainer, 1)
    trainer.save(tmp_path / "training")
    trainer.journal.close()
    again = resumed(tmp_path / "training", None)
    assert again.rounds_begun == 1
    assert len(take(again, 99)) == 2  # the second epoch; the first one's second batch is lost


def test_copies_share_a_journal_and_a_lost_journal_is_refused(tmp_path) -> None:
    trainer = started(None)
    trainer.save(tmp_path / "training")
    (tmp_path / "copy").write_bytes((tmp_path / "training").read_bytes())
    with pytest.raises(LedgerUnavailable, match="another process"):
        resumed(tmp_path / "copy", None)
    take(trainer, 2)
    trainer.journal.close()
    again = resumed(tmp_path / "copy", None)
    assert again.rounds_begun == 2
    again.journal.close()
    (tmp_path / "training.journal").unlink()
    with pytest.raises(LedgerUnavailable, match="cannot be read"):
        resumed(tmp_path / "training", None)


def test_a_journal_counts_a_round_before_it_begins(tmp_path) -> None:
    journal = Journal.create(tmp_path / "j", "name", 2)
    journal.claim()
    assert os.path.getsize(tmp_path / "j") == journal._header + 3 == journal._header + journal.begun
    with pytest.raises(LedgerUnavailable, match="cannot be made"):
        Journal.create(tmp_path / "j", "name", 0)
    journal.close()
    with pytest.raises(LedgerUnavailable, match="not the journal of this training"):
        Journal.opened(tmp_path / "j", "another")


def test_strange_files_are_refused(tmp_path) -> None:
    (tmp_path / "nothing").write_bytes(b"no checkpoint")
    with pytest.raises(InvalidInput, match="not a checkpoint"):
        resumed(tmp_path / "nothing", None)
    with pytest.raises(InvalidInput, match="exists already"):
        started(None).save(tmp_path / "nothing")


def _in_a_child(folder, at: int, when: str, **settings) -> int:
    """Train in a forked process, which is killed after so many batches; everything released is seen in a file."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        ledger, path = dp.Ledger(folder / "budget.db"), folder / "training"
        again = path.exists()
        trainer = resumed(path, ledger) if again else started(ledger, **settings)
        if not again:
            trainer.save(path)
        with open(folder / "log", "ab", buffering=0) as log:
            for k, batch in enumerate(trainer):
                before = trainer.steps_done
                trainer.step(scores(trainer.model(batch.x), batch.y))
                if trainer.steps_done > before:  # the last physical batch of a step releases it
                    log.write(trainer.model.weight.grad.numpy().tobytes())
                if when == "before the checkpoint" and k == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if k % 2:
                    trainer.save(path)
                if k == at:
                    os.kill(os.getpid(), signal.SIGKILL)
        (folder / "certificate").write_text(trainer.privacy_.to_json())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


COUNTED = {"adjacency": "add-remove", "expected_batch": 0.5, "epsilon": 8.0}


@pytest.mark.parametrize("settings", [{}, {"slots": 12}, COUNTED], ids=["plain", "parts", "counted"])
def test_a_training_that_is_killed_again_and_again_never_releases_more_than_its_plan(settings, tmp_path) -> None:
    """With 12 slots a logical batch has one, two or three physical ones, between which a process is killed."""
    epsilon = settings.get("epsilon", 1.0)
    relation = settings.get("adjacency", "replace-one")
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=epsilon, delta=1e-3, adjacency=relation)
    assert _in_a_child(tmp_path, 2, "before the checkpoint", **settings) == signal.SIGKILL
    assert _in_a_child(tmp_path, 0, "after the checkpoint") == signal.SIGKILL
    assert _in_a_child(tmp_path, 1, "before the checkpoint") == signal.SIGKILL
    assert _in_a_child(tmp_path, 99, "never") == 0
    released = np.frombuffer((tmp_path / "log").read_bytes(), dtype=np.float32).reshape(-1, 400)
    certificate = dp.Certificate.from_json((tmp_path / "certificate").read_text())
    planned = certificate.settings["steps"]
    lost = 3 if settings else 0  # a process may be killed within a step where that has several physical batches
    assert planned - lost <= len(released) <= planned
    (charge,) = ledger.history()
    assert certificate.event == (charge.ran or charge.event)
    assert certificate.recompute().upper <= epsilon
    assert charge.status == "completed"
    correlation = np.corrcoef(released) - np.eye(len(released))
    assert np.abs(correlation).max() < 6 / np.sqrt(400)
