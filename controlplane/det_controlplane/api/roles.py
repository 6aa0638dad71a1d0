"""Roles: list them and their holders, give and take them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.auth import user_of
from det_controlplane.api.errors import BadRequest, NotFound
from det_controlplane.api.http import EMPTY, Answer, Request, json_response
from det_controlplane.api.listing import part_of
from det_controlplane.api.router import Unaudited, get, patch, post
from det_controlplane.core.paging import Page
from det_controlplane.core.people.permissions import TaskRule, by_service, in_path, require
from det_controlplane.core.people.roles import BY_ID, CLUSTER, ROLES, Right, Role
from det_controlplane.services.context import Context
from det_controlplane.services.identity import roles
from det_controlplane.services.identity.roles import Assignment
from det_controlplane.services.organization import groups


@dataclass(frozen=True)
class RoleSearch:
    offset: int = 0
    limit: int = 0


@dataclass(frozen=True)
class AssignableRoles(RoleSearch):
    workspace_id: int = 0


@dataclass(frozen=True)
class RoleIds:
    role_ids: list[int] = field(default_factory=list, metadata={"most": None})


@dataclass(frozen=True)
class RoleBody:
    name: str = ""
    role_id: int = 0


@dataclass(frozen=True)
class RoleAssignment:
    role: RoleBody = RoleBody()
    scope_workspace_id: int = 0
    scope_cluster: bool = False


@dataclass(frozen=True)
class UserRole:
    user_id: int = 0
    role_assignment: RoleAssignment = RoleAssignment()


@dataclass(frozen=True)
class GroupRole:
    group_id: int = 0
    role_assignment: RoleAssignment = RoleAssignment()


@dataclass(frozen=True)
class Assignments:
    user_role_assignments: list[UserRole] = field(default_factory=list)
    group_role_assignments: list[GroupRole] = field(default_factory=list)


@dataclass(frozen=True)
class GroupMoves:
    user_ids: list[int] = field(default_factory=list, metadata={"most": None})
    add_groups: list[int] = field(default_factory=list, metadata={"most": None})
    remove_groups: list[int] = field(default_factory=list, metadata={"most": None})


@dataclass(frozen=True)
class MemberQuery:
    name: str = ""


def summary(ctx: Context, request: Request) -> Answer:
    """Return the caller's roles: none on a cluster without, which clients take to mean basic authorization."""
    return json_response(_summary(roles.own(ctx, user_of(request))))


def list_roles(ctx: Context, request: Request, body: RoleSearch) -> Answer:
    return _page(body, ROLES.values())


def assignable(ctx: Context, request: Request, body: AssignableRoles) -> Answer:
    in_workspace = bool(body.workspace_id)
    return _page(body, [r for r in ROLES.values() if r.of_workspaces or not in_workspace])


def of_group(ctx: Context, request: Request) -> Answer:
    return json_response(_summary(roles.of_group(ctx, user_of(request), request.id("groupId"))))


def of_user(ctx: Context, request: Request) -> Answer:
    assignments = roles.of_user(ctx, user_of(request), request.id("userId"))
    role_list = [
        ROLES[name] for name in dict.fromkeys(a.role for a in assignments) if name in ROLES
    ]
    return json_response({"roles": _with_assignments(role_list, assignments)})


def by_ids(ctx: Context, request: Request, body: RoleIds) -> Answer:
    role_list = list(dict.fromkeys(map(_role, body.role_ids)))
    assignments = roles.every(ctx, user_of(request), [role.name for role in role_list])
    return json_response({"roles": _with_assignments(role_list, assignments)})


def of_workspace(ctx: Context, request: Request, query: MemberQuery) -> Answer:
    assignments, group_views, people = roles.members(ctx, request.id("workspaceId"), query.name)
    role_list = [
        ROLES[name] for name in dict.fromkeys(a.role for a in assignments) if name in ROLES
    ]
    return json_response(
        {
            "groups": group_views,
            "usersAssignedDirectly": people,
            "assignments": _with_assignments(role_list, assignments),
        }
    )


def assign(ctx: Context, request: Request, body: Assignments) -> Answer:
    roles.assign(ctx, user_of(request), _assignments(body))
    return EMPTY


def unassign(ctx: Context, request: Request, body: Assignments) -> Answer:
    roles.unassign(ctx, user_of(request), _assignments(body))
    return EMPTY


def change_groups(ctx: Context, request: Request, body: GroupMoves) -> Answer:
    """Add users to groups, and remove them from other groups."""
    groups.move_users(ctx, user_of(request), body.user_ids, body.add_groups, body.remove_groups)
    return json_response({"results": [{"id": id, "error": ""} for id in body.user_ids]})


def _assignments(body: Assignments) -> list[Assignment]:
    users = [
        _assignment_to(item.role_assignment, user_id=item.user_id)
        for item in body.user_role_assignments
    ]
    groups = [
        _assignment_to(item.role_assignment, group_id=item.group_id)
        for item in body.group_role_assignments
    ]
    if not users and not groups:
        raise BadRequest("name userRoleAssignments or groupRoleAssignments")
    return users + groups


