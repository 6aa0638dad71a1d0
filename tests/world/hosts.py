"""The control plane under simulation: two processes and an observer over one database, emptied between worlds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from det_controlplane.db.engine.database import Database, Tx
from det_controlplane.services.identity.authentication import token_hash
from sqlalchemy import TextClause, text

from tests.world.processes import Process
from tests.world.timeline import Timeline

USER_TOKEN = "somebody"

# Users, workspaces, projects and the cluster's identity come with the schema and stay.
_KEPT = ("cluster", "users", "workspaces", "projects", "alembic_version")
_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename")
_WITHOUT_TRIGGERS = text("SET LOCAL session_replication_role = replica")  # the audit log only grows
_FORGET_TIMES = text(
    "UPDATE cluster SET ticked_at = NULL, answering_since = NULL, watched_since = NULL, cleaned_at = NULL,"
    " probed_at = NULL, reached_at = NULL"
)
_SIGN_IN = text("""
    INSERT INTO sessions (token_hash, kind, user_id, created_at) VALUES (:hash, 'user', 1, :now)
""")


class Hosts:
    """Made once for many worlds: connections and prepared statements are kept."""

    def __init__(self, url: str) -> None:
        timeline = Timeline()
        rng = Random(0)
        self.observer = Database(url, pool_size=1)
        self.processes = [Process(n, url, timeline, rng, _nobody) for n in ("A", "B")]
        with self.observer.begin() as tx:
            names = [r[0] for r in tx.execute(_TABLES).all()]
        self._emptied = [n for n in names if n not in _KEPT]
        self._truncate = text(f"TRUNCATE {', '.join(self._emptied)} RESTART IDENTITY")

    def reset(self, timeline: Timeline, rng: Random, wake: Callable[[str], None]) -> None:
        with self.observer.begin() as tx:
            tx.execute(_WITHOUT_TRIGGERS)
            tx.execute(self._truncate)
            tx.execute(_FORGET_TIMES)
            tx.execute(_SIGN_IN, {"hash": token_hash(USER_TOKEN), "now": timeline.now()})
        for process in self.processes:
            process.reset(timeline, rng, wake)

    def contents(self) -> dict[str, list[str]]:
        """Return every row of every table, but for what PostgreSQL itself draws."""
        with self.observer.begin() as tx:
            return {
                name: [r[0] for r in tx.execute(_rows_of(name)).all()] for name in self._emptied
            }

    @contextmanager
    def observed(self) -> Iterator[Tx]:
        with self.observer.begin() as tx:
            yield tx

    def wrote(self) -> bool:
        """Return whether anything has changed since this was asked last."""
        has_written = any(p.points.wrote for p in self.processes)
        for process in self.processes:
            process.points.wrote = False
        return has_written

    def close(self) -> None:
        self.observer.dispose()
        for process in self.processes:
            process.db.dispose()


def _rows_of(table: str) -> TextClause:
    """Return the rows as text, without random columns of PostgreSQL, hashes of tokens and ids of transactions."""
    return text(
        f"SELECT (to_jsonb(t) - '{{peer_key,token_hash,fence}}'::text[])::text FROM {table} t ORDER BY 1"
    )


def _nobody(topic: str) -> None:
    return None
