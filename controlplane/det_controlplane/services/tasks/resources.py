"""The resources that tasks use over time, as agents measure them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple
from uuid import UUID

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.tasks import resources
from det_controlplane.db.tasks.resources import COARSE_S, UsageRow
from det_controlplane.services.context import Context
from det_controlplane.services.tasks import listing

FINE_FOR = timedelta(days=1)
# Samples with other times come from a wrong clock, or from an outage that was too long.
OLDEST, NEWEST = timedelta(days=8), timedelta(hours=1)
LONGEST_S, LARGEST = 3_600.0, 1e18
# The name of a series, its unit, and the name of its limit.
_OF_CONTAINER = (
    ("cpu", "cores", "cpu_limit"), ("memory", "bytes", "memory_limit"), ("disk_read", "bytes/s", ""),
    ("disk_write", "bytes/s", ""), ("net_received", "bytes/s", ""), ("net_sent", "bytes/s", ""),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """A measurement of an agent. GPUs have a slot, a percentage of use, used bytes and all bytes."""

    container_id: str
    start: float
    seconds: float
    values: dict[str, float]
    gpus: Sequence[tuple[int, float | None, float, float]] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """A resource of a task on an agent, or of one of its GPUs."""

    name: str
    unit: str
    agent_id: str
    slot: int | None
    limit: float | None  # the latest
    times: list[str]
    seconds: list[float]  # that each point covers
    values: list[float]


class _Point(NamedTuple):
    at: str
    seconds: float
    value: float
    limit: float | None


_Key = tuple[str, str, str, int | None]  # name, unit, agent, slot


def store(tx: Tx, agent_id: str, samples: Sequence[Sample], now: datetime) -> None:
    """Store samples of an agent's containers. Impossible ones are dropped, because they must not stop the agent."""
    rows = [_row(sample) for sample in samples if _is_possible(sample, now)]
    if rows:
        resources.add(tx, agent_id, rows)


def _is_possible(sample: Sample, now: datetime) -> bool:
    gpu_values = [value for gpu in sample.gpus for value in gpu[1:] if value is not None]
    numbers = [sample.seconds, *sample.values.values(), *gpu_values]
    if any(not math.isfinite(number) or not 0 <= number <= LARGEST for number in numbers):
        return False
    age_s = now.timestamp() - sample.start
    is_recent = -NEWEST.total_seconds() <= age_s <= OLDEST.total_seconds()
    return is_recent and 0 < sample.seconds <= LONGEST_S and _is_uuid(sample.container_id)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def _row(sample: Sample) -> dict[str, Any]:
    gpus = [list(gpu) for gpu in sample.gpus] or None
    return {
        "container_id": sample.container_id, "start": sample.start, "seconds": sample.seconds, "gpus": gpus,
        **sample.values,
    }  # fmt: skip


def of_task(ctx: Context, task_id: str, since: datetime | None, most: int) -> list[Series]:
    """Return the series of a task with at most about `most` points each."""
    listing.task(ctx, task_id)
    points: dict[_Key, list[_Point]] = {}
    for row in resources.of_task(ctx.db, task_id, since, most):
        for key, point in _points(row):
            points.setdefault(key, []).append(point)
    return [
        Series(
            *key,
            limit=found[-1].limit,
            times=[point.at for point in found],
            seconds=[point.seconds for point in found],
            values=[point.value for point in found],
        )
        for key, found in points.items()
    ]


def _points(row: UsageRow) -> Iterator[tuple[_Key, _Point]]:
    """Yield the values of a sample. A value that was not measured has no point."""
    for name, unit, limit_name in _OF_CONTAINER:
        value = getattr(row, name)
        if value is not None:
            limit = getattr(row, limit_name) if limit_name else None
            yield (name, unit, row.agent_id, None), _Point(row.at, row.seconds, value, limit)
    for slot, util, memory, memory_limit in row.gpus or ():
        if util is not None:
            key = ("gpu_util", "percent", row.agent_id, slot)
            yield key, _Point(row.at, row.seconds, util, 100.0)
        key = ("gpu_memory", "bytes", row.agent_id, slot)
        yield key, _Point(row.at, row.seconds, memory, memory_limit)


def thin(ctx: Context) -> bool:
    """Merge samples that are older than a day, and delete expired samples. Return whether more are due."""
    now, days = ctx.now(), ctx.config.retention_policy.resource_retention_days
    whole_s = (now - FINE_FOR).timestamp() // COARSE_S * COARSE_S
    merge_before = datetime.fromtimestamp(whole_s, timezone.utc)
    # A sample is merged before it is deleted.
    delete_before = now - max(timedelta(days=days), FINE_FOR) if days >= 0 else None
    more = False
    with ctx.db.autocommit() as tx:  # nearly all ticks find nothing
        due = resources.due(tx, merge_before, delete_before)
    if due.merge:
        with ctx.db.begin() as tx:
            more = resources.thin(tx, merge_before)
    if due.delete and delete_before is not None:
        with ctx.db.begin() as tx:
            more |= resources.delete_old(tx, delete_before)
    return more
