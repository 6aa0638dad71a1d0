"""Agents join and poll. A poll carries the agent's whole state, so repeating or losing one is harmless."""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from det_controlplane.core import agent_protocol
from det_controlplane.core.agent_protocol import Directive
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.lifecycle.agent import LEASE, AgentState
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.db.agents import agents, moves
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.machines import failed_offers
from det_controlplane.db.people import sessions
from det_controlplane.ports.identity import MachineIdentity
from det_controlplane.services import stored_pools
from det_controlplane.services.agents import (
    adoption,
    container_spec,
    containers,
    join_tokens,
    reconnect_waits,
)
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Taken
from det_controlplane.services.identity.authentication import AGENT_PREFIX, agent_of, token_hash
from det_controlplane.services.logs import task_logs
from det_controlplane.services.machines import admission
from det_controlplane.services.machines.admission import MachineAge
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.tasks import replicas, resources
from det_controlplane.services.use_case import change

# A poll that is held renews the lease only when it comes again.
LONGEST_HELD_S = LEASE.total_seconds() / 2
# When an agent calls again where polls are not held: soon while something starts or ends.
BUSY_POLL_S, STEADY_POLL_S, IDLE_POLL_S = 2.0, 10.0, 10.0
LOGS_AT_ONCE_S, LOGS_COLLECTED_S = 1.0, 30.0
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
    proof: Mapping[str, str]
    out_of_service: str = ""
    product_version: str = ""
    reports: Sequence[Report] = ()  # its running and ended containers
    links: Sequence[tuple[int, int, str]] = ()
    age: MachineAge = field(default_factory=MachineAge)


@dataclass(frozen=True, slots=True)
class Joined:
    agent_token: str
    lease_s: float
    next_poll_s: float


def join(ctx: Context, joining: Joining) -> Joined:
    """Admit an agent with a valid proof. An agent with the same key takes over the identity at once."""
    ctx = stored_pools.current(ctx)
    machine = _proven(ctx, joining)
    if not _AGENT_ID.fullmatch(joining.agent_id):
        raise Invalid(f"agent id {joining.agent_id!r} must be letters, digits, '.', '_' or '-'")
    now, agent_token = ctx.now(), AGENT_PREFIX + ctx.random.token()
    key_hash = token_hash(joining.agent_key)
    with change(ctx) as changed:
        lost = adoption.find_lost(changed.tx, joining.agent_id, joining.reports)
        holder = agents.holder(changed.tx, joining.agent_id)
        if machine is None:
            join_tokens.spend(
                changed.tx, joining.proof.get("token", ""), now,
                known_agent=holder is not None and _has_key(holder, key_hash),
                of_deployment=_has_deployment_token(ctx, joining),
            )  # fmt: skip
        if holder is not None and _holds(holder, key_hash, now):
            raise Taken(
                f"agent id {joining.agent_id!r} is held by a running agent; give this one another --agent-id"
            )
        if machine is None:
            name = _pool_of(ctx, changed.tx, joining)
        else:
            slots = len(joining.slots)
            name = admission.admit(ctx, changed.tx, machine, joining.agent_id, slots, joining.age)
        pool = _pool(ctx, name)
        lease_until = now + LEASE
        row = {
            "id": joining.agent_id, "pool": pool.pool_name, "key_hash": key_hash,
            "incarnation": joining.incarnation, "token_hash": token_hash(agent_token),
            "version": joining.version, "product_version": joining.product_version,
            "hostname": joining.hostname, "runtime": joining.runtime,
            "addresses": joining.addresses, "links": as_json(joining.links), "out_of_service": joining.out_of_service, "now": now, "lease_until": lease_until,
            "lost_after": lease_until + timedelta(seconds=float(pool.agent_reconnect_wait)),
        }  # fmt: skip
        agents.upsert(changed.tx, row, joining.slots)
        if holder is not None and _has_key(holder, key_hash):
            agent_return = adoption.Return(
                joining.agent_id, holder.last_seen_at, holder.state is AgentState.LOST,
                joining.reports, LEASE + reconnect_waits.reconnect_wait(ctx, pool.pool_name),
            )  # fmt: skip
            adoption.adopt(changed, agent_return, lost)
        sessions.release_waiting(changed.tx, joining.agent_id, now + containers.LATE_REPORTS)
        changed.queue_changed(pool.pool_name)
    return Joined(agent_token, LEASE.total_seconds(), 0.0)


def _holds(holder: agents.Holder, key_hash: bytes, now: datetime) -> bool:
    """Return whether another process holds the identity, and is alive."""
    return (
        not _has_key(holder, key_hash)
        and holder.state is AgentState.JOINED
        and holder.lease_until > now
    )


def _has_key(holder: agents.Holder, key_hash: bytes) -> bool:
    return hmac.compare_digest(holder.agent_key_hash, key_hash)


