"""Reported metrics, one object for each report."""

from datetime import datetime
from typing import Any, Dict, Iterator, List, Optional, Sequence, Type, TypeVar

from determined.common.http import Session
from determined.common.pages import V1
from determined.common.times import parsed

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
    params: Dict[str, Any] = {"trialIds": list(trial_ids), "group": group}
    path = f"{V1}/trials/metrics/trial_metrics"
    for batch in session.stream_lines("GET", path, params=params):
        for report in batch["metrics"]:
            yield kind.from_report(report)
