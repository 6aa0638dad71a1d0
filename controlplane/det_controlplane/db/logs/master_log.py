"""The control plane's own log, and its level."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, literal_column, select, update

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time
from det_controlplane.db.schema import cluster, master_logs
from det_controlplane.db.schema.enums import LogLevel


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    entry: Any  # JSON


_id = master_logs.c.id
_ENTRY: Any = literal_column(
    "json_build_object('id', id, 'message', message, 'level', 'LOG_LEVEL_' || level,"
    f" 'timestamp', {time('logged_at')})"
)


def add(tx: Tx, at: datetime, level: str, message: str) -> None:
    tx.execute(insert(master_logs).values(logged_at=at, level=level, message=message))


def page(tx: Tx, after: int, limit: int) -> list[Entry]:
    """Return lines after an id."""
    lines = select(_id, _ENTRY.label("entry")).where(_id > after).order_by(_id).limit(limit)
    return [Entry(*row) for row in tx.execute(lines)]


def before_last(tx: Tx, count: int) -> int:
    """Return the id before the last `count` lines."""
    query = select(_id).order_by(_id.desc()).offset(count).limit(1)
    return tx.execute(query).scalar() or 0


def before_line(tx: Tx, number: int) -> int:
    """Return the id before the line with a number, counted from 0."""
    query = select(_id).order_by(_id).offset(number - 1).limit(1)
    return tx.execute(query).scalar() or 0


def forget(tx: Tx, before: datetime) -> int:
    return tx.execute(delete(master_logs).where(master_logs.c.logged_at < before)).rowcount


def settings(tx: Tx) -> tuple[LogLevel | None, bool | None]:
    """Return the level and the colour that operators set for every process."""
    row = tx.execute(select(cluster.c.log_level, cluster.c.log_color)).first()
    return (None, None) if row is None else (row.log_level, row.log_color)


def set_level(tx: Tx, level: LogLevel) -> None:
    tx.execute(update(cluster).values(log_level=level))


def set_color(tx: Tx, color: bool) -> None:
    tx.execute(update(cluster).values(log_color=color))
