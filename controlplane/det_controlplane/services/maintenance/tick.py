"""A tick: act on all deadlines, which are stored in rows, and do the work of lost wakes."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from det_controlplane.core.json_log import log_ids
from det_controlplane.db.cluster import outbox
from det_controlplane.db.engine.errors import DatabaseDown, TryAgain
from det_controlplane.db.experiments import run_values
from det_controlplane.db.logs import logs
from det_controlplane.db.scheduling import allocations, pool_marks
from det_controlplane.services import stored_pools
from det_controlplane.services.agents import moving, silence
from det_controlplane.services.context import Context
from det_controlplane.services.machines import deciding, watched_deadlines
from det_controlplane.services.maintenance import budgets, effects, search_costs
from det_controlplane.services.money import costs
from det_controlplane.services.pools import leaving
from det_controlplane.services.scheduling import schedule_pool, stopping
from det_controlplane.services.tasks import lifecycle, resources
from det_controlplane.services.trials import unmanaged

log = logging.getLogger("det.tick")

BATCH_MEMORY = timedelta(hours=6)
TRIALS_AT_ONCE = 200


def run(ctx: Context) -> float | None:
    """Run one tick. Return the seconds until the next deadline, or None if there is no deadline."""
    ctx = stored_pools.current(ctx)
    silence.watch(ctx)  # first, because it extends deadlines after an interruption
    _kill_overdue_allocations(ctx)
    unmanaged.end_silent_trials(ctx)
    lifecycle.end_idle_tasks(ctx)
    budgets.enforce_if_due(ctx)
    search_costs.enforce_if_due(ctx)
    moving.finish(ctx)
    leaving.finish(ctx)
    effects.run_due(ctx)
    deciding.run_if_due(ctx, schedule_dirty_pools(ctx))
    look_at = watched_deadlines.look_if_due(ctx)
    is_unfinished = [
        _run_step(lambda: costs.sum_ended_days(ctx), "sum ended days"),
        _run_step(lambda: lifecycle.delete_expired_tasks(ctx), "delete tasks that ended long ago"),
        _run_step(lambda: resources.thin(ctx), "merge old samples of resources"),
        _run_step(lambda: run_values.keep_some(ctx.db, TRIALS_AT_ONCE), "copy values of trials"),
    ]
    return 0.0 if any(is_unfinished) else _next_due_s(ctx, look_at)


def schedule_dirty_pools(ctx: Context) -> list[str]:
    """Schedule every pool that changed; returns their names."""
    with ctx.db.begin() as tx:
        # In the order of names, so that two transactions that mark several pools never wait for each other.
        now = ctx.now()
        for pool in sorted(
            allocations.release_delayed(tx, now) | set(pool_marks.due_pools(tx, now))
        ):
            pool_marks.mark(tx, pool)
        dirty = pool_marks.dirty_pools(tx)
    for pool in dirty:
        with log_ids(pool=pool):
            schedule_pool.run(ctx, pool)
    return dirty


def _kill_overdue_allocations(ctx: Context) -> None:
    """Kill preemptions that took too long, and trials that should have ended by themselves."""
    with ctx.db.begin() as tx:
        due = allocations.kills_due(tx, ctx.now())
    for allocation_id in due:
        with log_ids(allocation_id=allocation_id):
            stopping.kill(ctx, allocation_id, "it took too long")


def _run_step(step: Callable[[], bool], task: str) -> bool:
    """Do a part of a task that no other part of a tick needs; return whether more of it is left.

    A failure is logged, and a later tick tries again."""
    try:
        return step()
    except (DatabaseDown, TryAgain):
        raise
    except Exception:
        log.exception("a tick could not %s", task)
        return False


def _next_due_s(ctx: Context, look_at: datetime | None) -> float | None:
    now = ctx.now()
    with ctx.db.begin() as tx:
        logs.forget_batches(tx, now - BATCH_MEMORY)
        if pool_marks.dirty_pools(tx):
            return 0.0
        due = [
            silence.next_due(tx, now),
            outbox.next_due(tx),
            allocations.next_due(tx),
            unmanaged.next_due(tx),
            lifecycle.next_idle_end(tx),
            deciding.next_due(ctx, tx),
            look_at,
            budgets.next_due(ctx, tx),
            search_costs.next_due(ctx, tx),
        ]
    times = [d for d in due if d is not None]
    return None if not times else max(0.0, (min(times) - now).total_seconds())
