import weakref
from typing import Any

import pytest
import torch
from determined import pytorch
from determined.pytorch import Batch, Reducer, _metrics
from determined.pytorch.deepspeed import _config as deepspeed_config

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import PlainTrial, fit, make_context

Mode = pytorch.LRScheduler.StepMode


def test_aggregating_two_batches_equals_one_of_twice_the_size(core: FakeCore) -> None:
    class Halves(PlainTrial):
        def build_training_data_loader(self) -> Any:
            return pytorch.DataLoader(super().build_training_data_loader().dataset, batch_size=2)

    large_batches = fit(core, PlainTrial, max_length=Batch(2))
    halves = fit(core, Halves, settings={"aggregation_frequency": 2}, max_length=Batch(4))
    assert torch.allclose(halves.model.weight, large_batches.model.weight)


def test_gradients_are_clipped_before_the_step(core: FakeCore) -> None:
    class Clipped(PlainTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.clip = lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 1e-9)

    trial = fit(core, Clipped, max_length=Batch(5))
    assert torch.allclose(trial.model.weight, torch.full((1, 2), 0.5))


@pytest.mark.parametrize(
    ("mode", "frequency", "steps"),
    [
        (Mode.STEP_EVERY_BATCH, 1, 12),
        (Mode.STEP_EVERY_BATCH, 5, 2),
        (Mode.STEP_EVERY_EPOCH, 1, 2),
        (Mode.STEP_EVERY_OPTIMIZER_STEP, 4, 3),
        (Mode.MANUAL_STEP, 1, 0),
    ],
)
def test_schedulers_step_according_to_their_mode(
    core: FakeCore, mode: Any, frequency: int, steps: int
) -> None:
    class Scheduled(PlainTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1000)
            context.wrap_lr_scheduler(self.scheduler, mode, frequency)

    assert fit(core, Scheduled, max_length=Batch(12)).scheduler.last_epoch == steps


def test_mixed_precision_runs_batches_under_autocast(core: FakeCore) -> None:
    class Mixed(PlainTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            context.experimental.use_amp()

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            self.dtype = self.model(batch[0]).dtype
            return super().train_batch(batch, epoch_idx, batch_idx)

    assert fit(core, Mixed, max_length=Batch(2)).dtype is torch.bfloat16


def test_rejects_scheduler_of_an_unwrapped_optimizer(core: FakeCore) -> None:
    context = make_context(core)
    unwrapped = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)
    with pytest.raises(ValueError, match="wrap_optimizer"):
        context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR(unwrapped, 1), Mode.MANUAL_STEP)


