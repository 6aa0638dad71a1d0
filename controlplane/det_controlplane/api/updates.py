"""Serve a stream of changes, of which a websocket carries each line as a message.

See docs/reference/compatibility.md#updates."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import Answer, Batch, Request, Stream, bearer_token
from det_controlplane.api.router import get
from det_controlplane.core import id_ranges
from det_controlplane.core.numerals import whole
from det_controlplane.core.people.permissions import TaskRule, require
from det_controlplane.services.cluster import updates
from det_controlplane.services.cluster.updates import Seen, Subscription
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication

_LARGEST_ID = 2**31 - 1


@dataclass(frozen=True)
class StreamBody:
    """The ids that the client has, and the kinds that it subscribes to. Both are objects by kind."""

    sync_id: str = ""
    known: dict[str, Any] = field(default_factory=dict)
    subscribe: dict[str, Any] = field(default_factory=dict)


def stream(ctx: Context, request: Request, body: StreamBody) -> Answer:
    """Stream changes of the kinds that the body subscribes to."""
    sync_id, wishes = body.sync_id, _wishes(body.known, body.subscribe)
    token = bearer_token(request)

    def fetch(last: Seen | None) -> Batch:
        # Sessions end and rights change during a stream.
        user = authentication.user_of(ctx, token)
        changes, now = updates.look(ctx, user, wishes, last)
        lines = [b'{"%s":%s}\n' % (c.name.encode(), c.value.encode()) for c in changes]
        if last is None:
            lines = [_encode_sync(sync_id, False), *lines, _encode_sync(sync_id, True)]
        return Batch(lines, now, False)

    return Stream(fetch, topic="updates")


def _encode_sync(sync_id: str, complete: bool) -> bytes:
    return json.dumps({"sync_id": sync_id, "complete": complete}).encode() + b"\n"


def _wishes(ranges: Mapping[str, Any], subscribe: Mapping[str, Any]) -> dict[str, Subscription]:
    return {
        kind: Subscription(_ranges(ranges.get(kind), kind), _chosen(subscribe[kind], kind))
        for kind in updates.KINDS
        if kind in subscribe
    }


def _ranges(ranges: Any, kind: str) -> id_ranges.Ranges:
    try:
        return id_ranges.parse("" if ranges is None else str(ranges))
    except id_ranges.NotRanges as e:
        raise BadRequest(f"known.{kind}: {e}") from e


def _chosen(spec: Any, kind: str) -> dict[str, list[int]]:
    if not isinstance(spec, dict | None):
        raise BadRequest(f"subscribe.{kind} must be an object")
    return {name: _ids((spec or {}).get(name), name, kind) for name in updates.KINDS[kind]}


def _ids(values: Any, name: str, kind: str) -> list[int]:
    if not isinstance(values, list | None):
        raise BadRequest(f"subscribe.{kind}.{name} must be a list of ids")
    numbers = [whole(str(value)) for value in values or ()]
    ids = [id for id in numbers if id is not None and 0 <= id <= _LARGEST_ID]
    if len(ids) < len(numbers):
        raise BadRequest(f"subscribe.{kind}.{name} must be a list of ids")
    return ids


ROUTES = (
    get(
        "/stream",
        stream,
        summary="Changes of projects, models and versions (stream)",
        rule=require(task=TaskRule.READ),
    ),
)
