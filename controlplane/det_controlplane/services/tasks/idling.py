"""Ending tasks that nobody uses: notebooks, shells and TensorBoards without traffic and without work."""

from datetime import datetime

from det_controlplane.core.durations import shown
from det_controlplane.db import interactive
from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context
from det_controlplane.services.scheduling import stopping


def end_idle(ctx: Context) -> None:
    with ctx.db.autocommit() as tx:
        found = interactive.idle(tx, ctx.now())
    for task in found:
        stopping.kill(ctx, task.allocation_id, f"nobody used it for {shown(task.timeout_s)}")


def next_due(tx: Tx) -> datetime | None:
    return interactive.next_idle(tx)
