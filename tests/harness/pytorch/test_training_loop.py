import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from determined import pytorch
from determined.pytorch import Batch, Epoch
from determined.pytorch._saving import CheckpointSaver

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import EPOCH, PlainTrial, fit, make_context


class Recorder(pytorch.PyTorchCallback):
    """A callback that records its hook calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return _Hook(self, name)


class _Hook:
    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder, self.name = recorder, name

    def __call__(self, *args: Any) -> None:
        epochs = args if "epoch" in self.name and self.name.startswith("on_training") else ()
        self.recorder.calls.append((self.name, *epochs))


class RecordedTrial(PlainTrial):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.recorder = Recorder()

    def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
        return {"recorder": self.recorder}


def reports(core: FakeCore) -> list[int]:
    return [steps for steps, _, _ in core.train.training]


def test_training_is_reported_at_each_period_and_at_the_end(core: FakeCore) -> None:
    fit(core, max_length=Batch(11), reporting_period=Batch(4))
    assert reports(core) == [4, 8, 11]


def test_reports_average_and_metrics_of_every_batch(core: FakeCore) -> None:
    fit(core, max_length=Batch(4), reporting_period=Batch(4))
    ((_, average, batches),) = core.train.training
    assert average["loss"] == pytest.approx(sum(b["loss"] for b in batches) / 4)
    assert len({b["loss"] for b in batches}) == 4


def test_metrics_include_batches_and_epochs(core: FakeCore) -> None:
    fit(core, max_length=Epoch(2), validation_period=Batch(9))
    assert [(m["batches"], m["epochs"]) for _, m in core.train.validations] == [(9, 1), (12, 2)]
    assert core.train.training[-1][1]["epochs"] == 2


def test_validates_at_its_period_and_at_the_end(core: FakeCore) -> None:
    fit(core, max_length=Batch(8), validation_period=Batch(3))
    assert [steps for steps, _ in core.train.validations] == [3, 6, 8]


def test_period_can_be_a_container_of_batches_or_epochs(core: FakeCore) -> None:
    fit(
        core, max_length=Batch(20), validation_period=Batch([2, 5]), checkpoint_period=Epoch({1, 3})
    )
    assert [steps for steps, _ in core.train.validations] == [2, 5, 20]
    assert {EPOCH, 3 * EPOCH} <= set(core.saved())


def test_step_zero_validation_runs_before_the_first_batch(core: FakeCore) -> None:
    fit(core, max_length=Batch(2), step_zero_validation=True)
    assert [steps for steps, _ in core.train.validations] == [0, 2]


def test_last_state_is_always_saved(core: FakeCore) -> None:
    fit(core, max_length=Batch(5), checkpoint_policy="none")
    assert sorted(core.saved()) == [5]


def test_policy_all_saves_after_each_validation(core: FakeCore) -> None:
    fit(core, max_length=Batch(6), validation_period=Batch(2), checkpoint_policy="all")
    assert sorted(core.saved()) == [2, 4, 6]


def test_policy_best_saves_only_improvements_of_the_experiment(core: FakeCore) -> None:
    core.train.experiment_best = 0.0
    settings = {"searcher_metric": "val_loss"}
    fit(core, settings=settings, max_length=Batch(6), validation_period=Batch(2))
    assert sorted(core.saved()) == [6]


def test_policy_best_saves_each_improvement(core: FakeCore) -> None:
    settings = {"searcher_metric": "val_loss"}
    fit(core, settings=settings, max_length=Batch(6), validation_period=Batch(2))
    assert sorted(core.saved()) == [2, 4, 6]


def test_error_for_missing_searcher_metric_lists_reported_metrics(core: FakeCore) -> None:
    with pytest.raises(RuntimeError, match=r"'accuracy'.*val_loss"):
        fit(core, settings={"searcher_metric": "accuracy"}, max_length=Batch(1))


def test_test_mode_trains_validates_and_saves_once(core: FakeCore) -> None:
    class Counting(PlainTrial):
        evaluated = 0

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            self.evaluated += 1
            return super().evaluate_batch(batch, batch_idx)

    trial = fit(core, Counting, max_length=Epoch(100), test_mode=True)
    assert (reports(core), trial.evaluated, sorted(core.saved())) == ([1], 1, [1])


def test_preempted_trial_saves_and_stops_within_a_reporting_period(
    core: FakeCore,
) -> None:
    core.preempt.after_calls = 2
    fit(core, max_length=Epoch(100), reporting_period=Epoch(100))
    (stopped_at,) = core.saved()
    assert reports(core) == [stopped_at]
    assert stopped_at < 100 * EPOCH


def test_stop_request_saves_and_notifies_the_searcher(core: FakeCore) -> None:
    class Stopping(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            if batch_idx == 5:
                self.context.set_stop_requested(True)
            return super().train_batch(batch, epoch_idx, batch_idx)

    fit(core, Stopping, max_length=Batch(100), reporting_period=Batch(4))
    assert reports(core) == [4, 8]
    assert sorted(core.saved()) == [8]
    assert [reason.name for reason in core.train.early_exits] == ["USER_REQUESTED_STOP"]


def test_stop_is_reported_after_the_last_checkpoint_is_stored(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_store = threading.Event()
    stored_at_report: list[list[int]] = []

    class Stopping(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            self.context.set_stop_requested(True)
            return super().train_batch(batch, epoch_idx, batch_idx)

    @contextlib.contextmanager
    def store_path(*args: Any, **options: Any) -> Iterator[Any]:
        with stored(*args, **options) as path:
            yield path
            assert may_store.wait(60)

    def finish(saver: CheckpointSaver) -> None:
        may_store.set()
        finish_saving(saver)

    def report_early_exit(_reason: Any) -> None:
        stored_at_report.append(sorted(core.saved()))
        may_store.set()

    stored, finish_saving = core.checkpoint.store_path, CheckpointSaver.finish
    monkeypatch.setattr(core.checkpoint, "store_path", store_path)
    monkeypatch.setattr(CheckpointSaver, "finish", finish)
    monkeypatch.setattr(core.train, "report_early_exit", report_early_exit)
    fit(core, Stopping, max_length=Batch(100), reporting_period=Batch(4))
    assert stored_at_report == [[4]]


def test_stop_request_in_the_constructor_trains_one_workload(core: FakeCore) -> None:
    class Stopping(PlainTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            context.set_stop_requested(True)

    fit(core, Stopping, max_length=Batch(100), reporting_period=Batch(4), step_zero_validation=True)
    assert reports(core) == [4]
    assert sorted(core.saved()) == [4]


SEARCHED = {"managed": True, "exp_conf": {"searcher": {"name": "adaptive_asha"}}}


def test_searcher_stop_waits_for_the_end_of_the_period(core: FakeCore) -> None:
    core.preempt.after_calls = 2
    core.train.given_up = True
    fit(core, settings=SEARCHED, max_length=Batch(1000), reporting_period=Batch(500))
    assert reports(core) == [500]
    assert sorted(core.saved()) == [500]


def test_searcher_stop_takes_effect_after_the_deciding_validation(core: FakeCore) -> None:
    core.train.given_up = True
    fit(core, settings=SEARCHED, max_length=Batch(100), validation_period=Batch(4))
    assert [steps for steps, _ in core.train.validations] == [4]
    assert sorted(core.saved()) == [4]


def test_preemption_of_a_searched_trial_does_not_wait(core: FakeCore) -> None:
    core.preempt.after_calls = 2
    fit(core, settings=SEARCHED, max_length=Epoch(100), reporting_period=Epoch(100))
    (stopped_at,) = core.saved()
    assert stopped_at < 100 * EPOCH


def test_hooks_run_in_the_documented_order(core: FakeCore) -> None:
    trial = fit(core, RecordedTrial, max_length=Epoch(1))
    assert trial.recorder.calls == [
        ("on_trial_startup",),
        ("on_training_start",),
        ("on_training_epoch_start", 0),
        ("on_training_epoch_end", 0),
        ("on_training_workload_end",),
        ("on_validation_start",),
        ("on_validation_epoch_start",),
        ("on_validation_epoch_end",),
        ("on_validation_end",),
        ("on_checkpoint_save_start",),
        ("on_checkpoint_end",),
        ("on_checkpoint_write_end",),
        ("on_checkpoint_upload_end",),
        ("on_trial_shutdown",),
    ]


def test_shutdown_hooks_run_after_a_failure(core: FakeCore) -> None:
    class Failing(RecordedTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            raise ZeroDivisionError

    context = make_context(core)
    trial = Failing(context)
    with pytest.raises(ZeroDivisionError):
        pytorch.Trainer(trial, context).fit(max_length=Batch(1))
    assert trial.recorder.calls[-1] == ("on_trial_shutdown",)


def test_trial_knows_its_position_in_the_epoch(core: FakeCore) -> None:
    class Looking(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            c = self.context
            self.places.append((c.current_train_epoch(), c.is_epoch_start(), c.is_epoch_end()))
            return super().train_batch(batch, epoch_idx, batch_idx)

        places: list[Any] = []  # noqa: RUF012

    fit(core, Looking, max_length=Epoch(2))
    starts = [i for i, (_, start, _) in enumerate(Looking.places) if start]
    ends = [i for i, (_, _, end) in enumerate(Looking.places) if end]
    assert (starts, ends) == ([0, EPOCH], [EPOCH - 1, 2 * EPOCH - 1])
    assert [epoch for epoch, _, _ in Looking.places] == [0] * EPOCH + [1] * EPOCH


def test_evaluates_full_dataset(core: FakeCore) -> None:
    class Whole(PlainTrial):
        evaluate_batch = pytorch.PyTorchTrial.evaluate_batch

        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            return {"batches_seen": torch.tensor(sum(1 for _ in data_loader))}

    fit(core, Whole, max_length=Batch(1))
    assert core.train.validations[0][1]["batches_seen"] == EPOCH


def test_torch_loader_requires_disabled_reproducibility_checks(core: FakeCore) -> None:
    class Raw(PlainTrial):
        def build_training_data_loader(self) -> Any:
            return torch.utils.data.DataLoader(super().build_training_data_loader().dataset)

    with pytest.raises(ValueError, match="disable_dataset_reproducibility_checks"):
        fit(core, Raw, max_length=Batch(1))


def test_epochs_end_with_data_of_unknown_length(core: FakeCore) -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            return iter([(torch.ones(2), torch.ones(1))] * 3)

    class Streaming(RecordedTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            context.experimental.disable_dataset_reproducibility_checks()

        def build_training_data_loader(self) -> Any:
            return torch.utils.data.DataLoader(Stream(), batch_size=1)

    trial = fit(core, Streaming, max_length=Batch(7))
    ends = [c for c in trial.recorder.calls if c[0] == "on_training_epoch_end"]
    assert ends == [("on_training_epoch_end", 0), ("on_training_epoch_end", 1)]
    assert reports(core) == [7]


def test_profiler_is_on_during_training(core: FakeCore) -> None:
    fit(core, max_length=Batch(1), profiling_enabled=True)
    assert core.profiler.switched == ["on", "off"]


def test_error_for_fit_without_length_names_max_length(core: FakeCore) -> None:
    with pytest.raises(ValueError, match="max_length"):
        fit(core)


def test_length_can_come_from_the_experiment_configuration(core: FakeCore) -> None:
    settings = {"exp_conf": {"searcher": {"max_length": {"epochs": 2}}}}
    fit(core, settings=settings)
    assert reports(core) == [2 * EPOCH]


def test_older_callback_without_epoch_argument_works(
    core: FakeCore, caplog: pytest.LogCaptureFixture
) -> None:
    trials: list[str] = []

    class Old(pytorch.PyTorchCallback):
        def on_training_epoch_start(self) -> None:  # type: ignore[override]
            trials.append("epoch")

    class Called(PlainTrial):
        def build_callbacks(self) -> dict[str, Any]:
            return {"old": Old()}

    fit(core, Called, max_length=Epoch(2))
    assert trials == ["epoch", "epoch"]
    assert "on_training_epoch_start(self, epoch_idx)" in caplog.text


def test_torch_profiler_writes_traces_next_to_event_files(core: FakeCore) -> None:
    class Profiled(PlainTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            context.set_profiler(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2))

    fit(core, Profiled, max_length=Batch(4))
    assert list(core.train.get_tensorboard_path().glob("*.pt.trace.json"))
