"""Report the use of slots and its cost: each allocation, or sums of a day or month."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, Literal

from det_controlplane.core.csv_text import csv_text
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import costs, usage
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
    "slot_hours", "cost_usd",
)  # fmt: skip
_AGGREGATED_COLUMNS = (
    "aggregation_type", "aggregation_key", "date", "seconds", "slot_hours", "cost_usd",
)  # fmt: skip
_GROUPS = (
    ("username", "byUsername"),
    ("experiment_label", "byExperimentLabel"),
    ("resource_pool", "byResourcePool"),
)


def allocations_csv(ctx: Context, after: datetime, before: datetime) -> str:
    rows = _rows(ctx, usage.allocations, after, before)
    return csv_text(
        _ALLOCATION_COLUMNS, ([getattr(r, c) for c in _ALLOCATION_COLUMNS] for r in rows)
    )


def raw_csv(ctx: Context, after: datetime, before: datetime) -> str:
    """Return a CSV of allocations and the machines that they ran on, each with its cost."""
    lines = (
        (
            e["experimentId"] or "", e["kind"], e["username"], ",".join(e["labels"]), e["slots"], e["startTime"],
            e["endTime"], e["seconds"], e["slotHours"], f"{e['costUsd']:.6f}",
        )
        for e in raw(ctx, after, before)
    )  # fmt: skip
    return csv_text(_RAW_COLUMNS, lines)


def raw(ctx: Context, after: datetime, before: datetime) -> list[dict[str, Any]]:
    """Return allocations with their share of machines, and machines with their idle share.

    So the `costUsd` of all entries adds up to the cost of the machines."""
    rows = _rows(ctx, usage.raw, after, before)
    with ctx.db.begin() as tx:
        period = costs.Span(after, before, ctx.now())
        spent, idle = costs.by_allocation(tx, period), costs.idle_of_machines(tx, period)
    entries = [
        {
            "kind": r.kind, "startTime": r.start_time, "endTime": r.end_time, "experimentId": r.experiment_id or 0,
            "username": r.username, "userId": r.user_id, "labels": list(r.labels), "slots": r.slots,
            "seconds": r.seconds, "slotHours": round(r.slots * r.seconds / 3600, 6),
            "costUsd": _usd(spent.get(r.allocation_id)),
        }
        for r in rows
    ]  # fmt: skip
    ran = {r.allocation_id for r in rows}
    entries += [_waiting_entry(cost) for id, cost in spent.items() if id not in ran]
    return entries + [_machine_entry(machine) for machine in idle]


def _usd(cost: costs.AllocationCost | None) -> float:
    return 0.0 if cost is None else float(round(cost.usd, 6))


def _waiting_entry(cost: costs.AllocationCost) -> dict[str, Any]:
    """Return an entry of work that held slots in the period and did not run: they are to be paid all the same."""
    return {
        "kind": "training" if cost.kind == "TRIAL" else cost.kind.lower(),
        "startTime": cost.start_time.isoformat(), "endTime": cost.end_time.isoformat(),
        "experimentId": cost.experiment_id or 0, "username": cost.username, "userId": cost.user_id,
        "labels": list(cost.labels), "slots": cost.slots, "seconds": 0.0, "slotHours": 0.0,
        "costUsd": _usd(cost),
    }  # fmt: skip


def _machine_entry(machine: costs.IdleMachine) -> dict[str, Any]:
    seconds = (machine.end_time - machine.start_time).total_seconds()
    return {
        "kind": "instance", "startTime": machine.start_time.isoformat(), "endTime": machine.end_time.isoformat(),
        "experimentId": 0, "username": machine.id, "userId": 0, "labels": [], "slots": machine.slots,
        "seconds": seconds, "slotHours": round(machine.slots * seconds / 3600, 6),
        "costUsd": float(round(machine.usd, 6)),
    }  # fmt: skip


def aggregated(ctx: Context, first: date, last: date, period: str) -> list[dict[str, Any]]:
    """Return slot-seconds by day or month, computed when asked, so that today counts too."""
    entries: dict[date, dict[str, Any]] = {}
    unit: Literal["day", "month"] = "month" if period == MONTHLY else "day"
    for row in _days(ctx, first, last, unit):
        entry = _entry(row.start.date(), period)
        entry["seconds"] = row.seconds
        for name, sums in (
            ("byUsername", row.by_username),
            ("byResourcePool", row.by_pool),
            ("byExperimentLabel", row.by_label),
        ):
            # JSON of PostgreSQL has whole numbers without a fraction.
            entry[name] = {key: float(seconds) for key, seconds in sums.items()}
        entries[row.start.date()] = entry
    _add_costs(ctx, first, last, period, entries)
    return [entries[start] for start in sorted(entries)]


def _add_costs(
    ctx: Context, first: date, last: date, period: str, entries: dict[date, dict[str, Any]]
) -> None:
    """Add costs: the cost of the work of users and labels, and the cost of the machines of pools and in total."""
    days = _midnight(first), _midnight(last), ctx.now()

    def of(after: datetime) -> dict[str, Any]:
        start = after.date().replace(day=1) if period == MONTHLY else after.date()
        amounts: dict[str, Any] = entries.setdefault(start, _entry(start, period))["costUsd"]
        return amounts

    with ctx.db.begin() as tx:
        work, machines = costs.work_by_day(tx, *days), costs.machines_by_day(tx, *days)
    for one in work:
        _count(of(one.after)["byUsername"], one.username, float(one.usd))
        for label in one.labels:
            _count(of(one.after)["byExperimentLabel"], label, float(one.usd))
    for pool in machines:
        of(pool.after)["total"] += float(pool.usd)
        _count(of(pool.after)["byResourcePool"], pool.pool, float(pool.usd))


def aggregated_csv(ctx: Context, first: date, last: date, period: str) -> str:
    lines: list[Sequence[Any]] = []
    for entry in aggregated(ctx, first, last, period):
        spent = entry["costUsd"]
        lines.append(("total", "total", *_amounts(entry, entry["seconds"], spent["total"])))
        for name, key in _GROUPS:
            lines += [
                (name, k, *_amounts(entry, entry[key].get(k, 0.0), spent[key].get(k, 0.0)))
                for k in sorted({*entry[key], *spent[key]})
            ]
    return csv_text(_AGGREGATED_COLUMNS, lines)


def _amounts(entry: dict[str, Any], seconds: float, usd: float) -> tuple[Any, ...]:
    return entry["periodStart"], seconds, round(seconds / 3600, 6), f"{usd:.6f}"


def _days(ctx: Context, first: date, last: date, unit: Literal["day", "month"]) -> Sequence[Any]:
    if first > last:
        raise Invalid(f"start date {first} is after end date {last}")
    if last - first > MAX_SPAN:
        raise Invalid("the report spans more than three years: ask for less at once")
    with ctx.db.begin() as tx:
        return usage.by_day(tx, _midnight(first), _midnight(last), ctx.now(), unit)


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
        "costUsd": {"total": 0.0, "byUsername": {}, "byExperimentLabel": {}, "byResourcePool": {}},
    }  # fmt: skip


def _count(counts: dict[str, float], key: str, seconds: float) -> None:
    counts[key] = counts.get(key, 0.0) + seconds


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
