"""Read values of rows that PostgreSQL has written as JSON."""

import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

Row = Mapping[str, Any]
_NAMESPACE = uuid.UUID("6d696772-6174-4564-8000-000000000000")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def instant(value: str | None) -> datetime | None:
    """Return a time. Determined stores times without a zone in UTC."""
    if value is None:
        return None
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def first_instant(*values: str | None) -> datetime:
    """Return the first time that is known."""
    return next((m for m in map(instant, values) if m is not None), _EPOCH)


def uuid_of(value: str | None, *names: object) -> str:
    """Return a UUID as it is, or one that follows from the other names: a second import makes the same one."""
    try:
        return str(uuid.UUID(str(value)))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, "/".join(str(name) for name in (value, *names))))
