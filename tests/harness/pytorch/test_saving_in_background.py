"""Training continues while checkpoints are stored."""

import pathlib
import shutil
import threading
from typing import Any

import numpy
import pytest
import torch
from determined.core._checkpoint import CheckpointContext
from determined.pytorch import Batch, PyTorchCallback

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import NoisyTrial, PlainTrial, fit

# Reached only if the harness waits where it must not wait.
TOO_LONG_S = 60


class Announcing(PlainTrial):
    """A trial that announces each batch."""

    trained: dict[int, threading.Event]

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self.trained[batch_idx].set()
        return super().train_batch(batch, epoch_idx, batch_idx)


def store_only_after(
    monkeypatch: pytest.MonkeyPatch, training_event: threading.Event, steps: list[int]
) -> None:
    """Delay the end of a checkpoint's upload until a batch is trained."""
    publish = CheckpointContext._publish

    def late(self: Any, storage_id: str, files: Any, metadata: Any, checksums: Any) -> None:
        if not training_event.wait(TOO_LONG_S):
            raise AssertionError("training waited for a checkpoint")
        steps.append(metadata["steps_completed"])
        publish(self, storage_id, files, metadata, checksums)

    monkeypatch.setattr(CheckpointContext, "_publish", late)


@pytest.mark.parametrize(("period", "first_saves_all_wait_for"), [(4, 6), (3, 8)])
def test_batches_are_trained_while_checkpoints_wait(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, period: int, first_saves_all_wait_for: int
) -> None:
    trained = {batch: threading.Event() for batch in range(9)}
    monkeypatch.setattr(Announcing, "trained", trained, raising=False)
    steps: list[int] = []
    store_only_after(monkeypatch, trained[first_saves_all_wait_for], steps)
    fit(
        core,
        Announcing,
        max_length=Batch(9),
        checkpoint_period=Batch(period),
        checkpoint_policy="none",
    )
    assert steps == sorted({*range(period, 10, period), 9})
    assert sorted(core.saved()) == steps


def test_checkpoint_has_the_weights_of_its_time(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that is stored later has the weights of the time of the call."""
    from determined.pytorch import _checkpoint, _saving

    trained = {batch: threading.Event() for batch in range(6)}
    monkeypatch.setattr(Announcing, "trained", trained, raising=False)
    complete = _saving._complete

    def late(*arguments: Any) -> None:
        assert trained[5].wait(TOO_LONG_S)
        complete(*arguments)

    monkeypatch.setattr(_saving, "_complete", late)
    final = fit(core, Announcing, max_length=Batch(6), checkpoint_period=Batch(3))
    checkpoints = core.saved()
    early, last = (_checkpoint.read_state(checkpoints[steps]) for steps in (3, 6))
    weights = [state["models_state_dict"][0]["weight"] for state in (early, last)]
    assert weights[1].equal(final.model.weight)
    assert not weights[0].equal(weights[1])


def test_failed_checkpoint_ends_training_with_its_cause(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise PermissionError("the bucket may not be written")

    monkeypatch.setattr(CheckpointContext, "_publish", fail)
    with pytest.raises(PermissionError, match="bucket"):
        fit(core, max_length=Batch(50), checkpoint_period=Batch(5), checkpoint_policy="none")


def test_writer_process_stores_the_same_checkpoint(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    """The files and the state are those of a checkpoint that a thread stored."""
    from determined.pytorch import _checkpoint

    saved = {}
    for asynchronous in (False, True):
        caplog.clear()
        with caplog.at_level("INFO", "determined.checkpointing"):
            fit(core, NoisyTrial, max_length=Batch(4), async_checkpoints=asynchronous)
        assert ("asynchronous checkpoints use" in caplog.text) is asynchronous
        core.checkpoint.wait()
        path = core.saved()[4]
        files = sorted(str(p.relative_to(path)) for p in path.rglob("*"))
        saved[asynchronous] = (files, comparable(_checkpoint.read_state(path)))
        shutil.rmtree(core.storage)
    assert saved[True] == saved[False]


def comparable(state: Any) -> Any:
    if isinstance(state, (torch.Tensor, numpy.ndarray)):
        return state.tolist()
    if isinstance(state, dict):
        return {str(k): comparable(v) for k, v in state.items()}
    return [comparable(v) for v in state] if isinstance(state, (list, tuple)) else state


@pytest.mark.parametrize("fails", ["write", "process"])
def test_failed_writer_process_ends_training_with_its_cause(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    from determined.checkpointing import _writer

    def fail(self: Any, job: Any) -> Any:
        if fails == "process":
            self._process.kill()
            return run(self, job)
        raise PermissionError("the bucket may not be written")

    run = _writer.WriterProcess.run
    monkeypatch.setattr(_writer.WriterProcess, "run", fail)
    cause = "the process .* that writes checkpoints ended" if fails == "process" else "bucket"
    with pytest.raises((PermissionError, _writer.WriterDied), match=cause):
        fit(core, max_length=Batch(9), checkpoint_period=Batch(3), async_checkpoints=True)


def test_callback_that_adds_files_excludes_the_writer_process(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    class Adds(PyTorchCallback):
        def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
            (pathlib.Path(checkpoint_dir) / "extra").touch()

    class Trial(PlainTrial):
        def build_callbacks(self) -> dict[str, PyTorchCallback]:
            return {"adds": Adds()}

    fit(core, Trial, max_length=Batch(2), async_checkpoints=True)
    assert (
        "not stored asynchronously, because a callback has on_checkpoint_write_end" in caplog.text
    )
    assert (core.saved()[2] / "extra").exists()


def test_trial_without_time_for_another_checkpoint_waits_for_the_unfinished_one(
    core: FakeCore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial is preempted after batch 4, while its checkpoint of batch 2 is being stored."""

    class Preempted(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            core.preempt.wanted = batch_idx >= 3
            return super().train_batch(batch, epoch_idx, batch_idx)

    times = core.checkpoint._times
    decided = threading.Event()
    monkeypatch.setattr(times, "seconds_left", lambda: 0.0 if core.preempt.wanted else None)
    ask = times.has_no_time_for_another

    def has_no_time() -> bool:
        answer = ask()
        decided.set()
        return answer

    monkeypatch.setattr(times, "has_no_time_for_another", has_no_time)
    store_only_after(monkeypatch, decided, [])
    fit(
        core,
        Preempted,
        max_length=Batch(100),
        reporting_period=Batch(2),
        checkpoint_period=Batch(2),
        checkpoint_policy="none",
        async_checkpoints=True,
    )
    assert list(core.saved()) == [2]
    assert core.train.training[-1][0] == 4
    assert "there is no time for another" in caplog.text


def test_preempted_trial_stores_its_newest_state_before_it_ends(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    """The writer still loads torch when the trial is preempted, so two checkpoints are flushed."""
    core.preempt.after_calls = 6
    with caplog.at_level("INFO", "determined.checkpointing"):
        fit(
            core,
            max_length=Batch(100),
            reporting_period=Batch(2),
            checkpoint_period=Batch(2),
            async_checkpoints=True,
        )
    newest = max(core.saved())
    assert 2 < newest < 100
    assert "waiting for checkpoint" in caplog.text
    assert core.train.training[-1][0] == newest
