"""TensorBoard scalars of the reports of a Core API trial."""

import importlib.util
import math
import pathlib
from typing import Any

import pytest
from determined.common.storage import DirectoryStorageManager
from determined.core import TrainContext
from determined.pytorch._scalars import ScalarLog
from determined.tensorboard._scalars import EventWriter, ReportedScalars
from determined.tensorboard._sync import TensorboardSync

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import make_context


class DiscardingOutbox:
    def put(self, *_: Any) -> None: ...


@pytest.fixture
def sync(tmp_path: pathlib.Path) -> TensorboardSync:
    storage = DirectoryStorageManager(str(tmp_path / "stored"))
    return TensorboardSync(storage, tmp_path / "local", "c/tensorboard", 0, automatic=True)


def train(sync: TensorboardSync) -> Any:
    context: Any = TrainContext.__new__(TrainContext)
    context._outbox = DiscardingOutbox()
    context._trial_id = context._run_id = 1
    context._validated = set()
    context._reported = {}
    context._searcher_metric = None
    context._scalars = ReportedScalars(sync)
    return context


def points(folder: pathlib.Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return {
        tag: [(event.step, round(event.value, 3)) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_reports_become_stored_scalars(sync: TensorboardSync, tmp_path: pathlib.Path) -> None:
    context = train(sync)
    context.report_training_metrics(2, {"loss": 0.5, "batches": 2, "note": "text"})
    context.report_training_metrics(4, {"loss": 0.25, "batches": 4})
    context.report_validation_metrics(4, {"loss": 0.3, "epochs": 1})
    context.report_metrics("inference", 4, {"speed": 1.0})
    context.close()
    sync.close()
    assert points(tmp_path / "stored" / "c" / "tensorboard") == {
        "Determined/loss": [(2, 0.5), (4, 0.25)],
        "Determined/val_loss": [(4, 0.3)],
    }


def test_messages_equal_those_of_the_tensorboard_package(tmp_path: pathlib.Path) -> None:
    from tensorboard.compat.proto import event_pb2
    from tensorboard.summary.writer.record_writer import masked_crc32c

    writer = EventWriter(tmp_path)
    written_points = [("Determined/loss", 0.5, 3), ("é" * 200, -1e300, 2**40), ("a", 0.25, 0)]
    for name, value, step in written_points:
        writer.add_scalar(name, value, step, wall_time=1.5)
    writer.close()
    (path,) = tmp_path.iterdir()
    content, events = path.read_bytes(), []
    while content:
        length = int.from_bytes(content[:8], "little")
        assert content[8:12] == masked_crc32c(content[:8]).to_bytes(4, "little")
        events.append(event_pb2.Event.FromString(content[12 : 12 + length]))
        content = content[16 + length :]
    first, *later_events = events
    assert first.file_version == "brain.Event:2"
    assert [(e.wall_time, e.step, e.summary.value[0].tag) for e in later_events] == [
        (1.5, step, name) for name, _, step in written_points
    ]
    assert [e.summary.value[0].simple_value for e in later_events] == [0.5, -math.inf, 0.25]


def test_trial_class_writes_scalars_without_the_tensorboard_package(
    core: FakeCore, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(core, enable_tensorboard_logging=True)
    monkeypatch.setattr(context, "get_tensorboard_path", lambda: tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda name: None)
        scalars = ScalarLog(context)
    scalars.write({"loss": 0.5, "batches": 2}, 2)
    scalars.close()
    assert points(tmp_path) == {"Determined/loss": [(2, 0.5)]}


def test_no_file_is_written_before_the_first_report(
    sync: TensorboardSync, tmp_path: pathlib.Path
) -> None:
    context = train(sync)
    context.close()
    sync.close()
    assert not (tmp_path / "local").exists()


def test_full_disk_does_not_end_the_training(
    sync: TensorboardSync, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = train(sync)
    (tmp_path / "local").write_text("no directory")
    for step in (1, 2):
        context.report_training_metrics(step, {"loss": 0.5})
    context.close()
    assert len([r for r in caplog.records if "no more TensorBoard files" in r.message]) == 1


def test_scalars_of_a_trial_class_are_not_written_twice(
    core: FakeCore, sync: TensorboardSync
) -> None:
    context = train(sync)
    fake_core: Any = core
    fake_core.train._scalars = context._scalars
    ScalarLog(make_context(core))
    assert not context._scalars.enabled
