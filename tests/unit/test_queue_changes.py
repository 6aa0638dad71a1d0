"""Changing the job queue."""

from dataclasses import replace
from decimal import Decimal

import pytest
from det_controlplane.core.schedule import SchedulerType
from det_controlplane.core.schedule.queue_changes import (
    QueueAnswer,
    QueueChange,
    QueuedJob,
    QueuePool,
    QueueUpdate,
    change_queue,
)
from hypothesis import given, settings
from hypothesis import strategies as st

NOW = 1_000
POOLS = {
    "default": QueuePool("priority", 42),
    "compute": QueuePool("priority", 42),
    "shared": QueuePool("fair_share", 42),
    "turns": QueuePool("round_robin", 42),
}


def job(
    id: str,
    position: Decimal | int,
    priority: int | None = 42,
    *,
    pool: str = "default",
    is_experiment: bool = True,
    active: bool = True,
) -> QueuedJob:
    return QueuedJob(id, pool, priority, 1.0, position, is_experiment, active)


@pytest.mark.parametrize(("slots", "fits"), [(0, True), (4, True), (5, False)])
def test_single_agent_job_moves_only_to_pools_with_large_enough_agents(
    slots: int, fits: bool
) -> None:
    lone = replace(job("job1", 100), slots_of_one_agent=slots)
    pools = POOLS | {"compute": QueuePool("priority", 42, largest_agent=4)}
    answer = change_queue([lone], pools, [QueueUpdate("job1", resource_pool="compute")], NOW)
    assert (answer.refused is None) is fits
    assert len(answer.changes) == fits
    if answer.refused is not None:
        assert "asks for 5 slots of one agent" in answer.refused.reason


THREE = [job("job1", 100), job("job2", 200), job("job3", 300)]


def change(jobs: list[QueuedJob], *updates: QueueUpdate, now: int = NOW) -> QueueAnswer:
    return change_queue(jobs, POOLS, updates, now)


def refusal(jobs: list[QueuedJob], update: QueueUpdate) -> str:
    answer = change(jobs, update)
    assert answer.changes == ()
    assert answer.refused is not None
    return answer.refused.reason


@pytest.mark.parametrize(
    ("update", "position"),
    [
        (QueueUpdate("job3", ahead_of="job2"), 150),
        (QueueUpdate("job3", ahead_of="job1"), 50),
        (QueueUpdate("job1", behind_of="job2"), 250),
        (QueueUpdate("job1", behind_of="job3"), (300 + NOW) / 2),
    ],
)
def test_moved_job_has_a_position_midway_between_its_neighbours(
    update: QueueUpdate, position: float
) -> None:
    expected = QueueChange(update.job_id, position=Decimal(position))
    assert change(THREE, update) == QueueAnswer((expected,), None)


def test_a_moved_job_adopts_the_priority_of_the_anchor() -> None:
    jobs = [job("job1", 100, 40), job("job2", 200, 50), job("job3", 300, 60)]
    (position,) = change(jobs, QueueUpdate("job2", ahead_of="job1")).changes
    assert (position.priority, position.position) == (40, Decimal(50))


def test_only_jobs_of_the_same_priority_are_neighbours() -> None:
    jobs = [job("first", 900, 10), job("anchor", 100, 42), job("moved", 300, 42)]
    (position,) = change(jobs, QueueUpdate("moved", ahead_of="anchor")).changes
    assert position.position == 50


def test_the_default_priority_of_the_pool_counts_as_a_priority() -> None:
    jobs = [job("plain", 100, None), job("named", 200, 42)]
    (position,) = change(jobs, QueueUpdate("named", ahead_of="plain")).changes
    assert position == QueueChange("named", position=Decimal(50))


@pytest.mark.parametrize(
    "update",
    [
        QueueUpdate("job1", ahead_of="job2"),
        QueueUpdate("job3", behind_of="job2"),
        QueueUpdate("job1", ahead_of="job1"),
        QueueUpdate("job1", behind_of=""),
        QueueUpdate("job1", priority=42),
        QueueUpdate("job1", resource_pool="default"),
    ],
)
def test_job_already_at_its_place_does_not_change(update: QueueUpdate) -> None:
    assert change(THREE, update) == QueueAnswer((), None)


def test_job_moves_behind_an_anchor_with_a_future_position() -> None:
    (position,) = change(THREE, QueueUpdate("job1", behind_of="job3"), now=200).changes
    assert position.position == 301


def test_jobs_with_the_same_position_have_no_room_between_them() -> None:
    jobs = [job("a", 100), job("b", 100), job("c", 200)]
    assert "no room ahead of job b" in refusal(jobs, QueueUpdate("c", ahead_of="b"))


def test_gap_is_full_after_nine_hundred_halvings() -> None:
    jobs = {j.id: j for j in (job("a", 0), job("b", 1), job("x", 5), job("y", 6))}
    for n in range(1_200):
        mover = "xy"[n % 2]
        answer = change(list(jobs.values()), QueueUpdate(mover, ahead_of="b"))
        if answer.refused:
            break
        (position,) = answer.changes
        assert position.position is not None
        jobs[mover] = job(mover, position.position)
    assert n > 900
    assert answer.refused is not None
    assert "no room" in answer.refused.reason


