"""Search methods. A search is a pure function from events to actions; its only randomness is the experiment's seed."""

from .actions import (
    Action,
    Create,
    Fail,
    Park,
    Rest,
    Shutdown,
    Stop,
    TrainTo,
)
from .custom import RemoteSearch
from .ending import Ending, EndReason
from .events import (
    Continued,
    CostExceeded,
    CustomOperations,
    Event,
    Exited,
    ExitedEarly,
    ExitReason,
    Inactivated,
    OperationCompleted,
    Progressed,
    Started,
    Validated,
    event_from_json,
)
from .history import History, Judgement, JudgementWording, Outcome, RungHistory
from .method import LISTED_METRICS, SearchFailed, not_reported
from .preview import TrialsTo, preview
from .registry import brackets_of, length_of, new, report_lengths, restore, unit_of
from .search import Search
from .simulate import SimulatedTrial, Simulation, simulate

__all__ = [
    "LISTED_METRICS",
    "Action",
    "Continued",
    "CostExceeded",
    "Create",
    "CustomOperations",
    "EndReason",
    "Ending",
    "Event",
    "ExitReason",
    "Exited",
    "ExitedEarly",
    "Fail",
    "History",
    "Inactivated",
    "Judgement",
    "JudgementWording",
    "OperationCompleted",
    "Outcome",
    "Park",
    "Progressed",
    "RemoteSearch",
    "Rest",
    "RungHistory",
    "Search",
    "SearchFailed",
    "Shutdown",
    "SimulatedTrial",
    "Simulation",
    "Started",
    "Stop",
    "TrainTo",
    "TrialsTo",
    "Validated",
    "brackets_of",
    "event_from_json",
    "length_of",
    "new",
    "not_reported",
    "preview",
    "report_lengths",
    "restore",
    "simulate",
    "unit_of",
]
