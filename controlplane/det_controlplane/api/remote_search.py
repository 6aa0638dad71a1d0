"""Events and operations of a search that a program outside decides (`searcher.name: custom`)."""

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    EMPTY,
    REPORT_BODY,
    Answer,
    Request,
    Wait,
    json_response,
    parsed,
)
from det_controlplane.api.router import Unaudited, get, post
from det_controlplane.core.documents import fault_of
from det_controlplane.core.people.permissions import TaskRule, in_path, require
from det_controlplane.core.people.roles import Right
from det_controlplane.core.trials.metrics import storable
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import live, remote

_LONG_POLL_S = 60
_LONGEST = 2**53  # lengths are stored as doubles


@dataclass(frozen=True)
class EventQuery:
    timeout_seconds: int = _LONG_POLL_S


@dataclass(frozen=True)
class Creation:
    request_id: str
    hyperparams: str
    checkpoint_uuid: str = ""

    def operation(self) -> Mapping[str, Any]:
        request_id = _uuid("requestId", self.request_id)
        operation = {"requestId": request_id, "hyperparams": _hyperparams(self, request_id)}
        if self.checkpoint_uuid:
            operation["checkpointUuid"] = _uuid("checkpointUuid", self.checkpoint_uuid)
        return operation


@dataclass(frozen=True)
class ValidateAfter:
    request_id: str
    length: int = 0


@dataclass(frozen=True)
class TrialOperation:
    validate_after: ValidateAfter

    def operation(self) -> Mapping[str, Any]:
        request_id = _uuid("requestId", self.validate_after.request_id)
        length = self.validate_after.length
        if not 1 <= length <= _LONGEST:
            raise BadRequest(f"trial {request_id}: length must be a positive number, not {length}")
        return {"validateAfter": {"requestId": request_id, "length": str(length)}}


@dataclass(frozen=True)
class Closing:
    request_id: str

    def operation(self) -> Mapping[str, Any]:
        return {"requestId": _uuid("requestId", self.request_id)}


@dataclass(frozen=True)
class ShutDown:
    cancel: bool = False
    failure: bool = False

    def operation(self) -> Mapping[str, Any]:
        return {"cancel": self.cancel, "failure": self.failure}


@dataclass(frozen=True)
class Progress:
    progress: float = 0.0

    def operation(self) -> Mapping[str, Any]:
        if not (math.isfinite(self.progress) and 0 <= self.progress <= 1):
            raise BadRequest(
                f"setSearcherProgress: progress must be from 0 to 1, not {self.progress}"
            )
        return {"progress": self.progress}


@dataclass(frozen=True)
class SearcherOperation:
    """An operation of one of these kinds. The other fields are absent."""

    create_trial: Creation | None = None
    trial_operation: TrialOperation | None = None
    close_trial: Closing | None = None
    shut_down: ShutDown | None = None
    set_searcher_progress: Progress | None = None

    def kinds(self) -> dict[str, Any]:
        """Return the operations of the request by their names."""
        operations = {
            "createTrial": self.create_trial,
            "trialOperation": self.trial_operation,
            "closeTrial": self.close_trial,
            "shutDown": self.shut_down,
            "setSearcherProgress": self.set_searcher_progress,
        }
        return {name: operation for name, operation in operations.items() if operation is not None}


@dataclass(frozen=True)
class Trigger:
    id: int | None = None


@dataclass(frozen=True)
class SearcherOperations:
    searcher_operations: list[SearcherOperation] = field(default_factory=list)
    triggered_by_event: Trigger = Trigger()


def events(ctx: Context, request: Request, query: EventQuery) -> Answer:
    """Return the events of a search, by a long poll. An empty answer may come early: the client asks again."""
    experiment_id = request.id("experimentId")
    entries = remote.events(ctx, experiment_id)
    wait_s = query.timeout_seconds
    if not entries and wait_s > 0 and not request.final:
        return Wait(live.searcher_topic(experiment_id), min(wait_s, _LONG_POLL_S))
    return json_response({"searcherEvents": [{**e, "id": str(e["id"])} for e in entries]})


def operate(ctx: Context, request: Request, body: SearcherOperations) -> Answer:
    operations = [_operation(o, i) for i, o in enumerate(body.searcher_operations)]
    experiment_id, trigger = request.id("experimentId"), body.triggered_by_event.id
    remote.operate(ctx, user_of(request), experiment_id, operations, trigger)
    return EMPTY


def _operation(body: SearcherOperation, index: int) -> dict[str, Any]:
    kinds = body.kinds()
    if len(kinds) != 1:
        actual = " and ".join(kinds) if kinds else "none of them"
        names = "createTrial, trialOperation, closeTrial, shutDown, setSearcherProgress"
        raise BadRequest(f"searcherOperations[{index}] must be one of {names}; it has {actual}")
    return {name: operation.operation() for name, operation in kinds.items()}


def _uuid(name: str, value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except ValueError as e:
        raise BadRequest(f"{name} must be a UUID, not {value!r:.80}") from e


def _hyperparams(creation: Creation, request_id: str) -> dict[str, Any]:
    text = creation.hyperparams
    values = parsed(text.encode(), f"trial {request_id}: hyperparams")
    if not isinstance(values, dict):
        raise BadRequest(
            f"trial {request_id}: hyperparams must be a JSON object, not {text[:80]!r}"
        )
    if _has_nul(values):
        raise BadRequest(f"trial {request_id}: hyperparams must not contain a NUL character")
    fault = fault_of(values)
    if fault is not None:
        raise BadRequest(f"trial {request_id}: hyperparams {fault}")
    return dict(storable(values))


def _has_nul(value: Any) -> bool:
    """Return whether a text or key within has NUL, which PostgreSQL's JSON cannot hold."""
    if isinstance(value, dict):
        return any(_has_nul(k) or _has_nul(v) for k, v in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


_E = "/api/v1/experiments/{experimentId}"
ROUTES = (
    get(
        f"{_E}/searcher_events",
        events,
        summary="What a custom search method has yet to answer (long poll)",
        rule=require(
            in_path(Right.VIEW_EXPERIMENT_METADATA, "experiment", "experimentId"),
            task=TaskRule.READ,
            own=True,
        ),
    ),
    post(
        f"{_E}/searcher_operations",
        operate,
        summary="Operations of a custom search method",
        largest=REPORT_BODY,
        rule=require(
            in_path(Right.UPDATE_EXPERIMENT, "experiment", "experimentId"),
            task=TaskRule.OWN_EXPERIMENT,
        ),
        audit=Unaudited.REPORT,
    ),
)
