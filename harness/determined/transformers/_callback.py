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
# A preemption is noticed after about this long, without a message to all workers in every step.
_POLL_SECONDS = 5.0


class DetCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Add it to a Trainer, and train with `resume_from_checkpoint=args.resume_from_checkpoint`.

    What the Trainer logs is reported, what it saves is stored as a checkpoint, and a preemption saves and stops; a
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
        self._poll_at = 0
        self._poll_step = 0
        self._poll_time = time.monotonic()
        self._trial_id = _trial_id(core_context)
        self._is_searched = is_searched(_config(core_context))
        self._given_up = False
        check_length(args, _config(core_context))
        self.load_last_checkpoint(args)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **_: Any
    ) -> None:
        if self._given_up:
            _save_and_stop(control)
        if not logs or not self._is_chief:
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
        directory = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        metadata = {"steps_completed": state.global_step, "trial_id": self._trial_id}
        if self._is_chief:
            self.on_save_user_data(directory)
        upload(self.core_context, directory, metadata)

    def on_save_user_data(self, save_path: str) -> None:
        """Add files of your own to each checkpoint: override this."""
        if self.user_data is not None:
            with open(os.path.join(save_path, USER_DATA_FILE), "w") as f:
                json.dump(self.user_data, f)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step < self._poll_at or not self._is_preempted(state.global_step):
            return
        self._ask_searcher()
        if not self._given_up:
            logger.info("preempted: saving a checkpoint at step %d", state.global_step)
            _save_and_stop(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._ask_searcher()
        if self._given_up:
            logger.info(
                "stopped by the searcher: saving a checkpoint at step %d", state.global_step
            )
            _save_and_stop(control)

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
        return chosen is None or any(name in (c, f"eval_{c}") for c in chosen)

    def load_last_checkpoint(self, args: Any) -> None:
        """Download the trial's latest checkpoint to where the Trainer looks for it. Override it to begin elsewhere."""
        info = self.core_context.info
        latest = info.latest_checkpoint if info is not None else None
        if latest is None:
            return
        steps = self.core_context.checkpoint.get_metadata(latest).get("steps_completed", 0)
        directory = os.path.join(args.output_dir, f"checkpoint-{steps}")
        self.core_context.checkpoint.download(latest, directory)
        args.resume_from_checkpoint = directory


def _save_and_stop(control: Any) -> None:
    control.should_save = True
    control.should_training_stop = True


def group_of(logs: Mapping[str, Any]) -> str:
    """Return the group of a log: the Trainer names the metrics of evaluations `eval_...`."""
    return "validation" if any(name.startswith("eval_") for name in logs) else "training"


def upload(core_context: Any, directory: str, metadata: Dict[str, Any]) -> str:
    """Store what the workers wrote; a file that several of them see is stored once."""
    distributed = core_context.distributed
    if distributed.size == 1:
        uuid: str = core_context.checkpoint.upload(directory, metadata)
        return uuid
    mine = list_files(directory) if distributed.local_rank == 0 else []
    owners: Dict[str, int] = {}
    for rank, files in enumerate(distributed.allgather(mine)):
        for file in files:
            owners.setdefault(file, rank)
    merged: str = core_context.checkpoint.upload(
        directory if mine else None,
        metadata if distributed.rank == 0 else {},
        shard=True,
        selector=lambda path: path.endswith("/") or owners.get(path) == distributed.rank,
    )
    return merged


def list_files(directory: str) -> List[str]:
    return [
        os.path.relpath(os.path.join(root, name), directory)
        for root, _, names in os.walk(directory)
        for name in names
    ]


def check_length(args: Any, config: Mapping[str, Any]) -> None:
    """Warn where the searcher and the Trainer's arguments disagree about how long to train."""
    searcher = config.get("searcher") or {}
    lengths: Dict[str, Any] = {}
    if isinstance(searcher.get("max_length"), Mapping):
        lengths.update(searcher["max_length"])
    if searcher.get("max_time"):
        lengths[str(searcher.get("time_metric"))] = searcher["max_time"]
    arguments = {"batches": "max_steps", "epochs": "num_train_epochs"}
    for unit, length in lengths.items():
        argument = arguments.get(unit)
        if argument is not None and float(getattr(args, argument, length)) != float(length):
            logger.warning(
                "the searcher expects %s %s, but the Trainer was given --%s %s: set both to the same",
                length,
                unit,
                argument,
                getattr(args, argument),
            )


def _config(core_context: Any) -> Mapping[str, Any]:
    info = core_context.info
    if info is None or info.task_type != "TRIAL":
        return {}
    config: Mapping[str, Any] = info.trial._config
    return config


def _trial_id(core_context: Any) -> Optional[int]:
    info = core_context.info
    return info.trial.trial_id if info is not None and info.task_type == "TRIAL" else None
