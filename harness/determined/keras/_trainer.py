"""Train a TFKerasTrial in a loop over workloads. Each workload is a `fit` or `evaluate` of Keras.

No training script is needed."""

import dataclasses
import json
import logging
import math
import pathlib
from typing import Any, Dict, List, Optional, Type

import tensorflow as tf

from determined import _legacy_plan, _trial_files
from determined._stopping import Stopping
from determined._trial_settings import TrialSettings, make_settings
from determined.keras import _weights
from determined.keras._data import Batches, unwrapped
from determined.keras._trial import TFKerasTrial, TFKerasTrialContext
from determined.keras.callbacks import Callback
from determined.workloads import Kind, LocalSource, Plan, Progress, Workload, WorkloadSource

logger = logging.getLogger("determined.keras")

STATE_FILE = "trial_state.json"


class _Forward(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Forwards batches to the trial's callbacks, but not the begin, end and epochs of each `fit`."""

    def __init__(self, callbacks: Any) -> None:
        super().__init__()
        self._callbacks = callbacks

    def on_train_batch_begin(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._callbacks.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self._callbacks.on_train_batch_end(batch, logs)


class KerasTrainer:
    def __init__(self, trial: TFKerasTrial, context: Any) -> None:
        self.trial = trial
        self.context = context
        self.core = context._core
        self.distributed = context.distributed
        self.is_chief = self.distributed.rank == 0
        self.model = trial.build_model()
        size = (
            context.get_per_slot_batch_size()
            if "global_batch_size" in context.get_hparams()
            else 32
        )
        self.training = Batches(unwrapped(trial.build_training_data_loader()), size)
        self.validation = unwrapped(trial.build_validation_data_loader())
        callbacks = self._own_callbacks()
        self.callbacks = tf.keras.callbacks.CallbackList(callbacks, model=self.model)
        self.hooked: List[Callback] = [c for c in callbacks if isinstance(c, Callback)]
        self.progress = Progress()
        self.stopping = Stopping(context)
        self.best: Optional[float] = None
        self.epoch = 0
        self.logs: Dict[str, float] = {}
        self._restored_callbacks: List[Any] = []

    def run(
        self, source: WorkloadSource, max_batches: int, latest_checkpoint: Optional[str]
    ) -> None:
        if latest_checkpoint is not None:
            with self.core.checkpoint.restore_path(latest_checkpoint) as path:
                self._restore(pathlib.Path(path))
        self.training.start_at(self.progress.batches)
        self.model.stop_training = False
        self.callbacks.on_train_begin()
        # Keras's own callbacks reset their state in on_train_begin, so load it afterwards.
        self._load_callbacks()
        while True:
            workload = self._next_workload(source)
            if workload.kind is Kind.RUN_STEP:
                self._train(workload.num_batches, max_batches)
            elif workload.kind is Kind.VALIDATE:
                self._validate()
            elif workload.kind is Kind.CHECKPOINT:
                self._checkpoint()
            else:
                break
        self.callbacks.on_train_end()

    def _next_workload(self, source: WorkloadSource) -> Workload:
        stop = self.context.get_stop_requested() or bool(self.model.stop_training)
        stops = self.distributed.gather(stop)
        decided: Optional[Workload] = None
        if stops is not None:
            stopping = self.stopping.between_workloads(self.progress, any(stops))
            decided = source.next(dataclasses.replace(self.progress, stopping=stopping))
        workload: Workload = self.distributed.broadcast(decided)
        return workload

    def _train(self, batches: int, max_batches: int) -> None:
        """Train the batches in parts that end at epoch boundaries, and report once."""
        self._status("training")
        position, end = self.progress.batches, self.progress.batches + batches
        for callback in self.hooked:
            callback.on_train_workload_begin(position, batches, dict(self.logs))
        length = self.training.epoch_len
        parts = []
        while position < end:
            if length is not None and position % length == 0:
                self.callbacks.on_epoch_begin(position // length)
            stop = end if length is None else min(end, (position // length + 1) * length)
            parts.append((stop - position, self._fit(stop - position)))
            position = stop
            if length is not None and position % length == 0:
                self.epoch = position // length
                self.callbacks.on_epoch_end(self.epoch - 1, self.logs)
        self.progress = dataclasses.replace(self.progress, batches=position)
        metrics = {name: sum(n * logs[name] for n, logs in parts) / batches for name in parts[0][1]}
        metrics = self._averaged(metrics)
        for callback in self.hooked:
            callback.on_train_workload_end(position, dict(metrics))
        if self.is_chief:
            self.core.train.report_training_metrics(position, {**metrics, **self._position()})
            self.core.train.report_progress(min(1.0, position / max_batches))

    def _fit(self, batches: int) -> Dict[str, float]:
        # The data determines the order of batches. Keras warns if it is asked to shuffle a stream.
        options = {"verbose": 0, **self.context.fit_options, "shuffle": False}
        stop_training = self.model.stop_training
        history = self.model.fit(
            self.training.take(batches),
            steps_per_epoch=batches,
            epochs=1,
            callbacks=[_Forward(self.callbacks)],
            **options,
        ).history
        self.model.stop_training = self.model.stop_training or stop_training
        metrics = {name: float(values[-1]) for name, values in history.items()}
        self.logs.update(metrics)
        return metrics

    def _validate(self) -> None:
        self._status("validating")
        self.callbacks.on_test_begin()
        results = self.model.evaluate(
            *(self.validation if isinstance(self.validation, tuple) else (self.validation,)),
            verbose=0,
            steps=self.context.validation_steps,
            return_dict=True,
        )
        metrics = self._averaged({f"val_{name}": float(value) for name, value in results.items()})
        metrics = self.distributed.broadcast(metrics)
        self.logs.update(metrics)
        self.callbacks.on_test_end(metrics)
        improved = self._improves(metrics) if self.is_chief else None
        if self.is_chief:
            report = {**metrics, **self._position()}
            self.core.train.report_validation_metrics(self.progress.batches, report)
        self.progress = dataclasses.replace(
            self.progress, validated_at=self.progress.batches, improved=improved
        )

    def _improves(self, metrics: Dict[str, float]) -> Optional[bool]:
        settings = self.context._settings
        if settings.searcher_metric is None:
            return None
        if settings.searcher_metric not in metrics:
            raise RuntimeError(
                f"the searcher needs the validation metric {settings.searcher_metric!r} (searcher.metric), "
                f"but the trial reports only: {', '.join(sorted(metrics))}"
            )
        value = metrics[settings.searcher_metric]
        sign = 1 if settings.smaller_is_better else -1
        best_values = [self.core.train.get_experiment_best_validation(), self.best]
        improved = not math.isnan(value) and all(
            sign * value < sign * b for b in best_values if b is not None
        )
        if improved:
            self.best = value
        return improved

    def _checkpoint(self) -> None:
        self._status("checkpointing")
        self.progress = dataclasses.replace(self.progress, checkpointed_at=self.progress.batches)
        if not self.is_chief:
            return
        metadata = {
            "steps_completed": self.progress.batches,
            "framework": f"tensorflow-{tf.__version__}",
            "format": "saved_weights",
        }
        with self.core.checkpoint.store_path(metadata) as (path, _):
            path = pathlib.Path(path)
            _weights.save(self.model, str(path / _weights.WEIGHTS), None)
            trial_id = self.context._settings.trial_id
            state = {**dataclasses.asdict(self.progress), "best": self.best, "trial_id": trial_id}
            state["seeds"] = _weights.seeds(self.model)
            state["callbacks"] = [[type(c).__name__, c.get_state()] for c in self.hooked]
            (path / STATE_FILE).write_text(json.dumps(state, default=_as_numbers))
            load = _trial_files.load_data(type(self.trial), "TFKerasTrial", self.context)
            _trial_files.write_origin(path, load, type(self.trial))
            for callback in self.hooked:
                callback.on_checkpoint_end(str(path))

    def _restore(self, path: pathlib.Path) -> None:
        _weights.load(self.model, str(path / _weights.WEIGHTS))
        if not (path / STATE_FILE).exists():
            logger.info("starting from the weights of a checkpoint that Determined itself wrote")
            return
        state = json.loads((path / STATE_FILE).read_text())
        self.best = state.pop("best")
        seeds, callbacks = state.pop("seeds", []), state.pop("callbacks", [])
        if state.pop("trial_id") == self.context._settings.trial_id:
            self.progress = Progress(**{**state, "stopping": False})
            self._restored_callbacks = callbacks
            _weights.set_seeds(self.model, seeds)
            self.epoch = self.progress.batches // (self.training.epoch_len or 2**62)

    def _load_callbacks(self) -> None:
        for callback, (kind, state) in zip(self.hooked, self._restored_callbacks):
            # The code may have changed, so load a state only into a callback of the same class.
            if kind == type(callback).__name__ and state is not None:
                callback.load_state(state)

    def _averaged(self, metrics: Dict[str, float]) -> Dict[str, float]:
        shards = self.distributed.gather(metrics)
        if shards is None:
            return metrics
        return {name: sum(s[name] for s in shards) / len(shards) for name in metrics}

    def _own_callbacks(self) -> Any:
        callbacks = list(self.trial.keras_callbacks())
        for callback in callbacks:
            if isinstance(callback, tf.keras.callbacks.TensorBoard):
                callback.log_dir = str(self.context.get_tensorboard_path())
        return callbacks

    def _position(self) -> Dict[str, int]:
        return {"batches": self.progress.batches, "epochs": self.epoch}

    def _status(self, status: str) -> None:
        if self.is_chief:
            self.core.train.set_status(status)


def _as_numbers(value: Any) -> Any:
    """Convert numpy and TensorFlow values in a callback's state to plain values."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"get_state() of a callback returned a {type(value).__name__}: checkpoints can only store JSON values"
    )


def train_on_cluster(trial_class: Type[Any], info: Any) -> None:
    from determined import core

    with core.init(preempt_mode=core.PreemptMode.ChiefOnly) as core_context:
        trainer = _make_trainer(trial_class, core_context, make_settings(core_context, None, None))
        context = trainer.context
        lengths = _legacy_plan.lengths(info.trial._config, info.trial.hparams, core_context)
        plan = lengths.plan(trainer.training.epoch_len)
        if lengths.profiling_enabled:
            core_context.profiler.on()
        source = _legacy_plan.cluster_source(context, plan)
        trainer.run(source, plan.max_batches, info.latest_checkpoint)


def test_one_batch(trial_class: Type[Any], hparams: Dict[str, Any], config: Dict[str, Any]) -> None:
    """Train, validate and save once, without a cluster."""
    from determined import core

    with core.init() as core_context:
        settings = make_settings(core_context, hparams, config)
        trainer = _make_trainer(trial_class, core_context, settings)
        trainer.context.validation_steps = 1
        plan = Plan(max_batches=1, checkpoint_policy="all")
        trainer.run(LocalSource(plan), plan.max_batches, None)


def _make_trainer(
    trial_class: Type[Any], core_context: Any, settings: TrialSettings
) -> KerasTrainer:
    tf.keras.utils.set_random_seed(settings.trial_seed % 2**32)
    context = TFKerasTrialContext(core_context, settings)
    return KerasTrainer(trial_class(context), context)
