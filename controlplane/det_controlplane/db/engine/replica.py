"""A read-only copy of the database for lists and reports.

Users see their own changes: `users.writes` counts them, and the copy is read if it has the same number. This needs no
position in PostgreSQL's log, which some services do not show.
"""

import logging
import time
from collections import OrderedDict

from sqlalchemy import text

from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import DatabaseDown, QueryFailed, TryAgain

log = logging.getLogger("det.replica")

# A copy that is further behind is not read. Without changes for so long, the database itself is read, too: then the
# copy cannot show that it is up to date.
MOST_BEHIND_S = 30.0
_CHECKED_EVERY_S = 1.0
_DOWN_S = 10.0  # until a copy that did not answer is tried again
_REMEMBERED_USERS = 10_000

_STATE = text("""
    SELECT (SELECT writes FROM users WHERE id = :user_id) AS writes,
        date_part('epoch', clock_timestamp() - pg_last_xact_replay_timestamp()) AS behind_s
""")

_COUNT = text("UPDATE users SET writes = writes + 1 WHERE id = :user_id")


class Replica:
    """Decides which requests may be answered from the copy. Each process has one object; threads share it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._writes: OrderedDict[int, int] = OrderedDict()  # shown by the copy, by user
        self._checked_at = float("-inf")
        self._is_behind = False
        self._down_until = float("-inf")

    def shows(self, user_id: int, writes: int) -> bool:
        """Return True if the copy answers, is not far behind, and has the changes of the user."""
        now = time.monotonic()
        if now < self._down_until:
            return False
        if now - self._checked_at >= _CHECKED_EVERY_S or self._writes.get(user_id, -1) < writes:
            self._down_until = now + _DOWN_S  # other requests do not wait for a copy that is down
            try:
                self._check(user_id, now)
            except (DatabaseDown, QueryFailed, TryAgain) as e:
                self.failed(e)
                return False
            self._down_until = float("-inf")
        return not self._is_behind and self._writes.get(user_id, -1) >= writes

    def count_write(self, primary: Database, user_id: int) -> None:
        """Count a change that a request of the user has committed."""
        with primary.autocommit() as tx:
            tx.execute(_COUNT, {"user_id": user_id})

    def failed(self, error: Exception) -> None:
        """Note that a request failed; it is answered from the database itself."""
        if isinstance(error, DatabaseDown):
            self._down_until = time.monotonic() + _DOWN_S
        log.warning("DET_DB_READ_URL: the database itself answers instead: %s", error)

    def _check(self, user_id: int, now: float) -> None:
        row = self.database.read(_STATE, {"user_id": user_id})[0]
        self._is_behind = row.behind_s is not None and row.behind_s > MOST_BEHIND_S
        self._checked_at = now
        if row.writes is not None:
            self._writes[user_id] = row.writes
            self._writes.move_to_end(user_id)
        while len(self._writes) > _REMEMBERED_USERS:
            self._writes.popitem(last=False)
