"""Scheduling a resource pool: `decide(PoolSnapshot, now) -> SchedulePlan`, pure and deterministic."""

from .decide import decide
from .expected import JobProgress, can_expect_starts, expected_starts
from .model import (
    Growth,
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
from .wording import marked_jobs, with_job_names

__all__ = [
    "Growth",
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
    "can_expect_starts",
    "decide",
    "expected_starts",
    "marked_jobs",
    "with_job_names",
]
