"""A Core context that records calls and preempts on request of a test. Checkpoints are real."""

import pathlib
from typing import Any

from determined.common.storage import DirectoryStorageManager
from determined.core import CheckpointContext, DummyDistributedContext
from determined.core._checkpoint_registry import CheckpointRegistry
from determined.core._step_times import StepTimes


class FakeTrain:
    def __init__(self, tensorboard: pathlib.Path) -> None:
        self.training: list[tuple[int, dict[str, Any], list[dict[str, Any]]]] = []
        self.validations: list[tuple[int, dict[str, Any]]] = []
        self.groups: list[tuple[str, int, dict[str, Any]]] = []
        self.statuses: list[str] = []
        self.progress: list[float] = []
        self.early_exits: list[Any] = []
        self.experiment_best: float | None = None
        self.given_up = False
        self._tensorboard = tensorboard
        self._step_times = StepTimes(DummyDistributedContext(), "", lambda *_: None)

    def report_training_metrics(
        self, steps_completed: int, metrics: Any, batch_metrics: Any = None
    ) -> None:
        self.training.append((steps_completed, metrics, batch_metrics))

    def report_validation_metrics(self, steps_completed: int, metrics: Any) -> None:
        self.validations.append((steps_completed, metrics))

    def report_metrics(self, group: str, steps_completed: int, metrics: Any) -> None:
        self.groups.append((group, steps_completed, metrics))

    def set_status(self, status: str) -> None:
        self.statuses.append(status)

    def report_progress(self, progress: float) -> None:
        self.progress.append(progress)

    def report_early_exit(self, reason: Any) -> None:
        self.early_exits.append(reason)

    def get_experiment_best_validation(self) -> float | None:
        return self.experiment_best

    def _is_stopped_by_searcher(self) -> bool:
        return self.given_up

    def get_tensorboard_path(self) -> pathlib.Path:
        return self._tensorboard


class FakePreempt:
    """Preempts once `wanted` is set, or from the n-th time it is asked on."""

    def __init__(self) -> None:
        self.wanted = False
        self.after_calls: int | None = None
        self.calls = 0

    def should_preempt(self, auto_ack: bool = True) -> bool:
        self.calls += 1
        return self.wanted or (self.after_calls is not None and self.calls > self.after_calls)


class FakeProfiler:
    def __init__(self) -> None:
        self.switched: list[str] = []

    def on(self, sampling_interval: int = 1, samples_per_report: int = 10) -> None:
        self.switched.append("on")

    def off(self) -> None:
        self.switched.append("off")


class FakeCore:
    def __init__(self, directory: pathlib.Path) -> None:
        self.storage = directory / "checkpoints"
        self.distributed = DummyDistributedContext()
        self.train = FakeTrain(directory / "tensorboard")
        self.preempt = FakePreempt()
        self.profiler = FakeProfiler()
        self.checkpoint = CheckpointContext(
            self.distributed, DirectoryStorageManager(str(self.storage)), CheckpointRegistry()
        )

    def saved(self) -> dict[int, pathlib.Path]:
        """Return checkpoint directories by the steps they were saved at."""
        checkpoints = {}
        for path in self.storage.iterdir() if self.storage.exists() else []:
            steps = self.checkpoint.get_metadata(path.name)["steps_completed"]
            checkpoints[int(steps)] = path
        return checkpoints

    def losses(self) -> list[float]:
        """Return the loss of every batch that was reported, in order."""
        return [row["loss"] for _, _, rows in self.train.training for row in rows]
