"""Assign and remove roles, and list the assignments."""

from collections.abc import Iterable, Sequence
from typing import Any

from det_controlplane.core.config.cluster import Authz
from det_controlplane.core.people.roles import CLUSTER, CLUSTER_ADMIN, PRESIDING, ROLES, Right
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import groups, roles, users
from det_controlplane.db.people.roles import Assignment
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, require
from det_controlplane.services.identity.rights import refuse_tasks, require_admin
from det_controlplane.services.identity.route_rights import require_in
from det_controlplane.services.principal import User

__all__ = [
    "Assignment", "administrate", "assign", "every", "members", "of_group", "of_user", "own", "unassign",
]  # fmt: skip
_ABSENT = {
    "role_assignments_user_id_fkey": "user",
    "role_assignments_group_id_fkey": "group",
    "role_assignments_workspace_id_fkey": "workspace",
}


def own(ctx: Context, caller: User) -> list[Assignment]:
    """Return the caller's own roles and the roles of its groups. The list is empty if the cluster has no roles."""
    if ctx.config.authz is Authz.BASIC:
        return []
    with ctx.db.autocommit() as tx:
        return _with_administrator(tx, caller.id, roles.through(tx, caller.id))


def of_user(ctx: Context, caller: User, user_id: int) -> list[Assignment]:
    with ctx.db.autocommit() as tx:
        require(users.one(tx, user_id), f"user {user_id}")
        assigned = _with_administrator(tx, user_id, roles.through(tx, user_id))
    return assigned if user_id == caller.id else _visible(caller, assigned)


def of_group(ctx: Context, caller: User, group_id: int) -> list[Assignment]:
    with ctx.db.autocommit() as tx:
        require(groups.one(tx, group_id), f"group {group_id}")
        return _visible(caller, roles.of_group(tx, group_id))


def every(ctx: Context, caller: User, names: Iterable[str]) -> list[Assignment]:
    with ctx.db.autocommit() as tx:
        return _visible(caller, roles.every(tx, names))


def members(
    ctx: Context, workspace_id: int, name: str
) -> tuple[list[Assignment], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the role assignments of a workspace with groups and users, filtered by name."""
    with ctx.db.autocommit() as tx:
        assigned = roles.in_workspace(tx, workspace_id)
        people = roles.users_shown(tx, [a.user_id for a in assigned if a.user_id], name)
        group_ids = roles.named_groups(tx, [a.group_id for a in assigned if a.group_id], name)
        group_views = [groups.one(tx, id) or {} for id in group_ids]
    return assigned, group_views, people


def assign(ctx: Context, caller: User, given: Sequence[Assignment]) -> None:
    """Assign all of these roles, or raise and assign none."""
    _check(caller, given)
    _record(ctx, given)
    try:
        with ctx.db.begin() as tx:
            for assignment in given:
                roles.add(tx, assignment)
    except Violated as e:
        raise Missing(f"the {_ABSENT.get(e.constraint, 'holder')} does not exist") from e


def unassign(ctx: Context, caller: User, taken: Sequence[Assignment]) -> None:
    """Take all of these roles, or none."""
    _check(caller, taken)
    _record(ctx, taken)
    with ctx.db.begin() as tx:
        for assignment in taken:
            if not roles.remove(tx, assignment):
                raise Missing(f"{_description(assignment)} is not assigned")


def administrate(tx: Tx, user_id: int, workspace_id: int) -> None:
    """Assign the role of workspace administrator to the creator of a workspace."""
    roles.add(tx, Assignment("WorkspaceAdmin", user_id, None, workspace_id))


def _check(caller: User, assignments: Sequence[Assignment]) -> None:
    refuse_tasks(caller, "assign roles")
    for assignment in assignments:
        role = ROLES[assignment.role]
        if (assignment.user_id is None) == (assignment.group_id is None):
            raise Invalid("a role is assigned to a user or to a group: name one of them")
        if assignment.workspace_id == CLUSTER:
            require_admin(caller, "assign roles in the whole cluster")
            continue
        require_in(caller, PRESIDING, assignment.workspace_id)
        if not role.of_workspaces:
            raise Invalid(f"{role.name} is a role in the whole cluster: leave the workspace away")


def _visible(caller: User, assigned: Iterable[Assignment]) -> list[Assignment]:
    """Return the assignments that a caller may see: in the cluster, and in workspaces that the caller sees."""
    sees = caller.grants
    return [
        a
        for a in assigned
        if a.workspace_id == CLUSTER or sees.has(Right.VIEW_WORKSPACE, a.workspace_id)
    ]


def _with_administrator(tx: Tx, user_id: int, assigned: list[Assignment]) -> list[Assignment]:
    """Add the role that administrators have without being given it."""
    role = Assignment(CLUSTER_ADMIN.name, user_id, None, CLUSTER)
    user = users.one(tx, user_id)
    if user is None or not user["admin"] or role in assigned:
        return assigned
    return [role, *assigned]


def _record(ctx: Context, changed: Sequence[Assignment]) -> None:
    ctx.recorder.add_objects(*(_holder(a) for a in changed))
    ctx.recorder.add_details(assignments=list(dict.fromkeys(_description(a) for a in changed)))


def _holder(a: Assignment) -> str:
    return f"user {a.user_id}" if a.user_id is not None else f"group {a.group_id}"


def _description(a: Assignment) -> str:
    where = f"workspace {a.workspace_id}" if a.workspace_id else "the cluster"
    return f"role {a.role} of {_holder(a)} in {where}"
