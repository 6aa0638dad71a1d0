"""Hiding what must not be shown: storage keys, passwords, signing keys."""

import json
from typing import Any, TypeVar

HIDDEN = "********"
_NAMES = frozenset(
    {
        "access_key", "secret_key", "connection_string", "credential", "password", "initial_user_password",
        "signing_key", "secret", "identitytoken", "registrytoken", "auth", "db_password", "token",
    }
)  # fmt: skip

T = TypeVar("T")


def redacted(value: T) -> T:
    """The same JSON with every secret hidden, given as a value or as text."""
    if isinstance(value, str):
        try:
            return json.dumps(_hidden(json.loads(value)), separators=(",", ":"))  # type: ignore[return-value]
        except ValueError:
            return value
    hidden: T = _hidden(value)
    return hidden


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: HIDDEN if k in _NAMES and v else _hidden(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_hidden(v) for v in value]
    return value
