"""Run a scheduling pass over a pool: load a snapshot, decide (pure), apply with guards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from det_controlplane.core import schedule
from det_controlplane.core.lifecycle.allocation import Signal
from det_controlplane.core.schedule import WaitReason
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations, jobs, pool_marks, slots, wait_reasons
from det_controlplane.db.scheduling import schedule as rows_of
from det_controlplane.db.scheduling.schedule import Assigned, NewContainer
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import Change, change

# Names and lowest numbers of the ports that a multi-container trial may use.
PORT_BASES = {
    "DTRAIN_SSH_PORT": 12350,
    "INTER_TRAIN_PROCESS_COMM_PORT_1": 12360,
    "INTER_TRAIN_PROCESS_COMM_PORT_2": 12365,
    "C10D_PORT": 29400,
}
# Above it Linux takes the ports of connections that machines open.
HIGHEST_PORT = 32767


class LostRace(Exception):
    """The rows that a decision was made on have changed: roll back and decide again."""


def run(ctx: Context, pool: str) -> schedule.SchedulePlan | None:
    """Do a pass; None when another process is at it, or the snapshot changed meanwhile: the pool stays dirty."""
    try:
        with change(ctx) as changed:
            tx, now = changed.tx, changed.now
            if not rows_of.try_lock(tx, pool):
                return None
            marks = pool_marks.count(tx, pool)
            pool_rows = load(ctx, tx, pool)
            plan = schedule.decide(snapshot_of(ctx, pool, pool_rows), now.timestamp())
            _start(ctx, changed, plan.start)
            _preempt(changed, plan.preempt)
            reasons = _with_job_names(tx, plan.waiting)
            wait_reasons.record(tx, pool, pool_rows.reasons, reasons, now)
            jobs.keep_in_queue(tx, pool, pool_rows.job_ids, pool_rows.unmarked_jobs)
            pool_marks.answer(
                tx, pool, marks, now,
                decide_at=now if _rents(ctx, pool) else None,
                next_at=None if plan.next_at is None else datetime.fromtimestamp(plan.next_at, now.tzinfo),
            )  # fmt: skip
            return plan
    except LostRace:
        return None


def _with_job_names(tx: Tx, waiting: Mapping[str, WaitReason]) -> Mapping[str, WaitReason]:
    """Replace the jobs in sentences by the experiments and users that they belong to.

    Thousands of allocations share a reason, so each reason is rewritten once.
    """
    reasons = {id(reason): reason for reason in waiting.values()}
    marked = {key: r for key, r in reasons.items() if schedule.marked_jobs(r.sentence)}
    if not marked:
        return waiting
    names = jobs.names(
        tx, {job for r in marked.values() for job in schedule.marked_jobs(r.sentence)}
    )
    for key, (code, sentence) in marked.items():
        reasons[key] = WaitReason(code, schedule.with_job_names(sentence, names))
    return {allocation: reasons[id(reason)] for allocation, reason in waiting.items()}


def _rents(ctx: Context, pool: str) -> bool:
    settings = ctx.config.pool(pool)
    return settings is not None and bool(settings.offers)


def load(ctx: Context, tx: Tx, pool: str) -> rows_of.PoolRows:
    settings = ctx.config.pool(pool)
    aux_limit = 100 if settings is None else int(settings.max_aux_containers_per_agent)
    return rows_of.load(tx, pool, aux_limit, ctx.config.scheduler_of(pool).default_priority)


def settings_of(ctx: Context, pool: str) -> schedule.PoolSettings:
    settings = ctx.config.scheduler_of(pool)
    return schedule.PoolSettings(
        scheduler=settings.type,
        preemption=settings.preemption,
        fitting_policy=settings.fitting_policy,
        allow_heterogeneous_fits=settings.allow_heterogeneous_fits,
    )


def can_expect_starts(ctx: Context, pool: str) -> bool:
    return schedule.can_expect_starts(settings_of(ctx, pool), _most_slots_to_come(ctx, pool))


def snapshot_of(ctx: Context, pool: str, found: rows_of.PoolRows) -> schedule.PoolSnapshot:
    pending = found.pending
    if not _rents(ctx, pool):  # nothing decides about deadlines there
        pending = tuple([replace(one, capacity="") if one.capacity else one for one in pending])
    return schedule.PoolSnapshot(
        settings=settings_of(ctx, pool),
        agents=found.agents,
        pending=pending,
        running=found.running,
        max_slots_per_launch=_most_slots_to_come(ctx, pool),
    )


def _most_slots_to_come(ctx: Context, pool: str) -> int | None:
    """Return the slots of the largest machine that a pool may rent."""
    settings = ctx.config.pool(pool)
    return max((offer.slots for offer in settings.offers), default=None) if settings else None


def _start(ctx: Context, change: Change, starts: Sequence[schedule.Start]) -> None:
    """Start allocations by a few statements, however many start."""
    if not starts:
        return
    tx, now = change.tx, change.now
    assigned = rows_of.assign(tx, starts, choose_worker_ports(ctx, tx, starts), now)
    if len(assigned) < len(starts):
        raise LostRace(
            f"{len(starts) - len(assigned)} allocations no longer wait, or change at this moment"
        )
    containers = [
        NewContainer(
            ctx.random.uuid(), start.allocation_id, placed.agent_id, assigned[start.allocation_id].epoch, rank,
            list(slot_ids),
        )
        for start in starts
        for rank, (placed, slot_ids) in enumerate(zip(start.placements, start.slot_ids, strict=True))
    ]  # fmt: skip
    rows_of.insert_containers(tx, containers, now)
    if not slots.hold(tx, [(c.id, c.agent_id, c.slot_ids) for c in containers]):
        raise LostRace("a slot is no longer free")
    for container in containers:
        change.wake(f"agent:{container.agent_id}")
    _announce_starts(change, starts, assigned)


def _announce_starts(
    change: Change, starts: Sequence[schedule.Start], assigned: dict[str, Assigned]
) -> None:
    lines = []
    for start in starts:
        where = ", ".join(p.agent_id for p in start.placements)
        task_id = assigned[start.allocation_id].task_id
        because = f" ({start.data_reason})" if start.data_reason else ""
        lines.append(NamedLine(task_id, f" was assigned to an agent: {where}{because}"))
        change.wake(f"logs:{task_id}")
    logs.add_named_lines(change.tx, lines, change.now)


def _preempt(change: Change, preempted: Sequence[schedule.Preempt]) -> None:
    for_jobs = {preempt.for_job for preempt in preempted if preempt.for_job}
    names = jobs.names(change.tx, for_jobs) if for_jobs else {}
    for preempt in preempted:
        allocation = allocations.lock_if_free(change.tx, preempt.allocation_id)
        if allocation is None:
            raise LostRace(f"allocation {preempt.allocation_id} changes at this moment")
        stopping.stop(
            change, [allocation], Signal.TERMINATE, _why(preempt, allocation.slots, names)
        )


def _why(preempt: schedule.Preempt, slots: int, names: Mapping[str, str]) -> str:
    if preempt.reason is schedule.PreemptReason.GROWTH:
        return f"it grows from {slots} to {preempt.slots} slots"
    cause = preempt.reason.value.lower().replace("_", " ")
    place = f"by {names[preempt.for_job]}" if preempt.for_job in names else "elsewhere"
    return f"its slots are needed {place} ({cause})"


def choose_worker_ports(
    ctx: Context, tx: Tx, starts: Sequence[schedule.Start]
) -> list[dict[str, int]]:
    """Return for each start the lowest free number of each name in the cluster, because agents may share a host.

    If the cluster runs more than there are numbers, no number is used twice on an agent."""
    reserved = ctx.config.reserved_ports
    in_use = rows_of.ports_in_use(tx) | reserved
    free = {name: _free_ports(base, in_use) for name, base in PORT_BASES.items()}
    choices = [{name: next(numbers, 0) for name, numbers in free.items()} for _ in starts]
    if all(number for ports in choices for number in ports.values()):
        return choices
    agents = {placed.agent_id for start in starts for placed in start.placements}
    of_agents = rows_of.ports_on(tx, agents)
    for start, ports in zip(starts, choices, strict=True):
        own = [of_agents[placed.agent_id] for placed in start.placements]
        used = {*reserved, *ports.values()}.union(*own)
        for name, base in PORT_BASES.items():
            ports[name] = ports[name] or next(_free_ports(base, used), base)
        for on_agent in own:
            on_agent.update(ports.values())
    return choices


def _free_ports(base: int, in_use: set[int]) -> Iterator[int]:
    """Yield free numbers from the lowest on, and take them."""
    for port in range(base, HIGHEST_PORT + 1):
        if port not in in_use:
            in_use.add(port)
            yield port