def _pool_of(ctx: Context, tx: Tx, joining: Joining) -> str:
    """Return the pool of an agent that is not rented: its option, or the pool that an administrator chose since.

    The choice is dropped when the option changes or the chosen pool no longer takes agents."""
    chosen = moves.chosen(tx, joining.agent_id, joining.pool)
    pool = ctx.config.pool(chosen) if chosen else None
    if pool is None or pool.provider is not None:
        moves.forget(tx, joining.agent_id)
        return joining.pool
    return pool.pool_name


def _pool(ctx: Context, name: str) -> Pool:
    pool = ctx.config.pool(name)
    if pool is None:
        names = ", ".join(p.pool_name for p in ctx.config.resource_pools)
        raise Invalid(f"resource pool {name!r} does not exist; this cluster has: {names}")
    return pool


def _proven(ctx: Context, joining: Joining) -> MachineIdentity | None:
    """Return the rented machine that the agent proves to be on, None for one that has a token."""
    kind = joining.proof.get("kind", "")
    if kind != "bootstrap_token":
        nonce = agent_protocol.join_nonce(
            ctx.cluster_id, joining.agent_id, joining.agent_key, str(joining.incarnation)
        )
        return admission.identity(ctx, joining.agent_id, kind, joining.proof, nonce)
    return None


def _has_deployment_token(ctx: Context, joining: Joining) -> bool:
    token, expected = joining.proof.get("token", "").encode(), ctx.bootstrap_token.encode()
    return bool(expected) and hmac.compare_digest(token, expected)


@dataclass(frozen=True, slots=True)
class ReportedCache:
    """The data sets in an agent's cache."""

    size_bytes: int
    used_bytes: int
    sets: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Poll:
    token: str
    incarnation: str
    reports: list[Report]
    seq: int | None = None  # counted up by one agent process; None: an agent of 0.1.0
    seen: str = ""  # version of the last answer it applied
    leaving: bool = False  # the agent reported that its machine will be taken away
    leaves_at: datetime | None = None  # at the latest
    reclaimed: bool = False  # and that its cloud takes it back
    out_of_service: str = ""  # why the agent cannot start containers now
    gone: bool = False  # the agent ends, and none of its containers runs
    unsent: bool = False  # log lines wait on its disk
    data_cache: ReportedCache | None = None  # None: it has not changed
    replicas: Sequence[str] = ()  # tasks with a directory in its memory
    samples: Sequence[resources.Sample] = ()  # the resources that its containers used
    arrived_at: datetime | None = None  # of a poll that may be handled again later; None: now


@dataclass(frozen=True, slots=True)
class PollAnswer:
    agent_id: str
    message: agent_protocol.PollAnswer
    news: bool  # something the agent does not know yet


def _pause_s(directives: Sequence[Directive], reported: Mapping[str, Report]) -> float:
    if not directives:
        return IDLE_POLL_S
    running = {id for id, report in reported.items() if report.state is ContainerState.RUNNING}
    steady = all(o.id in running and o.desired == "running" and not o.preempt for o in directives)
    return STEADY_POLL_S if steady else BUSY_POLL_S


def _logs_within_s(ctx: Context, directives: Sequence[Directive], pause_s: float) -> float:
    """Return how long the agent may collect log lines before it sends them. If requests cost money, lines of steady
    work without followers are collected longer."""
    steady = directives and pause_s == STEADY_POLL_S
    if ctx.host.may_wait_s > 0 or not steady:
        return LOGS_AT_ONCE_S
    followed = task_logs.are_followed(ctx, [order.allocation_id for order in directives])
    return LOGS_AT_ONCE_S if followed else LOGS_COLLECTED_S


def poll(ctx: Context, poll: Poll) -> PollAnswer:
    """Store the agent's state and return the containers that it should run."""
    touched = _extend_lease(ctx, poll)
    ctx = stored_pools.at(ctx, touched.pools)
    agent_id = touched.agent_id
    assigned = touched.assigned
    if poll.data_cache is not None and touched.newest:
        cache = poll.data_cache
        with ctx.db.autocommit() as tx:
            agents.store_data_cache(tx, agent_id, cache.size_bytes, cache.used_bytes, cache.sets)
    if poll.samples:
        with ctx.db.autocommit() as tx:
            resources.store(tx, agent_id, poll.samples, ctx.now())
    reported = {r.id: r for r in poll.reports}
    changed = _take_reports(ctx, agent_id, assigned, reported)
    if poll.seq is not None and touched.newest:
        changed |= _end_missing_containers(ctx, agent_id, assigned, reported)
    # The deadline of a checkpoint must not be later than the end of the machine.
    in_time = poll.leaves_at is None
    if touched.leaving and not all(d.killed or (d.preempt and in_time) for d in assigned):
        changed |= stopping.stop_all_on_agent(ctx, agent_id, poll.leaves_at, poll.out_of_service)
    if poll.gone:
        _disconnect(ctx, agent_id)
    if changed:
        assigned = agents.assigned_containers(ctx.db, agent_id)
    ended_ids = [r.id for r in poll.reports if r.terminated]
    # Another poll may have reported the same exit after the containers were read. An ended container gets no order.
    orders = [_directive(ctx, poll, d, reported) for d in assigned if d.id not in ended_ids]
    directives = tuple(o for o in orders if o is not None)
    relay = _relay_address(ctx, touched) if any(d.proxied for d in assigned) else ""
    dropped = replicas.unneeded(ctx, agent_id, poll.replicas) if poll.replicas else ()
    version, pause_s = (
        _version(directives, assigned, relay and touched.relay_dials),
        _pause_s(directives, reported),
    )
    message = agent_protocol.PollAnswer(
        containers=directives,
        forget=tuple(ended_ids),
        version=version,
        next_poll_s=pause_s,
        logs_within_s=_logs_within_s(ctx, directives, pause_s),
        draining=touched.draining or touched.moves,
        relay=relay,
        drop_replicas=dropped,
    )
    spec_due = any(d.spec is not None for d in directives)
    news = bool(ended_ids or dropped) or spec_due or version != poll.seen
    return PollAnswer(agent_id, message, news)


