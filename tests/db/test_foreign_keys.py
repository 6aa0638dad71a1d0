"""Columns that name a row of another table are foreign keys, or listed here with the reason; deletions find indexes."""

from det_controlplane.db import schema
from sqlalchemy import Column, ForeignKey, Index, UniqueConstraint

TABLES = schema.metadata.tables
# Names that do not refer to a table: counters, and names in other systems.
OWN = {
    "allocations.run_id", "cluster.cluster_id", "containers.runtime_id", "experiments.external_id",
    "gathers.request_uuid", "instances.cloud_id", "log_batches.batch_id", "metrics.run_id", "slots.device_uuid",
    "slots.slot_id", "task_logs.rank_id", "trials.external_id", "trials.request_id", "trials.run_id",
    "webhook_deliveries.event_id",
}  # fmt: skip
NO_KEYS = {
    "kept when what it names is deleted": {
        "audit_log.session_id", "audit_log.task_id", "audit_log.user_id", "containers.agent_id",
        "deleted_allocations.experiment_id", "deleted_containers.agent_id", "deleted_containers.allocation_id",
        "deleted_containers.experiment_id", "deleted_containers.trial_id", "deleted_containers.workspace_id",
        "tasks.parent_id", "trials.warm_start_uuid", "usage_of_days.user_id", "webhook_deliveries.experiment_id",
        "work_costs_of_days.user_id", "work_costs_of_days.workspace_id",
    },
    "a scheduling pass deletes the reason before it locks the allocation": {"allocations.wait_reason_id"},
    "written by the thousand, and deleted on its own": {
        "task_log_spans.task_id", "task_logs.agent_id", "task_logs.allocation_id", "task_logs.container_id",
        "task_logs.task_id",
    },
    "as the task reported it": {"checkpoints.allocation_id", "trial_sources.model_id"},
    "goes with its trial, and outlives the agent": {"stragglers.agent_id", "stragglers.allocation_id"},
    "names one of the rows that go with this one, and point at it": {
        "experiments.best_trial_id", "trials.best_validation_id", "trials.latest_validation_id", "trials.task_id",
    },
    "a trigger or tick copies it from a row that has a foreign key": {
        "run_values.experiment_id", "run_values.name_id", "trial_counts.project_id",
    },
    "written before what it names": {"instances.agent_id"},
    "checking it would lock the allocation": {"sessions.allocation_id"},
    "0, or a name, where it is no row of one table": {
        "budgets.scope_id", "config_policies.workspace_id", "storages.user_id",
    },
}  # fmt: skip
NEVER_DELETED = {"agents", "instances", "storages", "users"}
# A deletion reads these tables once as a whole: they are small, or are deleted with rows that are deleted once a month.
READ_WHOLE = {
    "models.workspace_id", "pool_bindings.workspace_id", "project_views.project_id",
    "templates.workspace_id",
}  # fmt: skip


def columns() -> list[Column[object]]:
    return [column for table in TABLES.values() for column in table.columns]


def keys() -> list[ForeignKey]:
    return [key for column in columns() for key in column.foreign_keys]


def test_id_columns_are_foreign_keys_or_listed_with_a_reason() -> None:
    naming = {c for c in columns() if c.name.endswith(("_id", "_uuid"))}
    without = {str(c) for c in naming if not c.foreign_keys}
    constraints = set.union(OWN, *NO_KEYS.values())
    assert without - constraints == set(), "add a foreign key, or the reason why there is none"
    assert constraints - without == set(), "these are foreign keys now, or gone"


def finds_all(index: Index, column: Column[object]) -> bool:
    """Return True if an index finds the rows for any value of a column."""
    first, *_ = index.expressions
    only = index.dialect_kwargs.get("postgresql_where")
    return first is column and (only is None or str(only) == f"{column.name} IS NOT NULL")


def is_indexed(column: Column[object]) -> bool:
    unique = [column.table.primary_key] + [
        c for c in column.table.constraints if isinstance(c, UniqueConstraint)
    ]
    return (
        column.unique is True
        or any(next(iter(c.columns), None) is column for c in unique)
        or any(finds_all(index, column) for index in column.table.indexes)
    )


def test_foreign_keys_to_deletable_tables_have_indexes() -> None:
    scanned = {
        str(key.parent)
        for key in keys()
        if key.column.table.name not in NEVER_DELETED and not is_indexed(key.parent)
    }
    assert scanned - READ_WHOLE == set(), "add an index that begins with the column"
    assert READ_WHOLE - scanned == set(), "these have indexes now, or are gone"
