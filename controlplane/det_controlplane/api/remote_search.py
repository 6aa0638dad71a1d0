"""Events and operations of a search that a program outside decides (`searcher.name: custom`)."""

import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.body import Body
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


def events(ctx: Context, request: Request) -> Answer:
    """Return the events of a search, by a long poll. To answer with none early is fine: the client asks again."""
    experiment_id = request.id("experimentId")
    found = remote.events(ctx, experiment_id)
    wait_s = request.integer("timeoutSeconds", "timeout_seconds", default=_LONG_POLL_S)
    if not found and wait_s > 0 and not request.final:
        return Wait(live.searcher_topic(experiment_id), min(wait_s, _LONG_POLL_S))
    return json_response({"searcherEvents": [{**e, "id": str(e["id"])} for e in found]})


def operate(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    operations = [_operation(o, i) for i, o in enumerate(body.bodies("searcherOperations"))]
    trigger = body.body("triggeredByEvent").optional_integer("id")
    remote.operate(ctx, user_of(request), request.id("experimentId"), operations, trigger)
    return EMPTY


def _operation(given: Body, index: int) -> dict[str, Any]:
    kinds = [kind for kind in _KINDS if given.has(kind)]
    if len(kinds) != 1:
        found = "none of them" if not kinds else " and ".join(kinds)
        raise BadRequest(
            f"searcherOperations[{index}] must be one of {', '.join(_KINDS)}; it has {found}"
        )
    return {kinds[0]: _KINDS[kinds[0]](given.body(kinds[0]))}


def _create(given: Body) -> Mapping[str, Any]:
    request_id = _request_id(given)
    made = {"requestId": request_id, "hyperparams": _hyperparams(given, request_id)}
    if given.has("checkpointUuid"):
        made["checkpointUuid"] = _uuid(given, "checkpointUuid")
    return made


def _validate_after(given: Body) -> Mapping[str, Any]:
    operation = given.body("validateAfter")
    request_id, length = _request_id(operation), operation.integer("length")
    if not 1 <= length <= _LONGEST:
        raise BadRequest(f"trial {request_id}: length must be a positive number, not {length}")
    return {"validateAfter": {"requestId": request_id, "length": str(length)}}


def _close(given: Body) -> Mapping[str, Any]:
    return {"requestId": _request_id(given)}


def _shut_down(given: Body) -> Mapping[str, Any]:
    return {"cancel": given.flag("cancel"), "failure": given.flag("failure")}


def _progress(given: Body) -> Mapping[str, Any]:
    progress = given.number("progress") or 0.0
    if not (math.isfinite(progress) and 0 <= progress <= 1):
        raise BadRequest(f"setSearcherProgress: progress must be from 0 to 1, not {progress}")
    return {"progress": progress}


_KINDS: dict[str, Callable[[Body], Mapping[str, Any]]] = {
    "createTrial": _create,
    "trialOperation": _validate_after,
    "closeTrial": _close,
    "shutDown": _shut_down,
    "setSearcherProgress": _progress,
}


def _request_id(given: Body) -> str:
    return _uuid(given, "requestId")


def _uuid(given: Body, name: str) -> str:
    value = given.required_text(name)
    try:
        return str(uuid.UUID(value))
    except ValueError as e:
        raise BadRequest(f"{name} must be a UUID, not {value!r:.80}") from e


def _hyperparams(given: Body, request_id: str) -> dict[str, Any]:
    text = given.required_text("hyperparams")
    found = parsed(text.encode(), f"trial {request_id}: hyperparams")
    if not isinstance(found, dict):
        raise BadRequest(
            f"trial {request_id}: hyperparams must be a JSON object, not {text[:80]!r}"
        )
    if _has_nul(found):
        raise BadRequest(f"trial {request_id}: hyperparams must not contain a NUL character")
    fault = fault_of(found)
    if fault is not None:
        raise BadRequest(f"trial {request_id}: hyperparams {fault}")
    return dict(storable(found))


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
