"""Ends a relay that no task needs: what runs it stops its machine then, and starts it for the next such task."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from det_controlplane.db.engine import DatabaseDown
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import proxying

_LOOKS_EVERY_S = 30.0

log = logging.getLogger("det.relay")


@contextmanager
def ending_when_idle(ctx: Context, idle_s: float) -> Iterator[None]:
    """Send this process SIGTERM once no task with ports ran or waited for so long."""
    over = threading.Event()
    watching = threading.Thread(target=_watch, args=(ctx, idle_s, over), name="idle")
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _watch(ctx: Context, idle_s: float, over: threading.Event) -> None:
    since = time.monotonic()
    while not over.wait(min(_LOOKS_EVERY_S, idle_s / 2)):
        try:
            wanted = proxying.any_wanted(ctx)
        except DatabaseDown as e:
            log.warning("whether a task needs the relay is not known: %s", e)
            wanted = True
        if wanted:
            since = time.monotonic()
        elif time.monotonic() - since >= idle_s:
            log.info("no task needed the relay for %.0f s", idle_s)
            os.kill(os.getpid(), signal.SIGTERM)
            return
