"""Reasons that are known at once, and parts of sentences."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from .model import Request, WaitCode, WaitReason

_NAMES_SHOWN = 3
_JOB_MARK = re.compile(r"job <([^<>]+)>")


def job_mark(job_id: str) -> str:
    """Return the mark of a job in a sentence. The pass does not know names; `with_job_names` replaces marks."""
    return f"job <{job_id}>"


def marked_jobs(sentence: str) -> list[str]:
    return _JOB_MARK.findall(sentence)


def with_job_names(sentence: str, names: Mapping[str, str]) -> str:
    """Replace the marks of jobs by names. A job without a name has ended since."""
    return _JOB_MARK.sub(lambda mark: names.get(mark[1], "another job"), sentence)


def behind(blocker: Request, priority: int) -> WaitReason:
    """Return the reason of requests below a priority of which one waits."""
    need = counted(blocker.least_slots, "slot") if blocker.slots else "an agent"
    sentence = f"priority {priority} goes first: {job_mark(blocker.job.id)} waits for {need}"
    way_out = "a smaller priority number moves it ahead"
    return WaitReason(WaitCode.BEHIND_HIGHER_PRIORITY, f"{sentence}; {way_out}")


def has_time(request: Request) -> WaitReason:
    """Return the reason of a request that gets no machine until its deadline needs one."""
    sentence = f"needs {counted(request.slots, 'slot')}; its deadline leaves time to wait"
    return WaitReason(WaitCode.DEADLINE, sentence)


@lru_cache(maxsize=4096)  # thousands of reservations in each pass name the same agents
def next_on(agent_ids: tuple[str, ...]) -> WaitReason:
    """Return the reason of a request with a reservation on these agents."""
    sentence = f"is next on {named(agent_ids)}; it starts when the preempted allocations have left"
    return WaitReason(WaitCode.WAITING_FOR_PREEMPTION, sentence)


def share_used(share: float, held: int) -> WaitReason:
    """Return the reason of requests that the shares did not select."""
    slots = "1 slot" if share == 1 else f"{round(share, 1):g} slots"
    sentence = f"its job's fair share is {slots} and it holds {held}"
    return WaitReason(
        WaitCode.FAIR_SHARE, f"{sentence}; it starts when the share grows or a trial ends"
    )


def named(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
