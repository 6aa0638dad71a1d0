"""Decide which machines to rent, to empty and to end: load a snapshot, decide (pure), store the intents."""

import logging
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from det_controlplane.core.lifecycle.allocation import Signal
from det_controlplane.core.provision import prices
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    DrainReason,
    Machine,
    PoolSnapshot,
    ProvisionPlan,
    ProvisionSnapshot,
    Terminate,
    TerminateReason,
)
from det_controlplane.db.agents import agents
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import (
    deadlines,
    failed_offers,
    machines,
    market,
    pool_holds,
    provision,
    warm_pools,
)
from det_controlplane.db.machines.warm_pools import WarmRow
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.scheduling import schedule as pool_rows
from det_controlplane.db.tasks import containers
from det_controlplane.services.context import Context
from det_controlplane.services.machines import failed_launches, renewal, spot_history
from det_controlplane.services.machines.places import rented_pools
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import Change, change
from det_controlplane.services.webhooks import events

log = logging.getLogger("det.machines")

# Reclaims that count against an offer.
MEMORY_OF_RECLAIMS = timedelta(days=3)
# A pool that is being scheduled is looked at a moment later.
_BUSY_POOL_WAIT = timedelta(seconds=1)

_LEFT_OVER = "its pool rents no machines any more"
_DRAINS = {
    DrainReason.RECLAIMED: "the cloud takes the machine back",
    DrainReason.BROKEN: "its agent is out of service",
    DrainReason.SLOW: "trials reported it as slow three times",
    DrainReason.OVER_MAXIMUM: "the pool has more machines than max_instances",
    DrainReason.BUDGET: "the pool's machines cost more than max_hourly_cost",
    DrainReason.LEFT_OVER: _LEFT_OVER,
}
_ENDS = {
    TerminateReason.IDLE: "idle for longer than max_idle_agent_period",
    TerminateReason.OVER_MAXIMUM: "the pool has more machines than max_instances",
    TerminateReason.BUDGET: "the pool's machines cost more than max_hourly_cost",
    TerminateReason.DISCONNECTED: "its agent is silent",
    TerminateReason.OUT_OF_SERVICE: "its agent is out of service",
    TerminateReason.DRAINED: "it is drained",
    TerminateReason.NOT_NEEDED: "what it was for no longer waits",
    TerminateReason.NOT_WARM: "it was kept warm, and its pool keeps fewer machines warm now",
    TerminateReason.LEFT_OVER: _LEFT_OVER,
    **failed_launches.NO_SHOW_REASONS,
}


def run_if_due(ctx: Context, changed: Collection[str]) -> None:
    """Decide when the queue or machines of a pool changed or a deadline passed. Then stop the work on draining
    machines."""
    if _is_due(ctx, changed):
        run(ctx)
    if ctx.config.rents:
        _stop_work_on_draining_agents(ctx)


def _is_due(ctx: Context, changed: Collection[str]) -> bool:
    own = {pool.pool_name for pool in rented_pools(ctx)}
    if not own.isdisjoint(changed):
        return True
    with ctx.db.autocommit() as tx:
        leftovers = _retired_pools(tx, own)
        due = provision.next_decision(tx, own | leftovers.keys())
    is_due = due is not None and due <= ctx.now()
    return is_due or any(leftovers.values()) or not leftovers.keys().isdisjoint(changed)


def _stop_work_on_draining_agents(ctx: Context) -> None:
    """Request the stop of work on draining machines. The process that decided the drain may have died before it did."""
    with ctx.db.autocommit() as tx:
        # A pool that stopped renting has no machine to move the work to.
        draining_agents = containers.agents_to_ask(tx, kept=(_LEFT_OVER, renewal.RENEWED))
    for agent, reason in draining_agents:
        stopping.stop_all_on_agent(ctx, agent, why=reason)


