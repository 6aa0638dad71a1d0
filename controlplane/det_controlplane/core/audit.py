"""Decide what of a request the audit log tells: which requests, what is done to what, and no secrets."""

import re
from collections.abc import Mapping
from typing import Any

_V1 = "/api/v1/"
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_VERBS = {"POST": "create", "PUT": "set", "PATCH": "edit", "DELETE": "delete"}
# Changing methods that change nothing, or nothing but what the caller's own pages look like.
_NO_CHANGES = frozenset(
    {
        "POST /api/v1/auth/oidc/begin", "POST /api/v1/auth/oidc/device/begin", "POST /api/v1/experiments-search",
        "POST /api/v1/experiments/{experimentId}/file", "POST /api/v1/preview-hp-search", "POST /api/v1/runs",
        "POST /api/v1/users/activity", "POST /api/v1/users/setting", "POST /api/v1/users/setting/reset",
        "POST /api/v1/webhooks/{id}/test", "POST /api/v1/workspaces/{id}/pin", "POST /api/v1/workspaces/{id}/unpin",
    }
)  # fmt: skip
# What programs report, many times a minute: kept as metrics, checkpoints, logs and events of searches.
_REPORTS = frozenset(
    {
        "PATCH /api/v1/trials/{trialId}", "POST /agents/v1/join", "POST /agents/v1/logs", "POST /agents/v1/poll",
        "POST /api/v1/checkpoints", "POST /api/v1/experiments/{experimentId}/searcher_operations",
        "POST /api/v1/runs/start", "POST /api/v1/task/logs", "POST /api/v1/trial-source-info", "POST /api/v1/trials",
        "POST /api/v1/trials/profiler/metrics", "POST /api/v1/trials/{trialId}/early_exit",
        "POST /api/v1/trials/{trialId}/metrics", "POST /api/v1/trials/{trialId}/progress",
        "POST /api/v1/trials/{trialId}/runner/metadata", "POST /api/v1/trials/{trialId}/searcher/completed_operation",
        "POST /api/v1/trials/{trialId}/start", "POST /api/v1/trials/{trialId}/training_metrics",
        "POST /api/v1/trials/{trialId}/validation_metrics", "POST /api/v1/webhooks/custom", "POST /task-logs",
        "PUT /api/v1/notebooks/{taskId}/report_idle", "PUT /api/v1/trials",
    }
)  # fmt: skip
NOT_RECORDED = _NO_CHANGES | _REPORTS
# Values that are told; of all others, their names.
_TOLD = frozenset(
    {
        "activate", "active", "addGroups", "addUsers", "admin", "archived", "days", "description",
        "destinationProjectId", "destinationWorkspaceId", "displayName", "drain", "enabled", "experimentIds",
        "forever", "groupId", "ids", "lifespan", "maxSlots", "maxUses", "name", "newName", "numDays", "oldName",
        "parentId", "period", "priority", "projectId", "remote", "removeGroups", "removeUsers",
        "resourcePoolName", "roleId", "runIds", "scopeCluster", "scopeWorkspaceId", "setRevoked", "userId",
        "userIds", "username", "weight", "workloadType", "workspaceId", "workspaceIds",
    }
)  # fmt: skip
# Objects, and lists of them, with such values: new users, and who is given which role.
_LOOKED_INTO = frozenset(
    {"groupRoleAssignments", "role", "roleAssignment", "user", "userRoleAssignments"}
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_MOST_NAMES, _MOST_ITEMS, _LONGEST = 30, 50, 200


def is_recorded(method: str, path: str) -> bool:
    """Return whether a route, by the path with its parameters' names, changes what others see."""
    if method not in _CHANGING or f"{method} {path}" in NOT_RECORDED:
        return False
    return "/search" not in path and not path.startswith(f"{_V1}allocations/")


def action_of(method: str, path: str) -> str:
    """Return a name such as `experiment.kill` or `user.edit`."""
    parts = path.removeprefix(_V1).strip("/").split("/")
    words = [part for part in parts if not part.startswith("{")]
    words[0] = _singular(words[0])
    says_itself = method == "POST" and len(words) > 1 and not parts[-1].startswith("{")
    return ".".join(words if says_itself else [*words, _VERBS[method]])


def object_of(path: str, params: Mapping[str, str]) -> str:
    """Return what the path names, such as `experiment 12` or `model digits version 3`."""
    parts = path.removeprefix(_V1).strip("/").split("/")
    named = [
        f"{_singular(parts[i - 1])} {params.get(part.strip('{}.'), '')}"
        for i, part in enumerate(parts)
        if i and part.startswith("{")
    ]
    return " ".join(named)[:_LONGEST]


def details_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return harmless values of a request's body, and the names of the rest."""
    told = _told(body)
    rest = sorted(name for name in body if name not in told and _NAME.fullmatch(name))
    return {**told, "fields": rest[:_MOST_NAMES]} if rest else told


def _told(body: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: _short(value) for name, value in body.items() if _is_told(name, value)}
    inner = {name: _inside(body[name]) for name in body if name in _LOOKED_INTO}
    return plain | {name: value for name, value in inner.items() if value}


def _inside(value: Any) -> Any:
    if isinstance(value, list):
        return [_told(item) for item in value[:_MOST_ITEMS] if isinstance(item, Mapping)]
    return _told(value) if isinstance(value, Mapping) else None


def _is_told(name: str, value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return name in _TOLD and all(isinstance(item, str | int | float | bool) for item in items)


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(item) for item in value[:_MOST_ITEMS]]
    return value[:_LONGEST] if isinstance(value, str) else value


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
