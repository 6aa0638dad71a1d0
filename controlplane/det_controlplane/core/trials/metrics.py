"""Metrics: allowed values, merging of reports and summaries.

See docs/reference/compatibility.md#metrics."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Metrics = Mapping[str, Any]
_NOT_FINITE = {"NaN": math.nan, "Nan": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
VALIDATION = "validation"
MOST_STEPS = 2**31 - 1  # the largest value of the columns that hold steps and runs
LONGEST_NAME = 1000
# Tables read the whole summary of a trial for each column that they sort by.
_LONGEST_LAST = 1000
_SUMMARY_KEYS = {"training": "avg_metrics", VALIDATION: "validation_metrics"}


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """Metrics that the harness reports for a step."""

    trial_id: int
    run_id: int
    group: str
    total_batches: int | None
    metrics: dict[str, Any]
    batch_metrics: list[Any] | None = None
    reported_at: datetime | None = None
    request_key: str | None = None  # equal in each repetition of the report


def steps_problem(steps: int) -> str | None:
    """Return the reason why a number of completed steps cannot be stored, or None."""
    if 0 <= steps <= MOST_STEPS:
        return None
    return f"steps are a number from 0 to {MOST_STEPS}, not {steps}"


class Conflict(Exception):
    """Two reports of one step have different values of a metric."""


def summary_key(group: str) -> str:
    """Return the name of a group in a trial's summary."""
    return _SUMMARY_KEYS.get(group, group)


def storable(value: Any) -> Any:
    """Make a value storable. JSON has no NaN and no infinity, so these become the strings that clients send."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == "Nan":
        return "NaN"
    if isinstance(value, Mapping):
        return {k: storable(v) for k, v in value.items()}
    return [storable(v) for v in value] if isinstance(value, list) else value


def number(value: Any) -> float | None:
    """Return the metric as a number, which may be NaN or infinite, or None if it is not a number."""
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return None if isinstance(value, bool) else float(value)
    return _NOT_FINITE.get(value) if isinstance(value, str) else None


def beyond_range(metrics: Metrics) -> str | None:
    """Return the name of a metric with an integer beyond the range of a float, or None. Summaries use floats."""
    return next((name for name, value in metrics.items() if _is_beyond_range(value)), None)


def _is_beyond_range(value: Any) -> bool:
    if not isinstance(value, int):
        return False
    try:
        float(value)
    except OverflowError:
        return True
    return False


def merged(present: Metrics, added: Metrics, what: str) -> dict[str, Any]:
    """Merge two reports of a step. Raises Conflict if a metric has different values in them."""
    for name in present.keys() & added.keys():
        if present[name] != added[name]:
            raise Conflict(
                f"{what}: metric {name!r} was already reported as {present[name]!r}, not {added[name]!r};"
                " report each metric once a step"
            )
    return {**present, **added}


def is_better(metric: float, best: float | None, smaller_is_better: bool) -> bool:
    if math.isnan(metric):
        return False
    if best is None or math.isnan(best):
        return True
    return metric < best if smaller_is_better else metric > best


def summarise(summary: Metrics, reports: Iterable[Metrics]) -> dict[str, Any]:
    """Add reports, oldest first, to a group's summary. `metric_names` limits the names of reports."""
    result = {name: dict(entry) for name, entry in summary.items()}
    for report in reports:
        for name, value in report.items():
            result[name] = _fold_value(result.get(name), value)
    return result


def _fold_value(entry: dict[str, Any] | None, value: Any) -> dict[str, Any]:
    as_number = number(value)
    kind = _kind(value) if as_number is None else "number"
    if entry is None:
        entry = {"type": kind, "count": 0}
    if entry["type"] != kind:
        return {"type": "string", "count": entry["count"] + 1, "last": _short(value)}
    entry["count"] += 1
    entry["last"] = _short(value)
    if as_number is not None:
        _fold_number(entry, as_number)
    return entry


def _short(value: Any) -> Any:
    """Return None for a value that is too long for a summary. The report itself keeps the value."""
    is_text = isinstance(value, (str, list, dict))
    return None if is_text and len(repr(value)) > _LONGEST_LAST else value


def _fold_number(entry: dict[str, Any], value: float) -> None:
    total = value + (number(entry.get("sum")) or 0.0)
    low, high = number(entry.get("min")), number(entry.get("max"))
    entry["sum"], entry["mean"] = storable(total), storable(total / entry["count"])
    entry["min"] = storable(value if low is None else min(value, low))
    entry["max"] = storable(value if high is None else max(value, high))


def kind_of(value: Any) -> str:
    """Return the type of a metric in summaries: number, string, date, bool, array, object or null."""
    return "number" if number(value) is not None else _kind(value)


def _kind(value: Any) -> str:
    """Return the type of a value that is not a number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "date" if _is_date(value) else "string"
    return "array" if isinstance(value, list) else "object"


def _is_date(value: str) -> bool:
    if len(value) < 10 or value[4:5] != "-":
        return False
    try:
        datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True
