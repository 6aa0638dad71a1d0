"""Trials."""

from itertools import islice
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Union

from determined.common import log_stream
from determined.common.http import NotFoundError, Session
from determined.common.pages import V1
from determined.experimental.client import _checkpoint_query as query
from determined.experimental.client import _metrics as metrics
from determined.experimental.client._checkpoint import Checkpoint
from determined.experimental.client._enums import LogLevel, OrderBy, TrialState

if TYPE_CHECKING:
    from determined.experimental.client._experiment import Experiment

Timestamp = Union[int, str, None]


class Trial:
    """One training with one set of hyperparameters."""

    def __init__(self, trial_id: int, session: Session) -> None:
        self.id = trial_id
        self._session = session
        self.experiment_id: Optional[int] = None
        self.hparams: Optional[Dict[str, Any]] = None
        self.summary_metrics: Optional[Dict[str, Any]] = None
        self.state: Optional[TrialState] = None

    def __repr__(self) -> str:
        return f"Trial(id={self.id})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Trial":
        trial = cls(raw["id"], session)
        trial._fill(raw)
        return trial

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.experiment_id = raw["experimentId"]
        self.hparams = raw["hparams"]
        self.summary_metrics = raw.get("summaryMetrics")
        self.state = TrialState(raw["state"])

    def reload(self) -> None:
        """Read the description again."""
        self._fill(self._session.get(f"{V1}/trials/{self.id}")["trial"])

    def get_experiment(self) -> "Experiment":
        """The experiment that this trial is part of."""
        from determined.experimental.client._experiment import Experiment

        if self.experiment_id is None:
            self.reload()
        experiment = Experiment(int(self.experiment_id or 0), self._session)
        experiment.reload()
        return experiment

    def kill(self) -> None:
        """Stop it at once."""
        self._session.post(f"{V1}/trials/{self.id}/kill")

    def iter_logs(
        self,
        follow: bool = False,
        *,
        head: Optional[int] = None,
        tail: Optional[int] = None,
        container_ids: Optional[List[str]] = None,
        rank_ids: Optional[List[int]] = None,
        stdtypes: Optional[List[str]] = None,
        min_level: Optional[LogLevel] = None,
        timestamp_before: Timestamp = None,
        timestamp_after: Timestamp = None,
        sources: Optional[List[str]] = None,
        search_text: Optional[str] = None,
    ) -> Iterator[str]:
        """Log lines as text; with `follow` until the trial ends."""
        if head is not None and tail is not None:
            raise ValueError("head and tail exclude each other")
        filters: Dict[str, Any] = {
            "containerIds": container_ids,
            "rankIds": rank_ids,
            "stdtypes": stdtypes,
            "levels": log_stream.from_level(min_level.name) if min_level else None,
            "timestampBefore": _rfc3339(timestamp_before),
            "timestampAfter": _rfc3339(timestamp_after),
            "sources": sources,
            "searchText": search_text,
        }
        for line in self._log_lines(filters, follow, head, tail):
            yield str(line["message"])

    def _log_lines(
        self, filters: Dict[str, Any], follow: bool, head: Optional[int], tail: Optional[int]
    ) -> Iterator[Dict[str, Any]]:
        path, session = f"/trials/{self.id}", self._session
        if head is not None:
            yield from islice(log_stream.fetch(session, path, {**filters, "limit": head}), head)
            return
        earlier = log_stream.tail(session, path, filters, tail) if tail is not None else []
        yield from earlier
        if follow:
            ended = log_stream.trial_ended(session, self.id)
            yield from log_stream.follow(session, path, filters, ended, earlier)
        elif tail is None:
            yield from log_stream.fetch(session, path, filters)

    logs = iter_logs

    def list_checkpoints(
        self,
        sort_by: query.SortBy = None,
        order_by: Optional[OrderBy] = None,
        max_results: Optional[int] = None,
    ) -> List[Checkpoint]:
        """Its checkpoints; a string sorts by that validation metric."""
        return query.listed(self._session, self._checkpoints, sort_by, order_by, max_results)

    get_checkpoints = list_checkpoints

    @property
    def _checkpoints(self) -> str:
        return f"/trials/{self.id}/checkpoints"

    def top_checkpoint(
        self, sort_by: Optional[str] = None, smaller_is_better: Optional[bool] = None
    ) -> Checkpoint:
        """The best by a metric; by default the searcher's."""
        config = {} if sort_by else self.get_experiment().config or {}
        found = query.best(self._session, self._checkpoints, 1, sort_by, smaller_is_better, config)
        return self._only(found)

    def select_checkpoint(
        self,
        latest: bool = False,
        best: bool = False,
        uuid: Optional[str] = None,
        sort_by: Optional[str] = None,
        smaller_is_better: Optional[bool] = None,
    ) -> Checkpoint:
        """The newest, the best, or the one with this id."""
        if sum((latest, best, uuid is not None)) != 1:
            raise ValueError("choose one of latest, best and uuid")
        if best:
            return self.top_checkpoint(sort_by, smaller_is_better)
        if sort_by is not None or smaller_is_better is not None:
            raise ValueError("sort_by and smaller_is_better belong to best=True")
        if latest:
            return self._only(query.newest(self._session, self._checkpoints))
        matching = [c for c in self.list_checkpoints() if c.uuid == uuid]
        return self._only(matching)

    def _only(self, found: List[Checkpoint]) -> Checkpoint:
        if not found:
            raise NotFoundError(404, f"trial {self.id} has no such checkpoint")
        return found[0]

    def iter_metrics(self, group: str) -> Iterator[metrics.TrialMetrics]:
        """What it reported in one group, oldest first."""
        return metrics.stream(self._session, [self.id], group, metrics.TrialMetrics)

    stream_metrics = iter_metrics

    def stream_training_metrics(self) -> Iterator[metrics.TrainingMetrics]:
        return metrics.stream(self._session, [self.id], "training", metrics.TrainingMetrics)

    def stream_validation_metrics(self) -> Iterator[metrics.ValidationMetrics]:
        return metrics.stream(self._session, [self.id], "validation", metrics.ValidationMetrics)


def _rfc3339(moment: Timestamp) -> Optional[str]:
    """A number is seconds since 1970."""
    if not isinstance(moment, int):
        return moment
    from datetime import datetime, timezone

    from determined.common.times import written

    return written(datetime.fromtimestamp(moment, timezone.utc))
