"""Recognise connections that were among the last ones of the database, and close them after one answer.

Functions keep their connection while they are frozen, so that the next request needs no new one. If many functions
share a small database, frozen ones would block others until the server closes idle connections.
"""

from typing import Any

from sqlalchemy import Engine, event

CROWDED = 0.7  # of all connections that the server takes
_SHARE = """
    SELECT count(*) > $share * cast(current_setting('max_connections') AS integer)
    FROM pg_stat_activity WHERE backend_type = 'client backend'
""".replace("$share", str(CROWDED))


class ScarceConnections:
    """Looks around at each new connection of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_lent = False
        event.listen(engine, "connect", self._look)

    def _look(self, connection: Any, _: Any) -> None:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(_SHARE)
        self._is_lent = bool(cursor.fetchone()[0])
        cursor.close()
        connection.autocommit = False

    def give_back(self) -> None:
        """Close the connection."""
        if self._is_lent:
            self._engine.dispose()
            self._is_lent = False
