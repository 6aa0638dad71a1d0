"""The sequence of workloads that the control plane hands out."""

from dataclasses import replace

from det_controlplane.core.trials.workloads import Kind, Plan, Progress, next_workload, plan_of

PLAN = Plan(length=250, step=100, validation_period=0, checkpoint_period=0, policy="none")
START = Progress(steps=0, validated_at=None, validation_is_best=False, checkpointed_at=None)


def played(plan: Plan, progress: Progress = START, best_until: int = 10**9) -> list[str]:
    """Carry out every workload until the trial terminates."""
    steps = []
    while True:
        workload = next_workload(plan, progress)
        if workload.kind is Kind.RUN_STEP:
            progress = replace(progress, steps=progress.steps + workload.num_batches)
            steps.append(f"train {workload.num_batches}")
        elif workload.kind is Kind.VALIDATE:
            best = progress.steps <= best_until
            progress = replace(progress, validated_at=progress.steps, validation_is_best=best)
            steps.append("validate")
        elif workload.kind is Kind.CHECKPOINT:
            progress = replace(progress, checkpointed_at=progress.steps)
            steps.append("checkpoint")
        else:
            return steps


def test_an_operation_ends_with_a_validation_and_a_checkpoint() -> None:
    assert played(PLAN) == ["train 100", "train 100", "train 50", "validate", "checkpoint"]


def test_steps_stop_at_the_boundaries_of_periods() -> None:
    plan = replace(PLAN, length=200, validation_period=80, checkpoint_period=150)
    assert played(plan) == [
        "train 80", "validate", "train 70", "checkpoint", "train 10", "validate", "train 40",
        "validate", "checkpoint",
    ]  # fmt: skip


def test_the_policy_best_saves_after_a_validation_that_beats_the_experiment() -> None:
    plan = replace(PLAN, length=200, validation_period=100, policy="best")
    assert played(plan, best_until=100) == [
        "train 100", "validate", "checkpoint", "train 100", "validate", "checkpoint",
    ]  # fmt: skip
    assert played(plan, best_until=0)[:3] == ["train 100", "validate", "train 100"]


def test_an_initial_validation_comes_before_any_training() -> None:
    assert played(replace(PLAN, length=10, initial_validation=True))[:2] == ["validate", "train 10"]


def test_a_graceful_stop_saves_unsaved_work_and_terminates() -> None:
    stopping = replace(START, steps=40, stopping=True)
    assert next_workload(PLAN, stopping).kind is Kind.CHECKPOINT
    assert next_workload(PLAN, replace(stopping, checkpointed_at=40)).kind is Kind.TERMINATE


def test_resumed_trial_continues_from_its_checkpoint() -> None:
    later = replace(START, steps=200, checkpointed_at=200)
    assert played(PLAN, later) == ["train 50", "validate", "checkpoint"]


def test_lengths_in_epochs_and_records_become_batches() -> None:
    config = {
        "records_per_epoch": 1000,
        "min_validation_period": {"records": 256},
        "min_checkpoint_period": {"epochs": 1},
        "scheduling_unit": 7,
    }
    plan = plan_of(config, {"global_batch_size": 32}, {"epochs": 2})
    assert plan == Plan(length=62, step=7, validation_period=8, checkpoint_period=31)


def test_without_a_batch_size_epochs_are_the_training_codes_to_count() -> None:
    assert plan_of({"records_per_epoch": 1000}, {}, {"epochs": 2}) is None
    assert plan_of({}, {}, None) is None