@pytest.mark.parametrize("priority", [0, 100, -3])
def test_a_priority_is_from_1_to_99(priority: int) -> None:
    reason = refusal(THREE, QueueUpdate("job1", priority=priority))
    assert "between 1 (first) and 99 (last)" in reason


@pytest.mark.parametrize(
    ("pool", "update", "scheduler"),
    [
        ("shared", QueueUpdate("j", priority=5), "fair_share"),
        ("turns", QueueUpdate("j", priority=5), "round_robin"),
        ("default", QueueUpdate("j", weight=2), "priority"),
        ("shared", QueueUpdate("j", ahead_of="k"), "fair_share"),
        ("turns", QueueUpdate("j", behind_of="k"), "round_robin"),
    ],
)
def test_rejects_change_unsupported_by_the_scheduler(
    pool: str, update: QueueUpdate, scheduler: SchedulerType
) -> None:
    reason = refusal([job("j", 1, pool=pool), job("k", 2, pool=pool)], update)
    assert f"has the {scheduler} scheduler" in reason


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_is_above_zero(weight: float) -> None:
    assert "above 0" in refusal([job("j", 1, pool="shared")], QueueUpdate("j", weight=weight))


def test_weight_can_be_a_fraction() -> None:
    answer = change([job("j", 1, pool="shared")], QueueUpdate("j", weight=0.5))
    assert answer.changes == (QueueChange("j", weight=0.5),)


def test_only_experiments_move_to_another_pool() -> None:
    answer = change(THREE, QueueUpdate("job1", resource_pool="compute"))
    assert answer.changes == (QueueChange("job1", pool="compute"),)
    notebook = job("nb", 1, is_experiment=False)
    assert "only experiments" in refusal([notebook], QueueUpdate("nb", resource_pool="compute"))


def test_error_for_unknown_pool_lists_existing_ones() -> None:
    reason = refusal(THREE, QueueUpdate("job1", resource_pool="gpus"))
    assert reason.endswith("'gpus' not found; there are: compute, default, shared, turns")


@pytest.mark.parametrize("other", [job("other", 5, pool="compute"), job("other", 5, active=False)])
def test_an_anchor_is_an_active_job_of_the_same_pool(other: QueuedJob) -> None:
    assert "must both be active" in refusal([*THREE, other], QueueUpdate("job1", ahead_of="other"))


def test_inactive_job_cannot_be_moved() -> None:
    asleep = job("asleep", 5, active=False)
    assert "both be active" in refusal([*THREE, asleep], QueueUpdate("asleep", ahead_of="job1"))


def test_unknown_job_or_pool_is_reported_as_missing() -> None:
    unknown = [
        QueueUpdate("nope", priority=1),
        QueueUpdate("job1", ahead_of="nope"),
        QueueUpdate("job1", resource_pool="nope"),
    ]
    for update in unknown:
        answer = change(THREE, update).refused
        assert answer is not None
        assert ("nope" in answer.reason, answer.is_missing) == (True, True)
    both = change(THREE, *unknown, QueueUpdate("job1", priority=100)).refused
    assert both is not None
    assert not both.is_missing


@pytest.mark.parametrize("update", [QueueUpdate("job1"), QueueUpdate("job1", 3, ahead_of="job2")])
def test_an_update_changes_exactly_one_thing(update: QueueUpdate) -> None:
    assert "exactly one of" in refusal(THREE, update)


def test_later_updates_see_earlier_changes() -> None:
    answer = change(
        THREE,
        QueueUpdate("job1", priority=1),
        QueueUpdate("job2", resource_pool="compute"),
        QueueUpdate("job3", ahead_of="job1"),
    )
    assert answer.changes == (
        QueueChange("job1", priority=1),
        QueueChange("job2", pool="compute"),
        QueueChange("job3", priority=1, position=Decimal(50)),
    )
    assert answer.refused is None


def test_valid_updates_are_applied_and_refusals_joined() -> None:
    answer = change(
        THREE,
        QueueUpdate("job1", priority=0),
        QueueUpdate("job2", priority=7),
        QueueUpdate("nope", priority=7),
    )
    assert answer.changes == (QueueChange("job2", priority=7),)
    assert answer.refused is not None
    assert [part.split(":")[0] for part in answer.refused.reason.split("; ")] == [
        "job job1",
        "job nope not found",
    ]


@settings(max_examples=150)
@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=7, unique=True),
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), min_size=1, max_size=25
    ),
)
def test_moved_job_is_directly_beside_its_anchor(
    positions: list[int], moves: list[tuple[int, int, bool]]
) -> None:
    jobs = {f"j{n}": job(f"j{n}", at) for n, at in enumerate(positions)}
    for position, anchor, ahead in moves:
        mover, beside = f"j{position % len(jobs)}", f"j{anchor % len(jobs)}"
        update = (
            QueueUpdate(mover, ahead_of=beside) if ahead else QueueUpdate(mover, behind_of=beside)
        )
        answer = change(list(jobs.values()), update)
        assert answer.refused is None
        for finished_position in answer.changes:
            assert finished_position.position is not None
            jobs[mover] = job(mover, finished_position.position)
        order = sorted(jobs, key=lambda id: jobs[id].position)
        if mover != beside:
            assert order.index(beside) - order.index(mover) == (1 if ahead else -1)
