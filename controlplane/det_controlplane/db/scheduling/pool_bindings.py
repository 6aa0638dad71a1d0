"""Rows that reserve resource pools for workspaces."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import pool_bindings

_b = pool_bindings.c


def by_pool(tx: Tx) -> dict[str, list[int]]:
    """Return the workspaces of every pool that is reserved, in order."""
    bound: dict[str, list[int]] = {}
    for row in tx.execute(select(_b.pool, _b.workspace_id).order_by(_b.pool, _b.workspace_id)):
        bound.setdefault(row.pool, []).append(row.workspace_id)
    return bound


def add(tx: Tx, pool: str, workspace_ids: Sequence[int]) -> None:
    for workspace_id in workspace_ids:
        new = insert(pool_bindings).values(pool=pool, workspace_id=workspace_id)
        tx.execute(new.on_conflict_do_nothing())


def remove(tx: Tx, pool: str, workspace_ids: Sequence[int] | None = None) -> None:
    """Unbind a pool from some workspaces, or from all."""
    statement = delete(pool_bindings).where(_b.pool == pool)
    tx.execute(
        statement if workspace_ids is None else statement.where(_b.workspace_id.in_(workspace_ids))
    )
