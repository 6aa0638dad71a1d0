"""The agent protocol (docs/reference/agent-protocol.md)."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from det_controlplane.api.body import Body
from det_controlplane.api.errors import BadRequest
from det_controlplane.api.http import (
    REPORT_BODY,
    Answer,
    Request,
    Wait,
    bearer_token,
    json_response,
)
from det_controlplane.api.router import Access, Unaudited, post
from det_controlplane.core.agent_protocol import RECLAIMS
from det_controlplane.core.lifecycle.allocation import ContainerState, Failure
from det_controlplane.services.agents import polling
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.agents.polling import Joining, Poll
from det_controlplane.services.context import Context
from det_controlplane.services.identity import authentication
from det_controlplane.services.identity.authentication import AGENT_PREFIX

# A reason is a sentence, not a log.
MAX_REASON_CHARACTERS = 2000
# More than any machine has; a pool of them would only mislead the scheduler.
MAX_SLOTS, MAX_ADDRESSES = 1024, 256
_DEVICES = ("cpu", "cuda", "rocm")


def join(ctx: Context, request: Request) -> Answer:
    body = Body(request.json())
    joined = polling.join(ctx, _joining(body))
    return json_response(
        {
            "agent_token": joined.agent_token,
            "cluster_id": ctx.cluster_id,
            "master_id": ctx.cluster_id,
            "lease_s": joined.lease_s,
            "next_poll_s": joined.next_poll_s,
            "may_wait_s": ctx.may_wait_s,
        }
    )


def _joining(body: Body) -> Joining:
    slots = [
        {
            "id": s.integer("id"),
            "type": s.text("type"),
            "uuid": s.text("uuid"),
            "brand": s.text("brand"),
        }
        for s in body.bodies("slots")
    ]
    _check_slots(slots)
    addresses = [str(a) for a in body.items("addresses")]
    if len(addresses) > MAX_ADDRESSES:
        raise BadRequest(f"addresses: at most {MAX_ADDRESSES}, not {len(addresses)}")
    proof = body.object("proof")
    return Joining(
        agent_id=body.required_text("agentId"),
        agent_key=body.required_text("agentKey"),
        incarnation=_uuid(body.required_text("incarnation"), "incarnation"),
        pool=body.text("pool") or "default",
        version=body.text("version"),
        product_version=body.text("productVersion"),
        hostname=body.text("hostname"),
        runtime=body.text("runtime"),
        addresses=addresses,
        slots=slots,
        proof={str(name): str(value) for name, value in proof.items()},
        out_of_service=body.text("outOfService")[:MAX_REASON_CHARACTERS],
        reports=[_report(c) for c in body.bodies("containers")],
    )


def _check_slots(slots: list[dict[str, Any]]) -> None:
    ids = [slot["id"] for slot in slots]
    if len(ids) > MAX_SLOTS or any(not 0 <= id < MAX_SLOTS for id in ids):
        raise BadRequest(f"slots: at most {MAX_SLOTS}, with ids from 0 to {MAX_SLOTS - 1}")
    if len(set(ids)) < len(ids):
        raise BadRequest(f"slots: an id is given twice in {ids[:50]}")
    for slot in slots:
        if slot["type"] not in _DEVICES:
            known = ", ".join(_DEVICES)
            raise BadRequest(f"slots: type must be one of {known}, not {slot['type']!r}")


def poll(ctx: Context, request: Request) -> Answer:
    token = bearer_token(request)
    if not token.startswith(AGENT_PREFIX):
        authentication.agent_of(ctx, token)  # lists the agents of the relay
    body = Body(request.json())
    asked = Poll(
        token=token,
        incarnation=body.required_text("incarnation"),
        reports=[_report(c) for c in body.bodies("containers")],
        seq=body.optional_integer("seq"),
        seen=body.text("seen"),
        leaving=bool(body.items("signals")),
        leaves_at=_earliest(s.text("deadline") for s in body.bodies("signals")),
        reclaimed=any(s.text("kind") in RECLAIMS for s in body.bodies("signals")),
        out_of_service=body.text("outOfService")[:MAX_REASON_CHARACTERS],
        gone=body.flag("gone"),
        unsent=body.flag("unsent"),
    )
    _uuid(asked.incarnation, "incarnation")
    answer = polling.poll(ctx, asked)
    wait_s = min(body.number("waitS") or 0.0, ctx.may_wait_s, polling.LONGEST_HELD_S)
    if answer.news or request.final or wait_s <= 0:
        return json_response(answer.message.as_json())
    return Wait(f"agent:{answer.agent_id}", wait_s)


def _earliest(deadlines: Iterable[str]) -> datetime | None:
    """Return the earliest of these times. Agents of earlier releases send some in a form other than RFC 3339."""
    found = []
    for text in deadlines:
        with suppress(ValueError):
            time = datetime.fromisoformat(text.replace("Z", "+00:00"))
            found += [time] if time.tzinfo else []
    return min(found, default=None)


def _report(body: Body) -> Report:
    state, failure = body.text("state").upper(), body.optional_text("failure")
    if state not in ContainerState.__members__:
        raise BadRequest(f"containers: state {body.text('state')!r} is unknown")
    if failure is not None and failure not in {f.value for f in Failure}:
        raise BadRequest(f"containers: failure {failure!r} is unknown")
    container_id = body.required_text("id")
    _uuid(container_id, "containers: id")
    return Report(
        id=container_id,
        epoch=body.integer("epoch"),
        state=ContainerState(state),
        exit_code=body.optional_integer("exitCode"),
        failure=failure,
        message=body.optional_text("message"),
        address=body.optional_text("address"),
        host_ports=body.object("hostPorts") if body.raw("hostPorts") is not None else None,
        runtime_id=body.optional_text("runtimeId"),
    )


def _uuid(value: str, what: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as e:
        raise BadRequest(f"{what} must be a UUID, not {value!r}") from e


ROUTES = (
    post(
        "/agents/v1/join",
        join,
        access=Access.PUBLIC,
        summary="Join the cluster",
        audit=Unaudited.REPORT,
    ),
    post(
        "/agents/v1/poll",
        poll,
        access=Access.AGENT_BY_HANDLER,
        summary="Report containers, get directives",
        largest=REPORT_BODY,
        audit=Unaudited.REPORT,
    ),
)
