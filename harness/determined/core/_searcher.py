"""Searcher operations: lengths to train before each validation."""

import enum
import logging
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from determined.common.http import NotFoundError, Session
from determined.core._distributed import DistributedContext
from determined.core._json import encode
from determined.core._outbox import Outbox
from determined.errors import SearcherContextMissing

logger = logging.getLogger("determined.core")


class Unit(enum.Enum):
    EPOCHS = "EPOCHS"
    RECORDS = "RECORDS"
    BATCHES = "BATCHES"


class SearcherMode(enum.Enum):
    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"


class Operations:
    """An interface that returns operations and receives their results."""

    def next_length(self) -> Optional[int]:
        raise NotImplementedError

    def completed(self, length: int, metric: Any) -> None:
        raise NotImplementedError

    def progress(self, fraction: float) -> None:
        raise NotImplementedError


class LocalOperations(Operations):
    """A source of one operation, with the configured length (1 outside of a cluster)."""

    def __init__(self, max_length: Optional[int]) -> None:
        self._remaining = max_length
        self._exhausted = False

    def next_length(self) -> Optional[int]:
        if self._remaining is None:
            raise SearcherContextMissing(
                "searcher.operations() needs `searcher.max_length`, and the configuration has "
                "none: add it, or loop in your own code and call train.report_progress()"
            )
        if self._exhausted:
            return None
        self._exhausted = True
        return self._remaining

    def completed(self, length: int, metric: Any) -> None:
        logger.info("completed the operation of length %d, searcher metric %s", length, metric)

    def progress(self, fraction: float) -> None:
        logger.info("progress: %.1f %%", 100 * fraction)


class ServerOperations(Operations):
    """Operations from the cluster. If the cluster has no such route, a single operation of `max_length`."""

    def __init__(
        self, session: Session, trial_id: int, outbox: Outbox, max_length: Optional[int]
    ) -> None:
        self._session = session
        self._path = f"/api/v1/trials/{trial_id}"
        self._trial_id = trial_id
        self._outbox = outbox
        self._local = LocalOperations(max_length)
        self._asks_server = True

    def next_length(self) -> Optional[int]:
        if self._asks_server:
            try:
                answer = self._session.get(f"{self._path}/searcher/operation") or {}
            except NotFoundError:
                self._asks_server = False
            else:
                return _length_of(answer)
        return self._local.next_length()

    def completed(self, length: int, metric: Any) -> None:
        if not self._asks_server:
            return self._local.completed(length, metric)
        self._outbox.flush()
        operation = {"op": {"length": str(length)}, "searcherMetric": metric}
        body = encode({"completedOperation": operation})
        self._session.post(f"{self._path}/searcher/completed_operation", body)
        return None

    def progress(self, fraction: float) -> None:
        body = {"trialId": self._trial_id, "progress": fraction, "isRaw": True}
        self._outbox.put_latest(f"{self._path}/progress", encode(body))


class SearcherOperation:
    """An instruction to train until `length`, validate, and report the searcher's metric with `report_completed`."""

    def __init__(self, source: Operations, length: int, is_chief: bool) -> None:
        self._source = source
        self._length = length
        self._is_chief = is_chief
        self._completed = False

    @property
    def length(self) -> int:
        """Return the total length to train, counted from the start of the trial."""
        return self._length

    def report_progress(self, length: float) -> None:
        """Report the progress of training, in the unit of `length`."""
        self._chief_only("report_progress")
        if self._completed and length != self._length:
            raise RuntimeError(
                "you must not call op.report_progress() after op.report_completed(): this operation is complete"
            )
        self._source.progress(min(max(float(length) / max(self._length, 1), 0.0), 1.0))

    def report_completed(self, searcher_metric: Any) -> None:
        self._chief_only("report_completed")
        if self._completed:
            raise RuntimeError(
                "you may only call op.report_completed() once for each operation: ask for the next one"
            )
        self._completed = True
        self._source.completed(self._length, searcher_metric)

    def _chief_only(self, call: str) -> None:
        if not self._is_chief:
            raise RuntimeError(
                f"you must only call op.{call}() from the chief worker (distributed.rank == 0)"
            )


class SearcherContext:
    """The operations of a trial, for older code that loops over them. New code only reports metrics."""

    def __init__(
        self,
        source: Operations,
        distributed: DistributedContext,
        configured: Union[int, Mapping[str, int], None] = None,
    ) -> None:
        self._source = source
        self._distributed = distributed
        self._configured = configured

    def operations(
        self,
        searcher_mode: SearcherMode = SearcherMode.WorkersAskChief,
        auto_ack: bool = True,
    ) -> Iterator[SearcherOperation]:
        is_chief = self._distributed.rank == 0
        searcher_mode = SearcherMode(searcher_mode)
        if searcher_mode is SearcherMode.ChiefOnly and not is_chief:
            raise RuntimeError(
                "you cannot call searcher.operations(searcher_mode=ChiefOnly) from a non-chief worker: this is rank "
                f"{self._distributed.rank}"
            )
        while True:
            length = self._source.next_length() if is_chief else None
            if searcher_mode is SearcherMode.WorkersAskChief:
                length = self._distributed.broadcast(length)
            if length is None:
                return
            operation = SearcherOperation(self._source, length, is_chief)
            yield operation
            if is_chief and not operation._completed:
                raise RuntimeError(
                    "you must call op.report_completed() on each operation, before you ask for the next one: "
                    f"the operation of length {length} is not complete"
                )

    def acknowledge_out_of_ops(self) -> None:
        """Accept the call for compatibility. A trial that exits with status 0 is complete."""

    def get_configured_units(self) -> Optional[Unit]:
        """Return the unit of `searcher.max_length`, or None if the length is a plain number."""
        if not isinstance(self._configured, Mapping):
            return None
        return Unit[next(iter(self._configured)).upper()]


class DummySearcherOperation(SearcherOperation):
    """An operation outside of a cluster. Its reports are logged."""

    def __init__(self, length: int, is_chief: bool) -> None:
        super().__init__(LocalOperations(length), length, is_chief)


class DummySearcherContext(SearcherContext):
    """The searcher outside of a cluster, with one operation of the given length."""

    def __init__(self, dist: DistributedContext, length: int = 1) -> None:
        super().__init__(LocalOperations(length), dist)


def max_length_of(config: Mapping[str, Any]) -> Union[int, Dict[str, int], None]:
    length: Union[int, Dict[str, int], None] = (config.get("searcher") or {}).get("max_length")
    return length


def length_number(length: Union[int, Mapping[str, int], None]) -> Optional[int]:
    if isinstance(length, Mapping):
        return int(next(iter(length.values()))) if length else None
    return None if length is None else int(length)


def _length_of(answer: Mapping[str, Any]) -> Optional[int]:
    if answer.get("completed") or not answer.get("op"):
        return None
    return length_number(answer["op"]["validateAfter"]["length"])
