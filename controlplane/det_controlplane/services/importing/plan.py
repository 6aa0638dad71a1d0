"""Look at a cluster before its import: counts, sizes and rows that do not move (`--dry-run`)."""

from dataclasses import dataclass

from det_controlplane.core.importing import experiments as convert
from det_controlplane.core.importing.options import Options
from det_controlplane.db.importing import dictionary, reading, target
from det_controlplane.db.importing.source import Source
from det_controlplane.db.importing.target import Target
from det_controlplane.services.errors import Invalid
from det_controlplane.services.importing import searches
from det_controlplane.services.importing.cluster import fit_ids

# Rows a second on two cores, rather few than many: bench/importing.py measures them.
_METRICS_A_SECOND, _LOGS_A_SECOND, _TRIALS_A_SECOND = 35_000, 40_000, 700
_COUNTED = (
    ("users", "users"), ("groups", "groups"), ("workspaces", "workspaces"), ("projects", "projects"),
    ("experiments", "experiments"), ("checkpoints", "checkpoints_v2"), ("models", "models"),
    ("model versions", "model_versions"), ("templates", "templates"),
)  # fmt: skip
_ABSENT = (
    (
        "user_sessions",
        "sessions and access tokens do not move: people sign in again, and make new tokens",
    ),
    ("user_web_settings", "settings of the old WebUI do not move"),
    ("resource_aggregates", "sums of usage do not move: they are computed again from the runs"),
    ("trial_profiler_metrics", "profiler series of versions before 0.30 do not move"),
    ("trial_logs", "logs of trials that ran on versions before 0.17 do not move"),
    (
        "rp_workspace_bindings",
        "bindings of resource pools to workspaces do not move: bind them again",
    ),
    ("workspace_namespace_bindings", "namespaces of Kubernetes do not move"),
    ("trials_collections", "collections of trials do not move"),
    ("cluster_messages", "the message on all pages does not move"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    counts: dict[str, int]
    metrics: int  # estimated by PostgreSQL
    logs: int
    bytes: int
    paused: tuple[int, ...]  # experiments that are imported paused
    canceled: tuple[str, ...]  # lines about experiments that are imported as canceled
    absent: tuple[str, ...]
    unknown: tuple[str, ...]  # tables and columns that this version does not know
    seconds: float  # estimated


def absent(source: Source) -> tuple[str, ...]:
    """Return sentences about contents of the source that never move."""
    return tuple(text for table, text in _ABSENT if reading.has_rows(source, table))


def conflicts(source: Source, cluster: Target, options: Options) -> str:
    """Return a sentence about the rows that the new cluster has already; '' if the old ids fit."""
    with cluster.read() as tx:
        if target.find(tx, source.cluster_id) is not None:
            return (
                "the import of this cluster has begun already, or is complete (`det import list`)"
            )
        try:
            offset = fit_ids(source, tx, options).offsets["experiments"]
        except Invalid as e:
            return f"the import would stop: {e}"
    return f"the new cluster is in use: {offset:,} is added to all ids" if offset else ""


def look(source: Source, logs: str) -> Plan:
    counts = {name: reading.count(source, table) for name, table in _COUNTED if source.has(table)}
    counts["trials"] = reading.count(source, source.trials)
    metrics = source.size("raw_steps", "raw_validations", "generic_metrics", "system_metrics")
    lines = source.size("task_logs")
    unended = reading.unended_experiments(source)
    paused, canceled = searches.foresee(
        source, [row for row in unended if convert.experiment_state(row).live]
    )
    log_rows = 0 if logs == "none" else lines.rows
    return Plan(
        counts, metrics.rows, log_rows, metrics.bytes + (lines.bytes if log_rows else 0), tuple(paused),
        tuple(canceled.lines()),
        absent(source),
        dictionary.unknown(source.catalog),
        counts["trials"] / _TRIALS_A_SECOND + metrics.rows / _METRICS_A_SECOND + log_rows / _LOGS_A_SECOND,
    )  # fmt: skip
