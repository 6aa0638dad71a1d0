"""DetCallback: reports, checkpoints and preemption for a Hugging Face Trainer."""

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
# The Trainer logs its speed beside the metrics, and once more in a summary after the last step.
_SPEED_FIGURES = (
    "_runtime",
    "_samples_per_second",
    "_steps_per_second",
    "_tokens_per_second",
    "_jit_compilation_time",
    "_model_preparation_time",
)
# A preemption is noticed after about this long, without a message to all workers in every step.
_POLL_SECONDS = 5.0


class DetCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Add it to a Trainer, and train with `resume_from_checkpoint=args.resume_from_checkpoint`.

    The callback reports the metrics that the Trainer logs, without its speed figures and summary, and stores the
    checkpoints that it saves. Training ends with an evaluation and a checkpoint. A preemption saves and stops; a
    searcher's stop does so where the Trainer logs or evaluates.
    `filter_metrics` names the metrics to report (all of them by default).
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
        self._given_up = False
        self._preempted = False
        check_length(args, config)
        self.load_last_checkpoint(args)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any
    ) -> None:
        if self._given_up:
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
        """Add files of your own to each checkpoint: override this."""
        if self.user_data is not None:
            with open(os.path.join(save_path, USER_DATA_FILE), "w") as f:
                json.dump(self.user_data, f)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._check_searcher_metric()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate and save at the end of training, but not a second time in one step."""
        ends = state.global_step >= state.max_steps or control.should_training_stop
        stopped = self._given_up or self._preempted
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
        if not self._given_up:
            logger.info("preempted: saving a checkpoint at step %d", state.global_step)
            self._preempted = True
            _save_and_stop(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._evaluated_at = state.global_step
        self._is_unchecked = True
        self._ask_searcher()
        if self._given_up:
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
        """Find out on all workers whether the searcher gave the trial up."""
        if self._is_searched and not self._given_up:
            answer = self.core_context.train._is_given_up() if self._is_chief else None
            self._given_up = bool(self.core_context.distributed.broadcast(answer))

    def _is_preempted(self, step: int) -> bool:
        """Ask, and agree with all workers on the step in which to ask again."""
        preempted = bool(self.core_context.preempt.should_preempt())
        now = time.monotonic()
        done = max(1, step - self._poll_step)
        rate = done / max(now - self._poll_time, 1e-6)
        self._poll_step, self._poll_time = step, now
        # Steps may become slower than the first ones: look again before three times as many were done.
        pause = max(1, min(int(rate * _POLL_SECONDS), 2 * done, 1_000))
        self._poll_at = int(self.core_context.distributed.broadcast(step + pause))
        return preempted

    def _new_metrics(self, group: str, step: int, logs: Mapping[str, Any]) -> Dict[str, Any]:
        """Return the numbers that are new at this step: a second evaluation may repeat them."""
        if step != self._reported_at:
            self._reported, self._reported_at = {}, step
        known = self._reported.setdefault(group, set())
        wanted = {
            name: value
            for name, value in logs.items()
            if isinstance(value, numbers.Number) and name not in known and self._wants(name)
        }
        known.update(wanted)
        return wanted

    def _wants(self, name: str) -> bool:
        if name == "epoch":
            return False
        chosen = self.filter_metrics
        if chosen is None:
            return not name.endswith(_SPEED_FIGURES)
        return any(name in (c, f"eval_{c}") for c in chosen)

    def load_last_checkpoint(self, args: Any) -> None:
        """Download the trial's latest checkpoint to where the Trainer looks for it. Override it to begin elsewhere."""
        info = self.core_context.info
        latest = info.latest_checkpoint if info is not None else None
        if latest is None:
            return
        checkpoint = self.core_context.checkpoint
        name = f"checkpoint-{checkpoint.get_metadata(latest).get('steps_completed', 0)}"
        directory = os.path.join(args.output_dir, name)
        checkpoint.download(latest, args.output_dir, selector=lambda path: _is_below(name, path))
        if not os.path.isdir(directory):
            # Checkpoints of earlier versions have the files of the Trainer at their root.
            checkpoint.download(latest, directory)
        args.resume_from_checkpoint = directory


def _save_and_stop(control: Any) -> None:
    control.should_save = True
    control.should_training_stop = True


def group_of(logs: Mapping[str, Any]) -> str:
    """Return the group of a log: the Trainer names the metrics of evaluations `eval_...`."""
    return "validation" if any(name.startswith("eval_") for name in logs) else "training"


def upload(core_context: Any, output_dir: str, name: str, metadata: Dict[str, Any]) -> str:
    """Store the folder `name` that the workers wrote; store a file once if several of them see it."""
    distributed = core_context.distributed
    if distributed.size == 1:
        uuid: str = core_context.checkpoint.upload(
            output_dir, metadata, selector=lambda path: _is_below(name, path)
        )
        return uuid
    mine = list_files(output_dir, name) if distributed.local_rank == 0 else []
    owners: Dict[str, int] = {}
    for rank, files in enumerate(distributed.allgather(mine)):
        for file in files:
            owners.setdefault(file, rank)
    merged: str = core_context.checkpoint.upload(
        output_dir if mine else None,
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
    """Return the paths of the files in the folder `name` of a directory, relative to the directory."""
    return [
        os.path.relpath(os.path.join(root, file), directory)
        for root, _, files in os.walk(os.path.join(directory, name))
        for file in files
    ]


def check_length(args: Any, config: Mapping[str, Any]) -> None:
    """Raise ValueError if the searcher and the Trainer's arguments disagree about how long to train."""
    searcher = config.get("searcher") or {}
    trained = (
        {"batches": args.max_steps} if args.max_steps > 0 else {"epochs": args.num_train_epochs}
    )
    length = searcher.get("max_length")
    if length is not None:
        configured = length if isinstance(length, Mapping) else {"": length}
        _compare_lengths("max_length", trained, configured)
    if searcher.get("max_time") and searcher.get("time_metric") in _ARGUMENTS:
        _compare_lengths("max_time", trained, {searcher["time_metric"]: searcher["max_time"]})


def _compare_lengths(key: str, trained: Mapping[str, Any], configured: Mapping[str, Any]) -> None:
    if dict(trained) == dict(configured):
        return
    ((unit, length),) = trained.items()
    wanted = ", ".join(f"{u}={n}" if u else str(n) for u, n in configured.items())
    advice = f"set searcher.time_metric to {unit} and searcher.max_time to {length}"
    if key == "max_length":
        advice = "remove searcher.max_length, which is deprecated"
    raise ValueError(
        f"searcher.{key} does not match the Trainer's --{_ARGUMENTS[unit]} ({unit}={length} != {wanted}): {advice}, "
        "or train for the same length"
    )


def _is_summary(logs: Mapping[str, Any]) -> bool:
    """Return whether these are the totals that the Trainer logs after its last step."""
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
