"""Train, validate and save a PyTorchTrial."""

import dataclasses
import functools
import logging
import pathlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch

from determined import _progress, _trial_files
from determined.errors import InvalidConfigurationException
from determined.pytorch import (
    _checkpoint,
    _elastic,
    _files,
    _metrics,
    _rng,
    _sharded_state,
    _state,
)
from determined.pytorch._callback import Hooks
from determined.pytorch._data import DataLoader
from determined.pytorch._loop import Passes, Steps, check_reducer, takes_batch_idx
from determined.pytorch._lr_scheduler import LRScheduler
from determined.pytorch._own_time import OwnTime, own_time_of
from determined.pytorch._saving import CheckpointSaver
from determined.pytorch._trial import PyTorchTrial, overrides
from determined.pytorch._trial_context import BaseTrialContext
from determined.pytorch.samplers import length_of
from determined.workloads import Progress

_StepMode = LRScheduler.StepMode

logger = logging.getLogger("determined.pytorch")


class PyTorchSteps(Steps):
    def __init__(
        self,
        trial: PyTorchTrial,
        context: Any,
        hooks: Hooks,
        *,
        test_mode: bool,
        async_checkpoints: Optional[bool] = None,
    ) -> None:
        self.trial = trial
        self.context = context
        self.hooks = hooks
        self.progress = Progress()
        self.averages_training = context._settings.average_training_metrics
        self.evaluates_full_dataset = overrides(trial, PyTorchTrial, "evaluate_full_dataset")
        self._check_evaluation()
        self._test_mode = test_mode
        self._saver = CheckpointSaver(context._core.checkpoint, hooks, async_checkpoints)
        self._restored: Dict[str, Any] = {}
        self._is_profiling = False
        self._warned_of_no_replicas = False
        self._validation_loader = self._build_validation_loader()
        self._training = trial.build_training_data_loader()
        self._check_loader(self._training)

    def restore(self, path: pathlib.Path, shards: Optional[Any] = None) -> None:
        """Load a checkpoint's state. From another trial's checkpoint, load the weights but not the progress."""
        state = _checkpoint.read_state(path)
        self.hooks.call("on_checkpoint_load_start", state)
        _checkpoint.restore(self.context, self.hooks, state, shards)
        progress = state.get("progress") or {"batches": _files.steps_completed(path)}
        if (
            progress.get("trial_id") == self.context._settings.trial_id
            or "trial_id" not in progress
        ):
            self._restored = {**state, "progress": progress}
            self.progress = Progress(
                batches=progress["batches"],
                validated_at=progress.get("validated_at"),
                checkpointed_at=progress["batches"],
                improved=progress.get("improved"),
            )
            self.best_validation = progress.get("best_validation")

    def restore_replica(self, replica: Any) -> None:
        """Load the state that an earlier run of this trial kept in memory."""
        ranks = [_state.decode(rank, trusted=True) for rank in replica.rank_states if rank]
        state = _state.decode(replica.state, trusted=True)
        state["rank_rng_states"] = [rank["rng"] for rank in ranks]
        self.hooks.call("on_checkpoint_load_start", state)
        _checkpoint.restore(self.context, self.hooks, state)
        self._restored = state
        saved = state["progress"]
        self.progress = Progress(**{f.name: saved[f.name] for f in dataclasses.fields(Progress)})
        self.best_validation = saved["best_validation"]
        rows = [rank["rows"] for rank in ranks]
        if rows:
            # Each rank has the averages of the earlier ranks, so the next report averages them right.
            self.unreported_rows = _metrics.average_rows(
                rows if self.averages_training else rows[:1]
            )

    def prepare(self) -> None:
        """Prepare the first batch, after the state was loaded."""
        context, at = self.context, self.context._position
        context._backend.broadcast_weights(context.models)
        context._backend.follow_gradient_orders(self._restored.get("gradient_orders", []))
        at.batch = at.first_batch = self.progress.batches
        loader = self._shard(self._training)
        at.epoch_len = length_of(loader)
        if at.epoch_len == 0:
            raise RuntimeError("the training data loader has no batches")
        if at.epoch_len is not None:
            at.epoch = at.batch // at.epoch_len
            at.epoch_start = at.epoch * at.epoch_len
        else:
            saved = self._restored.get("progress", {})
            at.epoch = saved.get("epoch", 0)
            at.epoch_start = saved.get("epoch_start", at.batch)
        # Our DataLoader repeats by itself. Other loaders are restarted after each pass.
        is_ours = isinstance(self._training, DataLoader)
        endless = at.epoch_len is not None
        self._batches = iter(loader) if is_ours else Passes(loader, endless)
        times = context._core.train._step_times
        if times.is_useful:
            self.own_time = own_time_of(context.models, times.add)
        self._move = self._mover()
        if self._move is not None and self._is_elastic:
            self._move = functools.partial(_move_each, self._move)

    @property
    def _is_elastic(self) -> bool:
        """Return whether batches come in parts for any number of slots. Other loaders shard by themselves."""
        has_parts = isinstance(self._training, DataLoader)
        return has_parts and self.context._settings.elastic_slots is not None

    def restore_rng(self) -> None:
        if self._restored:
            _checkpoint.restore_rng(self._restored, self.context.distributed.rank)
            self._restored = {}
        if self.context._torch_profiler is not None:
            self.context._torch_profiler.start()
            self._is_profiling = True

    def close(self) -> None:
        if self._is_profiling:
            self.context._torch_profiler.stop()
        self._saver.close()

    def collect(self) -> None:
        self._saver.collect()

    def finish(self) -> None:
        self._saver.finish()

    def train_mode(self) -> None:
        for model in self.context.models:
            model.train()
        self._train_batch = self._compose_train_batch()

    def eval_mode(self) -> None:
        for model in self.context.models:
            model.eval()

    def train_batches(self, start: int, stop: int, rows: _metrics.MetricRows) -> int:
        at, train_batch, add = self.context._position, self._train_batch, rows.add
        epoch, index = at.epoch, start - 1
        # This loop runs between batches with cold processor caches, so it does as little as possible.
        batches = self._batches if self._move is None else map(self._move, self._batches)
        if self.own_time is not None:
            return self._train_timed(range(start, stop), batches, rows, self.own_time)
        for index, batch in zip(range(start, stop), batches):
            at.batch = index
            add(train_batch(batch, epoch, index))
        return index + 1

    def _train_timed(
        self, numbers: range, batches: Iterable[Any], rows: _metrics.MetricRows, own_time: OwnTime
    ) -> int:
        """Train like `train_batches`, and measure this rank's own time of each batch."""
        at, train_batch, add = self.context._position, self._train_batch, rows.add
        epoch, index = at.epoch, numbers.start - 1
        own_time.begin()
        for index, batch in zip(numbers, batches):
            own_time.loaded()
            at.batch = index
            add(train_batch(batch, epoch, index))
            own_time.done()
        return index + 1

    def end_epoch(self, epoch_idx: int) -> None:
        for scheduler in self.context.lr_schedulers:
            if scheduler._step_mode is _StepMode.STEP_EVERY_EPOCH:
                scheduler.step_if_due(epoch_idx + 1)

    def evaluate_batches(self, rows: _metrics.MetricRows) -> None:
        evaluate = self._under_autocast(self.trial.evaluate_batch)
        indexed = takes_batch_idx(self.trial.evaluate_batch)
        move = self._mover()
        for index, (batch, is_repeated) in enumerate(self._validation_batches()):
            batch = move(batch) if move else batch
            returned = evaluate(batch, index) if indexed else evaluate(batch)
            if is_repeated:
                continue
            if not isinstance(returned, dict):
                raise TypeError(
                    "evaluate_batch() must return a dictionary of metrics, not a "
                    f"{type(returned).__name__}"
                )
            rows.add(returned)
            _progress.mark()
            if self._test_mode:
                break

    def _validation_batches(self) -> Iterator[Tuple[Any, bool]]:
        """Yield the batches of this rank, each with False.

        All ranks of a sharded model compute together, so ranks with fewer batches get their last one again, with True.
        """
        if not _sharded_state.is_needed(self.context):
            yield from ((batch, False) for batch in self._validation_loader)
            return
        batches, last = iter(self._validation_loader), None
        while True:
            batch = next(batches, None)
            have_more = self.context.distributed.allgather(batch is not None)
            if not any(have_more):
                return
            if last is None and not all(have_more):
                raise RuntimeError(
                    "a sharded model needs a validation batch on each rank: use fewer slots or smaller batches"
                )
            last = last if batch is None else batch
            yield last, batch is None

    def evaluate_full_dataset(self) -> Dict[str, Any]:
        metrics = self.trial.evaluate_full_dataset(self._validation_loader)
        if not isinstance(metrics, dict):
            raise TypeError("evaluate_full_dataset() must return a dictionary of metrics")
        return {name: _metrics.plain(value) for name, value in metrics.items()}

    def reduce_validation(self, shards: Sequence[Any]) -> Dict[str, Any]:
        if self.evaluates_full_dataset:
            return dict(shards[0])
        reducer = check_reducer(self.trial.evaluation_reducer())
        return _metrics.reduce_columns(shards, reducer)

    def replicate(
        self, progress: Progress, best_validation: Optional[float], rows: List[Dict[str, Any]]
    ) -> None:
        context = self.context
        if _sharded_state.is_needed(context):
            self._warn_of_no_replicas()
            return
        rng = _rng.capture()

        def state() -> Any:
            state = _checkpoint.capture(context, self.hooks, [rng])
            self._add_position(state, progress, best_validation)
            self.hooks.call("on_checkpoint_save_start", state)
            return _state.encode(state, _unchanged)

        own = _state.encode({"rng": rng, "rows": rows}, _unchanged)
        context._core.checkpoint.replicate(state, progress.batches, rank_state=own)

    def _warn_of_no_replicas(self) -> None:
        if not self._warned_of_no_replicas and self.context.distributed.rank == 0:
            logger.warning(
                "replication_period has no effect, because the model is sharded: a trial with FSDP resumes from its "
                "newest checkpoint. With the Core API, checkpoint.replicate(rank_state=...) keeps shards in memory"
            )
        self._warned_of_no_replicas = True

    def checkpoint(self, progress: Progress, best_validation: Optional[float]) -> None:
        context = self.context
        rng_states = context.distributed.gather(_rng.capture())
        load = _files.load_data(type(self.trial), "PyTorchTrial", context)
        write_origin = functools.partial(
            _trial_files.write_origin, load=load, trial_class=type(self.trial)
        )
        if _sharded_state.is_needed(context):
            state = None
            if rng_states is not None:
                state = _checkpoint.capture_without_weights(context, self.hooks, rng_states)
                self._add_position(state, progress, best_validation)
            shards = _sharded_state.collect(context)
            metadata = _files.metadata(progress.batches, form="sharded")
            self._saver.save_sharded(shards, state, write_origin, metadata)
        elif rng_states is not None:
            state = _checkpoint.capture(context, self.hooks, rng_states)
            self._add_position(state, progress, best_validation)
            self._saver.save(state, write_origin, _files.metadata(progress.batches))

    def _add_position(
        self, state: Dict[str, Any], progress: Progress, best_validation: Optional[float]
    ) -> None:
        at = self.context._position
        state["gradient_orders"] = self.context._backend.gradient_orders()
        state["progress"] = {
            **dataclasses.asdict(progress),
            "epoch": at.epoch,
            "epoch_start": at.epoch_start,
            "best_validation": best_validation,
            "trial_id": self.context._settings.trial_id,
        }

    def report_stop_requested(self) -> None:
        from determined.core import EarlyExitReason

        self.context._core.train.report_early_exit(EarlyExitReason.USER_REQUESTED_STOP)

    def _compose_train_batch(self) -> Callable[[Any, int, int], Any]:
        """Return `train_batch` with the features that this trial uses, which are determined once."""
        context = self.context
        train_batch = self._under_autocast(self.trial.train_batch)
        schedulers = [
            s for s in context.lr_schedulers if s._step_mode is _StepMode.STEP_EVERY_BATCH
        ]
        frequency = context._settings.aggregation_frequency
        profiler = context._torch_profiler
        if self._is_elastic:
            train_batch = self._train_in_parts(train_batch, frequency)
        if not schedulers and frequency == 1 and profiler is None:
            return train_batch

        def train(batch: Any, epoch: int, index: int) -> Any:
            if frequency > 1 and not self._is_elastic:
                context._backend.set_gradient_sync(context.models, (index + 1) % frequency == 0)
            metrics = train_batch(batch, epoch, index)
            for scheduler in schedulers:
                scheduler.step_if_due(index + 1)
            if profiler is not None:
                profiler.step()
            return metrics

        return train

    def _train_in_parts(
        self, train_batch: Callable[[Any, int, int], Any], frequency: int
    ) -> Callable[[_elastic.MicroBatches, int, int], Any]:
        """Return a function that trains the micro-batches of a batch, and steps after the last one."""
        context = self.context

        def train(step: _elastic.MicroBatches, epoch: int, index: int) -> Any:
            metrics, last = [], len(step.batches) - 1
            aggregates = (index + 1) % frequency != 0
            for number, (batch, weight) in enumerate(zip(step.batches, step.weights)):
                context._loss_weight = weight
                context._is_last_part = number == last
                is_synced = number == last and not aggregates
                context._backend.set_gradient_sync(context.models, is_synced)
                metrics.append(train_batch(batch, epoch, index))
            context._loss_weight, context._is_last_part = 1.0, True
            return _elastic.average(metrics, step.weights)

        return train

    def _under_autocast(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self.context._auto_amp:
            return function
        device_type = self.context.device.type

        def autocasted(*args: Any) -> Any:
            with torch.autocast(device_type):
                return function(*args)

        return autocasted

    def _mover(self) -> Optional[Callable[[Any], Any]]:
        """Return the function that moves a batch to this slot's device. Subclasses of the context may redefine it."""
        context = self.context
        if not context._auto_to_device:
            return None
        move: Callable[[Any], Any] = context.to_device
        if getattr(move, "__func__", None) is BaseTrialContext.to_device:
            move = context._move
        return move

    def _check_evaluation(self) -> None:
        has_batch = overrides(self.trial, PyTorchTrial, "evaluate_batch")
        if has_batch == self.evaluates_full_dataset:
            raise InvalidConfigurationException(
                f"{type(self.trial).__name__} must define either evaluate_batch() or evaluate_full_dataset()"
            )

    def _build_validation_loader(self) -> Any:
        if self.evaluates_full_dataset and self.context.distributed.rank != 0:
            return None
        loader = self.trial.build_validation_data_loader()
        self._check_loader(loader)
        if not isinstance(loader, DataLoader):
            return loader
        if self.evaluates_full_dataset:
            return loader.get_data_loader()
        distributed = self.context.distributed
        return loader.get_data_loader(num_replicas=distributed.size, rank=distributed.rank)

    def _shard(self, loader: Any) -> Any:
        if not isinstance(loader, DataLoader):
            return loader
        distributed = self.context.distributed
        if self._is_elastic:
            return loader._get_elastic_loader(
                self.context._settings.elastic_slots,
                self.progress.batches,
                distributed.size,
                distributed.rank,
            )
        return loader.get_data_loader(
            repeat=True,
            skip=self.progress.batches,
            num_replicas=distributed.size,
            rank=distributed.rank,
        )

    def _check_loader(self, loader: Any) -> None:
        if isinstance(loader, DataLoader) or not self.context._reproducibility_checks:
            return
        raise InvalidConfigurationException(
            f"the data loaders of a PyTorchTrial are determined.pytorch.DataLoader, not {type(loader).__name__}: "
            "only these are sharded over slots and resumed in the middle of an epoch. To do that yourself, call "
            "context.experimental.disable_dataset_reproducibility_checks() in the constructor."
        )


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _move_each(move: Callable[[Any], Any], step: _elastic.MicroBatches) -> _elastic.MicroBatches:
    return _elastic.MicroBatches([move(batch) for batch in step.batches], step.weights)
