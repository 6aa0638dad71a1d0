"""Wake the tick for stored work if the process died before it woke the tick and no schedule does."""

import logging
import time

from det_controlplane.db.cluster import cluster
from det_controlplane.db.engine.errors import DatabaseDown, QueryFailed, TryAgain
from det_controlplane.services.context import Context

LOOKS_EVERY_S = 30.0

log = logging.getLogger("det.tick")


class Reminder:
    """Looks at the first request of a process, and then now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def look(self, ctx: Context) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOKS_EVERY_S
        try:
            with ctx.db.autocommit() as tx:
                is_waiting = cluster.has_work_without_schedule(tx)
        except (DatabaseDown, TryAgain, QueryFailed) as e:  # the request has its answer already
            log.warning("whether something waits is not known: %s", e)
            return
        if is_waiting:
            log.info("something waits, and nothing was started for it: starting it now")
            ctx.waker.wake("schedule")
