"""End a relay that no task needs. Its unit then stops the machine, and the next task that needs a relay starts it."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from det_controlplane.entry.container.watching import end_process, watching
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import proxying

_LOOKS_EVERY_S = 30.0

log = logging.getLogger("det.relay")


def ending_when_idle(
    ctx: Context, idle_s: float, end: Callable[[], None] = end_process
) -> AbstractContextManager[None]:
    """End this process once no task with ports ran or waited for so long."""
    return watching(lambda over: _watch(ctx, idle_s, over, end), "idle")


def _watch(ctx: Context, idle_s: float, over: threading.Event, end: Callable[[], None]) -> None:
    since = time.monotonic()
    while not over.wait(min(_LOOKS_EVERY_S, idle_s / 2)):
        try:
            is_needed = proxying.is_relay_needed(ctx)
        except Exception:
            # Without this thread the machine would never stop.
            log.exception("whether a task needs the relay is not known")
            is_needed = True
        if is_needed:
            since = time.monotonic()
        elif time.monotonic() - since >= idle_s:
            log.info("no task needed the relay for %.0f s", idle_s)
            end()
            return
