"""Convert users, groups, roles, workspaces, projects, templates, policies and models."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from det_controlplane.core.importing.ids import Ids
from det_controlplane.core.importing.remarks import Remarks
from det_controlplane.core.importing.values import Row, first_instant, instant
from det_controlplane.core.people.roles import ROLES
from det_controlplane.core.webhooks import TriggerType

BCRYPT = "bcrypt$"  # begins a password hash of Determined; sign_in replaces it
_LONGEST_NAME = 80
_TRIGGERS = frozenset(trigger.value for trigger in TriggerType)
_SUFFIX = " (imported)"
_KEY_LENGTH = 5


def user(row: Row, agent_users: Mapping[int, Row], ids: Ids, remarks: Remarks) -> dict[str, Any]:
    hashed = row.get("password_hash")
    if row.get("remote"):
        hashed = None
    elif not hashed:
        hashed = None
        remarks.add(
            f"user {row['username']}",
            "has an empty password and cannot sign in until an administrator sets one",
        )
    else:
        hashed = BCRYPT + hashed
    return {
        "id": ids.new("users", row["id"]), "username": row["username"], "password_hash": hashed,
        "display_name": row.get("display_name"), "admin": bool(row.get("admin")), "active": bool(row.get("active")),
        "remote": bool(row.get("remote")), "agent_user": agent_user(agent_users.get(row["id"])),
        "settings": {}, "modified_at": first_instant(row.get("modified_at")),
        "last_auth_at": instant(row.get("last_auth_at")),
    }  # fmt: skip


def agent_user(row: Row | None) -> dict[str, Any] | None:
    """Return the user of containers, of a row with uid, user_, gid and group_."""
    if row is None or row.get("uid") is None:
        return None
    return {
        "agentUid": row["uid"], "agentUser": row.get("user_") or "", "agentGid": row.get("gid") or 0,
        "agentGroup": row.get("group_") or "",
    }  # fmt: skip


def workspace(row: Row, ids: Ids, free_name: Callable[[str], str]) -> dict[str, Any]:
    return {
        "id": ids.new("workspaces", row["id"]), "name": free_name(row["name"]),
        "user_id": ids.new("users", row.get("user_id") or 1), "archived": bool(row.get("archived")),
        "immutable": False, "agent_user": agent_user(row), "checkpoint_storage": row.get("checkpoint_storage_config"),
        "default_compute_pool": row.get("default_compute_pool") or None,
        "default_aux_pool": row.get("default_aux_pool") or None, "created_at": first_instant(row.get("created_at")),
    }  # fmt: skip


def project(row: Row, ids: Ids, free_key: Callable[[str, str], str]) -> dict[str, Any]:
    return {
        "id": ids.new("projects", row["id"]), "workspace_id": ids.new("workspaces", row.get("workspace_id") or 1),
        "name": row["name"], "key": free_key(row.get("key") or "", row["name"]),
        "description": row.get("description") or "", "notes": row.get("notes") or [],
        "user_id": ids.new("users", row.get("user_id") or 1), "archived": bool(row.get("archived")),
        "immutable": False, "created_at": first_instant(row.get("created_at")),
    }  # fmt: skip


def free_name(used: Iterable[str], remarks: Remarks, kind: str) -> Callable[[str], str]:
    """Return a function that renames rows with a name that another row has. Case does not distinguish names."""
    lowered = {name.lower() for name in used}

    def choose(name: str) -> str:
        chosen, number = name[:_LONGEST_NAME], 1
        while chosen.lower() in lowered:
            number += 1
            suffix = _SUFFIX if number == 2 else f" (imported {number})"
            chosen = name[: _LONGEST_NAME - len(suffix)] + suffix
        if chosen != name:
            remarks.add(f"{kind} {name!r}", f"is named {chosen!r} here, because the name is in use")
        lowered.add(chosen.lower())
        return chosen

    return choose


def free_key(used: Iterable[str]) -> Callable[[str, str], str]:
    """Return a function that chooses the key of a project: its own key if it is free."""
    taken = set(used)

    def choose(key: str, name: str) -> str:
        letters = "".join(c for c in name.upper() if c.isascii() and c.isalnum()) or "P"
        chosen, number = key, 0
        while not chosen or chosen in taken:
            number += 1
            tail = str(number)
            chosen = letters[: _KEY_LENGTH - len(tail)] + tail
        taken.add(chosen)
        return chosen

    return choose


def role_assignment(
    row: Row, roles: Mapping[int, str], groups: Mapping[int, int | None], scopes: Mapping[int, int | None],
    ids: Ids, remarks: Remarks,
) -> dict[str, Any] | None:  # fmt: skip
    """Return the role of a user or a group, or None if there is no such role or group.

    `groups` has the user of each personal group, and None for other groups."""
    name = roles.get(row["role_id"], "")
    if name not in ROLES:
        remarks.add(f"role {name!r}", "does not exist here: its assignments do not move")
        return None
    if row["group_id"] not in groups:
        remarks.add(
            f"role {name!r} of group {row['group_id']}", "does not move: its group is missing"
        )
        return None
    user_id = groups[row["group_id"]]
    workspace_id = scopes.get(row.get("scope_id") or 0)
    return {
        "role": name, "user_id": ids.optional("users", user_id),
        "group_id": None if user_id is not None else ids.new("groups", row["group_id"]),
        "workspace_id": ids.optional("workspaces", workspace_id),
    }  # fmt: skip


def template(row: Row, ids: Ids, free_name: Callable[[str], str]) -> dict[str, Any]:
    return {
        "name": free_name(row["name"]), "config": row["config"],
        "workspace_id": ids.new("workspaces", row.get("workspace_id") or 1),
    }  # fmt: skip


def config_policy(row: Row, ids: Ids) -> dict[str, Any]:
    parts = {name: row.get(name) for name in ("invariant_config", "constraints")}
    workspace_id = row.get("workspace_id")
    return {
        "workspace_id": 0 if workspace_id is None else ids.new("workspaces", workspace_id),
        "workload_type": row["workload_type"],
        "policy": {name: value for name, value in parts.items() if value is not None},
    }  # fmt: skip


def webhook(row: Row, ids: Ids) -> dict[str, Any]:
    """Return a webhook that sends nothing until it is enabled."""
    workspace_id = row.get("workspace_id")
    return {
        "id": ids.new("webhooks", row["id"]), "name": row.get("name") or f"webhook {row['id']}", "url": row["url"],
        "type": row["webhook_type"], "mode": row.get("mode") or "WORKSPACE",
        "workspace_id": None if workspace_id is None else ids.new("workspaces", workspace_id), "enabled": False,
    }  # fmt: skip


def webhook_trigger(row: Row, ids: Ids) -> dict[str, Any] | None:
    """Return a trigger, or None if this cluster has no such trigger."""
    if row["trigger_type"] not in _TRIGGERS:
        return None
    return {
        "webhook_id": ids.new("webhooks", row["webhook_id"]), "type": row["trigger_type"],
        "condition": row.get("condition") or {},
    }  # fmt: skip


def model(row: Row, ids: Ids, free_name: Callable[[str], str]) -> dict[str, Any]:
    return {
        "id": ids.new("models", row["id"]), "name": free_name(row["name"]),
        **_described(row, ids), "archived": bool(row.get("archived")),
        "workspace_id": ids.new("workspaces", row.get("workspace_id") or 1),
        "description": row.get("description") or "",
    }  # fmt: skip


def model_version(row: Row, ids: Ids) -> dict[str, Any]:
    return {
        "id": ids.new("model_versions", row["id"]), "model_id": ids.new("models", row["model_id"]),
        "version": row["version"], "checkpoint_uuid": row["checkpoint_uuid"], "name": row.get("name") or "",
        "comment": row.get("comment") or "", **_described(row, ids),
    }  # fmt: skip


def _described(row: Row, ids: Ids) -> dict[str, Any]:
    created = first_instant(row.get("creation_time"))
    return {
        "metadata": row.get("metadata") or {}, "labels": row.get("labels") or [], "notes": row.get("notes") or "",
        "user_id": ids.new("users", row.get("user_id") or 1), "created_at": created,
        "updated_at": instant(row.get("last_updated_time")) or created,
    }  # fmt: skip
