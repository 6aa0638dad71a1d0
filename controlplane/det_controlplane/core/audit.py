"""Decide which fields of a request the audit log keeps, so that it holds no secrets."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

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
