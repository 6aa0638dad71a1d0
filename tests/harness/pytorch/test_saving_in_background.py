"""Training continues while checkpoints are stored."""

import threading
from typing import Any

import pytest
from determined.core._checkpoint import CheckpointContext
from determined.pytorch import Batch

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import PlainTrial, fit

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
    from determined.pytorch import _checkpoint

    trained = {batch: threading.Event() for batch in range(6)}
    monkeypatch.setattr(Announcing, "trained", trained, raising=False)
    complete = _checkpoint._complete

    def late(*arguments: Any) -> str:
        assert trained[5].wait(TOO_LONG_S)
        return complete(*arguments)

    monkeypatch.setattr(_checkpoint, "_complete", late)
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
