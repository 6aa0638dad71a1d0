"""The training loop, which requests workloads and runs them until the trial is complete."""

import dataclasses
import inspect
import logging
import math
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from determined import _progress
from determined._stopping import Stopping
from determined.core._stragglers import WINDOW_STEPS
from determined.pytorch import _metrics
from determined.pytorch._callback import Hooks
from determined.pytorch._own_time import OwnTime
from determined.pytorch._reducer import Reducer, add_metric
from determined.pytorch._scalars import ScalarLog
from determined.workloads import Kind, Period, Progress, Workload, WorkloadSource

logger = logging.getLogger("determined.pytorch")

# Preemption is checked after about this many seconds of batches, even within long reporting periods. A spot machine of
# Google Cloud has 30 seconds for its checkpoint.
_POLL_SECONDS = 2.0
# Metrics are packed at least after this many batches, to limit the number of small tensors.
_MAX_POLL_BATCHES = 2_000
# Ranks compare their step times after each window of batches, but not more often than this.
_LEAST_EXCHANGE_SECONDS = 0.25


class Loop:
    """Trains one trial. `Steps` has the differences between PyTorch and DeepSpeed."""

    def __init__(
        self,
        steps: "Steps",
        source: WorkloadSource,
        max_batches: int,
        hooks: Hooks,
        replication: Optional[Period] = None,
    ) -> None:
        self.steps = steps
        self.context = steps.context
        self.core = self.context._core
        self.distributed = self.context.distributed
        self.is_chief = self.distributed.rank == 0
        self.source = source
        self.max_batches = max_batches
        self.hooks = hooks
        self.replication = replication
        self.rows = _metrics.MetricRows(self.context.device, steps.unreported_rows)
        self.scalars = ScalarLog(self.context)
        self.progress = steps.progress
        self.best_validation = steps.best_validation
        self.poll_batches = 1
        self.status = ""
        self.stopping = Stopping(self.context)
        self.ends_by_request = False

    def run(self) -> None:
        self.hooks.call("on_training_start")
        self.steps.restore_rng()
        try:
            self._work()
        finally:
            self.scalars.close()
        self.steps.finish()
        if self.ends_by_request:
            # Report this last, because the cluster may release the slots as soon as it gets the report.
            self.steps.report_stop_requested()

    def _work(self) -> None:
        while True:
            workload = self._next_workload()
            if workload.kind is Kind.RUN_STEP:
                self._train(workload.num_batches)
            elif workload.kind is Kind.VALIDATE:
                self._validate()
            elif workload.kind is Kind.CHECKPOINT:
                self._checkpoint()
            else:
                return

    def _next_workload(self) -> Workload:
        """Return the next workload on every rank. Only the chief requests it."""
        self.steps.collect()
        stops = self.distributed.gather(self.context.get_stop_requested())
        decided: Optional[Workload] = None
        if stops is not None:
            stopping = self.stopping.between_workloads(self.progress, any(stops))
            decided = self.source.next(dataclasses.replace(self.progress, stopping=stopping))
            if stopping and decided.kind is Kind.CHECKPOINT:
                decided = self._last_checkpoint(decided)
            self.ends_by_request = any(stops) and stopping and decided.kind is Kind.TERMINATE
        workload: Workload = self.distributed.broadcast(decided)
        return workload

    def _last_checkpoint(self, planned: Workload) -> Workload:
        """Return the workload that leaves the newest complete checkpoint before a preemption ends this run."""
        if self.core.checkpoint._times.has_no_time_for_another():
            return dataclasses.replace(planned, kind=Kind.TERMINATE)
        return planned

    def _train(self, batches: int) -> None:
        """Train, checking for preemption every few seconds, and report once."""
        self._status("training")
        self.context.reset_reducers()
        self.steps.train_mode()
        started = time.monotonic()
        first, end = self.progress.batches, self.progress.batches + batches
        next_poll = first + self.poll_batches
        while True:
            batch = self._train_until(min(end, next_poll, self._next_replica(end)))
            self.progress = dataclasses.replace(self.progress, batches=batch)
            _progress.mark()
            if batch < end and self._replicate_if_due() and batch < next_poll:
                continue
            if self.steps.own_time is not None:
                self.core.train._step_times.exchange(batch)
            if batch >= end:
                break
            if self._is_interrupted((time.monotonic() - started) / max(1, batch - first)):
                break
            next_poll = batch + self.poll_batches
            self.rows.pack()
        self._report_training()
        if batch >= end:
            self._replicate_if_due()
        self.steps.log_throughput("trained", batch - first, time.monotonic() - started)

    def _next_replica(self, end: int) -> int:
        if self.replication is None:
            return end
        due = self.replication.next_after(self.progress.batches)
        return end if due is None else due

    def _replicate_if_due(self) -> bool:
        """Keep the state in memory if this is due. The metrics that were not reported yet belong to it."""
        if self.replication is None or not self.replication.is_due(self.progress.batches):
            return False
        self.steps.replicate(self.progress, self.best_validation, self.rows.packed())
        return True

    def _train_until(self, stop: int) -> int:
        """Train batches up to `stop` or the end of the epoch. Return the number of completed batches."""
        at = self.context._position
        batch = self.progress.batches
        if batch == at.epoch_start:
            self.hooks.call("on_training_epoch_start", at.epoch)
        if at.epoch_len is not None:
            stop = min(stop, at.epoch_start + at.epoch_len)
        at.training = True
        batch = self.steps.train_batches(batch, stop, self.rows)
        at.training = False
        ended_early = batch < stop
        at.batch = batch
        if ended_early or (at.epoch_len is not None and batch == at.epoch_start + at.epoch_len):
            self._end_epoch(batch)
        return batch

    def _end_epoch(self, batch: int) -> None:
        at = self.context._position
        if batch == at.epoch_start:
            raise RuntimeError("the training data loader has no batches")
        self.steps.end_epoch(at.epoch)
        self.hooks.call("on_training_epoch_end", at.epoch)
        at.epoch += 1
        at.epoch_start = batch

    def _is_interrupted(self, batch_seconds: float) -> bool:
        """Return whether the trial is preempted. All ranks share the result and the batches until the next check."""
        answer: Optional[Tuple[bool, int]] = None
        if self.is_chief:
            poll = int(_POLL_SECONDS / max(batch_seconds, 1e-9))
            answer = (
                self.stopping.within_workload(),
                max(1, min(poll, self._most_poll_batches(batch_seconds))),
            )
        interrupted, self.poll_batches = self.distributed.broadcast(answer)
        return bool(interrupted)

    def _most_poll_batches(self, batch_seconds: float) -> int:
        if self.steps.own_time is None:
            return _MAX_POLL_BATCHES
        fewest = math.ceil(_LEAST_EXCHANGE_SECONDS / max(batch_seconds, 1e-9))
        return min(_MAX_POLL_BATCHES, max(WINDOW_STEPS, fewest))

    def _report_training(self) -> None:
        rows = self.rows.pop_all()
        gathered = self.distributed.gather([rows, self.context._per_slot(training=True)])
        report: Optional[Tuple[Dict[str, Any], List[Dict[str, Any]]]] = None
        if gathered is not None:
            shards = [shard for shard, _ in gathered] if self.steps.averages_training else [rows]
            shards = [shard for shard in shards if shard]
            metrics = _metrics.reduce_columns([_metrics.columns(shard) for shard in shards])
            self._add_reduced(metrics, training=True, per_slot=[slot for _, slot in gathered])
            self._add_position(metrics)
            report = (metrics, _metrics.average_rows(shards))
            self.core.train.report_training_metrics(self.progress.batches, *report)
            self.scalars.write(metrics, self.progress.batches)
            self.core.train.report_progress(min(1.0, self.progress.batches / self.max_batches))
        if self.hooks.overridden("on_training_workload_end"):
            self.hooks.call("on_training_workload_end", *self.distributed.broadcast(report))

    def _validate(self) -> None:
        self._status("validating")
        self.context.reset_reducers()
        self.hooks.call("on_validation_start")
        started = time.monotonic()
        with torch.no_grad():
            self.steps.eval_mode()
            shards, batches = self._evaluate()
            gathered = self.distributed.gather([shards, self.context._per_slot(training=False)])
        self.steps.log_throughput("validated", batches, time.monotonic() - started)
        metrics: Optional[Dict[str, Any]] = None
        if gathered is not None:
            metrics = self.steps.reduce_validation([shard for shard, _ in gathered])
            self._add_reduced(metrics, training=False, per_slot=[slot for _, slot in gathered])
        if self.hooks.overridden("on_validation_end"):
            metrics = self.distributed.broadcast(metrics)
            self.hooks.call("on_validation_end", metrics)
        improved = (
            self._report_validation(metrics) if self.is_chief and metrics is not None else None
        )
        if self.replication is not None:
            # The replicas of all machines have the chief's values.
            improved, self.best_validation = self.distributed.broadcast(
                (improved, self.best_validation) if self.is_chief else None
            )
        self.progress = dataclasses.replace(
            self.progress, validated_at=self.progress.batches, improved=improved
        )
        self._replicate_if_due()

    def _evaluate(self) -> Tuple[Any, int]:
        if self.steps.evaluates_full_dataset:
            return self.steps.evaluate_full_dataset() if self.is_chief else {}, 1
        self.hooks.call("on_validation_epoch_start")
        rows = _metrics.MetricRows(self.context.device)
        self.steps.evaluate_batches(rows)
        outputs = rows.pop_all()
        self.hooks.call("on_validation_epoch_end", outputs)
        return _metrics.columns(outputs), len(outputs)

    def _report_validation(self, metrics: Dict[str, Any]) -> Optional[bool]:
        """Report the metrics. Return whether the searcher's metric is the best so far, or None without a searcher."""
        improved = self._compare(metrics)
        report = dict(metrics)
        self._add_position(report)
        self.core.train.report_validation_metrics(self.progress.batches, report)
        self.scalars.write(metrics, self.progress.batches)
        self.scalars.flush()
        return improved

    def _compare(self, metrics: Dict[str, Any]) -> Optional[bool]:
        name = self.context._settings.searcher_metric
        if name is None:
            return None
        if name not in metrics:
            raise RuntimeError(
                f"the searcher needs the validation metric {name!r} (searcher.metric), but the trial "
                f"reports only: {', '.join(sorted(metrics)) or 'no metrics'}"
            )
        value = float(metrics[name])
        sign = 1 if self.context._settings.smaller_is_better else -1
        best_values = [self.core.train.get_experiment_best_validation(), self.best_validation]
        improved = not math.isnan(value) and all(
            sign * value < sign * best for best in best_values if best is not None
        )
        if improved:
            self.best_validation = value
        return improved

    def _checkpoint(self) -> None:
        self._status("checkpointing")
        self.progress = dataclasses.replace(self.progress, checkpointed_at=self.progress.batches)
        self.steps.checkpoint(self.progress, self.best_validation)

    def _add_reduced(
        self, metrics: Dict[str, Any], training: bool, per_slot: Sequence[Any]
    ) -> None:
        for name, value in self.context._cross_slot(training, per_slot).items():
            add_metric(metrics, name, _metrics.plain(value))

    def _add_position(self, metrics: Dict[str, Any]) -> None:
        """Add the keys with which a searcher can measure time (`time_metric`)."""
        metrics["batches"] = self.progress.batches
        metrics["epochs"] = self.context._position.epoch

    def _status(self, status: str) -> None:
        if self.is_chief and status != self.status:
            self.status = status
            self.core.train.set_status(status)


