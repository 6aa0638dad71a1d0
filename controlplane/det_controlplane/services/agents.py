"""Agents join and poll. A poll carries the agent's whole state, so repeating or losing one is harmless."""

import hmac
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from det_controlplane.db import agents, queue
from det_controlplane.services import containers, specification
from det_controlplane.services.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, NotSignedIn, Taken
from det_controlplane.services.identity import token_hash
from det_controlplane.services.principal import AgentPrincipal

LEASE = timedelta(seconds=30)
# A poll that is held renews the lease only when it comes again.
LONGEST_HELD_S = LEASE.total_seconds() / 2
# Facts §6.4: how long a silent agent keeps its work, counted from the end of its lease.
DEFAULT_RECONNECT_WAIT = timedelta(seconds=25)
BUSY_POLL_S, IDLE_POLL_S = 2.0, 10.0
_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class Joining:
    agent_id: str
    agent_key: str
    incarnation: UUID
    pool: str
    version: str
    hostname: str
    runtime: str
    addresses: list[str]
    slots: list[dict[str, Any]]
    proof_kind: str
    proof_token: str


@dataclass(frozen=True, slots=True)
class Joined:
    agent_token: str
    lease_s: float
    next_poll_s: float


def join(ctx: Context, joining: Joining) -> Joined:
    """Admit an agent that proves itself. The holder of the same key takes its identity over at once."""
    _check_proof(ctx, joining)
    pool = ctx.config.pool(joining.pool)
    if pool is None:
        known = ", ".join(p.pool_name for p in ctx.config.resource_pools)
        raise Invalid(f"resource pool {joining.pool!r} does not exist; this cluster has: {known}")
    if not _AGENT_ID.fullmatch(joining.agent_id):
        raise Invalid(f"agent id {joining.agent_id!r} must be letters, digits, '.', '_' or '-'")
    now, token = ctx.now(), ctx.new_token()
    key_hash = token_hash(joining.agent_key)
    with ctx.db.begin() as tx:
        holder = agents.holder(tx, joining.agent_id)
        if holder is not None and _holds(holder, key_hash, now):
            raise Taken(
                f"agent id {joining.agent_id!r} is held by a running agent; give this one another --agent-id"
            )
        lease_until = now + LEASE
        row = {
            "id": joining.agent_id, "pool": pool.pool_name, "key_hash": key_hash,
            "incarnation": joining.incarnation, "token_hash": token_hash(token),
            "version": joining.version, "hostname": joining.hostname, "runtime": joining.runtime,
            "addresses": joining.addresses, "now": now, "lease_until": lease_until,
            "lost_after": lease_until + _reconnect_wait(ctx, pool.pool_name),
        }  # fmt: skip
        agents.upsert(tx, row, joining.slots)
        queue.mark_dirty(tx, pool.pool_name)
    ctx.waker.wake("schedule")
    return Joined(token, LEASE.total_seconds(), 0.0)


def _holds(holder: agents.Holder, key_hash: bytes, now: datetime) -> bool:
    """Whether somebody else holds the identity, and is alive."""
    same = hmac.compare_digest(holder.agent_key_hash, key_hash)
    return not same and holder.state == "JOINED" and holder.lease_until > now


def _check_proof(ctx: Context, joining: Joining) -> None:
    if joining.proof_kind != "bootstrap_token":
        raise Invalid(
            f"proof kind {joining.proof_kind!r} is not supported here: use bootstrap_token"
        )
    sent, expected = joining.proof_token.encode(), ctx.bootstrap_token.encode()
    if not expected or not hmac.compare_digest(sent, expected):
        raise NotSignedIn(
            "the bootstrap token is wrong; the cluster's operator has the current one"
        )


def _reconnect_wait(ctx: Context, pool_name: str) -> timedelta:
    pool = ctx.config.pool(pool_name)
    seconds = getattr(pool, "agent_reconnect_wait", None)
    return DEFAULT_RECONNECT_WAIT if seconds is None else timedelta(seconds=float(seconds))


@dataclass(frozen=True, slots=True)
class Poll:
    agent: AgentPrincipal
    incarnation: str
    reports: list[Report]


def poll(ctx: Context, poll: Poll) -> tuple[dict[str, Any], bool]:
    """Take the agent's state, say what it should run. Also tells whether the answer has news for the agent."""
    now = ctx.now()
    _extend_lease(ctx, poll, now)
    with ctx.db.begin() as tx:
        before = {d.id: d for d in agents.duties(tx, poll.agent.id)}
    changed = False
    forget: list[str] = []
    for report in poll.reports:
        duty = before.get(report.id)
        if duty is not None and duty.epoch == report.epoch:
            changed |= containers.report(ctx, poll.agent.id, report, duty.state)
        if report.terminated:
            forget.append(report.id)
    duties = list(before.values())
    if changed:
        with ctx.db.begin() as tx:
            duties = agents.duties(tx, poll.agent.id)
    known = {r.id for r in poll.reports}
    listed = [_directive(ctx, d, known) for d in duties if d.id not in forget]
    news = bool(forget) or any("spec" in d or d["desired"] == "killed" for d in listed)
    busy = bool(listed)
    answer = {
        "containers": listed,
        "forget": forget,
        "next_poll_s": BUSY_POLL_S if busy else IDLE_POLL_S,
        "draining": False,
    }
    return answer, news or changed


def _extend_lease(ctx: Context, poll: Poll, now: datetime) -> None:
    lease_until = now + LEASE
    lost_after = lease_until + _reconnect_wait(ctx, poll.agent.pool)
    with ctx.db.begin() as tx:
        draining = agents.touch(
            tx, poll.agent.id, poll.incarnation,
            now=now, lease_until=lease_until, lost_after=lost_after,
        )  # fmt: skip
    if draining is None:
        raise Taken(f"agent {poll.agent.id}: incarnation {poll.incarnation} was replaced; stop")


def _directive(ctx: Context, duty: agents.Duty, known: set[str]) -> dict[str, Any]:
    directive: dict[str, Any] = {
        "id": duty.id,
        "allocation_id": duty.allocation_id,
        "epoch": duty.epoch,
        "desired": "killed" if duty.killed else "running",
        "preempt": duty.preempt,
    }
    if duty.id not in known and not duty.killed:
        directive["spec"] = specification.of_container(ctx, UUID(duty.id))
    return directive
