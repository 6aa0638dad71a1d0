"""Task logs: taken in batches, read page by page or followed (facts §7.8)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from det_controlplane.db import logs
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing
from det_controlplane.services.logs import policies

BATCH = 1000
MAX_LINE = 64 * 1024
LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_TASK = text("SELECT ended_at FROM tasks WHERE id = :id")
_TASKS_OF_TRIAL = text("SELECT id FROM tasks WHERE trial_id = :id ORDER BY started_at, id")
_PAGE = """
    SELECT id, task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source, stdtype, log
    FROM task_logs WHERE task_id = :task_id AND {where} ORDER BY id {direction} LIMIT :limit
"""
_FIELDS = text("""
    SELECT json_build_object('allocationIds', coalesce(json_agg(DISTINCT allocation_id) FILTER (WHERE allocation_id IS NOT NULL), '[]'),
        'agentIds', coalesce(json_agg(DISTINCT agent_id) FILTER (WHERE agent_id IS NOT NULL), '[]'),
        'containerIds', coalesce(json_agg(DISTINCT container_id) FILTER (WHERE container_id IS NOT NULL), '[]'),
        'rankIds', coalesce(json_agg(DISTINCT rank_id) FILTER (WHERE rank_id IS NOT NULL), '[]'),
        'stdtypes', coalesce(json_agg(DISTINCT stdtype) FILTER (WHERE stdtype IS NOT NULL), '[]'),
        'sources', coalesce(json_agg(DISTINCT source) FILTER (WHERE source IS NOT NULL), '[]'))
    FROM task_logs WHERE task_id = :task_id
""")


@dataclass(frozen=True, slots=True)
class Filters:
    """Values of one field are alternatives; different fields narrow each other."""

    allocation_ids: Sequence[str] = ()
    agent_ids: Sequence[str] = ()
    container_ids: Sequence[str] = ()
    rank_ids: Sequence[int] = ()
    levels: Sequence[str] = ()
    stdtypes: Sequence[str] = ()
    sources: Sequence[str] = ()
    before: datetime | None = None
    after: datetime | None = None
    search: str = ""
    regex: bool = False


@dataclass(slots=True)
class Line:
    id: int
    task_id: str
    values: dict[str, Any] = field(default_factory=dict)


def store(
    ctx: Context, lines: Sequence[dict[str, Any]], *, batch_id: UUID | None, agent_id: str | None
) -> None:
    """Store lines once: a batch id that was seen is a repetition."""
    rows = [_row(line, agent_id) for line in lines]
    if not rows:
        return
    now = ctx.now()
    with ctx.db.begin() as tx:
        if batch_id is not None and not logs.remember_batch(tx, batch_id, now):
            return
        logs.insert(tx, rows, now)
    for task_id in {r["task_id"] for r in rows}:
        policies.match(ctx, task_id, [r for r in rows if r["task_id"] == task_id])
        ctx.waker.wake(f"logs:{task_id}")


def _row(line: dict[str, Any], agent_id: str | None) -> dict[str, Any]:
    task_id = line.get("task_id")
    if not task_id:
        raise Invalid("each log line needs a taskId")
    level = str(line.get("level") or "")
    name = level.removeprefix("LOG_LEVEL_").upper()
    return {
        **{k: line.get(k) for k in ("task_id", "allocation_id", "container_id", "rank_id", "timestamp",
                                    "source", "stdtype")},
        "agent_id": line.get("agent_id") or agent_id,
        "level": f"LOG_LEVEL_{name}" if name in LEVELS else None,
        "log": str(line.get("log") or "")[:MAX_LINE],
    }  # fmt: skip


def tasks_of_trial(ctx: Context, trial_id: int) -> list[str]:
    with ctx.db.begin() as tx:
        found = [r[0] for r in tx.execute(_TASKS_OF_TRIAL, {"id": trial_id}).all()]
    if not found:
        raise Missing(f"trial {trial_id} not found")
    return found


def ended_at(ctx: Context, task_id: str) -> datetime | None:
    """When the task ended; None while it lives."""
    with ctx.db.begin() as tx:
        row = tx.execute(_TASK, {"id": task_id}).first()
    if row is None:
        raise Missing(f"task '{task_id}' not found")
    found: datetime | None = row[0]
    return found


def page(
    ctx: Context, task_id: str, filters: Filters, *, after_id: int, descending: bool, limit: int
) -> list[Line]:
    """Lines after (or, descending, before) a line's id."""
    where, params = _where(filters)
    if after_id:
        where.append("id < :after_id" if descending else "id > :after_id")
        params["after_id"] = after_id
    direction = "DESC" if descending else "ASC"
    statement = text(_PAGE.format(where=" AND ".join(where) or "true", direction=direction))
    with ctx.db.begin() as tx:
        rows = tx.execute(statement, {**params, "task_id": task_id, "limit": limit}).all()
    return [Line(r.id, r.task_id, _shown(r)) for r in rows]


def fields(ctx: Context, task_id: str) -> Any:
    with ctx.db.begin() as tx:
        return tx.execute(_FIELDS, {"task_id": task_id}).scalar()


def _where(filters: Filters) -> tuple[list[str], dict[str, Any]]:
    where: list[str] = []
    params: dict[str, Any] = {}
    for column in ("allocation_id", "agent_id", "container_id", "stdtype", "source", "level"):
        values = list(getattr(filters, f"{column}s"))
        if values:
            where.append(f"{column} = ANY(cast(:{column} AS text[]))")
            params[column] = values
    if filters.rank_ids:
        unranked = " OR rank_id IS NULL" if -1 in filters.rank_ids else ""
        where.append(f"(rank_id = ANY(cast(:ranks AS integer[])){unranked})")
        params["ranks"] = list(filters.rank_ids)
    for name, operator in (("before", "<"), ("after", ">")):
        value = getattr(filters, name)
        if value is not None:
            where.append(f"logged_at {operator} :{name}")
            params[name] = value
    if filters.search:
        _check_regex(filters)
        where.append("log ~ :search" if filters.regex else "log ILIKE '%' || :search || '%'")
        params["search"] = filters.search
    return where, params


def _check_regex(filters: Filters) -> None:
    if filters.regex:
        try:
            re.compile(filters.search)
        except re.error as e:
            raise Invalid(f"searchText is not a regular expression: {e}") from e


def _shown(r: Any) -> dict[str, Any]:
    timestamp = r.logged_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    level = r.level or "LOG_LEVEL_UNSPECIFIED"
    return {
        "id": str(r.id), "taskId": r.task_id, "allocationId": r.allocation_id, "agentId": r.agent_id,
        "containerId": r.container_id, "rankId": r.rank_id, "timestamp": timestamp, "level": level,
        "source": r.source, "stdtype": r.stdtype, "log": r.log, "message": _message(r, timestamp, level),
    }  # fmt: skip


def _message(r: Any, timestamp: str, level: str) -> str:
    """The line as people read it; absent pieces leave no trace but the container's blanks."""
    container = (r.container_id or "")[:8].ljust(8)
    rank = "" if r.rank_id is None else f"[rank={r.rank_id}] "
    shown = "" if level.endswith("UNSPECIFIED") else f"{level.removeprefix('LOG_LEVEL_')}: "
    end = "" if r.log.endswith("\n") else "\n"
    return f"[{timestamp}] {container} {rank}|| {shown}{r.log}{end}"
