"""Train, validate and save a DeepSpeedTrial. Every rank does its part."""

import dataclasses
import pathlib
from typing import Any, Dict, Iterator, Optional, Sequence

from determined import _trial_files
from determined.errors import InvalidConfigurationException
from determined.pytorch import _checkpoint, _files, _metrics, _rng, _state
from determined.pytorch._callback import Hooks
from determined.pytorch._data import DataLoader
from determined.pytorch._loop import Passes, Steps, check_reducer
from determined.pytorch._trial import overrides
from determined.pytorch.deepspeed._trial import DeepSpeedTrial
from determined.pytorch.samplers import length_of
from determined.workloads import Progress


class DeepSpeedSteps(Steps):
    def __init__(
        self,
        trial: Any,
        context: Any,
        hooks: Hooks,
        *,
        test_mode: bool,
        async_checkpoints: Optional[bool] = None,
    ) -> None:
        if async_checkpoints:
            raise ValueError(
                "DeepSpeed writes its own checkpoints, so async_checkpoints has no effect"
            )
        self.trial = trial
        self.context = context
        self.hooks = hooks
        self.progress = Progress()
        self.evaluates_full_dataset = overrides(trial, DeepSpeedTrial, "evaluate_full_dataset")
        self._test_mode = test_mode
        self._mpu = context._mpu
        self._rng_states: Optional[Dict[str, Any]] = None
        self._training = self._built(trial.build_training_data_loader)
        self._validation = self._built(trial.build_validation_data_loader)

    def restore(self, path: pathlib.Path, shards: Optional[Any] = None) -> None:
        state = _checkpoint.read_state(path)
        self.hooks.call("on_checkpoint_load_start", state)
        self.trial.load(self.context, path)
        self.hooks.load_state_dict(state.get("callbacks") or {})
        progress = state["progress"]
        if progress["trial_id"] != self.context._settings.trial_id:
            return
        self._rng_states = state
        self.best_validation = progress["best_validation"]
        self.progress = Progress(
            batches=progress["batches"],
            validated_at=progress["validated_at"],
            checkpointed_at=progress["batches"],
            improved=progress["improved"],
        )

    def prepare(self) -> None:
        at = self.context._position
        at.batch = at.first_batch = self.progress.batches
        micro_batches = self.context.get_num_micro_batches_per_slot()
        loader = self._shard(self._training, repeat=True, skip=at.batch * micro_batches)
        self._batches = Passes(loader, endless=True) if loader is not None else None
        length = length_of(loader) if loader is not None else None
        # Ranks without data get the length from ranks with data.
        lengths = self.context.distributed.allgather(length)
        lengths_with_data = [n for n in lengths if n is not None]
        at.epoch_len = (
            max(1, min(lengths_with_data) // micro_batches) if lengths_with_data else None
        )
        if at.epoch_len is not None:
            at.epoch = at.batch // at.epoch_len
            at.epoch_start = at.epoch * at.epoch_len

    def restore_rng(self) -> None:
        if self._rng_states is not None:
            _checkpoint.restore_rng(self._rng_states, self.context.distributed.rank)
            self._rng_states = None

    def train_mode(self) -> None:
        for model in self.context.models:
            model.train()

    def eval_mode(self) -> None:
        for model in self.context.models:
            model.eval()

    def train_batches(self, start: int, stop: int, rows: _metrics.MetricRows) -> int:
        at, train_batch, batches = self.context._position, self.trial.train_batch, self._batches
        calls = self.context.calls_per_batch()
        reports = self._mpu.should_report_metrics
        for index in range(start, stop):
            at.batch = index
            for _ in range(calls):
                returned = train_batch(batches, at.epoch, index)
                if reports:
                    rows.add(returned)
        return stop

    def evaluate_batches(self, rows: _metrics.MetricRows) -> None:
        loader = self._shard(self._validation)
        batches: Optional[Iterator[Any]] = iter(loader) if loader is not None else None
        for index in range(self._validation_batches(loader)):
            returned = self.trial.evaluate_batch(batches, index)
            if self._mpu.should_report_metrics:
                rows.add(returned)

    def evaluate_full_dataset(self) -> Dict[str, Any]:
        loader = self._validation
        full_loader = loader.get_data_loader() if isinstance(loader, DataLoader) else loader
        metrics = self.trial.evaluate_full_dataset(full_loader)
        return {name: _metrics.plain(value) for name, value in metrics.items()}

    def reduce_validation(self, shards: Sequence[Any]) -> Dict[str, Any]:
        if self.evaluates_full_dataset:
            return dict(shards[0])
        return _metrics.reduce_columns(shards, check_reducer(self.trial.evaluation_reducer()))

    def checkpoint(self, progress: Progress, best_validation: Optional[float]) -> None:
        context = self.context
        rng_states = context.distributed.gather(_rng.capture())
        is_chief = rng_states is not None
        metadata = _files.metadata(progress.batches) if is_chief else {}
        distributed = context.distributed.size > 1
        stored = context._core.checkpoint.store_path(metadata, shard=distributed)
        with stored as (path, uuid):
            self.trial.save(context, path)
            if rng_states is not None:
                state = self._state(progress, best_validation, rng_states)
                load = _trial_files.load_data(type(self.trial), "DeepSpeedTrial", context)
                _files.write(path, state, load, type(self.trial))
            self.hooks.call("on_checkpoint_end", str(path))
            self.hooks.call("on_checkpoint_write_end", str(path))
        self.hooks.call("on_checkpoint_upload_end", uuid)

    def report_stop_requested(self) -> None:
        from determined.core import EarlyExitReason

        self.context._core.train.report_early_exit(EarlyExitReason.USER_REQUESTED_STOP)

    def finish(self) -> None:
        """Return at once, because checkpoints are stored synchronously by all ranks."""

    def close(self) -> None:
        pass

    def _state(
        self, progress: Progress, best_validation: Optional[float], rng_states: Any
    ) -> Dict[str, Any]:
        state = {
            "callbacks": self.hooks.state_dict(),
            "rng_state": rng_states[0],
            "rank_rng_states": rng_states,
            "progress": {
                **dataclasses.asdict(progress),
                "best_validation": best_validation,
                "trial_id": self.context._settings.trial_id,
            },
        }
        self.hooks.call("on_checkpoint_save_start", state)
        encoded: Dict[str, Any] = _state.encode(state, _state.host_copy())
        return encoded

    def _built(self, build: Any) -> Any:
        loader = build() if self._mpu.should_build_data_loader else None
        allowed = loader is None or isinstance(loader, DataLoader)
        if not allowed and self.context._reproducibility_checks:
            raise InvalidConfigurationException(
                "the data loaders of a DeepSpeedTrial are determined.pytorch.DataLoader, not "
                f"{type(loader).__name__}; to shard and resume by yourself, call "
                "context.disable_dataset_reproducibility_checks() in the constructor"
            )
        return loader

    def _shard(self, loader: Any, repeat: bool = False, skip: int = 0) -> Any:
        if not isinstance(loader, DataLoader):
            return loader
        replicas, rank = self._mpu.data_parallel_world_size, self._mpu.data_parallel_rank
        return loader.get_data_loader(repeat=repeat, skip=skip, num_replicas=replicas, rank=rank)

    def _validation_batches(self, loader: Any) -> int:
        """Return the number of evaluations. All ranks of a pipeline evaluate equally often, even without data."""
        length = length_of(loader) if loader is not None else None
        if self.context.use_pipeline_parallel:
            lengths = [n for n in self.context.distributed.allgather(length) if n is not None]
            length = min(lengths) // self.context.get_num_micro_batches_per_slot()
        if length is None:
            raise ValueError("the validation data loader of a DeepSpeedTrial needs a length")
        return min(1, length) if self._test_mode else length
