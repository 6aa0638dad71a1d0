"""Searches: pure folds from events to actions, random only by the experiment's seed."""

from .actions import (
    Action,
    Create,
    Fail,
    Park,
    Shutdown,
    Stop,
    TrainTo,
    action_from_json,
    action_to_json,
)
from .events import (
    CustomOperations,
    Event,
    Exited,
    ExitedEarly,
    ExitReason,
    OperationCompleted,
    Started,
    Validated,
    event_from_json,
)
from .method import SearchFailed
from .registry import length_of, new, restore, unit_of
from .search import Search

__all__ = [
    "Action",
    "Create",
    "CustomOperations",
    "Event",
    "ExitReason",
    "Exited",
    "ExitedEarly",
    "Fail",
    "OperationCompleted",
    "Park",
    "Search",
    "SearchFailed",
    "Shutdown",
    "Started",
    "Stop",
    "TrainTo",
    "Validated",
    "action_from_json",
    "action_to_json",
    "event_from_json",
    "length_of",
    "new",
    "restore",
    "unit_of",
]
