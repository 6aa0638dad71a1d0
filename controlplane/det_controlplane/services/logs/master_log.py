"""The control plane's own log, kept in the database because no process of it is there to ask."""

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial

from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.db.logs import master_log
from det_controlplane.db.logs.master_log import Entry
from det_controlplane.services.context import Context
from det_controlplane.services.identity.rights import refuse_tasks
from det_controlplane.services.principal import User

BATCH = 500
KEPT = timedelta(days=30)
MAX_LINE = 20_000
_LOOK_AGAIN_S = 60.0
_MOST_WAITING = 500
_NAMES = {"WARN": "WARNING", "FATAL": "CRITICAL", "NOTSET": "TRACE"}


class StoredLog(logging.Handler):
    """Stores the control plane's log for operators: warnings and worse, unless the cluster's log level says otherwise."""

    def __init__(self, db: Database, default: int = logging.WARNING) -> None:
        super().__init__(logging.DEBUG)
        self._db = db
        self._default = default
        self._threshold = default
        self._looked_at = 0.0
        self._busy = threading.local()
        self._starting = threading.Lock()
        self._beside: _Writer | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Filter and emit without the handler's lock.

        A thread that waits for a connection would hold it, and keep threads that have one from logging."""
        passes = bool(self.filter(record))
        if passes:
            self.emit(record)
        return passes

    def emit(self, record: logging.LogRecord) -> None:
        # Storing a line must not log lines.
        if getattr(self._busy, "now", False):
            return
        if _in_event_loop():
            self._writer().put(record)
        else:
            self._db.when_free(partial(self._keep, record))

    def _writer(self) -> "_Writer":
        """Return the thread that stores lines of event loops; the first line starts it."""
        with self._starting:
            if self._beside is None:
                self._beside = _Writer(self._keep)
            return self._beside

    def _keep(self, record: logging.LogRecord) -> None:
        """Store the line if its level is high enough. Logging must not break the logged code."""
        self._busy.now = True
        try:
            if record.levelno >= self._current():
                self._store(record)
        except DatabaseDown:
            pass
        except Exception:
            self.handleError(record)
        finally:
            self._busy.now = False

    def _store(self, record: logging.LogRecord) -> None:
        level = _NAMES.get(record.levelname, record.levelname)
        at = datetime.fromtimestamp(record.created, timezone.utc)
        message = self.format(record)[:MAX_LINE].replace("\0", "")
        with self._db.begin() as tx:
            master_log.add(tx, at, level, message)

    def _current(self) -> int:
        """Return the level, looked up once a minute."""
        now = time.monotonic()
        if not self._looked_at or now - self._looked_at > _LOOK_AGAIN_S:
            self._looked_at = now
            with self._db.begin() as tx:
                level, _ = master_log.settings(tx)
            self._threshold = self._default if level is None else _number(level.value)
        return self._threshold


class _Writer:
    """Stores lines in a thread of its own: all that a loop serves would wait for the database, too."""

    def __init__(self, store: Callable[[logging.LogRecord], None]) -> None:
        self._store = store
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(_MOST_WAITING)
        threading.Thread(target=self._run, name="stored log", daemon=True).start()

    def put(self, record: logging.LogRecord) -> None:
        """Queue a line. The queue is limited to some hundred lines in case the database does not answer; stderr has
        all lines."""
        with suppress(queue.Full):
            self._lines.put_nowait(record)

    def _run(self) -> None:
        while True:
            self._store(self._lines.get())


def _in_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")  # a process without loops does not pay for its import
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def keep(db: Database) -> None:
    """Store this process's log from now on; once a process."""
    root = logging.getLogger("det")
    if any(isinstance(h, StoredLog) for h in root.handlers):
        return
    root.addHandler(StoredLog(db))


def first(ctx: Context, caller: User, offset: int, limit: int) -> int:
    """Return the id after which to read: the last `limit` lines, or from `offset` on, if negative from the end."""
    refuse_tasks(caller, "read the control plane's log")
    with ctx.db.begin() as tx:
        if offset > 0:
            return master_log.before_line(tx, offset)
        if offset < 0:
            return master_log.before_last(tx, -offset)
        return master_log.before_last(tx, limit) if limit > 0 else 0


def page(ctx: Context, after: int, limit: int) -> list[Entry]:
    with ctx.db.begin() as tx:
        return master_log.page(tx, after, limit)


def forget_old(ctx: Context) -> int:
    with ctx.db.begin() as tx:
        return master_log.forget(tx, ctx.now() - KEPT)


def _number(name: str) -> int:
    return 5 if name == "TRACE" else int(getattr(logging, name))
