"""Who used how many slots for how long (facts §9.9)."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any

from sqlalchemy import text

from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid

DAILY, MONTHLY = "DAILY", "MONTHLY"
MAX_SPAN = timedelta(days=3 * 366)

# What of an allocation's run lies between the two times.
_SECONDS = """extract(epoch FROM least(coalesce(a.ended_at, :now), cast(:before AS timestamptz))
    - greatest(a.started_at, cast(:after AS timestamptz)))"""
_USED = """allocations a JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id
    JOIN users u ON u.id = j.user_id JOIN workspaces w ON w.id = j.workspace_id
    LEFT JOIN experiments e ON e.id = k.experiment_id"""
_OVERLAPS = """a.started_at IS NOT NULL AND a.started_at < cast(:before AS timestamptz)
    AND coalesce(a.ended_at, :now) > cast(:after AS timestamptz)"""
_ALLOCATIONS = text(f"""
    SELECT a.id AS allocation_id, k.kind::text AS task_type, u.username, w.name AS workspace_name, k.experiment_id, a.slots,
           {time("a.started_at")} AS start_time, {time("a.ended_at")} AS end_time,
           coalesce(extract(epoch FROM a.pull_ended_at - a.pull_started_at), 0)::double precision AS imagepulling_time,
           (a.slots * {_SECONDS} / 3600)::double precision AS slot_hours, a.pool AS resource_pool
    FROM {_USED} WHERE {_OVERLAPS} ORDER BY a.started_at, a.id
""")
_RAW = text(f"""
    SELECT CASE k.kind WHEN 'TRIAL' THEN 'training' ELSE lower(k.kind::text) END AS kind, u.username, u.id AS user_id,
           coalesce(e.labels, '{{}}') AS labels, k.experiment_id, a.slots, {time("a.started_at")} AS start_time,
           {time("coalesce(a.ended_at, :now)")} AS end_time, {_SECONDS}::double precision AS seconds
    FROM {_USED} WHERE {_OVERLAPS} ORDER BY a.started_at, a.id
""")
_BY_DAY = text("""
    WITH days AS (SELECT d AS after, d + interval '1 day' AS before
                  FROM generate_series(cast(:first AS timestamptz), cast(:last AS timestamptz), interval '1 day') AS d)
    SELECT d.after, u.username, a.pool, coalesce(e.labels, '{}') AS labels,
           (a.slots * extract(epoch FROM least(coalesce(a.ended_at, :now), d.before) - greatest(a.started_at, d.after)))::double precision AS seconds
    FROM days d JOIN allocations a ON a.started_at < d.before AND coalesce(a.ended_at, :now) > d.after
    JOIN tasks k ON k.id = a.task_id JOIN jobs j ON j.id = a.job_id JOIN users u ON u.id = j.user_id
    LEFT JOIN experiments e ON e.id = k.experiment_id
    WHERE a.started_at IS NOT NULL AND a.slots > 0 ORDER BY d.after
""")
_ALLOCATION_COLUMNS = (
    "allocation_id", "task_type", "username", "workspace_name", "experiment_id", "slots", "start_time",
    "end_time", "imagepulling_time", "slot_hours", "resource_pool",
)  # fmt: skip
_RAW_COLUMNS = (
    "experiment_id", "kind", "username", "labels", "slots", "start_time", "end_time", "seconds",
)  # fmt: skip
_GROUPS = (
    ("username", "byUsername"),
    ("experiment_label", "byExperimentLabel"),
    ("resource_pool", "byResourcePool"),
)


def allocations_csv(ctx: Context, after: datetime, before: datetime) -> str:
    rows = _rows(ctx, _ALLOCATIONS, after, before)
    return _csv(_ALLOCATION_COLUMNS, ([getattr(r, c) for c in _ALLOCATION_COLUMNS] for r in rows))


def raw_csv(ctx: Context, after: datetime, before: datetime) -> str:
    rows = _rows(ctx, _RAW, after, before)
    cells = (
        [",".join(r.labels) if c == "labels" else getattr(r, c) for c in _RAW_COLUMNS] for r in rows
    )
    return _csv(_RAW_COLUMNS, cells)


def raw(ctx: Context, after: datetime, before: datetime) -> list[dict[str, Any]]:
    return [
        {
            "kind": r.kind, "startTime": r.start_time, "endTime": r.end_time, "experimentId": r.experiment_id or 0,
            "username": r.username, "userId": r.user_id, "labels": list(r.labels), "slots": r.slots,
            "seconds": r.seconds,
        }
        for r in _rows(ctx, _RAW, after, before)
    ]  # fmt: skip


def aggregated(ctx: Context, first: date, last: date, period: str) -> list[dict[str, Any]]:
    """Slot-seconds by day or month. Computed when asked, so today counts too."""
    entries: dict[date, dict[str, Any]] = {}
    for row in _days(ctx, first, last):
        day = row.after.date()
        start = day.replace(day=1) if period == MONTHLY else day
        entry = entries.setdefault(start, _entry(start, period))
        entry["seconds"] += row.seconds
        _count(entry["byUsername"], row.username, row.seconds)
        _count(entry["byResourcePool"], row.pool, row.seconds)
        for label in row.labels:
            _count(entry["byExperimentLabel"], label, row.seconds)
    return [entries[start] for start in sorted(entries)]


def aggregated_csv(ctx: Context, first: date, last: date, period: str) -> str:
    lines: list[Sequence[Any]] = []
    for entry in aggregated(ctx, first, last, period):
        lines.append(("total", "total", entry["periodStart"], entry["seconds"]))
        for name, key in _GROUPS:
            lines += [(name, k, entry["periodStart"], v) for k, v in sorted(entry[key].items())]
    return _csv(("aggregation_type", "aggregation_key", "date", "seconds"), lines)


def _days(ctx: Context, first: date, last: date) -> Sequence[Any]:
    if first > last:
        raise Invalid(f"start date {first} is after end date {last}")
    if last - first > MAX_SPAN:
        raise Invalid("the report spans more than three years: ask for less at once")
    params = {"first": _midnight(first), "last": _midnight(last), "now": ctx.now()}
    with ctx.db.begin() as tx:
        return tx.execute(_BY_DAY, params).all()


def _rows(ctx: Context, statement: Any, after: datetime, before: datetime) -> Sequence[Any]:
    if after > before:
        raise Invalid(
            f"timestampAfter {after.isoformat()} is after timestampBefore {before.isoformat()}"
        )
    with ctx.db.begin() as tx:
        return tx.execute(statement, {"after": after, "before": before, "now": ctx.now()}).all()


def _entry(start: date, period: str) -> dict[str, Any]:
    return {
        "periodStart": start.isoformat(), "period": f"RESOURCE_ALLOCATION_AGGREGATION_PERIOD_{period}",
        "seconds": 0.0, "byUsername": {}, "byExperimentLabel": {}, "byResourcePool": {}, "byAgentLabel": {},
    }  # fmt: skip


def _count(counts: dict[str, float], key: str, seconds: float) -> None:
    counts[key] = counts.get(key, 0.0) + seconds


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.utc)


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
