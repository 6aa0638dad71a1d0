"""Round robin: jobs take turns."""

from det_controlplane.core.schedule import decide

from tests.support.schedules import NOW, agents, job, pool, request, running, started


def test_every_job_gets_one_allocation_before_any_gets_two() -> None:
    pending = [request(f"{j}.{n}", 1, j) for j in ("x", "y", "z") for n in range(3)]
    snapshot = pool(agents(4), pending=pending, scheduler="round_robin")
    assert started(snapshot) == {"x.0", "y.0", "z.0", "x.1"}


def test_rotation_continues_with_jobs_with_fewest_allocations() -> None:
    pending = [request("x.1", 1, "x"), request("y.1", 1, "y")]
    snapshot = pool(
        agents(2),
        pending=pending,
        running=[running("x.0", "x", a1=1)],
        scheduler="round_robin",
    )
    assert started(snapshot) == {"y.1"}


def test_round_robin_ignores_priorities_and_weights_and_never_preempts() -> None:
    jobs = [job("old", 99, position=1), job("new", 1, position=2, weight=9)]
    pending = [request("old", 1), request("new", 1)]
    snapshot = pool(agents(1), pending=pending, jobs=jobs, scheduler="round_robin", preemption=True)
    plan = decide(snapshot, NOW)
    assert [s.allocation_id for s in plan.start] == ["old"]
    assert plan.preempt == ()


def test_large_request_does_not_block_smaller_ones_of_its_job() -> None:
    pending = [request("x.0", 9, "x"), request("x.1", 1, "x", requested_at=1.0)]
    assert started(pool(agents(2), pending=pending, scheduler="round_robin")) == {"x.1"}
