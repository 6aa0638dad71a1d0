"""Scheduling a resource pool: `decide(PoolSnapshot, now) -> SchedulePlan`, pure and deterministic."""

from .decide import decide
from .expected import JobProgress, expected_starts
from .model import (
    Job,
    PoolSettings,
    PoolSnapshot,
    Preempt,
    PreemptReason,
    Request,
    Running,
    SchedulePlan,
    SchedulerType,
    Start,
    WaitCode,
    WaitReason,
)
from .queue_order import jobs_ahead

__all__ = [
    "Job",
    "JobProgress",
    "PoolSettings",
    "PoolSnapshot",
    "Preempt",
    "PreemptReason",
    "Request",
    "Running",
    "SchedulePlan",
    "SchedulerType",
    "Start",
    "WaitCode",
    "WaitReason",
    "decide",
    "expected_starts",
    "jobs_ahead",
]
