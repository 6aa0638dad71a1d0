"""Config policies: constraints of administrators on experiments and tasks."""

from collections.abc import Sequence
from typing import Any

from det_controlplane.core.config import load_yaml
from det_controlplane.core.config.policies import Constraints, Policies, read_policies
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.people import config_policies
from det_controlplane.db.schema.enums import WorkloadType
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.identity import host_access
from det_controlplane.services.identity.rights import require_admin, require_owner
from det_controlplane.services.organization import workspaces
from det_controlplane.services.principal import User

CLUSTER = config_policies.CLUSTER  # the scope of policies for everybody
_WORKLOADS = {WorkloadType.EXPERIMENT: "experiment", WorkloadType.NTSC: "tasks"}


def get(ctx: Context, scope: int, workload: str) -> dict[str, Any]:
    """Return the policies of a workspace, or of the cluster; {} without any."""
    kind = _workload(workload)
    with ctx.db.begin() as tx:
        _owner(tx, scope)
        return config_policies.one(tx, scope, kind) or {}


def check(workload: str, source: str) -> dict[str, Any]:
    """Return the policies that would be stored, without storing them."""
    policy = load_yaml(source, what="config policies")
    read_policies(policy, _WORKLOADS[_workload(workload)])
    return policy


def put(ctx: Context, caller: User, scope: int, workload: str, source: str) -> dict[str, Any]:
    """Store `source`, which is YAML or JSON as the administrator wrote it."""
    kind, policy = _workload(workload), check(workload, source)
    with ctx.db.begin() as tx:
        _check_rights(caller, scope, _owner(tx, scope))
        # Policies of a workspace's owner are trusted there like policies of an administrator.
        host_access.require(ctx, caller, policy.get("invariant_config") or {})
        row = config_policies.stored(tx, scope, kind)
        earlier = None if row is None else sealing.unsealed(ctx, *row)
        parts = sealing.seal(ctx, sealing.completed(policy, earlier))
        config_policies.put(tx, scope, kind, parts.shown, parts.secrets)
    return dict(parts.shown)


def delete(ctx: Context, caller: User, scope: int, workload: str) -> None:
    with ctx.db.begin() as tx:
        _check_rights(caller, scope, _owner(tx, scope))
        config_policies.remove(tx, scope, _workload(workload))


def in_force(
    tx: Tx, workspace_id: int, workload: WorkloadType = WorkloadType.EXPERIMENT
) -> Policies:
    """Return the cluster's and the workspace's in one; where both set a constraint, the cluster wins."""
    rows = config_policies.in_force(tx, workspace_id, workload)
    return merged([policy for policy, _ in rows], workload)


def demanded(ctx: Context, tx: Tx, workspace_id: int) -> list[dict[str, Any]]:
    """Return the policies of experiments with their secrets, the workspace's first."""
    rows = config_policies.in_force(tx, workspace_id, WorkloadType.EXPERIMENT)
    return [sealing.unsealed(ctx, *policy) for policy in rows]


def merged(
    policies: Sequence[dict[str, Any]], workload: WorkloadType = WorkloadType.EXPERIMENT
) -> Policies:
    """Merge the workspace's, which comes first, with the cluster's."""
    constraints, invariant = Constraints(), None
    for policy in policies:
        part = read_policies(policy, _WORKLOADS[workload])
        constraints = constraints.under(part.constraints)
        invariant = part.invariant_config or invariant
    return Policies(constraints, invariant)


def _workload(name: str) -> WorkloadType:
    kind = name.upper()
    try:
        return WorkloadType("NTSC" if kind == "TASKS" else kind)
    except ValueError as e:
        raise Invalid(f"workload type must be experiment or tasks, not {name!r}") from e


def _owner(tx: Tx, scope: int) -> int | None:
    return None if scope == CLUSTER else workspaces.owner(tx, scope)


def _check_rights(caller: User, scope: int, owner: int | None) -> None:
    if owner is None:
        require_admin(caller, "set config policies of the cluster")
    else:
        require_owner(caller, owner, f"set config policies of workspace {scope}")
