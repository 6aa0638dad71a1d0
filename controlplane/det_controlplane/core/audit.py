"""Decide which requests the audit log records, with which action, object and fields, and without secrets."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_V1 = "/api/v1/"
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_VERBS = {"GET": "open", "POST": "create", "PUT": "set", "PATCH": "edit", "DELETE": "delete"}
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
        "POST /agents/v1/reports",
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
# What lets a caller into something of another user, which is told where it does.
_OPENING = frozenset(
    {
        "GET /api/v1/notebooks/{taskId}", "GET /api/v1/shells/{taskId}", "GET /api/v1/shells/{taskId}/terminal",
        "GET /api/v1/tensorboards/{taskId}",
    }
)  # fmt: skip
# Values that are told; of all others, their names.
_TOLD = frozenset(
    {
        "activate", "active", "addGroups", "addUsers", "admin", "agentGid", "agentGroup", "agentUid", "agentUser",
        "archived", "days", "description", "destinationProjectId", "destinationWorkspaceId", "displayName", "drain",
        "enabled", "endTokens", "experimentIds",
        "forever", "groupId", "ids", "lifespan", "maxSlots", "maxUses", "name", "newName", "numDays", "oldName",
        "parentId", "pauseWork", "period", "priority", "projectId", "remote", "removeGroups", "removeUsers",
        "resourcePoolName", "roleId", "runIds", "scopeCluster", "scopeWorkspaceId", "setRevoked", "userId",
        "userIds", "username", "weight", "workloadType", "workspaceId", "workspaceIds",
    }
)  # fmt: skip
# Objects with such values: users.
_LOOKED_INTO = frozenset({"agentUserGroup", "user"})
_UNDERSCORED = re.compile(r"_([a-z])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_MOST_NAMES, _MOST_ITEMS, _LONGEST = 30, 1000, 200


def is_recorded(method: str, path: str) -> bool:
    """Return whether a route, by the path with its parameters' names, changes what others see or opens it."""
    if f"{method} {path}" in _OPENING:
        return True
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
    """Return the object that a path names, such as `experiment 12` or `model digits version 3`."""
    parts = path.removeprefix(_V1).strip("/").split("/")
    named = [
        f"{_singular(parts[i - 1])} {params.get(part.strip('{}.'), '')}"
        for i, part in enumerate(parts)
        if i and part.startswith("{")
    ]
    return " ".join(named)[:_LONGEST]


def named(things: Iterable[str]) -> str:
    """Return the object of a row that concerns several things, such as `user 7 group 2`."""
    return str(_short(" ".join(dict.fromkeys(things))))


def details_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return harmless values of a request's body, and the names of the rest."""
    told = _told(body)
    names = sorted({_camel(name) for name in body} - told.keys())
    rest = _cut([name for name in names if _NAME.fullmatch(name)], _MOST_NAMES)
    return {**told, "fields": rest} if rest else told


def _told(body: Mapping[str, Any]) -> dict[str, Any]:
    read = _as_read(body)
    plain = {name: _plain(value) for name, value in read.items() if name in _TOLD}
    inner = {
        name: _told(value)
        for name, value in read.items()
        if name in _LOOKED_INTO and isinstance(value, Mapping)
    }
    return {name: value for name, value in (plain | inner).items() if value not in (None, {})}


def _as_read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields under the names by which they are read: camelCase, which wins over snake_case."""
    underscored = {_camel(name): value for name, value in body.items() if "_" in name}
    return underscored | {n: v for n, v in body.items() if "_" not in n and v is not None}


def _camel(name: str) -> str:
    return _UNDERSCORED.sub(lambda found: found[1].upper(), name)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        items = dict.fromkeys(_short(item) for item in value if _is_plain(item))
        return _cut(list(items), _MOST_ITEMS)
    return _short(value) if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _cut(items: list[Any], most: int) -> list[Any]:
    """Shorten a text that is too long, and mark that: nothing hides behind junk."""
    return items if len(items) <= most else [*items[:most], f"and {len(items) - most} more"]


def _short(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _LONGEST
    return f"{value[: _LONGEST - 1]}…" if is_long else value


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
