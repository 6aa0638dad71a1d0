"""Config policies: what administrators demand of experiments and tasks, stored and looked up (facts §9.11)."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from det_controlplane.core.config import load_yaml
from det_controlplane.core.config.policies import Constraints, Policies, read_policies
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin, require_owner

CLUSTER = 0  # the scope of policies for everybody
_WORKLOADS = {"EXPERIMENT": "experiment", "NTSC": "tasks"}

_GET = text(
    "SELECT policy FROM config_policies WHERE workspace_id = :scope AND workload_type = :workload"
)
_BOTH = text("""
    SELECT workspace_id, policy FROM config_policies
    WHERE workload_type = :workload AND workspace_id IN (0, :workspace_id) ORDER BY workspace_id DESC
""")
_PUT = text("""
    INSERT INTO config_policies (workspace_id, workload_type, policy) VALUES (:scope, :workload, cast(:policy AS jsonb))
    ON CONFLICT (workspace_id, workload_type) DO UPDATE SET policy = excluded.policy
""")
_DELETE = text(
    "DELETE FROM config_policies WHERE workspace_id = :scope AND workload_type = :workload"
)
_OWNER = text("SELECT user_id FROM workspaces WHERE id = :id")


def get(ctx: Context, scope: int, workload: str) -> dict[str, Any]:
    """Empty when nothing is demanded."""
    params = {"scope": scope, "workload": _workload(workload)}
    with ctx.db.begin() as tx:
        _owner(tx, scope)
        found: dict[str, Any] | None = tx.execute(_GET, params).scalar()
    return found or {}


def put(ctx: Context, caller: User, scope: int, workload: str, source: str) -> dict[str, Any]:
    """`source` is YAML or JSON, as the administrator wrote it."""
    kind = _workload(workload)
    policy = load_yaml(source, what="config policies")
    read_policies(policy, _WORKLOADS[kind])
    with ctx.db.begin() as tx:
        _check_rights(caller, scope, _owner(tx, scope))
        tx.execute(_PUT, {"scope": scope, "workload": kind, "policy": as_json(policy)})
    return dict(policy)


def delete(ctx: Context, caller: User, scope: int, workload: str) -> None:
    with ctx.db.begin() as tx:
        _check_rights(caller, scope, _owner(tx, scope))
        tx.execute(_DELETE, {"scope": scope, "workload": _workload(workload)})


def in_force(tx: Tx, workspace_id: int, workload: str = "EXPERIMENT") -> Policies:
    """The cluster's and the workspace's in one; where both set a constraint, the cluster wins."""
    rows = tx.execute(_BOTH, {"workspace_id": workspace_id, "workload": workload}).all()
    return merged([r.policy for r in rows], workload)


def merged(policies: Sequence[dict[str, Any]], workload: str = "EXPERIMENT") -> Policies:
    """The workspace's first, the cluster's last."""
    constraints, invariant = Constraints(), None
    for policy in policies:
        found = read_policies(policy, _WORKLOADS[workload])
        constraints = constraints.under(found.constraints)
        invariant = found.invariant_config or invariant
    return Policies(constraints, invariant)


def _workload(workload: str) -> str:
    kind = workload.upper()
    kind = "NTSC" if kind == "TASKS" else kind
    if kind not in _WORKLOADS:
        raise Invalid(f"workload type must be experiment or tasks, not {workload!r}")
    return kind


def _owner(tx: Tx, scope: int) -> int | None:
    if scope == CLUSTER:
        return None
    owner: int | None = tx.execute(_OWNER, {"id": scope}).scalar()
    if owner is None:
        raise Missing(f"workspace {scope} not found")
    return owner


def _check_rights(caller: User, scope: int, owner: int | None) -> None:
    if owner is None:
        require_admin(caller, "set config policies of the cluster")
    else:
        require_owner(caller, owner, f"set config policies of workspace {scope}")
