"""Read the parts of an imported cluster that take more than whole rows: batches of experiments, metrics and logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core.importing.storages import KINDS, storage_config
from det_controlplane.db.importing.piping import Sink
from det_controlplane.db.importing.source import Source

Row = dict[str, Any]
_NUMBERED = (
    "users", "groups", "workspaces", "projects", "experiments", "models", "model_versions", "webhooks",
)  # fmt: skip
_ESCAPES = {0: "\ufffd", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r", 92: r"\\"}


@dataclass(slots=True)
class Batch:
    """Experiments with everything that belongs to them, except metrics and logs."""

    experiments: list[Row]
    trials: list[Row] = field(default_factory=list)
    tasks: dict[int, list[Row]] = field(default_factory=dict)  # by trial, oldest first
    allocations: dict[str, list[Row]] = field(default_factory=dict)  # by task, oldest first
    checkpoints: list[Row] = field(default_factory=list)
    trial_of_checkpoint: dict[str, int] = field(default_factory=dict)

    @property
    def trial_ids(self) -> list[int]:
        return [row["id"] for row in self.trials]

    def task_id(self, trial_id: int) -> str | None:
        """Return the task of a trial. A continued trial has several: the first one stands for all."""
        tasks = self.tasks.get(trial_id)
        return tasks[0]["task_id"] if tasks else None


def largest_ids(source: Source) -> dict[str, int]:
    """Return the largest id of each kind of row; 0 if there are none."""
    tables = {kind: kind for kind in _NUMBERED if source.has(kind)}
    tables |= {"trials": source.trials, "metrics": source.metrics}
    largest = {
        kind: source.scalar(f"SELECT max(id) FROM {table} t") for kind, table in tables.items()
    }
    return {kind: int(id or 0) for kind, id in largest.items()}


def count(source: Source, table: str) -> int:
    return int(source.scalar(f"SELECT count(*) FROM {table}"))


def has_rows(source: Source, table: str) -> bool:
    return source.has(table) and bool(source.scalar(f"SELECT EXISTS (SELECT FROM {table})"))


def unended_experiments(source: Source) -> list[Row]:
    ends = "('COMPLETED', 'CANCELED', 'ERROR')"
    where = "SELECT to_jsonb(t) - 'model_definition' FROM experiments t"
    return [row[0] for row in source.query(f"{where} WHERE state NOT IN {ends} ORDER BY id")]


def experiment_ids(source: Source, after: int) -> list[tuple[int, int]]:
    """Return experiments after an id, in the order of their ids, each with the number of its trials."""
    rows = source.query(
        f"""SELECT e.id, (SELECT count(*) FROM {source.trials} t WHERE t.experiment_id = e.id)
            FROM experiments e WHERE e.id > :after ORDER BY e.id""",
        after=after,
    )
    return [(row[0], row[1]) for row in rows]


def batch(source: Source, ids: Sequence[int]) -> Batch:
    read = Batch(_experiments(source, ids))
    read.trials = trials(source, ids)
    trial_ids = read.trial_ids
    table, column = source.task_of_trial
    links = source.rows(table, f"{column} = ANY(:ids)", ids=trial_ids)
    trial_of_task = {link["task_id"]: link[column] for link in links}
    if not links and source.has("trials", "task_id"):
        trial_of_task = {row["task_id"]: row["id"] for row in read.trials if row.get("task_id")}
    task_ids = list(trial_of_task)
    for task in source.rows(
        "tasks", "task_id = ANY(:ids) ORDER BY start_time, task_id", ids=task_ids
    ):
        read.tasks.setdefault(trial_of_task[task["task_id"]], []).append(task)
    order = "task_id = ANY(:ids) ORDER BY start_time, allocation_id"
    for row in source.rows("allocations", order, ids=task_ids):
        read.allocations.setdefault(row["task_id"], []).append(row)
    _read_checkpoints(source, read, trial_of_task)
    return read


def _experiments(source: Source, ids: Sequence[int]) -> list[Row]:
    where = "SELECT to_jsonb(t) - 'model_definition' FROM experiments t WHERE id = ANY(:ids) ORDER BY id"
    return [row[0] for row in source.query(where, ids=list(ids))]


def trials(source: Source, ids: Sequence[int]) -> list[Row]:
    rows = source.rows(source.trials, "experiment_id = ANY(:ids) ORDER BY id", ids=list(ids))
    trial_ids = [row["id"] for row in rows]
    by_run = {r["run_id"]: r for r in source.rows("trials_v2", "run_id = ANY(:ids)", ids=trial_ids)}
    metadata = {
        r["run_id"]: r.get("metadata")
        for r in source.rows("runs_metadata", "run_id = ANY(:ids)", ids=trial_ids)
    }
    return [
        {**_without_run(by_run.get(row["id"], {})), **row, "metadata": metadata.get(row["id"])}
        for row in rows
    ]


def _without_run(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "run_id"}


def _read_checkpoints(source: Source, read: Batch, trial_of_task: Mapping[str, int]) -> None:
    if source.has("run_checkpoints"):
        links = source.rows("run_checkpoints", "run_id = ANY(:ids)", ids=read.trial_ids)
        read.trial_of_checkpoint = {link["checkpoint_id"]: link["run_id"] for link in links}
    by_task = source.rows(
        "checkpoints_v2", "task_id = ANY(:ids) ORDER BY id", ids=list(trial_of_task)
    )
    found = {row["uuid"]: row for row in by_task}
    absent = [uuid for uuid in read.trial_of_checkpoint if uuid not in found]
    if absent:
        where = "uuid = ANY(cast(:ids AS uuid[])) ORDER BY id"
        found |= {row["uuid"]: row for row in source.rows("checkpoints_v2", where, ids=absent)}
    for uuid, row in found.items():
        trial_id = trial_of_task.get(row.get("task_id") or "")
        if trial_id is not None:
            read.trial_of_checkpoint.setdefault(uuid, trial_id)
    read.checkpoints = list(found.values())


def model_definition(source: Source, experiment_id: int) -> bytes:
    rows = source.query("SELECT model_definition FROM experiments WHERE id = :id", id=experiment_id)
    return bytes(rows[0][0] or b"")


def validations(source: Source, trial_ids: Sequence[int]) -> list[tuple[int, Row]]:
    """Return the validations of trials in the order of their reports."""
    rows = source.query(
        """SELECT v.trial_id, coalesce(v.metrics->'validation_metrics', v.metrics) || jsonb_build_object(
                'batches', v.total_batches) FROM raw_validations v
           WHERE v.trial_id = ANY(:ids) AND NOT v.archived AND v.metrics IS NOT NULL ORDER BY v.end_time, v.id""",
        ids=list(trial_ids),
    )
    return [(row[0], row[1]) for row in rows]


def storages(source: Source) -> dict[int, Row]:
    """Return the configurations of storages by their ids."""
    rows = {kind: {r["id"]: r for r in source.rows(f"storage_backend_{kind}")} for kind in KINDS}
    found = {}
    for backend in source.rows("storage_backend"):
        for kind in KINDS:
            if row := rows[kind].get(backend.get(f"{kind}_id")):
                found[backend["id"]] = storage_config(kind, row)
    return found


def copy_metrics(
    source: Source, trial_ids: Sequence[int], trial_offset: int, metric_offset: int, sink: Sink
) -> None:
    """Write the metrics of trials to a stream, in the columns of this cluster."""
    partitioned = source.has_all_metrics
    tables = ("metrics",) if partitioned else ("raw_steps", "raw_validations")
    ids = ",".join(str(id) for id in trial_ids)
    parts = []
    for table in tables:
        usual = {"raw_steps": "training", "raw_validations": "validation"}.get(table, "")
        group = source.column("m", table, "metric_group")
        if partitioned:
            kinds = "CASE m.partition_type WHEN 'TRAINING' THEN 'training' WHEN 'VALIDATION' THEN 'validation' ELSE '' END"
            group = f"coalesce({group}, {kinds})"
        else:
            group = f"coalesce({group}, '{usual}')"
        parts.append(f"""
            SELECT m.id + {metric_offset}, m.trial_id + {trial_offset}, m.trial_run_id, {group}, m.total_batches,
                coalesce(nullif(m.metrics->'avg_metrics', 'null'), nullif(m.metrics->'validation_metrics', 'null'), m.metrics),
                nullif(m.metrics->'batch_metrics', 'null'), m.archived, coalesce(m.end_time, to_timestamp(0))
            FROM {table} m WHERE m.trial_id IN ({ids}) AND jsonb_typeof(m.metrics) = 'object'""")
    source.copy(" UNION ALL ".join(parts), sink)


def logs_sql(source: Source, task_ids: Mapping[str, str], since: str = "") -> str:
    """Return a SELECT of log lines in the columns of this cluster. `task_ids` maps tasks to those of their trials."""
    pairs = ",".join(f"({_quoted(old)},{_quoted(new)})" for old, new in task_ids.items())
    moment = "coalesce(l.timestamp AT TIME ZONE 'UTC', to_timestamp(0))"
    later = f" AND {moment} >= {_quoted(since)}::timestamptz" if since else ""
    level = source.column("l", "task_logs", "level")
    return f"""
        SELECT x.new, l.allocation_id, l.agent_id, l.container_id, l.rank_id, {moment}, {level}, l.source, l.stdtype, l.log
        FROM task_logs l JOIN (VALUES {pairs}) AS x (old, new) ON l.task_id = x.old
        WHERE true{later} ORDER BY l.id"""


def log_line(row: bytes) -> bytes:
    """Return a row of a log in PostgreSQL's text format with its text instead of its bytes.

    Programs also write bytes that are no UTF-8, and NULs, which PostgreSQL refuses in texts."""
    columns, _, hexadecimal = row.rstrip(b"\n").rpartition(b"\t")
    text = bytes.fromhex(hexadecimal[3:].decode()).decode("utf-8", "replace").translate(_ESCAPES)
    return columns + b"\t" + text.encode() + b"\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
