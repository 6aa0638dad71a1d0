"""Make silent agents suspect and then lost. Outages of the control plane do not count as silence."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from det_controlplane.core.lifecycle import agent as states
from det_controlplane.core.lifecycle.agent import ATTENTION, LEASE, WATCH, AgentState
from det_controlplane.db.agents import agents
from det_controlplane.db.agents import silence as rows
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import pool_marks
from det_controlplane.services.agents import containers
from det_controlplane.services.agents.reconnect_waits import (
    DEFAULT_RECONNECT_WAIT_S,
    reconnect_wait,
    special_waits,
)
from det_controlplane.services.context import Context

log = logging.getLogger("det.agents")

_SHORTEST_PAUSE = timedelta(seconds=1)


def watch(ctx: Context) -> None:
    """Make agents suspect at the end of their lease, and lost after the wait of their pool. End the lost containers."""
    is_api_down = _is_api_down(ctx)
    now = ctx.now()
    with ctx.db.begin() as tx:
        since = _note_tick(ctx, tx, now, is_api_down=is_api_down)
        overdue = agents.lock_overdue(tx, now)
        changed = [_next_state(tx, ctx, agent, now, since) for agent in overdue]
        # In the order of their names: two transactions that mark several pools never wait for each other.
        for pool in sorted(set(changed)):
            pool_marks.mark(tx, pool)
        # Including containers that an earlier tick did not end before it died.
        lost = agents.abandoned_containers(tx, now)
    for agent_id, container_ids in lost.items():
        log.warning(
            "agent %s was lost with %d containers", agent_id, len(container_ids),
            extra={"agent_id": agent_id},
        )  # fmt: skip
        containers.end_with_agent(ctx, agent_id, container_ids)
    containers.end_silent_ranks(ctx)


def _is_api_down(ctx: Context) -> bool:
    """Return whether agents cannot reach the API, although ticks run."""
    if ctx.host.reach_api is None:
        return False
    now = ctx.now()
    with ctx.db.autocommit() as tx:
        contact = rows.contact(tx, now)
    if not contact.needs_probe(now):
        return contact.is_api_down(now)
    is_answered = ctx.host.reach_api()
    with ctx.db.begin() as tx:
        rows.store_probe(tx, now, is_answered=is_answered)
    was_down = contact.is_api_down(now)
    contact = replace(contact, probed_at=now, reached_at=now if is_answered else contact.reached_at)
    is_down = contact.is_api_down(now)
    if is_down and not was_down:
        log.warning(
            "the API does not answer at %s: no agent is lost until it does", ctx.host.public_url
        )
    elif was_down and is_answered:
        log.warning("the API answers again at %s", ctx.host.public_url)
    return is_down


def _note_tick(ctx: Context, tx: Tx, now: datetime, *, is_api_down: bool) -> datetime:
    """Store the time of the tick, and return since when agents could be heard without an interruption.

    After an interruption, restart all deadlines that depend on silence."""
    last = rows.lock_last_tick(tx)
    if last is None:  # another process ticks at this moment
        return now
    had_pause = states.was_interrupted(last.ticked_at, now, is_watching=last.is_watching)
    interrupted = had_pause or is_api_down
    since = states.watched_since(last.watched_since, last.ticked_at, now)
    if is_api_down:
        since = now
    is_same = since == last.watched_since and not interrupted
    if is_same and last.ticked_at and now - last.ticked_at < _SHORTEST_PAUSE:
        return since
    rows.store_tick(tx, now, since, after_interruption=interrupted)
    if interrupted:
        waits = special_waits(ctx)
        rows.restart_deadlines(tx, now, now + LEASE, waits, DEFAULT_RECONNECT_WAIT_S)
        if had_pause and last.ticked_at is not None:
            log.warning(
                "the last tick ran at %s: agents have %.0f s and the wait of their pools to poll again",
                last.ticked_at.isoformat(timespec="seconds"), LEASE.total_seconds(),
            )  # fmt: skip
    return since


def _next_state(
    tx: Tx, ctx: Context, agent: agents.OverdueAgent, now: datetime, since: datetime
) -> str:
    """Move an overdue agent to its next state; return its pool."""
    if agent.state is AgentState.SUSPECT:
        agents.set_overdue(tx, agent.id, AgentState.LOST, agent.lost_after)
    else:
        wait = reconnect_wait(ctx, agent.pool)
        deadline = states.lost_after(agent.lease_until, now, wait, since)
        agents.set_overdue(tx, agent.id, AgentState.SUSPECT, deadline)
    return agent.pool


def next_due(tx: Tx, now: datetime) -> datetime | None:
    """Return when the next lease or wait of an agent ends, and a few seconds earlier when a lease is about to end.

    While agents are joined, the next tick is due in 15 s at the latest, and in 5 s while one of them is suspect."""
    return agents.next_due(tx, now, WATCH, ATTENTION)
