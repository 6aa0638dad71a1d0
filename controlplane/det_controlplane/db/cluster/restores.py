"""Check a restored database against its backup, and adapt it to its new data directory."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table, func, select, text, update

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.db.cluster.backups import count_rows
from det_controlplane.db.cluster.earlier_secrets import CONFIGS
from det_controlplane.db.engine.connections import connected, plain_engine
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.db.schema import agents
from det_controlplane.db.schema.base import CREATE_TRIGRAMS

Change = Callable[[Any], Any]


def rows_of(url: str) -> dict[str, int]:
    """Return the number of rows of every table of a database."""
    engine = plain_engine(url)
    try:
        with connected(engine) as connection:
            return count_rows(connection)
    finally:
        engine.dispose()


def create_extensions(url: str) -> None:
    """Create the extensions that the indexes of a dump need: the dump of a schema does not contain them."""
    engine = plain_engine(url)
    try:
        with connected(engine) as connection, connection.begin():
            connection.exec_driver_sql(CREATE_TRIGRAMS)
    finally:
        engine.dispose()


def adapt(url: str, relocated: Change, lost: Sequence[str]) -> None:
    """Migrate a restored database, change the paths of its storages, and mark the `lost` agents as lost.

    The agents of the original cluster do not exist here. The scheduler restarts their work as after a lost machine."""
    migrate(url)
    engine = plain_engine(url)
    try:
        with connected(engine) as connection, connection.begin():
            for table, column in CONFIGS:
                _change(connection, table, column, relocated)
            statement = update(agents).where(
                agents.c.id.in_(lost), agents.c.state != AgentState.LOST
            )
            now = func.now()
            connection.execute(
                statement.values(state=AgentState.LOST, lease_until=now, lost_after=now)
            )
            connection.execute(text("ANALYZE"))
    finally:
        engine.dispose()


def _change(tx: Connection, table: Table, column: Column[Any], relocated: Change) -> None:
    key = list(table.primary_key.columns)
    rows = tx.execute(select(*key, column).where(column.is_not(None))).all()
    for row in rows:
        *values, config = row
        new_config = relocated(config)
        if new_config != config:
            same = [one == value for one, value in zip(key, values, strict=True)]
            tx.execute(update(table).where(*same).values({column: new_config}))
