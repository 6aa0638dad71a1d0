"""End unused tasks: notebooks, shells and TensorBoards without traffic and without work."""

from datetime import datetime

from det_controlplane.core.lifecycle.allocation import Signal
from det_controlplane.core.numerals import shown_duration
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.scheduling import allocations
from det_controlplane.db.tasks import tasks
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import change


def end_idle(ctx: Context) -> None:
    with ctx.db.autocommit() as tx:
        idle_tasks = tasks.idle(tx, ctx.now())
    for task in idle_tasks:
        with change(ctx) as changed:
            allocation = allocations.lock(changed.tx, task.allocation_id)
            # Somebody may have come back meanwhile.
            if allocation is not None and task in tasks.idle(changed.tx, changed.now):
                reason = f"nobody used it for {shown_duration(task.timeout_s)}"
                stopping.stop(changed, [allocation], Signal.KILL, reason)


def next_due(tx: Tx) -> datetime | None:
    return tasks.next_idle(tx)
