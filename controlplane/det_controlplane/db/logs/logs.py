"""Lines of task logs as they are stored: in batches of agents, or by the control plane itself."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from sqlalchemy import select, text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import TASK_NAME
from det_controlplane.db.schema import tasks

_INSERT = text("""
    INSERT INTO task_logs (task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source, stdtype, log)
    SELECT x.task_id, x.allocation_id, x.agent_id, x.container_id, x.rank_id, coalesce(x.timestamp, :now), x.level,
           x.source, x.stdtype, x.log
    FROM json_to_recordset(cast(:rows AS json)) AS x (task_id text, allocation_id text, agent_id text,
         container_id text, rank_id integer, timestamp timestamptz, level text, source text, stdtype text, log text)
""")
_REMEMBER = text("""
    INSERT INTO log_batches (batch_id, stored_at) VALUES (:id, :now) ON CONFLICT DO NOTHING
""")
_FORGET = text("DELETE FROM log_batches WHERE stored_at < :before")
_LINE = text("""
    INSERT INTO task_logs (task_id, logged_at, level, source, log)
    SELECT id, :now, :level, 'master', :log FROM unnest(cast(:task_ids AS text[])) AS id
""")
# The line consists of two texts with the task's name between them.
_NAMED = text(f"""
    INSERT INTO task_logs (task_id, logged_at, level, source, log)
    SELECT k.id, :now, x.level, 'master', concat(x.before, {TASK_NAME}, x.after)
    FROM ROWS FROM (jsonb_to_recordset(cast(:rows AS jsonb)) AS (task_id text, level text, before text, after text))
        WITH ORDINALITY AS x (task_id, level, before, after, place)
    JOIN tasks k ON k.id = x.task_id JOIN jobs j ON j.id = k.job_id ORDER BY x.place
""")

_FOLLOW = text("""
    UPDATE tasks SET logs_followed_until = :until
    WHERE id = :task_id AND coalesce(logs_followed_until, '-infinity') < :stale
""")
_FOLLOWED = text("""
    SELECT EXISTS (SELECT 1 FROM allocations a JOIN tasks k ON k.id = a.task_id
                   WHERE a.id = ANY(cast(:allocation_ids AS text[])) AND k.logs_followed_until > :now)
""")
# Stands for NUL in stored lines: a code point that Unicode keeps free for such uses inside of programs.
_NUL = "\ufdd0"


def insert(tx: Tx, rows: Sequence[dict[str, Any]], now: datetime) -> None:
    # Missing fields become NULL, and fields without a column are ignored.
    rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
    document = json.dumps(rows)
    if "\\u0000" in document or "\\ud" in document:
        document = json.dumps([{k: _storable(v) for k, v in row.items()} for row in rows])
    tx.execute(_INSERT, {"rows": document, "now": now})


def follow(tx: Tx, task_id: str, until: datetime, stale: datetime) -> None:
    """Remember that a log is followed until a time, unless a time after `stale` is known."""
    tx.execute(_FOLLOW, {"task_id": task_id, "until": until, "stale": stale})


def are_followed(tx: Tx, allocation_ids: Sequence[str], now: datetime) -> bool:
    """Return whether the log of one of some allocations is followed now."""
    values = {"allocation_ids": list(allocation_ids), "now": now}
    return bool(tx.execute(_FOLLOWED, values).scalar())


def _storable(value: Any) -> Any:
    """Return a text that PostgreSQL can store: without NUL and halves of surrogate pairs, which programs may print."""
    if not isinstance(value, str):
        return value
    whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.replace("\0", _NUL)


def as_written(stored: str) -> str:
    """Return the text of a line as its program wrote it."""
    return stored.replace(_NUL, "\0")


def remember_batch(tx: Tx, batch_id: UUID, now: datetime) -> bool:
    """Remember a batch; return False when it was stored before."""
    return tx.execute(_REMEMBER, {"id": batch_id, "now": now}).rowcount == 1


def remember_request(tx: Tx, key: str | None, sender: str, now: datetime) -> bool:
    """Return False when a request with this Idempotency-Key was stored before; requests without one are always new."""
    return key is None or remember_batch(tx, uuid5(NAMESPACE_OID, f"{sender} {key}"), now)


def forget_batches(tx: Tx, before: datetime) -> int:
    return tx.execute(_FORGET, {"before": before}).rowcount


def add_line(tx: Tx, task_id: str, line: str, now: datetime, level: str = "INFO") -> None:
    """Add a line of the control plane to the log of a task."""
    add_line_to_each(tx, [task_id], line, now, level)


def add_line_to_each(
    tx: Tx, task_ids: Sequence[str], line: str, now: datetime, level: str = "INFO"
) -> None:
    """Add the same line of the control plane to the logs of several tasks."""
    params = {"task_ids": list(task_ids), "log": line, "now": now, "level": f"LOG_LEVEL_{level}"}
    tx.execute(_LINE, params)


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A log line with the name of its task between two texts."""

    task_id: str
    after: str
    before: str = ""
    level: str = "LOG_LEVEL_INFO"


def add_named_lines(tx: Tx, lines: Sequence[NamedLine], now: datetime) -> None:
    """Store lines of the control plane's own, in their order."""
    rows = json.dumps([asdict(line) for line in lines])
    tx.execute(_NAMED, {"rows": rows, "now": now})


@dataclass(frozen=True, slots=True)
class TaskEnd:
    ended_at: datetime | None


def tasks_of_trial(tx: Tx, trial_id: int) -> list[str]:
    of_trial = select(tasks.c.id).where(tasks.c.trial_id == trial_id)
    return list(tx.execute(of_trial.order_by(tasks.c.started_at, tasks.c.id)).scalars())


def task_end(tx: Tx, task_id: str) -> TaskEnd | None:
    row = tx.execute(select(tasks.c.ended_at).where(tasks.c.id == task_id)).first()
    return None if row is None else TaskEnd(*row)
