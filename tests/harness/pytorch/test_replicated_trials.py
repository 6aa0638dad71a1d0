"""A trial that keeps its state in memory continues after a crash as if nothing had happened."""

import contextlib
import logging
import pathlib
from typing import Any

import pytest
from determined import pytorch
from determined.pytorch import Batch
from determined.replicas._replicator import Replicator, Reports, Settings

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import NoisyTrial, PlainTrial, fit

PLAN: dict[str, Any] = {
    "max_length": Batch(20),
    "validation_period": Batch(4),
    "reporting_period": Batch(3),
    "checkpoint_policy": "none",
}


class Crash(Exception):
    pass


def replicated(folder: pathlib.Path, run: int, limit: int = 2**26) -> FakeCore:
    """Return the context of a run of a trial on one machine."""
    core = FakeCore(folder)
    memory = folder / "memory"
    memory.mkdir(exist_ok=True, parents=True)
    settings = Settings(str(memory), limit, run)
    core.checkpoint._replicator = Replicator(core.distributed, settings, Reports())
    return core


def crash(core: FakeCore, in_batch: int, trial: Any = NoisyTrial, **options: Any) -> None:
    class Crashing(trial):  # type: ignore[misc]
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            if batch_idx == in_batch:
                raise Crash
            return super().train_batch(batch, epoch_idx, batch_idx)

    with contextlib.closing(core.checkpoint), pytest.raises(Crash):
        fit(core, Crashing, **{**PLAN, **options})


@pytest.mark.parametrize("in_batch", [1, 12, 13, 14, 16, 19])
def test_all_reports_are_those_of_an_uninterrupted_trial(
    tmp_path: pathlib.Path, in_batch: int
) -> None:
    uninterrupted = FakeCore(tmp_path / "uninterrupted")
    fit(uninterrupted, NoisyTrial, **PLAN)
    first, second = (replicated(tmp_path, run) for run in (1, 2))
    crash(first, in_batch, replication_period=Batch(1))
    trial = fit(second, NoisyTrial, replication_period=Batch(1), **PLAN)
    assert len(trial.seen) == 20 - in_batch
    assert first.train.training + second.train.training == uninterrupted.train.training
    assert first.train.validations + second.train.validations == uninterrupted.train.validations


def test_steps_since_the_last_period_are_repeated(tmp_path: pathlib.Path) -> None:
    first, second = (replicated(tmp_path, run) for run in (1, 2))
    crash(first, 14, replication_period=Batch(5))
    assert len(fit(second, NoisyTrial, replication_period=Batch(5), **PLAN).seen) == 20 - 10


def test_newer_checkpoint_takes_precedence_over_memory(tmp_path: pathlib.Path) -> None:
    first = replicated(tmp_path, 1)
    crash(first, 14, replication_period=Batch(8), checkpoint_period=Batch(12))
    second = replicated(tmp_path, 2)
    memory = Settings(str(tmp_path / "memory"), 2**26, 2, checkpoint_steps=12)
    second.checkpoint._replicator = Replicator(second.distributed, memory, Reports())
    latest = str(first.saved()[12])
    trial = fit(second, NoisyTrial, replication_period=Batch(8), latest_checkpoint=latest, **PLAN)
    assert len(trial.seen) == 20 - 12


def test_trial_that_does_not_fit_continues_with_one_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = replicated(tmp_path, 1, limit=1000)
    with caplog.at_level(logging.WARNING, "determined.core"):
        assert len(fit(core, NoisyTrial, replication_period=Batch(1), **PLAN).seen) == 20
    (warning,) = [r.getMessage() for r in caplog.records if "replica" in r.getMessage()]
    assert warning.startswith("the trial is no longer replicated: two replicas need 1 MiB")


def test_state_of_callbacks_is_kept(tmp_path: pathlib.Path) -> None:
    class Counter(pytorch.PyTorchCallback):
        workloads = 0

        def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
            self.workloads += 1

        def state_dict(self) -> dict[str, Any]:
            return {"workloads": self.workloads}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.workloads = state_dict["workloads"]

    class Counted(PlainTrial):
        def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
            self.counter = Counter()
            return {"counter": self.counter}

    uninterrupted = fit(FakeCore(tmp_path / "uninterrupted"), Counted, **PLAN)
    first, second = (replicated(tmp_path, run) for run in (1, 2))
    crash(first, 10, Counted, replication_period=Batch(1))
    trial = fit(second, Counted, replication_period=Batch(1), **PLAN)
    assert trial.counter.workloads == uninterrupted.counter.workloads
