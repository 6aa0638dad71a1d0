"""Config policies of workspaces and of the cluster. The cluster has scope 0."""

from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import config_policies
from det_controlplane.db.schema.enums import WorkloadType

CLUSTER = 0
_c = config_policies.c


def one(tx: Tx, scope: int, workload: WorkloadType) -> dict[str, Any] | None:
    query = select(_c.policy).where(_c.workspace_id == scope, _c.workload_type == workload)
    policy: dict[str, Any] | None = tx.execute(query).scalar()
    return policy


def stored(tx: Tx, scope: int, workload: WorkloadType) -> tuple[dict[str, Any], str | None] | None:
    """Return a policy and its secrets."""
    query = select(_c.policy, _c.sealed)
    query = query.where(_c.workspace_id == scope, _c.workload_type == workload)
    row = tx.execute(query).first()
    return None if row is None else (row.policy, row.sealed)


def in_force(
    tx: Tx, workspace_id: int, workload: WorkloadType
) -> list[tuple[dict[str, Any], str | None]]:
    """Return the policies of the workspace and of the cluster, in this order, with their secrets."""
    scopes = _c.workspace_id.in_((CLUSTER, workspace_id))
    query = select(_c.policy, _c.sealed).where(_c.workload_type == workload, scopes)
    rows = tx.execute(query.order_by(_c.workspace_id.desc()))
    return [(row.policy, row.sealed) for row in rows]


def put(tx: Tx, scope: int, workload: WorkloadType, policy: dict[str, Any], sealed: str) -> None:
    columns = {"policy": policy, "sealed": sealed}
    values = {"workspace_id": scope, "workload_type": workload, **columns}
    key = (_c.workspace_id, _c.workload_type)
    new = insert(config_policies).values(values)
    tx.execute(new.on_conflict_do_update(index_elements=key, set_=columns))


def remove(tx: Tx, scope: int, workload: WorkloadType) -> None:
    tx.execute(
        delete(config_policies).where(_c.workspace_id == scope, _c.workload_type == workload)
    )
