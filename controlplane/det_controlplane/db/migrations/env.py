"""Alembic's environment: `db.migrate` hands it the connection; the alembic command opens its own (`DET_DB_URL`)."""

import os

from alembic import context
from det_controlplane.db import schema
from det_controlplane.db.engine.connections import plain_engine
from sqlalchemy import Connection


def upgrade_on(connection: Connection) -> None:
    context.configure(
        connection=connection, target_metadata=schema.metadata, compare_server_default=True
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    upgrade_on(given)
else:
    with plain_engine(os.environ["DET_DB_URL"]).begin() as opened:
        upgrade_on(opened)
