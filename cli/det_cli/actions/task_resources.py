"""`det task resources`: the CPU, memory, disk, network and GPUs that a task uses."""

import argparse
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from determined.common.http import APIError, Session

from det_cli.actions.interactive import whole_task_id
from det_cli.connection import V1, connect
from det_cli.errors import UsageError
from det_cli.live.charts import sparkline
from det_cli.render import Column, show

_NAMES = {
    "cpu": "CPU", "memory": "memory", "disk_read": "disk read", "disk_write": "disk write",
    "net_received": "network received", "net_sent": "network sent", "gpu_util": "utilization",
    "gpu_memory": "GPU memory",
}  # fmt: skip
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ROOM = 24  # columns of a chart
_RECENT_S = 600
_NONE = "no measurement yet: the first one comes about 15 seconds after the start"
_COLUMNS: tuple[Column, ...] = (
    ("Agent", lambda s: s["agentId"]),
    ("Resource", lambda s: name_of(s)),
    ("Now", lambda s: amount(s["values"][-1], s["unit"])),
    ("Mean", lambda s: amount(mean(s), s["unit"])),
    ("Peak", lambda s: amount(max(s["values"]), s["unit"])),
    ("Limit", lambda s: "" if s["limit"] is None else amount(s["limit"], s["unit"])),
    ("Over time", lambda s: sparkline(s["values"], _ROOM)),
)
# CSV has numbers without units, for programs.
_CSV: tuple[Column, ...] = (
    ("agentId", lambda s: s["agentId"]),
    ("slotId", lambda s: s["slotId"]),
    ("name", lambda s: s["name"]),
    ("unit", lambda s: s["unit"]),
    ("time", lambda s: s["time"]),
    ("seconds", lambda s: s["seconds"]),
    ("value", lambda s: s["value"]),
    ("limit", lambda s: s["limit"]),
)


def resources(args: argparse.Namespace) -> None:
    since = None if args.last is None else time.time() - _seconds(args.last)
    session = connect(args)
    task_id = whole_task_id(session, args.task_id)
    found = series(session, task_id, since, points=2000 if args.format else 300)
    if args.format == "csv":
        show(args, _CSV, _points(found))
    else:
        show(args, _COLUMNS, found, {"series": found}, empty=_NONE)


def series(
    session: Session, task_id: str, since: "float | None", points: int
) -> list[dict[str, Any]]:
    """Return the measured values since a time, or since the start of the task."""
    query: dict[str, Any] = {"maxDatapoints": points}
    if since is not None:
        query["startTime"] = datetime.fromtimestamp(since, timezone.utc).isoformat()
    found: list[dict[str, Any]] = session.get(f"{V1}/tasks/{task_id}/resources", query)["series"]
    return found


def recent(session: Session, task_id: str) -> list[str]:
    """Return short texts about the latest use, such as "CPU 1.5 of 8 cores"."""
    try:
        found = series(session, task_id, time.time() - _RECENT_S, points=10)
    except APIError as e:
        if e.status != 404:
            raise
        return []  # an older cluster
    return [_latest(s) for s in found if s["name"] in ("cpu", "memory", "gpu_util")]


def _latest(s: dict[str, Any]) -> str:
    used = amount(s["values"][-1], s["unit"])
    if s["limit"] is None or s["unit"] == "percent":
        return f"{name_of(s)} {used}"
    limit = amount(s["limit"], s["unit"])
    if used.split()[1] == limit.split()[1]:
        used = used.split()[0]
    return f"{name_of(s)} {used} of {limit}"


def name_of(s: dict[str, Any]) -> str:
    name = _NAMES.get(s["name"], s["name"])
    return name if s["slotId"] is None else f"GPU {s['slotId']} {name.removeprefix('GPU ')}"


def mean(s: dict[str, Any]) -> float:
    seconds = sum(s["seconds"])
    weighted = sum(v * w for v, w in zip(s["values"], s["seconds"], strict=True))
    return float(weighted / seconds) if seconds else 0.0


def amount(value: float, unit: str) -> str:
    """Return a value with its unit. Bytes get the unit that fits."""
    if unit == "percent":
        return f"{value:.0f}%"
    if not unit.startswith("bytes"):
        return f"{value:.3g} {unit}"
    prefixes = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while value >= 1024 and power < len(prefixes) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.3g} {prefixes[power]}{unit.removeprefix('bytes')}"


def _points(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for s in found:
        for at, seconds, value in zip(s["timestamps"], s["seconds"], s["values"], strict=True):
            yield {**s, "time": at, "seconds": seconds, "value": value}


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or not int(number):
        raise UsageError(f"--last {text!r} is not a time", "write a number and s, m, h or d: 2h")
    return int(number) * float(_UNITS[unit])
