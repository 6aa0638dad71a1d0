"""Queues in which nearly everything waits."""

import random

from det_controlplane.core.schedule import PoolSnapshot, decide

from tests.support.schedules import NOW, agents, job, pool, request, running

_AGENTS, _QUEUED = 40, 2_500


def crowded() -> PoolSnapshot:
    """Return a pool that is mostly held by work less important than much of the queue."""
    chance = random.Random(3)
    busy = [running(f"r{n}", **{f"a{n % _AGENTS + 1}": 2}) for n in range(3 * _AGENTS)]
    queue = [request(f"q{n}", chance.choice((1, 1, 2, 4, 8, 16, 64))) for n in range(_QUEUED)]
    jobs = [job(r.job.id, 30 + n % 60, position=n) for n, r in enumerate(busy)]
    jobs += [job(r.job.id, 1 + n % 99, position=1_000 + n) for n, r in enumerate(queue)]
    return pool(agents(*[8] * _AGENTS), pending=queue, running=busy, jobs=jobs, preemption=True)


def test_every_request_of_a_long_queue_starts_or_has_a_reason() -> None:
    plan = decide(crowded(), NOW)
    answers = [*(start.allocation_id for start in plan.start), *plan.waiting]
    assert sorted(answers) == sorted(f"q{n}" for n in range(_QUEUED))
    assert len(plan.waiting) > 2_000
    assert plan.preempt
