"""DetCallback, which adds reports, checkpoints and preemption to a Hugging Face Trainer."""

import json
import logging
import numbers
import os
import time
from typing import Any, Dict, List, Mapping, Optional, Set

import transformers

from determined._stopping import is_searched

logger = logging.getLogger("determined.transformers")

USER_DATA_FILE = "my_data.json"
_ARGUMENTS = {"batches": "max_steps", "epochs": "num_train_epochs"}
# The Trainer logs its speed with the metrics, and again in a summary after the last step.
_SPEED_FIGURES = (
    "_runtime",
    "_samples_per_second",
    "_steps_per_second",
    "_tokens_per_second",
    "_jit_compilation_time",
    "_model_preparation_time",
)
# Preemption is checked about this often, which avoids a message to all workers in every step. A spot machine of Google
# Cloud has 30 seconds for its checkpoint.
_POLL_SECONDS = 2.0


class DetCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """A callback for a Trainer. Train with `resume_from_checkpoint=args.resume_from_checkpoint`.

    The callback reports the metrics that the Trainer logs, without its speed figures and summary, and stores the
    Trainer's checkpoints. Training ends with an evaluation and a checkpoint. On preemption, training saves and stops.
    If the searcher stops the trial, training saves and stops at the next log or evaluation.
    `filter_metrics` names the metrics to report (by default all of them).
    """

    def __init__(
        self,
        core_context: Any,
        args: Any,
        filter_metrics: Optional[List[str]] = None,
        user_data: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.core_context = core_context
        self.filter_metrics = filter_metrics
        self.user_data = user_data
        self.last_metrics: Dict[str, float] = {}
        self._is_chief = core_context.distributed.rank == 0
        self._reported: Dict[str, Set[str]] = {}
        self._reported_at = -1
        self._evaluated_at = -1
        self._saved_at = -1
        self._is_unchecked = False
        self._poll_at = 0
        self._poll_step = 0
        self._poll_time = time.monotonic()
        self._trial_id = _trial_id(core_context)
        config = _config(core_context)
        self._searcher_metric = (config.get("searcher") or {}).get("metric")
        self._is_searched = is_searched(config)
        self._stopped_by_searcher = False
        self._preempted = False
        check_length(args, config)
        self.load_last_checkpoint(args)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any
    ) -> None:
        if self._stopped_by_searcher:
            _save_and_stop(control)
        if not logs or not self._is_chief or _is_summary(logs):
            return
        group = group_of(logs)
        metrics = self._new_metrics(group, state.global_step, logs)
        if not metrics:
            return
        self.last_metrics.update(metrics)
        metrics = {**metrics, "batches": state.global_step, "epochs": state.epoch or 0}
        report = self.core_context.train
        if group == "validation":
            report.report_validation_metrics(state.global_step, metrics)
        else:
            report.report_training_metrics(state.global_step, metrics)
        if state.max_steps > 0:
            report.report_progress(min(1.0, state.global_step / state.max_steps))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._saved_at = state.global_step
        name = f"checkpoint-{state.global_step}"
        metadata = {"steps_completed": state.global_step, "trial_id": self._trial_id}
        if self._is_chief:
            self._on_save_user_data(os.path.join(args.output_dir, name))
        upload(self.core_context, args.output_dir, name, metadata)

    def _on_save_user_data(self, save_path: str) -> None:
        """Call `on_save_user_data`. Programs for Determined 0.38 override this method instead."""
        self.on_save_user_data(save_path)

    def on_save_user_data(self, save_path: str) -> None:
        """Write additional files into a checkpoint. Subclasses may override this method."""
        if self.user_data is not None:
            with open(os.path.join(save_path, USER_DATA_FILE), "w") as f:
                json.dump(self.user_data, f)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._check_searcher_metric()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate and save at the end of training, but only once for each step."""
        ends = state.global_step >= state.max_steps or control.should_training_stop
        stopped = self._stopped_by_searcher or self._preempted
        if self._saved_at == state.global_step:
            control.should_save = False
        elif ends:
            control.should_save = True
        if stopped or self._evaluated_at == state.global_step:
            control.should_evaluate = False
        elif ends and self._searcher_metric is not None:
            control.should_evaluate = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._check_searcher_metric()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step < self._poll_at or not self._is_preempted(state.global_step):
            return
        self._ask_searcher()
        if not self._stopped_by_searcher:
            logger.info("preempted: saving a checkpoint at step %d", state.global_step)
            self._preempted = True
            _save_and_stop(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._evaluated_at = state.global_step
        self._is_unchecked = True
        self._ask_searcher()
        if self._stopped_by_searcher:
            logger.info(
                "stopped by the searcher: saving a checkpoint at step %d", state.global_step
            )
            _save_and_stop(control)

    def _check_searcher_metric(self) -> None:
        """Raise ValueError if an evaluation is over and did not report the searcher's metric."""
        if not (self._is_unchecked and self._is_chief) or self._searcher_metric is None:
            return
        self._is_unchecked = False
        metrics = self._reported.get("validation", set())
        if self._searcher_metric not in metrics:
            raise ValueError(
                f"the searcher metric {self._searcher_metric!r} (searcher.metric) is missing from the evaluation, "
                f"which reports: {', '.join(sorted(metrics)) or 'no metric'}. Set searcher.metric to one of these, "
                "or return the metric from compute_metrics"
            )

    def _ask_searcher(self) -> None:
        """Ask on all workers whether the searcher stopped the trial."""
        if self._is_searched and not self._stopped_by_searcher:
            answer = self.core_context.train._is_stopped_by_searcher() if self._is_chief else None
            self._stopped_by_searcher = bool(self.core_context.distributed.broadcast(answer))

    def _is_preempted(self, step: int) -> bool:
        """Return whether the trial is preempted. All workers agree on the step of the next check."""
        preempted = bool(self.core_context.preempt.should_preempt())
        now = time.monotonic()
        steps_done = max(1, step - self._poll_step)
        rate = steps_done / max(now - self._poll_time, 1e-6)
        self._poll_step, self._poll_time = step, now
        # Later steps may be slower, so check again before three times as many steps were done.
        pause = max(1, min(int(rate * _POLL_SECONDS), 2 * steps_done, 1_000))
        self._poll_at = int(self.core_context.distributed.broadcast(step + pause))
        return preempted

    def _new_metrics(self, group: str, step: int, logs: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the numbers that are new at this step, because a second evaluation may repeat metrics."""
        if step != self._reported_at:
            self._reported, self._reported_at = {}, step
        names = self._reported.setdefault(group, set())
        new_metrics = {
            name: value
            for name, value in logs.items()
            if isinstance(value, numbers.Number) and name not in names and self._wants(name)
        }
        names.update(new_metrics)
        return new_metrics

    def _wants(self, name: str) -> bool:
        if name == "epoch":
            return False
        chosen = self.filter_metrics
        if chosen is None:
            return not name.endswith(_SPEED_FIGURES)
        return any(name in (c, f"eval_{c}") for c in chosen)

    def load_last_checkpoint(self, args: Any) -> None:
        """Download the trial's latest checkpoint for the Trainer. Override it to start from another checkpoint."""
        info = self.core_context.info
        latest = info.latest_checkpoint if info is not None else None
        if latest is None:
            return
        checkpoint = self.core_context.checkpoint
        name = f"checkpoint-{checkpoint.get_metadata(latest).get('steps_completed', 0)}"
        directory = os.path.join(args.output_dir, name)
        checkpoint.download(latest, args.output_dir, selector=lambda path: _is_below(name, path))
        if not os.path.isdir(directory):
            # Checkpoints of earlier versions have the Trainer's files in their root directory.
            checkpoint.download(latest, directory)
        args.resume_from_checkpoint = directory


def _save_and_stop(control: Any) -> None:
    control.should_save = True
    control.should_training_stop = True


def group_of(logs: Mapping[str, Any]) -> str:
    """Return the group of a log. The Trainer names the metrics of evaluations `eval_...`."""
    return "validation" if any(name.startswith("eval_") for name in logs) else "training"


def upload(core_context: Any, output_dir: str, name: str, metadata: Dict[str, Any]) -> str:
    """Store the folder `name` that the workers wrote. If several workers see a file, only one stores it."""
    distributed = core_context.distributed
    if distributed.size == 1:
        uuid: str = core_context.checkpoint.upload(
            output_dir, metadata, selector=lambda path: _is_below(name, path)
        )
        return uuid
    local_files = list_files(output_dir, name) if distributed.local_rank == 0 else []
    owners: Dict[str, int] = {}
    for rank, files in enumerate(distributed.allgather(local_files)):
        for file in files:
            owners.setdefault(file, rank)
    merged: str = core_context.checkpoint.upload(
        output_dir if local_files else None,
        metadata if distributed.rank == 0 else {},
        shard=True,
        selector=lambda path: (
            _is_below(name, path) and (path.endswith("/") or owners.get(path) == distributed.rank)
        ),
    )
    return merged


def _is_below(name: str, path: str) -> bool:
    return path.startswith(f"{name}/")


def list_files(directory: str, name: str) -> List[str]:
    """Return the files in the folder `name` of a directory, relative to that directory."""
    return [
        os.path.relpath(os.path.join(root, file), directory)
        for root, _, files in os.walk(os.path.join(directory, name))
        for file in files
    ]


def check_length(args: Any, config: Mapping[str, Any]) -> None:
    """Raise ValueError if the searcher and the Trainer's arguments specify different training lengths."""
    searcher = config.get("searcher") or {}
    training_length = (
        {"batches": args.max_steps} if args.max_steps > 0 else {"epochs": args.num_train_epochs}
    )
    length = searcher.get("max_length")
    if length is not None:
        configured = length if isinstance(length, Mapping) else {"": length}
        _compare_lengths("max_length", training_length, configured)
    if searcher.get("max_time") and searcher.get("time_metric") in _ARGUMENTS:
        _compare_lengths(
            "max_time", training_length, {searcher["time_metric"]: searcher["max_time"]}
        )


def _compare_lengths(key: str, trained: Mapping[str, Any], configured: Mapping[str, Any]) -> None:
    if dict(trained) == dict(configured):
        return
    ((unit, length),) = trained.items()
    expected = ", ".join(f"{u}={n}" if u else str(n) for u, n in configured.items())
    advice = f"set searcher.time_metric to {unit} and searcher.max_time to {length}"
    if key == "max_length":
        advice = "remove searcher.max_length, which is deprecated"
    raise ValueError(
        f"searcher.{key} does not match the Trainer's --{_ARGUMENTS[unit]} ({unit}={length} != {expected}): {advice}, "
        "or train for the same length"
    )


def _is_summary(logs: Mapping[str, Any]) -> bool:
    """Return whether this is the summary that the Trainer logs after its last step."""
    return "train_runtime" in logs


def _config(core_context: Any) -> Mapping[str, Any]:
    info = core_context.info
    if info is None or info.task_type != "TRIAL":
        return {}
    config: Mapping[str, Any] = info.trial._config
    return config


def _trial_id(core_context: Any) -> Optional[int]:
    info = core_context.info
    return info.trial.trial_id if info is not None and info.task_type == "TRIAL" else None