def _disconnect(ctx: Context, agent_id: str) -> None:
    """Mark a stopped agent as lost at once. Otherwise it would be listed as working until its lease ends."""
    with change(ctx) as changed:
        pool = agents.give_up(changed.tx, agent_id, changed.now)
        if pool is not None:
            changed.queue_changed(pool)


def _take_reports(
    ctx: Context,
    agent_id: str,
    assigned: list[agents.AssignedContainer],
    reported: dict[str, Report],
) -> bool:
    changed = False
    for container in assigned:
        report = reported.get(container.id)
        if report is not None and report.epoch == container.epoch:
            changed |= containers.report(ctx, agent_id, report, container.state)
    return changed


def _end_missing_containers(
    ctx: Context,
    agent_id: str,
    assigned: list[agents.AssignedContainer],
    reported: dict[str, Report],
) -> bool:
    """End containers that the agent had started and no longer has: its state or its machine was replaced."""
    missing = [UUID(d.id) for d in assigned if d.id not in reported and d.state != "ASSIGNED"]
    if missing:
        containers.end_missing(ctx, agent_id, missing)
    return bool(missing)


def _relay_address(ctx: Context, touched: agents.PollRecord) -> str:
    """Return the relay's address for traffic to tasks. The agent connects again when the address changes."""
    address = ctx.host.relay_for_agents
    if not address or not touched.relay_dials:
        return address
    return f"{address}{'&' if '?' in address else '?'}dial={touched.relay_dials}"


def _version(
    directives: Sequence[Directive],
    assigned: Sequence[agents.AssignedContainer],
    relay_dials: int | str,
) -> str:
    """Return a version that changes with the orders of an answer, their deadlines and a new address of the relay."""
    until = {container.id: container.kill_at for container in assigned}
    ordered: list[Any] = sorted(
        (d.id, d.epoch, d.desired, d.preempt and (until[d.id] or True)) for d in directives
    )
    content = [*ordered, relay_dials] if relay_dials else ordered
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _extend_lease(ctx: Context, poll: Poll) -> agents.PollRecord:
    """Extend the lease of the agent that the token is of: one statement finds out which it is and does it."""
    now = ctx.now()
    arrived_at = poll.arrived_at or now
    touched = agents.touch(
        ctx.db, token_hash(poll.token), poll.incarnation, seq=poll.seq or 0, leaving=poll.leaving,
        out_of_service=poll.out_of_service,
        unsent=poll.unsent,
        now=now, arrived_at=arrived_at, lease_until=arrived_at + LEASE, waits=reconnect_waits.special_waits(ctx), default_wait=reconnect_waits.DEFAULT_RECONNECT_WAIT_S,
    )  # fmt: skip
    if touched is None:
        agent = agent_of(ctx, poll.token)
        raise Taken(f"agent {agent.id}: incarnation {poll.incarnation} was replaced; stop")
    if poll.reclaimed:
        with ctx.db.begin() as tx:
            failed_offers.record_reclaimed_agent(tx, touched.agent_id, now)
    if touched.returned or touched.leaves_now:
        ctx.waker.wake("schedule")
    return touched


def _directive(
    ctx: Context, poll: Poll, container: agents.AssignedContainer, reported: dict[str, Report]
) -> Directive | None:
    """Return the order for a container, or None if it was deleted after the assigned containers were read.

    A started container that the agent does not report was lost with its machine. The newest poll ends it. An older
    poll that is answered at the same time lists it without its specification, so that the agent does not start it
    again."""
    is_new = container.state == "ASSIGNED" or poll.seq is None
    spec = None
    if is_new and container.id not in reported:
        spec = container_spec.of_container(ctx, UUID(container.id))
        if spec is None:
            return None
    desired: Literal["running", "killed"] = "killed" if container.killed else "running"
    kill_within_s = None
    if container.preempt and container.kill_at is not None:
        kill_within_s = max(0.0, round(container.kill_at - ctx.now().timestamp(), 1))
    return Directive(
        id=container.id,
        epoch=container.epoch,
        allocation_id=container.allocation_id,
        desired=desired,
        preempt=container.preempt,
        kill_within_s=kill_within_s,
        spec=spec,
    )
