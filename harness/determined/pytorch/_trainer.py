"""The Trainer, which converts lengths and periods to a plan and runs the training loop.

`train_on_cluster` trains a PyTorchTrial without a training script."""

import contextlib
import logging
import os
import pathlib
from typing import Any, Iterator, Optional, Type

from determined import _legacy_plan
from determined._units import Batch, TrainUnit, unit_from_config
from determined.common.storage import DirectoryStorageManager
from determined.pytorch._callback import Hooks
from determined.pytorch._init import init
from determined.pytorch._loop import Loop
from determined.pytorch._steps import PyTorchSteps
from determined.pytorch._trial import PyTorchTrial
from determined.workloads import LocalSource, Plan, WorkloadSource

logger = logging.getLogger("determined.pytorch")

_POLICIES = ("best", "all", "none")


class Trainer:
    """Trains a PyTorchTrial: `Trainer(trial, context).fit(max_length=Epoch(10))`."""

    trial_class: Type[Any] = PyTorchTrial
    steps_class: Any = PyTorchSteps

    def __init__(self, trial: Any, context: Any) -> None:
        if not isinstance(trial, self.trial_class):
            raise TypeError(
                f"this Trainer takes a {self.trial_class.__name__}, not {type(trial).__name__}"
            )
        self._trial = trial
        self._context = context

    def configure_profiler(
        self,
        sync_timings: bool = True,
        enabled: bool = False,
        begin_on_batch: int = 0,
        end_after_batch: Optional[int] = None,
    ) -> None:
        """Log a warning, because this method has no effect. Deprecated: use `fit(profiling_enabled=True)`."""
        logger.warning("configure_profiler() does nothing: use fit(profiling_enabled=True)")

    def fit(
        self,
        checkpoint_period: Optional[TrainUnit] = None,
        validation_period: Optional[TrainUnit] = None,
        max_length: Optional[TrainUnit] = None,
        reporting_period: TrainUnit = Batch(100),
        checkpoint_policy: str = "best",
        latest_checkpoint: Optional[str] = None,
        step_zero_validation: bool = False,
        test_mode: bool = False,
        profiling_enabled: bool = False,
        async_checkpoints: Optional[bool] = None,
        replication_period: Optional[TrainUnit] = None,
    ) -> None:
        """Train up to `max_length`. Validate and save at the given periods and at the end.

        `checkpoint_policy` selects the validations after which a checkpoint is saved: "best" for improvements of the
        searcher's metric, "all", or "none". `latest_checkpoint` is the checkpoint to resume from; on a cluster, pass
        `det.get_cluster_info().latest_checkpoint`. `test_mode` trains, validates and saves once.
        With `async_checkpoints`, another process stores checkpoints, and training stops only while their state is
        copied; None selects this for states of 256 MiB or more.
        After each `replication_period`, the state is kept in the memory of the trial's machines. After the loss of a
        machine, an elastic trial resumes from there instead of the checkpoint.
        """
        if checkpoint_policy not in _POLICIES:
            raise ValueError(
                f"checkpoint_policy must be best, all or none, not {checkpoint_policy!r}"
            )
        length = max_length or self._configured_length(test_mode)
        hooks = Hooks(self._trial.build_callbacks())
        steps = self.steps_class(
            self._trial,
            self._context,
            hooks,
            test_mode=test_mode,
            async_checkpoints=async_checkpoints,
        )
        with _shutdown(hooks, steps), _run_profiler(self._context, profiling_enabled):
            replica = None
            if replication_period is not None and not test_mode:
                replica = self._context._core.checkpoint.restore_replica()
            if replica is None:
                restore(steps, latest_checkpoint)
            else:
                steps.restore_replica(replica)
            steps.prepare()
            plan = _legacy_plan.make_plan(
                self._context._position.epoch_len,
                length,
                reporting_period,
                validation_period,
                checkpoint_period,
                checkpoint_policy,
                step_zero_validation,
                test_mode,
            )
            if steps.progress.batches >= plan.max_batches and not test_mode:
                logger.info(
                    "no training is left: the checkpoint has %d batches, and max_length is %d batches",
                    steps.progress.batches,
                    plan.max_batches,
                )
            hooks.call("on_trial_startup", steps.progress.batches, latest_checkpoint)
            replication = None
            if replication_period is not None and not test_mode:
                replication = replication_period.period(self._context._position.epoch_len)
            Loop(steps, self._source(plan), plan.max_batches, hooks, replication).run()

    def _source(self, plan: Plan) -> WorkloadSource:
        return LocalSource(plan)

    def _configured_length(self, test_mode: bool) -> TrainUnit:
        """Return `searcher.max_length`, for older configurations."""
        config = self._context.get_experiment_config()
        length = unit_from_config(
            (config.get("searcher") or {}).get("max_length"),
            global_batch_size=int(self._context.get_hparams().get("global_batch_size") or 0),
        )
        if length is None and not test_mode:
            raise ValueError("fit() needs max_length, for example max_length=pytorch.Epoch(10)")
        return length or Batch(1)


def restore(steps: Any, latest_checkpoint: Optional[str]) -> None:
    """Load a checkpoint from storage, or from a directory."""
    if latest_checkpoint is None:
        return
    if os.path.isdir(latest_checkpoint):
        path = pathlib.Path(latest_checkpoint).resolve()
        storage = DirectoryStorageManager(str(path.parent))
        steps.restore(path, _shards(storage, path.name, path))
        return
    checkpoints = steps.context._core.checkpoint
    with checkpoints.restore_path(latest_checkpoint, selector=_is_no_shard) as path:
        path = pathlib.Path(path)
        steps.restore(path, _shards(checkpoints._storage, latest_checkpoint, path))


def _is_no_shard(path: str) -> bool:
    """Return whether every rank needs the file. Each rank reads its pieces of the shards from the storage."""
    return not path.endswith(".distcp") or "/" in path


def _shards(storage: Any, storage_id: str, path: pathlib.Path) -> Optional[Any]:
    if not (path / ".metadata").exists():
        return None
    from determined.checkpointing import StorageReader

    return StorageReader(storage, storage_id)


@contextlib.contextmanager
def _shutdown(hooks: Hooks, steps: Any) -> Iterator[None]:
    try:
        yield
    finally:
        steps.close()
        hooks.call("on_trial_shutdown")


@contextlib.contextmanager
def _run_profiler(context: Any, enabled: bool) -> Iterator[None]:
    if enabled:
        context._core.profiler.on()
    try:
        yield
    finally:
        if enabled:
            context._core.profiler.off()


def train_on_cluster(trial_class: Type[Any], info: Any) -> None:
    config = info.trial._config
    optimizations = config.get("optimizations") or {}
    frequency = int(optimizations.get("aggregation_frequency") or 1)
    with init(aggregation_frequency=frequency) as context:
        trial = trial_class(context)
        trainer = ClusterTrainer(trial, context)
        lengths = _legacy_plan.lengths(config, info.trial.hparams, context._core)
        trainer.fit(latest_checkpoint=info.latest_checkpoint, **lengths.fit_arguments())


class ClusterTrainer(Trainer):
    """A Trainer that gets its workloads from the control plane."""

    def _source(self, plan: Plan) -> WorkloadSource:
        return _legacy_plan.cluster_source(self._context, plan)
