"""Read the database of a Determined cluster: its catalog, rows as JSON, and large tables as streams.

Everything is read in one snapshot of a read-only transaction, which takes no lock that writers notice. Versions of
Determined differ in their columns. Rows are therefore read whole, as JSON, and readers look for the fields."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from det_controlplane.db.engine.connections import connected
from det_controlplane.db.engine.errors import DatabaseDown, driver_errors
from det_controlplane.db.importing.connecting import SOURCE, explaining_refusals, source_engine
from det_controlplane.db.importing.piping import Sink, Stopped

_OLDEST_SERVER = 100_000  # PostgreSQL 10
# Tables of every supported version. Another product has none of them.
_REQUIRED = ("users", "experiments", "tasks", "allocations", "checkpoints_v2", "gopg_migrations")
_CATALOG = text("""
    SELECT table_name, array_agg(cast(column_name AS text)) FROM information_schema.columns
    WHERE table_schema = 'public' GROUP BY 1
""")
_INDEXED = text("""
    SELECT bool_and(EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND a.attname = :column))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relname = ANY(cast(:tables AS text[]))
""")


class NotDetermined(Exception):
    """The database is not one of a supported version of Determined. The message has the cause and the next step."""


@dataclass(frozen=True, slots=True)
class Size:
    rows: int
    bytes: int


class Source:
    """A snapshot of a Determined database."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        rows = connection.execute(_CATALOG).all()
        self.catalog: dict[str, frozenset[str]] = {name: frozenset(cols) for name, cols in rows}
        _require_determined(self.catalog)
        # Before `runs`, trials had a table of their own, with the same columns.
        self.trials = "runs" if self.has("runs") else "trials"
        # The parent of all partitions; before it, metrics were in two tables.
        self.has_all_metrics = self.has("metrics", "partition_type")
        self.metrics = "metrics"
        if not self.has_all_metrics:
            columns = (
                "id, trial_id, total_batches, metrics"  # which figures need; their order varies
            )
            self.metrics = (
                f"(SELECT {columns} FROM raw_steps UNION ALL SELECT {columns} FROM raw_validations)"
            )
        self.task_of_trial = ("run_id_task_id", "run_id")
        if not self.has("run_id_task_id"):
            self.task_of_trial = ("trial_id_task_id", "trial_id")

    def has(self, table: str, column: str = "") -> bool:
        columns = self.catalog.get(table)
        return columns is not None and (not column or column in columns)

    def column(self, alias: str, table: str, column: str, type: str = "text") -> str:
        """Return the SQL of a column, or NULL if this version does not have it."""
        return f"{alias}.{column}" if self.has(table, column) else f"cast(NULL AS {type})"

    @property
    def cluster_id(self) -> str:
        """Return the id of the cluster. Raises NotDetermined if it has none."""
        rows = self.rows("cluster_id")
        if not rows:
            raise NotDetermined("the database has no cluster id: a master has never run on it")
        return str(rows[0]["cluster_id"])

    def rows(self, table: str, where: str = "true", **params: Any) -> list[dict[str, Any]]:
        """Return whole rows; none if this version does not have the table. Binary columns are hexadecimal."""
        if not self.has(table):
            return []
        statement = text(f"SELECT to_jsonb(t) FROM {table} t WHERE {where}")
        return list(self._connection.execute(statement, params).scalars())

    def query(self, sql: str, **params: Any) -> Sequence[Any]:
        return self._connection.execute(text(sql), params).all()

    def scalar(self, sql: str, **params: Any) -> Any:
        return self._connection.execute(text(sql), params).scalar()

    def copy(self, select: str, sink: Sink) -> None:
        """Write the rows of a SELECT to a stream, in PostgreSQL's text format."""
        driver: Any = self._connection.connection.driver_connection
        try:
            with driver_errors(SOURCE):
                driver.cursor().execute(f"COPY ({select}) TO STDOUT", stream=sink)
        except (Stopped, DatabaseDown):
            # The rest of the rows is unread, or the connection is lost: a rollback would fail, and hide the cause.
            self._connection.invalidate()
            raise

    def size(self, *tables: str) -> Size:
        """Return the rows and the bytes of tables. Rows are counted in tables without statistics, else estimated."""
        present = [table for table in tables if self.has(table)]
        row = self.query(
            """SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint,
                      array_agg(cast(c.relname AS text)) FILTER (WHERE c.reltuples <= 0 AND pg_relation_size(c.oid) > 0)
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relname = ANY(cast(:tables AS text[]))""",
            tables=present,
        )[0]
        counted = sum(self.scalar(f"SELECT count(*) FROM {name}") for name in row[2] or ())
        return Size(row[0] + counted, row[1])

    def finds_metrics_by_trial(self) -> bool:
        """Return whether indexes find the metrics of a trial. Otherwise each batch reads all metrics."""
        partitions = [t for t in ("raw_steps", "raw_validations", "generic_metrics") if self.has(t)]
        found = self._connection.execute(_INDEXED, {"column": "trial_id", "tables": partitions})
        return bool(found.scalar())


@contextmanager
def opened(url: str) -> Iterator[Source]:
    """Open a snapshot. Raises NotDetermined, or an error of the engine if the database cannot be reached."""
    engine = source_engine(url)
    try:
        with ExitStack() as stack:
            with explaining_refusals():
                connection = stack.enter_context(connected(engine))
            stack.enter_context(connection.begin())
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
            if version < _OLDEST_SERVER:
                raise NotDetermined(
                    f"the source runs PostgreSQL {version // 10_000}; versions from 10 on can be read"
                )
            yield Source(connection)
    finally:
        engine.dispose()


def _require_determined(catalog: dict[str, frozenset[str]]) -> None:
    missing = [table for table in _REQUIRED if table not in catalog]
    if "alembic_version" in catalog and missing:
        raise NotDetermined(
            "the source is the database of a cluster of Determined Serverless: `det export` copies its contents, and"
            " a backup moves it whole"
        )
    if len(missing) == len(_REQUIRED):
        raise NotDetermined(
            "this is no database of Determined: it has none of its tables; check the database's name in the URL"
        )
    if missing:
        raise NotDetermined(
            f"the database has no table {', '.join(missing)}: Determined 0.28 and later have them;"
            " upgrade a copy of the cluster to 0.38.1 first, or repair an unfinished migration"
        )
    if not ("runs" in catalog or "trials" in catalog):
        raise NotDetermined(
            "the database has neither a table runs nor trials: its migration is unfinished"
        )
