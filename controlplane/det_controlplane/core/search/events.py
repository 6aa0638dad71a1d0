"""The events of a search. The state of a search follows from its events in order."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class ExitReason(str, Enum):
    """The reasons for which user code ends a trial before the search does."""

    INVALID_HP = "INVALID_HP"
    INIT_INVALID_HP = "INIT_INVALID_HP"
    ERRORED = "ERRORED"
    USER_CANCELED = "USER_CANCELED"
    USER_REQUESTED_STOP = "USER_REQUESTED_STOP"


@dataclass(frozen=True, slots=True)
class Started:
    """The experiment starts."""

    def to_json(self) -> dict[str, Any]:
        return {"type": "started"}


@dataclass(frozen=True, slots=True)
class Validated:
    """A trial reported validation metrics, among them the searcher metric and the time metric."""

    request_id: str
    metrics: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        metrics = {name: writable(value) for name, value in self.metrics.items()}
        return {"type": "validated", "request_id": self.request_id, "metrics": metrics}


@dataclass(frozen=True, slots=True)
class OperationCompleted:
    """A trial trained to `length` and validated. Harnesses up to version 0.37 answer TrainTo with it."""

    request_id: str
    length: float
    metric: Any

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "operation_completed",
            "request_id": self.request_id,
            "length": self.length,
            "metric": writable(self.metric),
        }


@dataclass(frozen=True, slots=True)
class ExitedEarly:
    """User code ended the trial, or the trial failed finally. Exited follows when the trial is closed."""

    request_id: str
    reason: ExitReason

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "exited_early",
            "request_id": self.request_id,
            "reason": ExitReason(self.reason).value,
        }


@dataclass(frozen=True, slots=True)
class Exited:
    """The trial is closed: it does not run and will not run again."""

    request_id: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "exited", "request_id": self.request_id}


@dataclass(frozen=True, slots=True)
class CustomOperations:
    """Operations of a remote search method, in the JSON of the API (docs/reference/searcher.md#operations)."""

    operations: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    triggered_by: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "custom_operations",
            "operations": list(self.operations),
            "triggered_by": self.triggered_by,
        }


@dataclass(frozen=True, slots=True)
class Progressed:
    """A trial has completed this fraction of its training length. Remote search methods receive it."""

    request_id: str
    fraction: float

    def to_json(self) -> dict[str, Any]:
        return {"type": "progressed", "request_id": self.request_id, "fraction": self.fraction}


@dataclass(frozen=True, slots=True)
class Inactivated:
    """The experiment was paused or is ending. Remote search methods receive the state."""

    state: str

    def to_json(self) -> dict[str, Any]:
        return {"type": "inactivated", "state": self.state}


@dataclass(frozen=True, slots=True)
class Continued:
    """A user continued the ended experiment. These trials run again, and all others are closed."""

    request_ids: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return {"type": "continued", "request_ids": list(self.request_ids)}


@dataclass(frozen=True, slots=True)
class CostExceeded:
    """The cost of the experiment is above the limit of `stop_when`."""

    cost_usd: float
    limit_usd: float

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "cost_exceeded",
            "cost_usd": self.cost_usd,
            "limit_usd": self.limit_usd,
        }


Event = (
    Started
    | Validated
    | OperationCompleted
    | ExitedEarly
    | Exited
    | CustomOperations
    | Progressed
    | Inactivated
    | Continued
    | CostExceeded
)

_TYPES: dict[str, type[Any]] = {
    "started": Started,
    "validated": Validated,
    "operation_completed": OperationCompleted,
    "exited_early": ExitedEarly,
    "exited": Exited,
    "custom_operations": CustomOperations,
    "progressed": Progressed,
    "inactivated": Inactivated,
    "continued": Continued,
    "cost_exceeded": CostExceeded,
}


def event_from_json(value: Mapping[str, Any]) -> Event:
    fields = dict(value)
    kind = fields.pop("type")
    if kind == "exited_early":
        fields["reason"] = ExitReason(fields["reason"])
    event: Event = _TYPES[kind](**fields)
    return event


def writable(value: Any) -> Any:
    """Convert NaN and infinity, which JSON columns cannot store, to strings that the search understands."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    return value
