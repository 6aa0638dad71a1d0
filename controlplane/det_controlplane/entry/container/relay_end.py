"""End a relay that no task needs, or a relay after its program or settings were replaced.

Its unit then stops the machine, and the next task that needs a relay starts it. After a replacement, the unit starts
the relay again with the new program.
"""

import hashlib
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from det_controlplane.services.context import Context
from det_controlplane.services.tasks import proxying

_LOOKS_FOR_TASKS_EVERY_S = 30.0

log = logging.getLogger("det.relay")

LOOKS_FOR_VERSION_EVERY_S = 120.0
# Open connections delay the end of an outdated relay for so long. The logs of their tasks mention it.
NOTICE_S = 600.0
RENEWED = 75  # exit status of an outdated relay; it differs from the status of a permanent end
_ASK_S = 60.0


@contextmanager
def watching(watch: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run `watch` in a thread, which returns soon after the event that it is given is set."""
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def end_process() -> None:
    """End this process as its host would, by SIGTERM."""
    os.kill(os.getpid(), signal.SIGTERM)


def ending_when_idle(
    ctx: Context, idle_s: float, end: Callable[[], None] = end_process
) -> AbstractContextManager[None]:
    """End this process once no task with ports ran or waited for so long."""
    return watching(lambda over: _watch_tasks(ctx, idle_s, over, end), "idle")


def _watch_tasks(
    ctx: Context, idle_s: float, over: threading.Event, end: Callable[[], None]
) -> None:
    since = time.monotonic()
    while not over.wait(min(_LOOKS_FOR_TASKS_EVERY_S, idle_s / 2)):
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


def deployed(function: str) -> str:
    """Return a version of the deployed program and its settings, or "" while they are being replaced."""
    command = ["aws", "lambda", "get-function", "--function-name", function, "--output", "json"]
    output = subprocess.run(command, check=True, capture_output=True, timeout=_ASK_S).stdout
    configuration: dict[str, Any] = json.loads(output)["Configuration"]
    if configuration.get("LastUpdateStatus", "Successful") != "Successful":
        return ""
    return version_of(configuration)


def version_of(configuration: Mapping[str, Any]) -> str:
    settings = (configuration.get("Environment") or {}).get("Variables") or {}
    content = [configuration.get("CodeSha256"), configuration.get("Runtime"), settings]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Renewal:
    """Looks for a newer deployed version now and then, and waits a while for open connections to end."""

    def __init__(
        self, ctx: Context, look: Callable[[], str], end: Callable[[], None], own: str = ""
    ) -> None:
        """Store the version of this process. Machines of earlier deployments do not report one; for them the first
        deployed version counts."""
        self._ctx, self._look, self._end = ctx, look, end
        self._own, self._deadline = own, 0.0
        self.ended = False

    def step(self) -> None:
        """Check the version once. End the process if a newer version exists and no connection is open."""
        if not self._deadline:
            version = self._look()
            self._own = self._own or version
            if not version or version == self._own:
                return
        open_to = sorted(self._ctx.host.open_traffic())
        if open_to and not self._deadline:
            self._deadline = time.monotonic() + NOTICE_S
            log.info("a newer version waits for connections to %s", ", ".join(open_to))
            proxying.add_log_line(self._ctx, open_to, _NOTICE)
        elif not open_to or time.monotonic() >= self._deadline:
            log.info("this relay ends for a newer version, with %d tasks connected", len(open_to))
            self.ended = True
            self._end()


_NOTICE = (
    f"The cluster was brought up to date: connections to this task end in {NOTICE_S / 60:.0f} minutes."
    " Open them again then; what runs in the task goes on."
)


def ending_when_replaced(
    ctx: Context, look: Callable[[], str], renewed: Callable[[], None], own: str
) -> AbstractContextManager[None]:
    """End this process once a newer version is deployed; `renewed` is called before."""

    def end() -> None:
        renewed()
        end_process()

    renewal = Renewal(ctx, look, end, own)
    return watching(lambda over: _watch_version(renewal, over), "renewal")


def _watch_version(renewal: Renewal, over: threading.Event) -> None:
    while not renewal.ended:
        try:
            renewal.step()
        except Exception as e:
            # The relay continues with its present version and checks again later.
            log.warning("whether a newer version is deployed is not known: %s", e)
        if over.wait(LOOKS_FOR_VERSION_EVERY_S):
            return