def next_due(ctx: Context, tx: Tx) -> datetime | None:
    """Return the time of the next decision without further changes."""
    own = {pool.pool_name for pool in rented_pools(ctx)}
    return provision.next_decision(tx, own | machines.pools_with_machines(tx).keys())


def run(ctx: Context) -> ProvisionPlan:
    """Decide for every pool that has offers, after the process that decides now."""
    with change(ctx) as changed:
        provision.lock(changed.tx)
        snapshot, digests, warm_rows = _load(ctx, changed.tx, changed.now)
        plan = decide(snapshot, changed.now.timestamp())
        _terminate(changed, plan.terminate)
        _request(ctx, changed, plan, _hold_after_no_shows(changed, snapshot, plan))
        for machine_id, reason in plan.drain:
            agent = machines.drain(changed.tx, UUID(machine_id), _DRAINS[reason], changed.now)
            if agent is not None:
                agents.put_in_service(changed.tx, agent, None, enabled=True, draining=True)
        provision.record(changed.tx, plan.waiting, digests)
        _apply_deadlines(changed, plan)
        for decision in plan.warm:
            warm_pools.store(changed.tx, decision, warm_rows[decision.pool])
        next_at = _next_at(plan, snapshot, changed)
        names = {machine.pool for machine in snapshot.left_over}
        for name in sorted(names | {pool.name for pool in snapshot.pools}):
            provision.set_next_decision(changed.tx, name, next_at)
    return plan


def _apply_deadlines(change: Change, plan: ProvisionPlan) -> None:
    """Store the decisions about deadlines, report bad news, and ask runs that move for checkpoints."""
    for pool in sorted(deadlines.store(change.tx, plan.deadlines, change.now)):
        change.queue_changed(pool)
    events.report_deadlines(change, plan.deadlines)
    for move in plan.moves:
        # A locked run moves at a later decision.
        allocation = allocations.lock_if_free(change.tx, move.allocation_id)
        if allocation is not None and allocation.preempt_at is None:
            stopping.stop(change, [allocation], Signal.TERMINATE, move.reason)


def _next_at(plan: ProvisionPlan, snapshot: ProvisionSnapshot, change: Change) -> datetime | None:
    """Return when to decide again; while something waits, also when prices are to be read, and have that done."""
    # Work that waits for an operator or a budget does not wait for a price.
    renting = [
        pool for pool in snapshot.pools if all(h.until and not h.of_budget for h in pool.holds)
    ]
    due = math.inf
    if plan.waiting:
        due = min(_due(snapshot.prices_due, renting).values(), default=math.inf)
    now = change.now.timestamp()
    if due <= now:
        change.wake("provision")
    at = min((t for t in (plan.next_at, due) if t is not None and now < t < math.inf), default=None)
    return None if at is None else datetime.fromtimestamp(at, change.now.tzinfo)


class _Loaded(NamedTuple):
    """The snapshot, the digests of the stored reasons by allocation, and the rows of pools that choose warm machines."""

    snapshot: ProvisionSnapshot
    digests: dict[str, str]
    warm: dict[str, WarmRow]


