"""Queues that are longer than what is passed by at once."""

import random

import pytest
from det_controlplane.core.schedule import PoolSnapshot, decide, priority

from tests.support.schedules import NOW, agents, job, pool, request, running

_AGENTS, _QUEUED = 40, 2_500


def crowded() -> PoolSnapshot:
    """Most of the pool is held by what is less important than much of the queue."""
    chance = random.Random(3)
    busy = [running(f"r{n}", **{f"a{n % _AGENTS + 1}": 2}) for n in range(3 * _AGENTS)]
    queue = [request(f"q{n}", chance.choice((1, 1, 2, 4, 8, 16, 64))) for n in range(_QUEUED)]
    jobs = [job(r.job.id, 30 + n % 60, position=n) for n, r in enumerate(busy)]
    jobs += [job(r.job.id, 1 + n % 99, position=1_000 + n) for n, r in enumerate(queue)]
    return pool(agents(*[8] * _AGENTS), pending=queue, running=busy, jobs=jobs, preemption=True)


def test_everybody_of_a_long_queue_starts_or_is_told_why_it_waits() -> None:
    plan = decide(crowded(), NOW)
    answered = [s.allocation_id for s in plan.start] + [w.allocation_id for w in plan.waiting]
    assert sorted(answered) == sorted(f"q{n}" for n in range(_QUEUED))
    assert len(plan.waiting) > 2_000
    assert plan.preempt


def test_how_many_are_passed_by_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = decide(crowded(), NOW)
    monkeypatch.setattr(priority, "_STRETCH", 3)
    a_few = decide(crowded(), NOW)
    assert (at_once.start, at_once.preempt) == (a_few.start, a_few.preempt)
    assert list(at_once.waiting) == list(a_few.waiting)


def test_what_is_told_of_all_is_what_each_entry_says() -> None:
    plan = decide(crowded(), NOW)
    told = [(id, told.code, told.sentence) for id, told in plan.waiting.told()]
    assert told == [(w.allocation_id, w.reason.code, w.reason.sentence) for w in plan.waiting]
    assert len(told) == len(plan.waiting)
