"""Reported metrics, one object for each report."""

import time
from datetime import datetime
from typing import Any, Dict, Iterator, List, Optional, Sequence, Type, TypeVar

from determined.common.connections import pauses
from determined.common.http import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MasterUnreachableError,
    Session,
    UntrustedMasterError,
)
from determined.common.pages import V1
from determined.common.times import parsed

_PATH = f"{V1}/trials/metrics/trial_metrics"
_M = TypeVar("_M", bound="TrialMetrics")


class TrialMetrics:
    """The metrics that a trial reported after a number of completed steps."""

    def __init__(
        self,
        trial_id: int,
        trial_run_id: int,
        steps_completed: int,
        end_time: datetime,
        metrics: Dict[str, Any],
        group: str,
        batch_metrics: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        self.trial_id = trial_id
        self.trial_run_id = trial_run_id
        self.steps_completed = steps_completed
        self.end_time = end_time
        self.metrics = metrics
        self.group = group
        self._batch_metrics = batch_metrics

    @property
    def batch_metrics(self) -> Optional[List[Dict[str, Any]]]:
        return self._batch_metrics

    @property
    def total_batches(self) -> int:
        """Return `steps_completed` under its older name."""
        return self.steps_completed

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(trial_id={self.trial_id}, group={self.group!r},"
            f" steps_completed={self.steps_completed}, metrics={self.metrics})"
        )

    @classmethod
    def from_report(cls: Type[_M], report: Dict[str, Any]) -> _M:
        """Read the JSON of a report. Training and validation metrics are nested one level deeper than other groups."""
        values = report["metrics"] or {}
        inner = values.get("validation_metrics", values.get("avg_metrics", values))
        return cls(
            trial_id=report["trialId"],
            trial_run_id=report["trialRunId"],
            steps_completed=report["totalBatches"],
            end_time=parsed(report["endTime"]),
            metrics=inner,
            group=report["group"],
            batch_metrics=values.get("batch_metrics"),
        )


class TrainingMetrics(TrialMetrics):
    pass


class ValidationMetrics(TrialMetrics):
    pass


def stream(session: Session, trial_ids: Sequence[int], group: str, kind: Type[_M]) -> Iterator[_M]:
    """Yield every report of a group. The reports of each trial are sorted by time."""
    return (kind.from_report(report) for report in reports(session, trial_ids, group))


def reports(
    session: Session, trial_ids: Sequence[int], group: str = ""
) -> Iterator[Dict[str, Any]]:
    """Yield the JSON of every report of a group, or of all groups for '', by trial and step.

    AWS Lambda ends long streams early, without an error. So the stream continues behind the last report until
    an answer is empty. A broken connection continues in the same way.
    """
    first = last = failures = 0
    pause_s = pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    while True:
        params: Dict[str, Any] = {"trialIds": list(trial_ids), "group": group}
        previous = last
        try:
            lines = session.stream_lines("GET", _PATH, params={**params, "after": last or None})
            for report in (report for batch in lines for report in batch["metrics"]):
                if last and report["id"] == first:
                    return  # a server that does not know `after` starts again
                first, last = first or report["id"], report["id"]
                yield report
        except UntrustedMasterError:
            raise
        except MasterUnreachableError:
            failures = failures + 1 if last == previous else 1
            if failures > session.retries:
                raise
            time.sleep(next(pause_s))
            continue
        if last == previous:
            return
