"""TensorBoard files, the profiler, and log lines."""

import gzip
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from determined import core, profiler, tensorboard
from determined.common.blocking import hearing_signals
from determined.exec._ship import LineSplitter
from determined.tensorboard.metric_writers import BatchMetricWriter, MetricWriter

from tests.support.fake_master import FakeMaster

Enter = Callable[..., dict[str, str]]


def test_tensorboard_files_are_uploaded(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    on_cluster()
    with core.init() as context:
        folder = context.train.get_tensorboard_path()
        (folder / "sub").mkdir()
        (folder / "events.tfevents.1").write_text("one")
        (folder / "sub" / "x").write_text("two")
        assert tensorboard.get_base_path({}) == tensorboard.get_base_path() == folder
    stored_folder = (
        tmp_path / "shared" / "cluster-1" / "tensorboard" / "experiment" / "3" / "trial" / "7"
    )
    assert (stored_folder / "events.tfevents.1").read_text() == "one"
    assert (stored_folder / "sub" / "x").read_text() == "two"


def test_manual_mode_uploads_selected_files_with_mangled_names(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    on_cluster()
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        folder = context.train.get_tensorboard_path()
        (folder / "a").write_text("a")
        (folder / "b").write_text("b")
        context.train.upload_tensorboard_files(
            lambda path: path.name == "a", lambda path, rank: path.with_name(f"{path.name}-{rank}")
        )
    files = list((tmp_path / "shared").rglob("trial/7/*"))
    assert [p.name for p in files] == ["a-0"]


def test_profiler_reports_means_of_each_group(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    with core.init() as context:
        context.profiler.on(sampling_interval=0.1, samples_per_report=2)
        master.wait_for("POST", r".*/trials/7/metrics", 4)
        context.profiler.off()
    bodies = [r.body for r in master.received("POST", r".*/trials/7/metrics")]
    memory = next(b for b in bodies if b["group"] == "memory")
    assert memory["metrics"]["metrics"]["avgMetrics"]["agent-1"]["memory_free"] > 0
    assert "stepsCompleted" not in memory["metrics"]


@pytest.mark.parametrize(("interval", "samples"), [(0.01, 10), (1, 0)])
def test_profiler_rejects_invalid_periods(
    master: FakeMaster, on_cluster: Enter, interval: float, samples: int
) -> None:
    on_cluster()
    with core.init() as context, pytest.raises(ValueError, match="at least"):
        context.profiler.on(interval, samples)


def test_cpu_utilization_is_measured() -> None:
    sampler = profiler.Sampler()
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        gzip.compress(b"x" * 10_000)
    assert sampler.sample()["cpu"]["cpu_util_simple"] > 0


def lines(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    texts = [line.text for chunk in chunks for line in splitter.feed(chunk)]
    return texts + [line.text for line in splitter.end()]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a\r", b"\nb"], ["a", "b"]),
        ([b"10%\r20%\r"], ["10%", "20%"]),
        ([b"hal", b"f\n"], ["half"]),
        ([b"\n\n"], ["", ""]),
        ([b"x" * 20000], ["x" * 8192, "x" * 8192, "x" * 3616]),
        ([b"\xff\n"], ["\ufffd"]),
    ],
)
def test_bytes_are_split_into_lines(chunks: list[bytes], expected: list[str]) -> None:
    assert lines(*chunks) == expected


def test_signal_handlers_run_while_a_call_blocks() -> None:
    heard = threading.Event()
    previous = signal.signal(signal.SIGUSR1, lambda *_: heard.set())

    def block_until_heard() -> bool:
        os.kill(os.getpid(), signal.SIGUSR1)
        return heard.wait(60)

    try:
        assert hearing_signals(block_until_heard)
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_exception_of_a_blocking_call_is_raised() -> None:
    with pytest.raises(KeyError):
        hearing_signals(lambda: os.environ["DET_NO_SUCH_VARIABLE"])


class Scalars(MetricWriter):
    """A writer that records its scalars."""

    def __init__(self) -> None:
        self.written: list[tuple[str, float, int]] = []
        self.resets = 0

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.written.append((name, value, step))

    def reset(self) -> None:
        self.resets += 1


def test_training_scalars_are_per_batch_and_validation_scalars_have_a_prefix() -> None:
    scalars = Scalars()
    writer = BatchMetricWriter(scalars)
    writer.on_train_step_end(10, {"loss": 1.5}, [{"loss": 2.0}, {"loss": 1.0}])
    writer.on_validation_step_end(10, {"loss": 0.5, "val_x": True, "name": "skipped"})
    assert scalars.written == [
        ("Determined/loss", 2.0, 8),
        ("Determined/loss", 1.0, 9),
        ("Determined/val_loss", 0.5, 10),
        ("Determined/val_x", 1.0, 10),
    ]
    assert scalars.resets == 2
