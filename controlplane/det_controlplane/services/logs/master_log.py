"""The control plane's own log, kept in the database because no process of it is there to ask."""

import logging
import threading
import time
from datetime import datetime, timedelta, timezone

from det_controlplane.db import master_log
from det_controlplane.db.engine import Database, DatabaseDown
from det_controlplane.db.master_log import Entry
from det_controlplane.services.context import Context
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import refuse_tasks

BATCH = 500
KEPT = timedelta(days=30)
MAX_LINE = 20_000
_LOOK_AGAIN_S = 60.0
_NAMES = {"WARN": "WARNING", "FATAL": "CRITICAL", "NOTSET": "TRACE"}


class StoredLog(logging.Handler):
    """Keeps what is worth an operator's look: warnings and worse, unless the cluster's log level says otherwise."""

    def __init__(self, db: Database, default: int = logging.WARNING) -> None:
        super().__init__(logging.DEBUG)
        self._db = db
        self._default = default
        self._threshold = default
        self._looked_at = 0.0
        self._busy = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        # Storing a line must not log lines, nor may the log break what it reports on.
        if getattr(self._busy, "now", False):
            return
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
