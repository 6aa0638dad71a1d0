"""Read and seal configurations that were stored before secrets were kept apart."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Table, select, update

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import (
    config_policies,
    experiments,
    storages,
    tasks,
    templates,
    workspaces,
)

# Every column with a configuration: it may contain secrets and the paths of a storage.
CONFIGS: tuple[tuple[Table, Column[Any]], ...] = (
    (experiments, experiments.c.config),
    (tasks, tasks.c.config),
    (storages, storages.c.config),
    (workspaces, workspaces.c.checkpoint_storage),
    (templates, templates.c.config),
    (config_policies, config_policies.c.policy),
)
TABLES = tuple(table.name for table, _ in CONFIGS)


@dataclass(frozen=True, slots=True)
class Unsealed:
    table: str
    key: dict[str, Any]
    config: dict[str, Any]
    original: str | None  # the configuration that the user of an experiment submitted


def some(tx: Tx, table: str, limit: int) -> list[Unsealed]:
    """Return rows of a table under a lock, a few at a time."""
    of, config = _find_table(table)
    keys = list(of.primary_key.columns)
    original = [experiments.c.original_config] if of is experiments else []
    query = select(*keys, config.label("found"), *original)
    query = query.where(of.c.sealed.is_(None), config.is_not(None)).limit(limit)
    rows = tx.execute(query.with_for_update(skip_locked=True))
    return [
        Unsealed(
            table,
            {key.name: row._mapping[key.name] for key in keys},
            row.found,
            row.original_config if original else None,
        )
        for row in rows
    ]


def store(tx: Tx, row: Unsealed, config: dict[str, Any], sealed: str, **more: str) -> None:
    of, column = _find_table(row.table)
    same = [of.c[name] == value for name, value in row.key.items()]
    tx.execute(update(of).where(*same).values({column.name: config, "sealed": sealed, **more}))


def _find_table(table: str) -> tuple[Table, Column[Any]]:
    return next((of, config) for of, config in CONFIGS if of.name == table)
