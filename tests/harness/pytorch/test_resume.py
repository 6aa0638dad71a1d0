"""A trial that is interrupted and resumed computes exactly the results of an uninterrupted trial."""

import pathlib
from typing import Any

import pytest
import torch
from determined import pytorch
from determined.pytorch import Batch, Epoch

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import NoisyTrial, PlainTrial, fit

LENGTH = 20
PLAN: dict[str, Any] = {
    "max_length": Batch(LENGTH),
    "validation_period": Batch(4),
    "reporting_period": Batch(3),
}


class Interrupted(NoisyTrial):
    """A trial that requests its stop in a batch that the test chooses."""

    stop_in_batch = -1

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self.context.set_stop_requested(batch_idx == self.stop_in_batch)
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.fixture
def uninterrupted(tmp_path: pathlib.Path) -> FakeCore:
    core = FakeCore(tmp_path / "uninterrupted")
    fit(core, NoisyTrial, **PLAN)
    return core


@pytest.mark.parametrize("stop_in_batch", [0, 5, 11, 12, 19])
def test_losses_are_bit_identical_after_a_pause(
    core: FakeCore, uninterrupted: FakeCore, stop_in_batch: int
) -> None:
    class Stopped(Interrupted):
        pass

    Stopped.stop_in_batch = stop_in_batch
    fit(core, Stopped, **PLAN)
    fit(core, NoisyTrial, latest_checkpoint=str(core.saved()[max(core.saved())]), **PLAN)
    assert core.losses() == uninterrupted.losses()
    assert core.train.validations == uninterrupted.train.validations


def test_crashed_trial_resumes_from_the_last_checkpoint(
    core: FakeCore, uninterrupted: FakeCore
) -> None:
    class Crashing(NoisyTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            if batch_idx == 15:
                raise OSError("the disk went away")
            return super().train_batch(batch, epoch_idx, batch_idx)

    with pytest.raises(OSError, match="went away"):
        fit(core, Crashing, checkpoint_period=Batch(9), checkpoint_policy="none", **PLAN)
    core.train.training.clear()
    fit(core, NoisyTrial, latest_checkpoint=str(core.saved()[9]), **PLAN)
    assert core.losses() == uninterrupted.losses()[9:]


def test_trial_at_its_max_length_logs_that_no_training_is_left(
    core: FakeCore, uninterrupted: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="determined.pytorch")
    fit(core, NoisyTrial, latest_checkpoint=str(uninterrupted.saved()[LENGTH]), **PLAN)
    expected = "no training is left: the checkpoint has 20 batches, and max_length is 20 batches"
    assert expected in caplog.messages


def test_order_of_records_resumes_in_the_middle_of_an_epoch(core: FakeCore) -> None:
    uninterrupted = fit(core, NoisyTrial, checkpoint_period=Batch(8), max_length=Batch(LENGTH))
    trainer = fit(
        core, NoisyTrial, latest_checkpoint=str(core.saved()[8]), max_length=Batch(LENGTH)
    )
    assert trainer.seen == uninterrupted.seen[8:]


def test_resumed_trial_does_not_repeat_a_validation(core: FakeCore) -> None:
    plan = {"max_length": Batch(8), "validation_period": Batch(4), "checkpoint_policy": "all"}
    fit(core, PlainTrial, **plan)
    core.train.validations.clear()
    fit(core, PlainTrial, latest_checkpoint=str(core.saved()[4]), **plan)
    assert [steps for steps, _ in core.train.validations] == [8]


def test_longer_run_resumes_from_a_finished_one(core: FakeCore) -> None:
    fit(core, PlainTrial, max_length=Epoch(1))
    fit(core, PlainTrial, max_length=Epoch(2), latest_checkpoint=str(core.saved()[6]))
    assert [steps for steps, _, _ in core.train.training] == [6, 12]


def test_another_trials_checkpoint_restores_weights_but_not_progress(core: FakeCore) -> None:
    first = fit(core, PlainTrial, settings={"trial_id": 1}, max_length=Batch(5))
    path = str(core.saved()[5])

    class Looking(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            if batch_idx == 0:
                self.first_weight = self.model.weight.detach().clone()
            return super().train_batch(batch, epoch_idx, batch_idx)

    second = fit(
        core, Looking, settings={"trial_id": 2}, max_length=Batch(3), latest_checkpoint=path
    )
    assert torch.equal(second.first_weight, first.model.weight)
    assert core.train.training[-1][0] == 3


def test_callbacks_keep_their_state(core: FakeCore) -> None:
    class Counter(pytorch.PyTorchCallback):
        count = 0

        def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
            self.count += 1

        def state_dict(self) -> dict[str, Any]:
            return {"count": self.count}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.count = state_dict["count"]

    class Counted(PlainTrial):
        def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
            self.counter = Counter()
            return {"counter": self.counter}

    fit(core, Counted, max_length=Batch(6), reporting_period=Batch(2))
    trainer = fit(
        core,
        Counted,
        max_length=Batch(8),
        reporting_period=Batch(2),
        latest_checkpoint=str(core.saved()[6]),
    )
    assert trainer.counter.count == 4


def test_stored_checkpoint_is_found_by_its_uuid(core: FakeCore) -> None:
    fit(core, PlainTrial, max_length=Batch(5))
    fit(core, PlainTrial, max_length=Batch(6), latest_checkpoint=core.saved()[5].name)
    assert [steps for steps, _, _ in core.train.training] == [5, 6]


def test_rejects_checkpoint_of_a_trial_with_other_objects(core: FakeCore) -> None:
    class Two(PlainTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            context.wrap_model(torch.nn.Linear(1, 1))

    fit(core, PlainTrial, max_length=Batch(1))
    with pytest.raises(RuntimeError, match="holds 1 models, but this trial wrapped 2"):
        fit(core, Two, max_length=Batch(2), latest_checkpoint=str(core.saved()[1]))


def test_failed_checkpoint_fails_the_trial(core: FakeCore) -> None:
    core.storage.parent.mkdir(exist_ok=True)
    core.storage.write_text("a file where the directory should be")
    with pytest.raises(OSError):
        fit(core, PlainTrial, max_length=Batch(1))
