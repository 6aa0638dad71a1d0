"""One scheduling pass over a pool: load a snapshot, decide (pure), apply with guards."""

from collections.abc import Iterable
from datetime import datetime

from det_controlplane.core import schedule
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.db import allocations, logs, queue, slots
from det_controlplane.db import schedule as rows_of
from det_controlplane.db.engine import Tx
from det_controlplane.services import placement
from det_controlplane.services.context import Context
from det_controlplane.services.effects import Effects

# Facts §7.5: names and lowest numbers of the ports that a multi-container trial may use.
PORT_BASES = {
    "DTRAIN_SSH_PORT": 12350,
    "INTER_TRAIN_PROCESS_COMM_PORT_1": 12360,
    "INTER_TRAIN_PROCESS_COMM_PORT_2": 12365,
    "C10D_PORT": 29400,
}


class LostRace(Exception):
    """Somebody changed what the decision was made on: roll back and look again."""


def run(ctx: Context, pool: str) -> schedule.SchedulePlan | None:
    """None when another process is at it, or the snapshot changed under the decision: the pool stays dirty."""
    effects = Effects(ctx)
    now = ctx.now()
    try:
        with ctx.db.begin() as tx:
            if not rows_of.try_lock(tx, pool):
                return None
            marks = queue.marks(tx, pool)
            found = rows_of.load(tx, pool, aux_limit(ctx, pool))
            plan = schedule.decide(snapshot_of(ctx, pool, found), now.timestamp())
            _start(ctx, tx, effects, found, plan.start, now)
            _preempt(tx, effects, plan.preempt, now)
            rows_of.record_waiting(tx, found, tuple(plan.waiting), now)
            queue.answer(tx, pool, marks, now)
    except LostRace:
        return None
    effects.announce()
    return plan


def aux_limit(ctx: Context, pool: str) -> int:
    found = ctx.config.pool(pool)
    return 100 if found is None else int(found.max_aux_containers_per_agent)


def settings_of(ctx: Context, pool: str) -> schedule.PoolSettings:
    found = ctx.config.scheduler_of(pool)
    return schedule.PoolSettings(
        scheduler=found.type,
        preemption=found.preemption,
        default_priority=found.default_priority,
        fitting_policy=found.fitting_policy,
        allow_heterogeneous_fits=found.allow_heterogeneous_fits,
    )


def snapshot_of(ctx: Context, pool: str, found: rows_of.PoolRows) -> schedule.PoolSnapshot:
    return schedule.PoolSnapshot(
        settings=settings_of(ctx, pool),
        agents=found.agents,
        pending=found.pending,
        running=found.running,
        jobs=found.jobs,
    )


def _start(
    ctx: Context,
    tx: Tx,
    effects: Effects,
    found: rows_of.PoolRows,
    starts: Iterable[schedule.Start],
    now: datetime,
) -> None:
    taken = rows_of.ports_in_use(tx)
    for start in starts:
        ports = _free_ports(taken)
        assigned = rows_of.assign(
            tx, start.allocation_id, backfilled=start.backfilled, ports=ports, now=now
        )
        if assigned is None:
            raise LostRace(start.allocation_id)
        for rank, placed in enumerate(start.placements):
            slot_ids = [found.free[placed.agent_id].pop(0) for _ in range(placed.slots)]
            container_id = ctx.new_uuid()
            rows_of.insert_container(
                tx, container_id, start.allocation_id, agent_id=placed.agent_id,
                epoch=assigned.epoch, rank=rank, slot_ids=slot_ids, now=now,
            )  # fmt: skip
            if slot_ids and not slots.hold(tx, placed.agent_id, slot_ids, container_id):
                raise LostRace(start.allocation_id)
            effects.wake(f"agent:{placed.agent_id}")
        where = ", ".join(p.agent_id for p in start.placements)
        logs.add_line(tx, assigned.task_id, f"Scheduled on {where}.", now)
        effects.wake(f"logs:{assigned.task_id}")


def _preempt(
    tx: Tx, effects: Effects, preempted: Iterable[schedule.Preempt], now: datetime
) -> None:
    for preempt in preempted:
        allocation = allocations.lock(tx, preempt.allocation_id)
        if allocation is None:
            continue
        reason = (
            f"its slots are needed elsewhere ({preempt.reason.value.lower().replace('_', ' ')})"
        )
        placement.stop(tx, effects, allocation, Signal.TERMINATE, reason, now)


def _free_ports(taken: set[int]) -> dict[str, int]:
    """The lowest free number for each, and no number twice in the cluster."""
    ports = {}
    for name, base in PORT_BASES.items():
        port = base
        while port in taken:
            port += 1
        taken.add(port)
        ports[name] = port
    return ports