class Steps:
    """The operations of the loop on a trial. Each framework has a subclass."""

    context: Any
    progress: Progress
    best_validation: Optional[float] = None
    averages_training = True
    evaluates_full_dataset = False
    own_time: Optional[OwnTime] = None  # measures the steps of several ranks
    # Metrics of batches that an earlier run trained and did not report.
    unreported_rows: Sequence[Dict[str, Any]] = ()

    def restore_rng(self) -> None:
        """Restore the random state. This is called last, because preparations draw random numbers."""

    def train_mode(self) -> None: ...

    def eval_mode(self) -> None: ...

    def train_batches(self, start: int, stop: int, rows: _metrics.MetricRows) -> int:
        """Train batches `start` to `stop`, or fewer if the data ends. Return the number of completed batches."""
        raise NotImplementedError

    def end_epoch(self, epoch_idx: int) -> None: ...

    def evaluate_batches(self, rows: _metrics.MetricRows) -> None:
        raise NotImplementedError

    def evaluate_full_dataset(self) -> Dict[str, Any]:
        raise NotImplementedError

    def reduce_validation(self, shards: Sequence[Any]) -> Dict[str, Any]:
        """Reduce the validation metrics of all ranks to one dictionary."""
        raise NotImplementedError

    def checkpoint(self, progress: Progress, best_validation: Optional[float]) -> None:
        raise NotImplementedError

    def replicate(
        self, progress: Progress, best_validation: Optional[float], rows: List[Dict[str, Any]]
    ) -> None:
        """Keep the state in the memory of this machine and others."""

    def restore_replica(self, replica: Any) -> None:
        """Load the state that an earlier run kept in memory."""

    def collect(self) -> None:
        """Process completed background work, between workloads."""

    def finish(self) -> None:
        """Wait for background work, after the last workload."""

    def report_stop_requested(self) -> None: ...

    def log_throughput(self, verb: str, batches: int, seconds: float) -> None:
        logger.info(
            "%s %d batches in %.3f s (%.1f batches/s)",
            verb,
            batches,
            seconds,
            batches / max(seconds, 1e-9),
        )


def check_reducer(reducer: Any) -> Any:
    named = isinstance(reducer, dict) and all(isinstance(r, Reducer) for r in reducer.values())
    if not (isinstance(reducer, Reducer) or named):
        raise TypeError(
            f"evaluation_reducer() must return a Reducer or a dictionary of them, not {reducer!r}"
        )
    return reducer


def takes_batch_idx(method: Callable[..., Any]) -> bool:
    """Return whether evaluate_batch accepts an index. Older trials define it without one."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


class Passes:
    """An iterator over a loader that starts a new pass after each StopIteration."""

    def __init__(self, loader: Any, endless: bool) -> None:
        self._loader = loader
        self._endless = endless
        self._batches: Iterator[Any] = iter(loader)

    def __iter__(self) -> "Passes":
        return self

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            self._batches = iter(self._loader)
            if self._endless:
                return next(self._batches)
            raise