def test_rejects_wrapping_during_training(core: FakeCore) -> None:
    class Late(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            self.context.wrap_model(torch.nn.Linear(1, 1))

    with pytest.raises(RuntimeError, match="constructor"):
        fit(core, Late, max_length=Batch(1))


def test_error_for_unknown_hyperparameter_lists_existing_ones(core: FakeCore) -> None:
    with pytest.raises(ValueError, match=r"'lr'.*there are: width"):
        make_context(core, hparams={"width": 3}).get_hparam("lr")


def test_per_slot_batch_size_is_a_share(core: FakeCore) -> None:
    assert make_context(core, hparams={"global_batch_size": 32}).get_per_slot_batch_size() == 32


class ReducedTrial(PlainTrial):
    """A trial that sums records with a MetricReducer, and counts batches with a function."""

    class Sum(pytorch.MetricReducer):
        def __init__(self) -> None:
            self.reset()

        def reset(self) -> None:
            self.total = 0

        def per_slot_reduce(self) -> int:
            return self.total

        def cross_slot_reduce(self, per_slot_metrics: list[int]) -> dict[str, int]:
            return {"records": sum(per_slot_metrics)}

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.sum = context.wrap_reducer(self.Sum())
        self.count = context.wrap_reducer(len, name="count", for_validation=False)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self.sum.total += len(batch[0])
        self.count.update(1)
        return super().train_batch(batch, epoch_idx, batch_idx)


def test_reducers_are_reported_and_reset(core: FakeCore) -> None:
    fit(core, ReducedTrial, max_length=Batch(4), reporting_period=Batch(2))
    assert [(m["records"], m["count"]) for _, m, _ in core.train.training] == [(8, 2), (8, 2)]
    assert core.train.validations[0][1]["records"] == 0
    assert "count" not in core.train.validations[0][1]


@pytest.mark.parametrize(
    ("reducer", "expected"),
    [(Reducer.AVG, 2.0), (Reducer.SUM, 6), (Reducer.MAX, 3), (Reducer.MIN, 1)],
)
def test_columns_of_all_ranks_reduce_to_one_value(reducer: Reducer, expected: float) -> None:
    assert _metrics.reduce_columns([{"m": [1, 3]}, {"m": [2]}], reducer) == {"m": expected}


def test_metrics_with_several_values_reduce_elementwise() -> None:
    assert _metrics.reduce_columns([{"m": [[1, 2], [3, 4]]}]) == {"m": [2.0, 3.0]}


def test_text_is_excluded_from_the_average() -> None:
    assert _metrics.reduce_columns([{"m": ["a", "b"], "n": [1]}]) == {"n": 1.0}


def test_adding_metrics_does_not_read_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a number from a GPU waits for the GPU, so it may happen only at the report."""
    rows = _metrics.MetricRows()
    losses = [torch.tensor(float(i)) for i in range(5)]

    def forbidden(*_: Any) -> Any:
        raise AssertionError("a metric was read in a batch")

    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "cpu", "numpy", "__float__"):
            patch.setattr(torch.Tensor, name, forbidden)
        for loss in losses:
            rows.add({"loss": loss})
    assert [row["loss"] for row in rows.pop_all()] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_values_of_a_reused_buffer_are_copied() -> None:
    rows, buffer = _metrics.MetricRows(), torch.zeros(())
    for i in range(5):
        buffer.fill_(i)
        rows.add({"m": buffer})
    assert [row["m"] for row in rows.pop_all()] == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_reused_buffer_is_detected_after_other_metrics(device: Any) -> None:
    rows, buffer = _metrics.MetricRows(device), torch.zeros(2)
    rows.add({"loss": 0.5})
    for i in range(3):
        buffer.fill_(i)
        rows.add({"loss": 0.5, "per_class": buffer})
    assert [row.get("per_class") for row in rows.pop_all()] == [None, [0, 0], [1, 1], [2, 2]]


def test_packed_rows_stay_in_order() -> None:
    rows = _metrics.MetricRows()
    for i in range(8):
        rows.add(torch.tensor(float(i)))
        if i % 3 == 2:
            rows.pack()
    assert [row["loss"] for row in rows.pop_all()] == [float(i) for i in range(8)]


@pytest.mark.parametrize(
    "values",
    [
        [torch.tensor(1), torch.tensor(0.5)],
        [torch.tensor([1.0]), torch.tensor(2.0)],
        [torch.tensor(1.0), 2],
        [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])],
    ],
)
def test_metric_type_can_change_between_batches(values: list[Any]) -> None:
    rows = _metrics.MetricRows()
    for value in values:
        rows.add({"m": value})
    numbers = [row["m"] for row in rows.pop_all()]
    assert numbers == [_metrics.plain(value) for value in values]
    assert [type(n) for n in numbers] == [type(_metrics.plain(v)) for v in values]


def test_cpu_training_reads_the_same_numbers_at_once() -> None:
    batches = [{"loss": torch.rand(()), "hits": torch.tensor([i]), "n": i} for i in range(5)]
    batches[3]["per_class"] = torch.rand(2)
    at_once, at_the_report = _metrics.MetricRows(torch.device("cpu")), _metrics.MetricRows()
    for row in batches:
        at_once.add(row)
        at_the_report.add(row)
    assert at_once.pop_all() == at_the_report.pop_all()


def test_does_not_wait_for_other_devices() -> None:
    """A meta tensor represents such a device, because its value cannot be read at all."""
    rows = _metrics.MetricRows(torch.device("cuda"))
    for _ in range(3):
        rows.add({"loss": torch.zeros((), device="meta"), "on_host": torch.zeros(())})
    assert all(isinstance(row["on_host"], torch.Tensor) for row in rows._rows)


@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_batches_can_return_different_metrics_or_none(device: Any) -> None:
    rows = _metrics.MetricRows(device)
    batches: list[dict[str, Any]] = [{"a": torch.tensor(1.0)}, {}, {"b": 2}, {}]
    for row in batches:
        rows.add(row)
    result = rows.pop_all()
    assert result == batches
    assert _metrics.columns(result) == {"a": [1.0], "b": [2]}
    assert _metrics.columns([{"a": 1}, {"b": 2}]) == {"a": [1], "b": [2]}


def test_retained_graph_releases_its_memory(core: FakeCore) -> None:
    context = make_context(core)
    weight = torch.nn.Parameter(torch.ones(2))

    def freed_after_backward(retain: bool) -> bool:
        loss = (weight * 2).sum()
        node = weakref.ref(loss)
        context.backward(loss, retain_graph=retain)
        del loss
        return node() is None

    assert freed_after_backward(retain=True)
    assert not freed_after_backward(retain=False)


def test_every_report_becomes_a_tensorboard_point(core: FakeCore) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = {"enable_tensorboard_logging": True}
    fit(core, PlainTrial, settings, max_length=Batch(6), reporting_period=Batch(2))
    events = EventAccumulator(str(core.train.get_tensorboard_path())).Reload()
    points = events.Scalars("Determined/loss")
    losses = [(steps, metrics["loss"]) for steps, metrics, _ in core.train.training]
    assert [p.step for p in points if p.step < 6] == [2, 4]
    assert [p.value for p in points[:2]] == pytest.approx([loss for _, loss in losses[:2]])
    assert points[-1].step == 6


def test_points_are_written_even_if_training_fails(core: FakeCore) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Failing(PlainTrial):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            if batch_idx == 3:
                raise ValueError("no more")
            return super().train_batch(batch, epoch_idx, batch_idx)

    settings = {"enable_tensorboard_logging": True}
    with pytest.raises(ValueError, match="no more"):
        fit(core, Failing, settings, max_length=Batch(6), reporting_period=Batch(1))
    events = EventAccumulator(str(core.train.get_tensorboard_path())).Reload()
    assert [point.step for point in events.Scalars("Determined/loss")] == [1, 2, 3]


def test_error_explains_invalid_result_of_train_batch() -> None:
    with pytest.raises(TypeError, match="dictionary of metrics, not NoneType"):
        _metrics.MetricRows().add(None)


@pytest.mark.parametrize("base", [None, 5, ["config.json"]])
def test_rejects_deepspeed_base_configuration_of_another_type(base: Any) -> None:
    with pytest.raises(TypeError, match="Expected string or dict for base_ds_config argument"):
        deepspeed_config.overwrite_deepspeed_config(base, {})
