"""Estimate the hours of work that an experiment still needs, and the earliest time at which it could end."""

import math

from .deadline_model import DeadlineJob

# Less progress says too little of the rest.
_LEAST_PROGRESS = 0.02
# Estimates are used with this reserve, because a pace that was measured may slow down.
RESERVE = 1.05
# From the rental of a machine to the first step, where no machine of the pool was measured.
USUAL_STARTUP_H = 0.25
LEAST_STARTUP_H = 0.05


def work_left_h(job: DeadlineJob) -> float | None:
    """Return the hours until the end if all running trials go on, or None if neither progress nor an estimate says it.

    Repeated work counts in the measured pace, so the pace of an experiment that lost work is slower than its training.
    """
    at_once = max(1, len(job.runs) or len(job.queued))
    if job.progress >= _LEAST_PROGRESS and job.run_h > 0:
        hours = job.run_h * (1 - min(job.progress, 1.0)) / job.progress / at_once
    elif job.expected_h is not None:
        hours = job.expected_h * (1 - job.progress)
    else:
        return None
    repeated_h = 0.0 if job.runs else job.unsaved_h
    return RESERVE * hours + repeated_h


def earliest_end(now: float, expected_h: float | None, startup_h: float) -> float:
    """Return the earliest time at which a new experiment could end, in whole minutes."""
    hours = startup_h + RESERVE * (expected_h or 0.0)
    return math.ceil((now + hours * 3600) / 60) * 60.0
