"""`det rbac`: roles of users and groups."""

import argparse
from collections.abc import Iterable
from typing import Any

from determined.common.http import Session

from det_cli.actions.experiment_settings import workspace_of
from det_cli.actions.user_groups import group_of
from det_cli.actions.users import id_of as user_id_of
from det_cli.connection import V1, connect, limited, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Column, counted, say, show

_R = V1 + "/roles"
_ALL = -1
_CLUSTER = "the whole cluster"
_COLUMNS: tuple[Column, ...] = (
    ("Role ID", lambda r: r["roleId"]),
    ("Role Name", lambda r: r["name"]),
    ("Given", lambda r: _scopes(r["scopeTypeMask"])),
    ("# Permissions", lambda r: len(r["permissions"])),
)
_PERMISSIONS: tuple[Column, ...] = (
    ("Permission", lambda p: p["id"].removeprefix("PERMISSION_TYPE_")),
    ("Holds", lambda p: _scopes(p["scopeTypeMask"])),
)
_ASSIGNED: tuple[Column, ...] = (
    ("Role Name", lambda a: a["role"]),
    ("Where", lambda a: a["where"]),
    ("By", lambda a: a["by"]),
)


def _scopes(mask: dict[str, bool]) -> str:
    return "workspaces, cluster" if mask.get("workspace") else "cluster"


def list_(args: argparse.Namespace) -> None:
    session = connect(args)
    roles = _roles(session, args.offset, _ALL)
    if args.exclude_global_roles:
        roles = [role for role in roles if role["scopeTypeMask"]["workspace"]]
    show(args, _COLUMNS, limited(args, roles))


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    (role,) = session.post(
        _R + "/search/by-ids", {"roleIds": [_role(session, args.role_name)["roleId"]]}
    )["roles"]
    if not args.format:
        holders = len(role["userRoleAssignments"]) + len(role["groupRoleAssignments"])
        say(
            f"Role {role['role']['roleId']}, {role['role']['name']}: {counted(holders, 'assignment')}"
        )
    show(args, _PERMISSIONS, role["role"]["permissions"], role)


def assign(args: argparse.Namespace) -> None:
    session = connect(args)
    session.post(_R + "/add-assignments", _assignment(session, args))
    print(f"Assigned role {args.role_name} to {_holder(args)} in {_describe_scope(args)}")
    if not session.get(V1 + "/master")["rbacEnabled"]:
        say("Roles take effect only if the cluster's configuration sets security.authz.type: rbac")


def unassign(args: argparse.Namespace) -> None:
    session = connect(args)
    session.post(_R + "/remove-assignments", _assignment(session, args))
    print(f"Removed role {args.role_name} from {_holder(args)} in {_describe_scope(args)}")


def mine(args: argparse.Namespace) -> None:
    session = connect(args)
    summary = session.get(V1 + "/permissions/summary")
    if not session.get(V1 + "/master")["rbacEnabled"]:
        say(
            "Roles are not enforced (security.authz.type: basic): all users have access to all workspaces"
        )
    names = _workspaces(session)
    roles = {role["roleId"]: role for role in summary["roles"]}
    lines = [
        {
            "permission": p["id"].removeprefix("PERMISSION_TYPE_"),
            "role": role["name"],
            "where": place,
        }
        for a in summary["assignments"]
        for role in [roles[a["roleId"]]]
        for place in _places(a, names)
        for p in role["permissions"]
    ]
    columns: tuple[Column, ...] = (
        ("Where", lambda x: x["where"]),
        ("Permission", lambda x: x["permission"]),
        ("Role Name", lambda x: x["role"]),
    )
    show(args, columns, sorted(lines, key=lambda x: (x["where"], x["permission"])), summary)


def of_user(args: argparse.Namespace) -> None:
    session = connect(args)
    roles = session.get(f"{_R}/search/by-user/{user_id_of(session, args.username)}")["roles"]
    names = _workspaces(session)
    groups = {
        g["group"]["groupId"]: g["group"]["name"]
        for g in session.post(V1 + "/groups/search", {"limit": _ALL})["groups"]
    }
    lines = []
    for role in roles:
        for a in role["userRoleAssignments"]:
            lines.append(_line(role, a, names, "the user's own"))
        for a in role["groupRoleAssignments"]:
            lines.append(_line(role, a, names, f"group {groups.get(a['groupId'], a['groupId'])}"))
    show(args, _ASSIGNED, lines, roles)


