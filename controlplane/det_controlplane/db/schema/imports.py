"""Imports of other clusters: which ids their rows have here, and how far each import is."""

from sqlalchemy import Boolean, Column, Identity, Integer, Table, Text, text

from det_controlplane.db.schema.base import JSON, Time, metadata

imports = Table(
    "imports",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("source", Text, nullable=False, unique=True),  # the cluster id of the imported cluster
    Column("name", Text),  # of --name, for references such as old:NAME/17
    Column("offsets", JSON, nullable=False),  # the number added to an old id, by kind of row
    Column("merged", JSON, nullable=False),  # old ids of rows that were merged into existing ones
    Column(
        "last_ids", JSON, nullable=False, server_default=text("'{}'")
    ),  # the largest old ids, by kind of row
    # The remarks of finished transactions, so that an interrupted import can repeat them.
    Column("remarks", JSON, nullable=False, server_default=text("'[]'")),
    Column("logs", Text, nullable=False),  # which logs are imported
    # Whether users, workspaces and projects are here, and the last experiment that is.
    Column("people", Boolean, nullable=False, server_default=text("false")),
    Column("experiment", Integer, nullable=False, server_default=text("0")),
    Column("began_at", Time, nullable=False, server_default=text("now()")),
    Column("ended_at", Time),
)
