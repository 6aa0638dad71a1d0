"""The phases of a start, from the submission to the first report of metrics, with their lengths and costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

# Pools describe the middle of their starts, and a start with bad luck.
QUANTILES = (0.5, 0.95)
PHASES = (
    "decision",  # until a machine was asked for, or existing slots were assigned
    "rent",  # until the cloud gave the machine
    "boot",  # until its kernel started
    "join",  # until its agent joined
    "assignment",  # until the scheduler gave the slots to the run
    "image",  # until the image was there
    "data",  # until the data sets were there, if there are any
    "container",  # until the container ran
    "first report",  # until the first metrics arrived
)


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Times of a run. `machine_*` belong to the rented machine that joined last, and are None without one.

    Agents of release 0.1 do not report `machine_booted_at`. The phase `join` of their machines begins at the launch.
    """

    requested_at: datetime
    machine_requested_at: datetime | None = None
    machine_launched_at: datetime | None = None
    machine_booted_at: datetime | None = None
    machine_joined_at: datetime | None = None
    assigned_at: datetime | None = None
    image_ready_at: datetime | None = None
    data_ready_at: datetime | None = None
    started_at: datetime | None = None
    first_report_at: datetime | None = None
    usd_hour: float = 0.0  # of the rented machines of the run


class Phase(NamedTuple):
    name: str
    seconds: float
    usd: float


class Interval(NamedTuple):
    """The time of a phase that has ended."""

    name: str
    begin: datetime
    end: datetime


def intervals(times: StartTimes) -> list[Interval]:
    """Return the phases that have ended, in order. Phases without an end of their own are left out."""
    ends = (
        times.machine_requested_at or times.assigned_at,
        times.machine_launched_at,
        times.machine_booted_at,
        times.machine_joined_at,
        times.assigned_at if times.machine_joined_at else None,
        times.image_ready_at,
        times.data_ready_at,
        times.started_at,
        times.first_report_at,
    )
    result: list[Interval] = []
    last = times.requested_at
    for name, end in zip(PHASES, ends, strict=True):
        if end is None:
            continue
        result.append(Interval(name, last, max(last, end)))
        last = max(last, end)
    return result


def phases(times: StartTimes) -> list[Phase]:
    """Return the lengths and costs of the phases that have ended, in order."""
    result: list[Phase] = []
    for name, begin, end in intervals(times):
        seconds = (end - begin).total_seconds()
        is_paid = name not in PHASES[:2]
        result.append(Phase(name, seconds, seconds / 3600 * times.usd_hour if is_paid else 0.0))
    return result


class PhaseSummary(NamedTuple):
    """Quantiles of the seconds and of the cost of a phase over some starts."""

    name: str
    starts: int
    seconds: tuple[float, ...]  # by QUANTILES
    usd: tuple[float, ...]


def summarized(starts: Sequence[StartTimes]) -> list[PhaseSummary]:
    """Return the quantiles of each phase, and of the total of starts that reported metrics."""
    by_name: dict[str, list[Phase]] = {name: [] for name in (*PHASES, "total")}
    for start in starts:
        ended = phases(start)
        for phase in ended:
            by_name[phase.name].append(phase)
        if start.first_report_at is not None:
            seconds, usd = sum(phase.seconds for phase in ended), sum(phase.usd for phase in ended)
            by_name["total"].append(Phase("total", seconds, usd))
    return [
        PhaseSummary(
            name,
            len(ended),
            _quantiles([phase.seconds for phase in ended]),
            _quantiles([phase.usd for phase in ended]),
        )
        for name, ended in by_name.items()
        if ended
    ]


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return for each quantile the smallest value that is at least as large as this part of the values."""
    ordered = sorted(values)
    return tuple(ordered[max(0, math.ceil(q * len(ordered)) - 1)] for q in QUANTILES)
