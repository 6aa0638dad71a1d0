"""Report who used how many slots for how long."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any

from det_controlplane.db import usage
from det_controlplane.db.engine import Tx
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid

Report = Callable[[Tx, datetime, datetime, datetime], Sequence[Any]]

DAILY, MONTHLY = "DAILY", "MONTHLY"
MAX_SPAN = timedelta(days=3 * 366)

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
    rows = _rows(ctx, usage.allocations, after, before)
    return _csv(_ALLOCATION_COLUMNS, ([getattr(r, c) for c in _ALLOCATION_COLUMNS] for r in rows))


def raw_csv(ctx: Context, after: datetime, before: datetime) -> str:
    rows = _rows(ctx, usage.raw, after, before)
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
        for r in _rows(ctx, usage.raw, after, before)
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
    with ctx.db.begin() as tx:
        return usage.by_day(tx, _midnight(first), _midnight(last), ctx.now())


def _rows(ctx: Context, report: Report, after: datetime, before: datetime) -> Sequence[Any]:
    if after > before:
        raise Invalid(
            f"timestampAfter {after.isoformat()} is after timestampBefore {before.isoformat()}"
        )
    with ctx.db.begin() as tx:
        return report(tx, after, before, ctx.now())


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
