"""The next workload is a pure function of a trial's plan and progress."""

import dataclasses

from determined.workloads import At, Every, Kind, Plan, Progress, Workload, next_workload
from hypothesis import given
from hypothesis import strategies as st

Step = tuple[Kind, int]


def carry_out(progress: Progress, workload: Workload, improved: bool) -> Progress:
    batch_count = progress.batches
    if workload.kind is Kind.RUN_STEP:
        return dataclasses.replace(progress, batches=batch_count + workload.num_batches)
    if workload.kind is Kind.VALIDATE:
        return dataclasses.replace(progress, validated_at=batch_count, improved=improved)
    return dataclasses.replace(progress, checkpointed_at=batch_count)


def course(plan: Plan, improvements: tuple[bool, ...] = ()) -> list[Step]:
    """Return all workloads of a trial, as (kind, completed batches)."""
    progress, validations = Progress(), 0
    steps: list[Step] = []
    while (workload := next_workload(plan, progress)).kind is not Kind.TERMINATE:
        improved = improvements[validations] if validations < len(improvements) else True
        validations += workload.kind is Kind.VALIDATE
        progress = carry_out(progress, workload, improved)
        steps.append((workload.kind, progress.batches))
        assert len(steps) < 10_000
    return steps


periods = (
    st.none() | st.integers(1, 30).map(Every) | st.sets(st.integers(1, 60), max_size=5).map(At)
)
plans = st.builds(
    Plan,
    max_batches=st.integers(1, 60),
    reporting=st.integers(1, 30).map(Every),
    validation=periods,
    checkpoint=periods,
    checkpoint_policy=st.sampled_from(["best", "all", "none"]),
    initial_validation=st.booleans(),
)


def test_order_is_train_validate_save() -> None:
    steps = course(Plan(max_batches=5, reporting=Every(3), validation=Every(5)))
    assert steps == [
        (Kind.RUN_STEP, 3),
        (Kind.RUN_STEP, 5),
        (Kind.VALIDATE, 5),
        (Kind.CHECKPOINT, 5),
    ]


def test_policy_best_saves_only_improvements() -> None:
    plan = Plan(max_batches=9, validation=Every(3))
    saves = [n for kind, n in course(plan, (True, False, False)) if kind is Kind.CHECKPOINT]
    assert saves == [3, 9]


@given(plans)
def test_every_batch_is_trained_once_and_the_end_is_validated_and_saved(plan: Plan) -> None:
    steps = course(plan)
    trainings = [n for kind, n in steps if kind is Kind.RUN_STEP]
    assert trainings == sorted(set(trainings))
    assert trainings[-1] == plan.max_batches
    assert (Kind.VALIDATE, plan.max_batches) in steps
    assert (Kind.CHECKPOINT, plan.max_batches) in steps


@given(plans)
def test_no_workload_is_repeated(plan: Plan) -> None:
    steps = course(plan)
    assert len(steps) == len(set(steps))


@given(plans)
def test_every_due_workload_runs(plan: Plan) -> None:
    steps = course(plan)
    for period, kind in ((plan.validation, Kind.VALIDATE), (plan.checkpoint, Kind.CHECKPOINT)):
        for n in range(1, plan.max_batches + 1):
            if period is not None and period.is_due(n):
                assert (kind, n) in steps


@given(plans, st.integers(0, 200))
def test_stop_saves_and_ends(plan: Plan, after: int) -> None:
    progress = Progress()
    for _ in range(after):
        workload = next_workload(plan, progress)
        if workload.kind is Kind.TERMINATE:
            break
        progress = carry_out(progress, workload, True)
    stopping = dataclasses.replace(progress, stopping=True)
    first = next_workload(plan, stopping)
    if first.kind is Kind.CHECKPOINT:
        assert progress.batches > 0
        first = next_workload(plan, carry_out(stopping, first, True))
    assert first.kind is Kind.TERMINATE


@given(plans)
def test_workload_is_restored_from_json(plan: Plan) -> None:
    workload = next_workload(plan, Progress())
    assert Workload.from_json(workload.to_json()) == workload


def test_container_without_iteration_is_probed() -> None:
    class Squares:
        def __contains__(self, n: object) -> bool:
            return isinstance(n, int) and int(n**0.5) ** 2 == n

    assert At(Squares()).next_after(10) == 16
