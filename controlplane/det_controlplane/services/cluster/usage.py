"""Report the use of slots and its cost: each allocation, or sums of a day or month."""

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, Literal

from det_controlplane.core.csv_text import csv_text
from det_controlplane.db.engine.database import as_json
from det_controlplane.db.money import costs, usage
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid

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
    span = costs.Span(*_require_order(after, before), ctx.now())
    with ctx.db.autocommit() as tx:
        rows = usage.allocations(tx, span)
    return csv_text(
        _ALLOCATION_COLUMNS, ([getattr(r, c) for c in _ALLOCATION_COLUMNS] for r in rows)
    )


def raw_csv(ctx: Context, after: datetime, before: datetime) -> str:
    """Return a CSV of allocations and the machines that they ran on, each with its cost."""
    lines = (
        (
            e["experimentId"] or "", e["kind"], e["username"], ",".join(e["labels"]), e["slots"], e["startTime"],
            e["endTime"], float(e["seconds"]), float(e["slotHours"]), f"{e['costUsd']:.6f}",
        )
        for e in json.loads(raw(ctx, after, before))
    )  # fmt: skip
    return csv_text(_RAW_COLUMNS, lines)


def raw(ctx: Context, after: datetime, before: datetime) -> str:
    """Return the JSON of allocations with their share of machines, and of machines with their idle share.

    So the `costUsd` of all entries adds up to the cost of the machines."""
    span = costs.Span(*_require_order(after, before), ctx.now())
    with ctx.db.begin() as tx:
        ran = usage.raw(tx, span)
        waited, idle = costs.not_running(tx, span), costs.idle_of_machines(tx, span)
    entries = [*map(_waiting_entry, waited), *map(_machine_entry, idle)]
    return f"[{','.join([ran] * bool(ran) + list(map(as_json, entries)))}]"


def _waiting_entry(cost: costs.AllocationCost) -> dict[str, Any]:
    """Return an entry of work that held slots in the period and did not run: they are to be paid all the same."""
    return {
        "kind": "training" if cost.kind == "TRIAL" else cost.kind.lower(),
        "startTime": cost.start_time.isoformat(), "endTime": cost.end_time.isoformat(),
        "experimentId": cost.experiment_id or 0, "username": cost.username, "userId": cost.user_id,
        "labels": list(cost.labels), "slots": cost.slots, "seconds": 0.0, "slotHours": 0.0,
        "costUsd": float(round(cost.usd, 6)),
    }  # fmt: skip


def _machine_entry(machine: costs.IdleMachine) -> dict[str, Any]:
    seconds = (machine.end_time - machine.start_time).total_seconds()
    return {
        "kind": "instance", "startTime": machine.start_time.isoformat(), "endTime": machine.end_time.isoformat(),
        "experimentId": 0, "username": machine.id, "userId": 0, "labels": [], "slots": machine.slots,
        "seconds": seconds, "slotHours": round(machine.slots * seconds / 3600, 6),
        "costUsd": float(round(machine.usd, 6)),
    }  # fmt: skip


def aggregated(ctx: Context, first: date, last: date, period: str) -> str:
    """Return the JSON of slot-seconds and costs by day or month, computed when asked, so that today counts too.

    Costs are the cost of the work of users and labels, and the cost of the machines of pools and in total."""
    if first > last:
        raise Invalid(f"start date {first} is after end date {last}")
    if last - first > MAX_SPAN:
        raise Invalid("the report spans more than three years: ask for less at once")
    unit: Literal["day", "month"] = "month" if period == MONTHLY else "day"
    days = _midnight(first), _midnight(last), ctx.now(), unit
    with ctx.db.begin() as tx:
        slots = {row.start: row for row in usage.by_day(tx, *days)}
        work = {row.start: row for row in costs.work_by_day(tx, *days)}
        machines = {row.start: row for row in costs.machines_by_day(tx, *days)}
    entries = [
        _entry(start, period, slots.get(start), work.get(start), machines.get(start))
        for start in sorted({*slots, *work, *machines})
    ]
    return f"[{','.join(entries)}]"


def _entry(
    start: datetime,
    period: str,
    slots: usage.SlotSeconds | None,
    work: costs.WorkCosts | None,
    machines: costs.MachineCosts | None,
) -> str:
    spent = _object(
        total=as_json(machines.usd if machines else 0.0),
        byUsername=work.by_username if work else "{}",
        byExperimentLabel=work.by_label if work else "{}",
        byResourcePool=machines.by_pool if machines else "{}",
    )
    return _object(
        periodStart=as_json(start.date().isoformat()),
        period=as_json(f"RESOURCE_ALLOCATION_AGGREGATION_PERIOD_{period}"),
        seconds=as_json(slots.seconds if slots else 0.0),
        byUsername=slots.by_username if slots else "{}",
        byExperimentLabel=slots.by_label if slots else "{}",
        byResourcePool=slots.by_pool if slots else "{}",
        byAgentLabel="{}",
        costUsd=spent,
    )


def _object(**fields: str) -> str:
    """Return an object of fields that are JSON text already."""
    return "{" + ",".join([f'"{name}":{text}' for name, text in fields.items()]) + "}"


def aggregated_csv(ctx: Context, first: date, last: date, period: str) -> str:
    lines: list[Sequence[Any]] = []
    for entry in json.loads(aggregated(ctx, first, last, period)):
        spent = entry["costUsd"]
        lines.append(("total", "total", *_amounts(entry, entry["seconds"], spent["total"])))
        for name, key in _GROUPS:
            lines += [
                (name, k, *_amounts(entry, entry[key].get(k, 0), spent[key].get(k, 0)))
                for k in sorted({*entry[key], *spent[key]})
            ]
    return csv_text(_AGGREGATED_COLUMNS, lines)


def _amounts(entry: dict[str, Any], seconds: float, usd: float) -> tuple[Any, ...]:
    return entry["periodStart"], float(seconds), round(seconds / 3600, 6), f"{usd:.6f}"


def _require_order(after: datetime, before: datetime) -> tuple[datetime, datetime]:
    if after > before:
        raise Invalid(
            f"timestampAfter {after.isoformat()} is after timestampBefore {before.isoformat()}"
        )
    return after, before


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
