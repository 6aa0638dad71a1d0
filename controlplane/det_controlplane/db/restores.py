"""A restored database: checked against its backup, and adapted to the place where its cluster runs now."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table, func, select, text, update

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.db.backups import count_rows
from det_controlplane.db.connections import connected, plain_engine
from det_controlplane.db.migrate import migrate
from det_controlplane.db.schema import (
    agents,
    config_policies,
    experiments,
    storages,
    tasks,
    templates,
    workspaces,
)

# Every column that may have the configuration of a storage.
_CONFIGURATIONS: tuple[tuple[Table, Column[Any]], ...] = (
    (storages, storages.c.config),
    (experiments, experiments.c.config),
    (tasks, tasks.c.config),
    (workspaces, workspaces.c.checkpoint_storage),
    (templates, templates.c.config),
    (config_policies, config_policies.c.policy),
)

Change = Callable[[Any], Any]


def rows_of(url: str) -> dict[str, int]:
    """Return the number of rows of every table of a database."""
    engine = plain_engine(url)
    try:
        with connected(engine) as connection:
            return count_rows(connection)
    finally:
        engine.dispose()


def adapt(url: str, relocated: Change, lost: Sequence[str]) -> None:
    """Bring a restored database to this program's schema, change its storages' paths, and give up agents.

    The agents of the original cluster do not run here: their work goes on as after the loss of a machine."""
    migrate(url)
    engine = plain_engine(url)
    try:
        with connected(engine) as connection, connection.begin():
            for table, column in _CONFIGURATIONS:
                _change(connection, table, column, relocated)
            gone = update(agents).where(agents.c.id.in_(lost), agents.c.state != AgentState.LOST)
            now = func.now()
            connection.execute(gone.values(state=AgentState.LOST, lease_until=now, lost_after=now))
            connection.execute(text("ANALYZE"))
    finally:
        engine.dispose()


def _change(tx: Connection, table: Table, column: Column[Any], relocated: Change) -> None:
    key = list(table.primary_key.columns)
    rows = tx.execute(select(*key, column).where(column.is_not(None))).all()
    for row in rows:
        *values, config = row
        changed = relocated(config)
        if changed != config:
            same = [one == value for one, value in zip(key, values, strict=True)]
            tx.execute(update(table).where(*same).values({column: changed}))