def _load(ctx: Context, tx: Tx, now: datetime) -> _Loaded:
    """Lock and read the pools that no pass is scheduling. No work is placed there until this transaction ends."""
    knowledge = market.known(tx)
    pools = []
    digests: dict[str, str] = {}
    warm: dict[str, WarmRow] = {}
    for pool in rented_pools(ctx):
        name = pool.pool_name
        if not pool_rows.try_lock(tx, name):
            provision.set_next_decision(tx, name, now + _BUSY_POOL_WAIT)
            continue
        if pool.limits.warm_policy is not None:
            warm[name] = warm_pools.read(tx, name, now)
        waiting = provision.demand(tx, name, pool.scheduler.default_priority)
        digests |= {one.demand.allocation_id: one.machine_digest for one in waiting}
        pool_snapshot = PoolSnapshot(
            name=name,
            limits=pool.limits,
            offers=prices.current(pool.offers, pool.sections, knowledge),
            demand=tuple([one.demand for one in waiting]),
            machines=provision.machines_of(tx, name),
            growth=provision.growth(tx, name, pool.scheduler.default_priority),
            deadline_jobs=deadlines.jobs(tx, name, now),
            warm=warm[name].history if name in warm else None,
        )
        pools.append(pool_snapshot)
    left_over = _leftover_machines(tx, {pool.pool_name for pool in rented_pools(ctx)}, now)
    # Lock pools after machines: the failed end of the last machine sets the hold in the same transaction.
    holds = pool_holds.every(tx, now)
    interruptions = failed_offers.reclaimed_since(tx, now - MEMORY_OF_RECLAIMS)
    snapshot = ProvisionSnapshot(
        pools=tuple(replace(pool, holds=holds.get(pool.name, ())) for pool in pools),
        cooldowns=failed_offers.stored_cooldowns(tx),
        interruptions=interruptions,
        spot_spells=spot_history.observed(tx, pools, interruptions, now),
        prices_due=_due(knowledge.due, pools),
        left_over=left_over,
    )
    return _Loaded(snapshot, digests, warm)


def _retired_pools(tx: Tx, own: Collection[str]) -> dict[str, bool]:
    """Return the pools that stopped renting and still have machines. The value is True if some machines are new."""
    return {
        pool: fresh for pool, fresh in machines.pools_with_machines(tx).items() if pool not in own
    }


def _leftover_machines(tx: Tx, own: Collection[str], now: datetime) -> tuple[Machine, ...]:
    """Return the machines of pools that stopped renting. A pool that another process has locked is decided on later."""
    result: list[Machine] = []
    for name in sorted(_retired_pools(tx, own)):
        if pool_rows.try_lock(tx, name):
            result += provision.machines_of(tx, name)
        else:
            provision.set_next_decision(tx, name, now + _BUSY_POOL_WAIT)
    return tuple(result)


def _due(
    due_times: Mapping[tuple[str, str], float], pools: Iterable[PoolSnapshot]
) -> dict[tuple[str, str], float]:
    """Return when the regions in which these pools rent are read again."""
    places = {(offer.provider, offer.region) for pool in pools for offer in pool.offers}
    return {place: time for place, time in due_times.items() if place in places}


def _hold_after_no_shows(
    change: Change, snapshot: ProvisionSnapshot, plan: ProvisionPlan
) -> set[str]:
    """Hold pools with a series of machines that did not join. Return the held pools."""
    lost = {id for id, reason in plan.terminate if reason in failed_launches.NO_SHOW_REASONS}
    return {
        pool.name
        for pool in snapshot.pools
        if not pool.holds
        and not lost.isdisjoint(machine.id for machine in pool.machines)
        and failed_launches.hold_pool_after_failed_launches(change, pool.name)
    }


def _request(
    ctx: Context, change: Change, plan: ProvisionPlan, pools_on_hold: Collection[str]
) -> None:
    for launch in plan.launch:
        if launch.pool in pools_on_hold:
            continue
        id = ctx.random.uuid()
        machines.request(change.tx, id, launch.pool, launch.offers, launch.purpose, change.now)
        log.info(
            "pool %s: renting %s as %s", launch.pool, launch.offers[0], id,
            extra={"machine_id": id, "pool": launch.pool},
        )  # fmt: skip
    if plan.launch or plan.terminate:
        change.wake("provision")


def _terminate(change: Change, ends: Iterable[Terminate]) -> None:
    for machine_id, reason in ends:
        drained = reason is TerminateReason.DRAINED
        agent = machines.terminate(
            change.tx, UUID(machine_id), _ENDS[reason], change.now,
            after_drain=drained, no_show=reason in failed_launches.NO_SHOW_REASONS,
        )  # fmt: skip
        log.info("giving %s back: %s", machine_id, _ENDS[reason], extra={"machine_id": machine_id})
        if agent is not None:
            agents.put_in_service(change.tx, agent, None, enabled=False, draining=False)
