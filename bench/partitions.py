"""Compare layouts of the tables for metrics and logs: `python -m bench.partitions [metrics|logs]`.

It fills tables in an empty PostgreSQL with a million rows in the order in which trials report them. For each layout it
prints the size, and the cost of batches and reads. ADR 46 quotes the figures. Milliseconds are CPU time of PostgreSQL.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pg8000.native
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.db.engine.connections import driver_url, pg8000_arguments

from bench.cpu import cpu_ms

ROUNDS, REPEATS = 5, 200
PARTITIONS = 12
# A trial has 22 reports, and 200 trials run at the same time. The logs of eight tasks are written at the same time.
TRIALS, POINTS, TOGETHER = 48_000, 11, 200
TASKS, LINES, LINES_OF_BATCH = 1_200, 1_000, 200

METRICS = """CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY, trial_id integer NOT NULL,
    run_id integer NOT NULL, metric_group {type} NOT NULL, total_batches integer, metrics jsonb NOT NULL,
    batch_metrics jsonb, archived boolean NOT NULL DEFAULT false, reported_at timestamptz NOT NULL,
    PRIMARY KEY ({key})) {partitioned}"""
METRIC_INDEXES = (
    """CREATE UNIQUE INDEX ON {name} (trial_id, metric_group, total_batches)
    WHERE NOT archived AND total_batches IS NOT NULL""",
    "CREATE INDEX ON {name} (trial_id)",
)
# Layout: type of the group, primary key, whether there are partitions.
METRIC_LAYOUTS = {
    "text": ("text", "id", False),
    "smallint": ("smallint", "id", False),
    "integer": ("integer", "id", False),
    "smallint, partitions": ("smallint", "trial_id, id", True),
}
FILL_METRICS = f"""INSERT INTO {{name}} (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT t, 1, g, p * 100, jsonb_build_object('loss', 1.0 / p + (t % 97) / 1000.0, 'accuracy', 1 - 0.9 / p),
        timestamptz '2026-01-01' + p * interval '1 minute'
    FROM generate_series(1, {TRIALS}) t, generate_series(1, {POINTS}) p, (VALUES ({{training}}), ({{validation}})) g (g)
    ORDER BY t / {TOGETHER}, p, g, t"""
ADD_METRICS = """INSERT INTO {name} (trial_id, run_id, metric_group, total_batches, metrics, reported_at)
    SELECT trial_id, 1, metric_group, steps, metrics, now() FROM jsonb_to_recordset(cast(:rows AS jsonb))
        AS x (trial_id integer, metric_group {type}, steps integer, metrics jsonb) LIMIT 32
    ON CONFLICT (trial_id, metric_group, total_batches) WHERE NOT archived AND total_batches IS NOT NULL DO NOTHING"""
CURVE = """SELECT json_agg(json_build_object('batches', total_batches, 'values', metrics) ORDER BY total_batches)
    FROM {name}
    WHERE trial_id = :trial AND metric_group = {validation} AND NOT archived AND total_batches IS NOT NULL"""

LOGS = """CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY, task_id text NOT NULL, allocation_id text,
    agent_id text, container_id text, rank_id integer, logged_at timestamptz NOT NULL, level text, source text,
    stdtype text, log text NOT NULL, PRIMARY KEY ({key})) {partitioned}"""
# Layout: primary key, column of the partitions.
LOG_LAYOUTS = {
    "plain": ("id", ""),
    "by time": ("logged_at, id", "logged_at"),
    "by id": ("id", "id"),
}
COLUMNS = "task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source, stdtype, log"
YEAR = "timestamptz '2026-01-01' + interval '1 year' * {part}"
FILL_LOGS = f"""INSERT INTO {{name}} ({COLUMNS})
    SELECT 'task-' || t, 'task-' || t || '.1', 'agent-1', 'container-' || t, 0,
        {YEAR.format(part=f"(t + n / {LINES}.0) / {TASKS}")}, 'INFO', 'task', 'stdout',
        'epoch ' || n || repeat(' .', 40)
    FROM generate_series(0, {TASKS} - 1) t, generate_series(1, {LINES}) n ORDER BY t / 8, n, t"""
ADD_LOGS = f"""INSERT INTO {{name}} ({COLUMNS}) SELECT {COLUMNS} FROM json_to_recordset(cast(:rows AS json))
    AS x (task_id text, allocation_id text, agent_id text, container_id text, rank_id integer,
        logged_at timestamptz, level text, source text, stdtype text, log text)"""
NEWEST = "SELECT id FROM {name} WHERE task_id = :task ORDER BY id DESC LIMIT 1"
PAGE = """SELECT json_agg(x) FROM (
    SELECT * FROM {name} WHERE task_id = :task AND id BETWEEN :first AND :last ORDER BY id LIMIT 100) x"""
REMOVE = """WITH removed AS (DELETE FROM {name} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {name} WHERE task_id = ANY(:tasks) LIMIT 50000)) RETURNING 1)
    SELECT count(*) FROM removed"""


class Server:
    """A connection, and the process that serves it."""

    def __init__(self, connection: pg8000.native.Connection) -> None:
        self._connection = connection
        self._pid = connection.run("SELECT pg_backend_pid()")[0][0]

    def run(self, sql: str, **params: Any) -> Any:
        return self._connection.run(sql, **params)

    def cost_ms(self, sql: str, calls: list[dict[str, Any]]) -> float:
        """Return the CPU time of one of these calls."""
        before = cpu_ms([self._pid])
        for params in calls:
            self.run(sql, **params)
        return (cpu_ms([self._pid]) - before) / len(calls)

    def sizes(self, name: str) -> tuple[float, float]:
        """Return megabytes of a table with its partitions, and of their indexes."""
        tables = f"SELECT cast('{name}' AS regclass) AS id UNION SELECT relid FROM pg_partition_tree('{name}')"
        sums = f"SELECT sum(pg_table_size(id)), sum(pg_indexes_size(id)) FROM ({tables}) x"
        return tuple(float(size) / 1e6 for size in self.run(sums)[0])  # type: ignore[return-value]

    def partition(self, name: str, bounds: list[str]) -> None:
        for number, (first, last) in enumerate(pairwise(bounds)):
            values = f"FROM ({first}) TO ({last})"
            self.run(f"CREATE TABLE {name}_{number} PARTITION OF {name} FOR VALUES {values}")
        self.run(f"CREATE TABLE {name}_rest PARTITION OF {name} DEFAULT")


@contextmanager
def running() -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder), throwaway=True) as postgres,
    ):
        arguments = {**pg8000_arguments(driver_url(postgres.url())), "timeout": 600}
        connection = pg8000.native.Connection(**arguments)
        try:
            yield Server(connection)
        finally:
            connection.close()


def show(name: str, costs: dict[str, float], unit: str) -> None:
    base = next(iter(costs.values()))
    parts = [f"{layout} {cost:.3f} ({cost / base:.2f})" for layout, cost in costs.items()]
    print(f"{name}, {unit}: {'; '.join(parts)}", flush=True)


def show_in_turn(name: str, layouts: dict[str, Any], measure: Callable[[str, int], float]) -> None:
    """Print the median cost of a repeated action for each layout."""
    costs: dict[str, list[float]] = {layout: [] for layout in layouts}
    for number in range(ROUNDS):
        for layout in layouts:
            costs[layout].append(measure(layout, number))
    show(name, {layout: statistics.median(times) for layout, times in costs.items()}, "ms")


def fill(server: Server, subject: str, fills: dict[str, tuple[str, str]], rows: int) -> None:
    """Fill the table of each layout, and print its cost and size."""
    costs, tables, indexes = {}, {}, {}
    for layout, (name, sql) in fills.items():
        costs[layout] = server.cost_ms(sql, [{}])
        server.run(f"VACUUM ANALYZE {name}")
        table, index = server.sizes(name)
        tables[layout], indexes[layout] = table * 1e6 / rows, index * 1e6 / rows
    show(f"{subject}: table", tables, "MB for a million rows")
    show(f"{subject}: indexes", indexes, "MB for a million rows")
    show(f"{subject}: all rows in one statement", costs, "ms")


def _groups(type: str) -> dict[str, str]:
    if type == "text":
        return {"training": "'training'::text", "validation": "'validation'::text"}
    return {"training": f"1::{type}", "validation": f"2::{type}"}


def measure_metrics(server: Server) -> None:
    fills = {}
    for number, (layout, (type, key, partitioned)) in enumerate(METRIC_LAYOUTS.items()):
        name = f"metrics_{number}"
        clause = "PARTITION BY RANGE (trial_id)" if partitioned else ""
        server.run(METRICS.format(name=name, type=type, key=key, partitioned=clause))
        if partitioned:
            step = TRIALS // PARTITIONS
            server.partition(name, [str(step * part) for part in range(PARTITIONS + 2)])
        for index in METRIC_INDEXES:
            server.run(index.format(name=name))
        fills[layout] = (name, FILL_METRICS.format(name=name, **_groups(type)))
    fill(server, "metrics", fills, TRIALS * POINTS * 2)

    def add(layout: str, number: int) -> float:
        type = METRIC_LAYOUTS[layout][0]
        group = "training" if type == "text" else 1
        report = {"metric_group": group, "metrics": {"loss": 0.5, "accuracy": 0.5}}
        trials = range(TRIALS - 100, TRIALS - 68)
        steps = range(10_000 + number * REPEATS, 10_000 + (number + 1) * REPEATS)
        batches = [[{**report, "trial_id": t, "steps": s} for t in trials] for s in steps]
        sql = ADD_METRICS.format(name=fills[layout][0], type=type)
        return server.cost_ms(sql, [{"rows": json.dumps(batch)} for batch in batches])

    def read(layout: str, number: int) -> float:
        sql = CURVE.format(name=fills[layout][0], **_groups(METRIC_LAYOUTS[layout][0]))
        first = number * REPEATS
        trials = [1 + n * 7919 % (TRIALS - 200) for n in range(first, first + REPEATS)]
        return server.cost_ms(sql, [{"trial": trial} for trial in trials])

    show_in_turn("metrics: batch of 32 reports", METRIC_LAYOUTS, add)
    show_in_turn("metrics: curve of a trial", METRIC_LAYOUTS, read)


def measure_logs(server: Server) -> None:
    fills = {}
    for number, (layout, (key, column)) in enumerate(LOG_LAYOUTS.items()):
        name = f"logs_{number}"
        clause = f"PARTITION BY RANGE ({column})" if column else ""
        server.run(LOGS.format(name=name, key=key, partitioned=clause))
        parts = range(PARTITIONS + 3)
        if column == "id":
            server.partition(name, [str(part * TASKS * LINES // PARTITIONS) for part in parts])
        elif column:
            server.partition(name, [YEAR.format(part=f"{part} / {PARTITIONS}") for part in parts])
        server.run(f"CREATE INDEX ON {name} (task_id, id)")
        fills[layout] = (name, FILL_LOGS.format(name=name))
    fill(server, "logs", fills, TASKS * LINES)
    line = {
        "task_id": f"task-{TASKS - 1}", "allocation_id": f"task-{TASKS - 1}.1", "agent_id": "agent-1", "rank_id": 0,
        "container_id": "container-1", "logged_at": "2026-12-31T00:00:00Z", "level": "INFO", "source": "task",
        "stdtype": "stdout", "log": "epoch 7" + " ." * 40,
    }  # fmt: skip
    batch = json.dumps([line] * LINES_OF_BATCH)

    def tasks(number: int) -> list[int]:
        return [(number * REPEATS + n) * 79 % TASKS for n in range(REPEATS)]

    def add(layout: str, number: int) -> float:
        return server.cost_ms(ADD_LOGS.format(name=fills[layout][0]), [{"rows": batch}] * 50)

    def newest(layout: str, number: int) -> float:
        calls = [{"task": f"task-{task}"} for task in tasks(number)]
        return server.cost_ms(NEWEST.format(name=fills[layout][0]), calls)

    def page(layout: str, number: int) -> float:
        first = {task: task // 8 * 8 * LINES for task in tasks(number)}
        calls = [{"task": f"task-{t}", "first": i, "last": i + 4_999} for t, i in first.items()]
        return server.cost_ms(PAGE.format(name=fills[layout][0]), calls)

    show_in_turn(f"logs: batch of {LINES_OF_BATCH} lines", LOG_LAYOUTS, add)
    show_in_turn("logs: newest line of a task", LOG_LAYOUTS, newest)
    show_in_turn("logs: page of 100 lines", LOG_LAYOUTS, page)
    measure_retention(server, {layout: name for layout, (name, _) in fills.items()})


def measure_retention(server: Server, names: dict[str, str]) -> None:
    """Print the cost of the removal of a month."""
    old = {"tasks": [f"task-{task}" for task in range(TASKS // PARTITIONS)]}
    parts = TASKS // PARTITIONS * LINES // 50_000
    plain = server.cost_ms(REMOVE.format(name=names["plain"]), [old] * parts) * parts
    costs = {"plain": plain + server.cost_ms(f"VACUUM {names['plain']}", [{}])}
    for layout in ("by time", "by id"):
        costs[layout] = server.cost_ms(f"DROP TABLE {names[layout]}_0", [{}])
    show(f"logs: removal of {TASKS // PARTITIONS * LINES} lines", costs, "ms")


def main() -> None:
    subjects = {"metrics": measure_metrics, "logs": measure_logs}
    with running() as server:
        for name in sys.argv[1:] or subjects:
            subjects[name](server)


if __name__ == "__main__":
    main()
