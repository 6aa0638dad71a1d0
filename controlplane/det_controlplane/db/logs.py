"""Task logs: stored in batches, read by cursor."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db.engine import Tx

_INSERT = text("""
    INSERT INTO task_logs (task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source, stdtype, log)
    SELECT x.task_id, x.allocation_id, x.agent_id, x.container_id, x.rank_id, coalesce(x.timestamp, :now), x.level,
           x.source, x.stdtype, x.log
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (task_id text, allocation_id text, agent_id text,
         container_id text, rank_id integer, timestamp timestamptz, level text, source text, stdtype text, log text)
""")
_REMEMBER = text("""
    INSERT INTO log_batches (batch_id, stored_at) VALUES (:id, :now) ON CONFLICT DO NOTHING
""")
_FORGET = text("DELETE FROM log_batches WHERE stored_at < :before")
_LINE = text("""
    INSERT INTO task_logs (task_id, logged_at, level, source, log) VALUES (:task_id, :now, :level, 'master', :log)
""")


def insert(tx: Tx, rows: Sequence[dict[str, Any]], now: datetime) -> None:
    dumped = json.dumps(rows)
    if "\\u0000" in dumped or "\\ud" in dumped:
        dumped = json.dumps([{k: _storable(v) for k, v in row.items()} for row in rows])
    tx.execute(_INSERT, {"rows": dumped, "now": now})


def _storable(value: Any) -> Any:
    """PostgreSQL stores neither NUL nor half of a surrogate pair; programs print both."""
    if not isinstance(value, str):
        return value
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", "\ufffd")


def remember_batch(tx: Tx, batch_id: UUID, now: datetime) -> bool:
    """False when this batch was stored before."""
    return tx.execute(_REMEMBER, {"id": batch_id, "now": now}).rowcount == 1


def forget_batches(tx: Tx, before: datetime) -> int:
    return tx.execute(_FORGET, {"before": before}).rowcount


def add_line(tx: Tx, task_id: str, line: str, now: datetime, level: str = "INFO") -> None:
    """A line of the control plane's own."""
    told = {"task_id": task_id, "log": line, "now": now, "level": f"LOG_LEVEL_{level}"}
    tx.execute(_LINE, told)


def add_lines(tx: Tx, lines: Mapping[str, str], now: datetime) -> None:
    """A line of the control plane's own for each of many tasks."""
    rows = [
        {"task_id": task_id, "level": "LOG_LEVEL_INFO", "source": "master", "log": line}
        for task_id, line in lines.items()
    ]
    insert(tx, rows, now)
