"""Select checkpoints of an experiment or of a trial."""

import abc
from itertools import islice
from typing import Any, Dict, Iterable, List, Optional, Union

from determined.common.http import Session
from determined.common.pages import pages
from determined.experimental.client._checkpoint import Checkpoint
from determined.experimental.client._enums import CheckpointSortBy, OrderBy
from determined.experimental.client._resource import Resource

SortBy = Union[str, CheckpointSortBy, None]
_COMPLETED = ["STATE_COMPLETED"]


def listed(
    session: Session,
    path: str,
    sort_by: SortBy,
    order_by: Optional[OrderBy],
    max_results: Optional[int] = None,
) -> List[Checkpoint]:
    """Return completed checkpoints. A string sorts by that validation metric, None by the searcher's metric."""
    if (sort_by is None) != (order_by is None):
        raise ValueError("sort_by and order_by go together: give both, or neither")
    params: Dict[str, Any] = {"states": _COMPLETED}
    if isinstance(sort_by, str):
        params["sortByMetric"] = sort_by
    else:
        params["sortByAttr"] = (sort_by or CheckpointSortBy.SEARCHER_METRIC).value
    if order_by is not None:
        params["orderBy"] = OrderBy(order_by).value
    rows: Iterable[Any] = pages(session, path, "checkpoints", params)
    return [Checkpoint._from_json(session, row) for row in islice(rows, max_results)]


class HasCheckpoints(Resource):
    """An object that trains and saves checkpoints: an experiment or a trial."""

    @property
    @abc.abstractmethod
    def _checkpoints(self) -> str:
        """Return the API path of the listing."""

    def list_checkpoints(
        self,
        sort_by: SortBy = None,
        order_by: Optional[OrderBy] = None,
        max_results: Optional[int] = None,
    ) -> List[Checkpoint]:
        """Return the completed checkpoints. A string for `sort_by` is the name of a validation metric."""
        return listed(self._session, self._checkpoints, sort_by, order_by, max_results)


def best(
    session: Session,
    path: str,
    count: int,
    sort_by: Optional[str],
    smaller_is_better: Optional[bool],
    config: Dict[str, Any],
) -> List[Checkpoint]:
    """Return the best completed checkpoints by a metric. The default is the searcher's metric and direction."""
    if (sort_by is None) != (smaller_is_better is None):
        raise ValueError("sort_by and smaller_is_better go together: give both, or neither")
    smaller = smaller_is_better
    if smaller is None:
        smaller = (config.get("searcher") or {}).get("smaller_is_better", True)
    order = OrderBy.ASCENDING if smaller else OrderBy.DESCENDING
    if sort_by is None:
        return listed(session, path, CheckpointSortBy.SEARCHER_METRIC, order, count)
    checkpoints = listed(session, path, sort_by, order, count)
    # Checkpoints without the metric are sorted last. They do not count as best.
    return [c for c in checkpoints if _reports(c, sort_by)]


def _reports(checkpoint: Checkpoint, metric: str) -> bool:
    training = checkpoint.training
    metrics = training.validation_metrics if training is not None else {}
    return metric in (metrics.get("avgMetrics") or {})


def newest(session: Session, path: str) -> List[Checkpoint]:
    by, order = CheckpointSortBy.BATCH_NUMBER, OrderBy.DESCENDING
    return listed(session, path, by, order, 1)
