"""Choose the fields of a request that the audit log stores, so that it contains no secrets."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

# Fields with harmless values. The log stores only the names of all other fields.
_HARMLESS = frozenset(
    {
        "activate", "active", "addGroups", "addUsers", "admin", "agentGid", "agentGroup", "agentUid",
        "agentUser", "agentsTo", "archived", "aux", "compute", "days", "description", "destinationProjectId",
        "destinationWorkspaceId", "displayName", "drain", "enabled", "endTokens", "experimentIds", "forever",
        "groupId", "groups", "ids", "lifespan", "maxSlots", "maxUses", "name", "newName", "numDays", "oldName",
        "parentId", "pauseWork", "period", "pool", "preempt", "priority", "projectId", "remote", "removeGroups",
        "removeUsers", "resourcePoolName", "roleId", "runIds", "scopeCluster", "scopeWorkspaceId", "setRevoked",
        "userId", "userIds", "username", "users", "weight", "workloadType", "workspaceId", "workspaceIds",
    }
)  # fmt: skip
# Objects that contain harmless fields, such as users.
_NESTED = frozenset({"agentUserGroup", "user"})
_UNDERSCORED = re.compile(r"_([a-z])")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_MOST_NAMES, _MOST_ITEMS, _LONGEST = 30, 1000, 200


def named(things: Iterable[str]) -> str:
    """Return the object of an entry about several things, such as `user 7 group 2`."""
    return str(_short(" ".join(dict.fromkeys(things))))


def details_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the harmless values of a request's body, and the names of the other fields."""
    values = _harmless(body)
    names = sorted({_camel(name) for name in body} - values.keys())
    rest = _cut([name for name in names if _NAME.fullmatch(name)], _MOST_NAMES)
    return {**values, "fields": rest} if rest else values


def _harmless(body: Mapping[str, Any]) -> dict[str, Any]:
    fields = _as_read(body)
    plain = {name: _plain(value) for name, value in fields.items() if name in _HARMLESS}
    inner = {
        name: _harmless(value)
        for name, value in fields.items()
        if name in _NESTED and isinstance(value, Mapping)
    }
    return {name: value for name, value in (plain | inner).items() if value not in (None, {})}


def _as_read(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in camelCase. If a field has both spellings, camelCase wins."""
    underscored = {_camel(name): value for name, value in body.items() if "_" in name}
    return underscored | {n: v for n, v in body.items() if "_" not in n and v is not None}


def _camel(name: str) -> str:
    return _UNDERSCORED.sub(lambda match: match[1].upper(), name)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        items = dict.fromkeys(_short(item) for item in value if _is_plain(item))
        return _cut(list(items), _MOST_ITEMS)
    return _short(value) if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _cut(items: list[Any], most: int) -> list[Any]:
    """Shorten a long list. The last item gives the number of omitted items, so a caller cannot hide values."""
    return items if len(items) <= most else [*items[:most], f"and {len(items) - most} more"]


def _short(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _LONGEST
    return f"{value[: _LONGEST - 1]}…" if is_long else value
