"""Scheduling a resource pool: `decide(PoolSnapshot, now) -> SchedulePlan`, pure and deterministic."""

from .decide import decide
from .model import (
    DEFAULT_PRIORITY,
    Agent,
    FittingPolicy,
    Job,
    Placement,
    PoolSettings,
    PoolSnapshot,
    Preempt,
    PreemptReason,
    Request,
    Running,
    SchedulerType,
    Start,
    Told,
    WaitCode,
)
from .plan import SchedulePlan, Waiting, WaitingList
from .queue_order import jobs_ahead

__all__ = [
    "DEFAULT_PRIORITY",
    "Agent",
    "FittingPolicy",
    "Job",
    "Placement",
    "PoolSettings",
    "PoolSnapshot",
    "Preempt",
    "PreemptReason",
    "Request",
    "Running",
    "SchedulePlan",
    "SchedulerType",
    "Start",
    "Told",
    "WaitCode",
    "Waiting",
    "WaitingList",
    "decide",
    "jobs_ahead",
]