def of_group(args: argparse.Namespace) -> None:
    session = connect(args)
    group = group_of(session, args.group_name)
    response = session.get(f"{_R}/search/by-group/{group['groupId']}")
    names = _workspaces(session)
    roles = {role["roleId"]: role["name"] for role in response["roles"]}
    lines = [
        {"role": roles[a["roleId"]], "where": place, "by": f"group {group['name']}"}
        for a in response["assignments"]
        for place in _places(a, names)
    ]
    show(args, _ASSIGNED, lines, response)


def members(args: argparse.Namespace) -> None:
    """List the users and groups with roles in a workspace."""
    session = connect(args)
    space = workspace_of(session, args.workspace_name)
    response = session.get(f"{_R}/workspace/{space['id']}")
    users = {u["id"]: u["username"] for u in response["usersAssignedDirectly"]}
    groups = {g["groupId"]: g["name"] for g in response["groups"]}
    lines = []
    for role in response["assignments"]:
        name = role["role"]["name"]
        for a in role["userRoleAssignments"]:
            lines.append({"member": users.get(a["userId"]), "kind": "user", "role": name})
        for a in role["groupRoleAssignments"]:
            lines.append({"member": groups.get(a["groupId"]), "kind": "group", "role": name})
    columns: tuple[Column, ...] = (
        ("User/Group Name", lambda x: x["member"]),
        ("User or Group", lambda x: x["kind"]),
        ("Role Name", lambda x: x["role"]),
    )
    show(args, columns, lines, response)


def _roles(session: Session, offset: int = 0, limit: int = _ALL) -> list[dict[str, Any]]:
    return list(session.post(_R + "/search", {"offset": offset, "limit": limit})["roles"])


def _role(session: Session, name: str) -> dict[str, Any]:
    roles = _roles(session)
    for role in roles:
        if role["name"].lower() == name.lower():
            return role
    names = ", ".join(role["name"] for role in roles)
    raise MissingError(f"there is no role '{name}'", f"the roles are {names}")


def _assignment(session: Session, args: argparse.Namespace) -> dict[str, Any]:
    if bool(args.username_to_assign) == bool(args.group_name_to_assign):
        raise UsageError(
            "a role is assigned to one user or one group", "give -u USERNAME or -g GROUP"
        )
    role = _role(session, args.role_name)
    args.role_name = role["name"]
    assignment: dict[str, Any] = {"role": {"roleId": role["roleId"]}, "scopeCluster": True}
    if args.workspace_name:
        space = workspace_of(session, args.workspace_name)
        assignment = {"role": assignment["role"], "scopeWorkspaceId": space["id"]}
    if args.username_to_assign:
        id = user_id_of(session, args.username_to_assign)
        return {"userRoleAssignments": [{"userId": id, "roleAssignment": assignment}]}
    id = group_of(session, args.group_name_to_assign)["groupId"]
    return {"groupRoleAssignments": [{"groupId": id, "roleAssignment": assignment}]}


def _holder(args: argparse.Namespace) -> str:
    if args.username_to_assign:
        return f"user '{args.username_to_assign}'"
    return f"group '{args.group_name_to_assign}'"


def _describe_scope(args: argparse.Namespace) -> str:
    return f"workspace '{args.workspace_name}'" if args.workspace_name else _CLUSTER


def _workspaces(session: Session) -> dict[int, str]:
    return {w["id"]: w["name"] for w in pages(session, "/workspaces", "workspaces")}


def _places(summary: dict[str, Any], names: dict[int, str]) -> Iterable[str]:
    if summary.get("scopeCluster"):
        yield _CLUSTER
    for id in summary.get("scopeWorkspaceIds", ()):
        yield f"workspace '{names.get(id, id)}'"


def _line(
    role: dict[str, Any], assignment: dict[str, Any], names: dict[int, str], by: str
) -> dict[str, str]:
    id = assignment["roleAssignment"].get("scopeWorkspaceId")
    where = f"workspace '{names.get(id, id)}'" if id else _CLUSTER
    return {"role": role["role"]["name"], "where": where, "by": by}
