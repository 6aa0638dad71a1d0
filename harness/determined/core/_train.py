"""Report metrics, progress, status, metadata, early exits and TensorBoard files of a trial."""

import datetime
import enum
import logging
import pathlib
from typing import Any, Callable, Dict, List, Optional, Set

from determined import _progress
from determined.common.http import APIError, MasterUnreachableError, NotFoundError, Session
from determined.core._distributed import DistributedContext
from determined.core._json import encode
from determined.core._outbox import Outbox
from determined.core._step_times import StepReports, StepTimes, as_json
from determined.core._stragglers import Straggler
from determined.tensorboard._scalars import ReportedScalars
from determined.tensorboard._sync import TensorboardSync

logger = logging.getLogger("determined.core")


_STOPPED_STATES = ("STATE_STOPPING_COMPLETED", "STATE_COMPLETED")


class EarlyExitReason(enum.Enum):
    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class TrainContext:
    """Reports of a trial, such as metrics and progress. They are sent in order in the background."""

    def __init__(
        self,
        session: Session,
        trial_id: int,
        experiment_id: int,
        trial_run_id: int,
        distributed: DistributedContext,
        outbox: Outbox,
        tensorboard: TensorboardSync,
        searcher_metric: Optional[str] = None,
        scalars: Optional[ReportedScalars] = None,
        agent_id: str = "",
    ) -> None:
        self._session = session
        self._trial_id = trial_id
        self._experiment_id = experiment_id
        self._run_id = trial_run_id
        self._distributed = distributed
        self._outbox = outbox
        self._tensorboard = tensorboard
        self._searcher_metric = searcher_metric
        self._validated: Set[str] = set()
        self._reported: Dict[str, int] = {}  # the last step of each group
        self._scalars = scalars
        self._step_times = StepTimes(distributed, agent_id, self._send_straggler)
        self._step_reports = StepReports(self._step_times)

    def set_status(self, status: str) -> None:
        """Show a short status on the trial, for example "validating"."""
        path = f"/api/v1/trials/{self._trial_id}/runner/metadata"
        self._outbox.put(path, encode({"state": status}))

    def set_metadata(self, metadata: Dict[str, Any]) -> None:
        """Replace the run's metadata. It may have nested dictionaries of JSON values."""
        self._chief_only("set_metadata")
        self._put_metadata(metadata)

    def get_metadata(self) -> Optional[Dict[str, Any]]:
        self._chief_only("get_metadata")
        return self._stored_metadata()

    def report_training_metrics(
        self,
        steps_completed: int,
        metrics: Dict[str, Any],
        batch_metrics: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        self._report("training", steps_completed, metrics, batch_metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: Dict[str, Any]) -> None:
        self._report("validation", steps_completed, metrics)

    def report_metrics(self, group: str, steps_completed: int, metrics: Dict[str, Any]) -> None:
        """Report metrics of any group. A report for the same group and steps may add other keys."""
        self._report(group, steps_completed, metrics)

    def report_step_time(self, own_s: float, data_s: float = 0.0) -> None:
        """Report how long this rank worked on a step without waiting for other ranks, so that slow ranks are found.

        `data_s` is the part that waited for data. All ranks must call this after each step: every 20th call gathers
        the times. PyTorchTrial calls it by itself."""
        self._step_reports.add(own_s, data_s)

    def get_tensorboard_path(self) -> pathlib.Path:
        """Return the directory for TensorBoard files. Its files are uploaded while the trial runs."""
        return self._tensorboard.path()

    def upload_tensorboard_files(
        self,
        selector: Callable[[pathlib.Path], bool] = lambda _: True,
        mangler: Callable[[pathlib.Path, int], pathlib.Path] = lambda path, _: path,
    ) -> None:
        """Upload new files now. `mangler(path, rank)` returns new names for files that several ranks have."""
        self._tensorboard.upload(selector, mangler)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Report to the searcher that this trial ends early."""
        self._chief_only("report_early_exit")
        self._send_early_exit(reason)

    def report_progress(self, progress: float) -> None:
        """Report the completed fraction, between 0 and 1."""
        self._chief_only("report_progress")
        if not 0 <= progress <= 1:
            raise ValueError(f"progress must lie between 0 and 1, got {progress}")
        self._send_progress(float(progress))

    def get_experiment_best_validation(self) -> Optional[float]:
        """Return the best searcher metric of the experiment so far, or None before the first validation."""
        self._outbox.flush()
        path = f"/api/v1/experiments/{self._experiment_id}/searcher/best_searcher_validation_metric"
        try:
            metric = (self._session.get(path) or {}).get("metric")
        except NotFoundError:
            return None
        return None if metric is None else float(metric)

    def close(self) -> None:
        """Close the TensorBoard files. Log a warning if no validation reported the searcher's metric."""
        if self._scalars is not None:
            self._scalars.close()
        metric = self._searcher_metric
        if metric is not None and self._validated and metric not in self._validated:
            logger.warning(
                "no validation reported %r, which is searcher.metric; reported were: %s",
                metric,
                ", ".join(sorted(self._validated)),
            )

    def _report(
        self,
        group: str,
        steps_completed: Optional[int],
        metrics: Dict[str, Any],
        batch_metrics: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        if not group or "." in group:
            raise ValueError(f"metric group {group!r} is not valid: use a name without '.'")
        if group == "validation":
            self._validated.update(metrics)
        self._send(group, steps_completed, metrics, batch_metrics)
        if self._scalars is not None and steps_completed is not None:
            if group == "training":
                self._scalars.training(steps_completed, metrics, batch_metrics)
            elif group == "validation":
                self._scalars.validation(steps_completed, metrics)

    def _is_stopped_by_searcher(self) -> bool:
        """Return whether the searcher stopped this trial. Pending reports are sent first."""
        self._outbox.flush()
        try:
            trial = (self._session.get(f"/api/v1/trials/{self._trial_id}") or {}).get("trial") or {}
        except (APIError, MasterUnreachableError) as e:
            logger.warning("cannot ask whether the searcher stopped this trial: %s", e)
            return False
        return trial.get("state") in _STOPPED_STATES

    def _put_metadata(self, metadata: Dict[str, Any]) -> None:
        path = f"/api/v1/runs/{self._trial_id}/metadata"
        self._session.post(path, encode({"runId": self._trial_id, "metadata": metadata}))

    def _stored_metadata(self) -> Optional[Dict[str, Any]]:
        answer = self._session.get(f"/api/v1/runs/{self._trial_id}/metadata")
        metadata: Optional[Dict[str, Any]] = (answer or {}).get("metadata")
        return metadata

    def _send_early_exit(self, reason: EarlyExitReason) -> None:
        self._outbox.flush()
        path = f"/api/v1/trials/{self._trial_id}/early_exit"
        self._session.post(path, {"reason": reason.value})

    def _send_progress(self, progress: float) -> None:
        path = f"/api/v1/trials/{self._trial_id}/progress"
        body = {"trialId": self._trial_id, "progress": progress, "isRaw": True}
        self._outbox.put_latest(path, encode(body))

    def _send_straggler(self, straggler: Straggler, agent_id: str, steps_completed: int) -> None:
        path = f"/api/v1/trials/{self._trial_id}/stragglers"
        self._outbox.put(
            path, encode(as_json(straggler, agent_id, steps_completed)), required=False
        )

    def _send(
        self,
        group: str,
        steps_completed: Optional[int],
        metrics: Dict[str, Any],
        batch_metrics: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        _progress.mark()
        values: Dict[str, Any] = {"avgMetrics": metrics}
        if batch_metrics is not None:
            values["batchMetrics"] = batch_metrics
        report = {
            "trialId": self._trial_id,
            "trialRunId": self._run_id,
            "reportTime": utc_now(),
            "metrics": values,
        }
        if steps_completed is not None:
            report["stepsCompleted"] = self._reported[group] = int(steps_completed)
        path = f"/api/v1/trials/{self._trial_id}/metrics"
        self._outbox.put(path, encode({"group": group, "metrics": report}))

    def _chief_only(self, call: str) -> None:
        if self._distributed.rank != 0:
            raise RuntimeError(
                f"train.{call}() was called on rank {self._distributed.rank}: only the chief "
                "(rank 0) reports; guard the call with `if core_context.distributed.rank == 0`"
            )


def utc_now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
