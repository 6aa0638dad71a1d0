"""Custom searches. A `SearchMethod` makes decisions, and a runner exchanges events and operations with the cluster.

An experiment with `searcher: {name: custom, metric: ..., unit: batches}` creates, trains and closes trials only on
request of a search method. `LocalSearchRunner` runs the method in this process, `RemoteSearchRunner` in a task.
"""

from determined.searcher._local_runner import LocalSearchRunner
from determined.searcher._operations import (
    Close,
    Create,
    ExitedReason,
    Operation,
    Progress,
    Shutdown,
    ValidateAfter,
)
from determined.searcher._remote_runner import RemoteSearchRunner
from determined.searcher._runner import SearchRunner
from determined.searcher._search_method import SearcherState, SearchMethod

__all__ = [
    "Close",
    "Create",
    "ExitedReason",
    "LocalSearchRunner",
    "Operation",
    "Progress",
    "RemoteSearchRunner",
    "SearchMethod",
    "SearchRunner",
    "SearcherState",
    "Shutdown",
    "ValidateAfter",
]