def _assignment_to(
    body: RoleAssignment, user_id: int | None = None, group_id: int | None = None
) -> Assignment:
    role = ROLES.get(body.role.name) or _role(body.role.role_id)
    if body.scope_workspace_id and body.scope_cluster:
        raise BadRequest("a role is for one workspace or for the cluster: name one of them")
    return Assignment(role.name, user_id, group_id, body.scope_workspace_id or CLUSTER)


def _role(id: int) -> Role:
    if id not in BY_ID:
        names = ", ".join(f"{role.id} {role.name}" for role in ROLES.values())
        raise NotFound(f"there is no role {id}; the roles are {names}")
    return BY_ID[id]


def _page(body: RoleSearch, matches: Iterable[Role]) -> Answer:
    page, pagination = part_of(list(matches), Page(body.offset, body.limit))
    return json_response({"roles": [_role_json(r) for r in page], "pagination": pagination})


def _summary(assigned: Iterable[Assignment]) -> dict[str, Any]:
    places: dict[Role, list[int]] = {}
    for a in assigned:
        if a.role in ROLES:
            places.setdefault(ROLES[a.role], []).append(a.workspace_id)
    return {
        "roles": [_role_json(role) for role in places],
        "assignments": [
            {
                "roleId": role.id,
                "scopeWorkspaceIds": sorted(set(ids) - {CLUSTER}),
                "scopeCluster": CLUSTER in ids,
            }
            for role, ids in places.items()
        ],
    }


def _with_assignments(
    role_list: Iterable[Role], assignments: Iterable[Assignment]
) -> list[dict[str, Any]]:
    assignments = list(assignments)
    return [
        {
            "role": _role_json(role),
            "userRoleAssignments": [
                {"userId": a.user_id, "roleAssignment": _assignment(role, a)}
                for a in assignments
                if a.role == role.name and a.user_id is not None
            ],
            "groupRoleAssignments": [
                {"groupId": a.group_id, "roleAssignment": _assignment(role, a)}
                for a in assignments
                if a.role == role.name and a.group_id is not None
            ],
        }
        for role in role_list
    ]


def _assignment(role: Role, a: Assignment) -> dict[str, Any]:
    return {
        "role": {"roleId": role.id, "name": role.name},
        "scopeWorkspaceId": a.workspace_id or None,
        "scopeCluster": a.workspace_id == CLUSTER,
    }


def _role_json(role: Role) -> dict[str, Any]:
    in_order = [right for right in Right if right in role.rights]
    return {
        "roleId": role.id,
        "name": role.name,
        "description": role.meaning,
        "permissions": [_permission(right) for right in in_order],
        "scopeTypeMask": {"cluster": True, "workspace": role.of_workspaces},
    }


def _permission(right: Right) -> dict[str, Any]:
    words = right.value.replace("_", " ").lower()
    return {
        "id": f"PERMISSION_TYPE_{right.value}",
        "name": words,
        "scopeTypeMask": {"cluster": True, "workspace": right.of_workspaces},
    }


_R = "/api/v1/roles"
_ASSIGN = require(by_service(Right.ASSIGN_ROLES), task=TaskRule.NEVER, session=True)
ROUTES = (
    get(
        "/api/v1/permissions/summary",
        summary,
        summary="Roles of the caller",
        rule=require(task=TaskRule.READ),
    ),
    post(
        f"{_R}/add-assignments",
        assign,
        summary="Give roles to users and groups",
        rule=_ASSIGN,
        audit="role.add-assignments",
    ),
    post(
        f"{_R}/remove-assignments",
        unassign,
        summary="Take roles from users and groups",
        rule=_ASSIGN,
        audit="role.remove-assignments",
    ),
    post(
        f"{_R}/search",
        list_roles,
        summary="The roles that there are",
        rule=require(task=TaskRule.NEVER),
        audit=Unaudited.NO_CHANGE,
    ),
    post(
        f"{_R}/search/by-assignability",
        assignable,
        summary="Roles that can be given somewhere",
        rule=require(task=TaskRule.NEVER),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        f"{_R}/search/by-group/{{groupId}}",
        of_group,
        summary="Roles of a group",
        rule=require(by_service(Right.ASSIGN_ROLES), task=TaskRule.READ),
    ),
    post(
        f"{_R}/search/by-ids",
        by_ids,
        summary="Roles with those who have them",
        rule=require(by_service(Right.ASSIGN_ROLES), task=TaskRule.NEVER),
        audit=Unaudited.NO_CHANGE,
    ),
    get(
        f"{_R}/search/by-user/{{userId}}",
        of_user,
        summary="Roles of a user, also by groups",
        rule=require(by_service(Right.ASSIGN_ROLES), task=TaskRule.READ),
    ),
    get(
        f"{_R}/workspace/{{workspaceId}}",
        of_workspace,
        summary="Who has roles in a workspace",
        rule=require(in_path(Right.VIEW_WORKSPACE, "workspace", "workspaceId"), task=TaskRule.READ),
    ),
    patch(
        "/api/v1/users/assignments",
        change_groups,
        summary="Change the groups of users",
        rule=_ASSIGN,
        audit="user.assignments.edit",
    ),
)
