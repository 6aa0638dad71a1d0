"""Determine a trial's next workload: train, validate, save a checkpoint or terminate.

The workload follows from the configuration and the trial's reports, so no plan is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal


class Kind(str, Enum):
    RUN_STEP = "RUN_STEP"
    VALIDATE = "COMPUTE_VALIDATION_METRICS"
    CHECKPOINT = "CHECKPOINT_MODEL"
    TERMINATE = "TERMINATE"


@dataclass(frozen=True, slots=True)
class Workload:
    kind: Kind
    num_batches: int = 0
    total_batches_processed: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Lengths and periods in batches. A period of 0 means no periodic validation or checkpoint."""

    length: int  # of the current searcher operation
    step: int
    validation_period: int = 0
    checkpoint_period: int = 0
    policy: Literal["best", "all", "none"] = "best"
    initial_validation: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    steps: int
    validated_at: int | None  # steps at the newest validation
    validation_is_best: bool  # the best of the experiment so far
    checkpointed_at: int | None
    stopping: bool = False  # the trial was paused, preempted or stopped by the searcher


def next_workload(plan: Plan, progress: Progress) -> Workload:
    """Return the first workload that is due."""
    steps = progress.steps
    unsaved = steps > (progress.checkpointed_at or 0)
    if progress.stopping:
        return _at(Kind.CHECKPOINT if unsaved else Kind.TERMINATE, steps)
    if plan.initial_validation and steps == 0 and progress.validated_at is None:
        return _at(Kind.VALIDATE, steps)
    is_validated = progress.validated_at == steps
    if is_validated and unsaved and _policy_saves(plan, progress):
        return _at(Kind.CHECKPOINT, steps)
    at_end = steps >= plan.length
    if steps and not is_validated and (at_end or _due(plan.validation_period, steps)):
        return _at(Kind.VALIDATE, steps)
    if unsaved and (at_end or _due(plan.checkpoint_period, steps)):
        return _at(Kind.CHECKPOINT, steps)
    if at_end:
        return _at(Kind.TERMINATE, steps)
    return Workload(Kind.RUN_STEP, _step_length(plan, steps), steps)


def _at(kind: Kind, steps: int) -> Workload:
    return Workload(kind, 0, steps)


def _policy_saves(plan: Plan, progress: Progress) -> bool:
    return plan.policy == "all" or (plan.policy == "best" and progress.validation_is_best)


def _due(period: int, steps: int) -> bool:
    return period > 0 and steps % period == 0


def _step_length(plan: Plan, steps: int) -> int:
    """Return the steps up to the next boundary of any kind."""
    boundaries = [steps + plan.step, plan.length]
    boundaries += [
        (steps // p + 1) * p for p in (plan.validation_period, plan.checkpoint_period) if p
    ]
    return min(boundaries) - steps


def plan_of(config: Mapping[str, Any], hparams: Mapping[str, Any], length: Any) -> Plan | None:
    """Return the plan of a resolved configuration, or None if only the training code knows the size of a batch."""
    batch_size = hparams.get("global_batch_size")
    records = config.get("records_per_epoch") or 0
    total = in_batches(length, batch_size, records)
    validation = in_batches(config.get("min_validation_period") or 0, batch_size, records)
    checkpoint = in_batches(config.get("min_checkpoint_period") or 0, batch_size, records)
    if total is None or validation is None or checkpoint is None:
        return None
    return Plan(
        length=max(total, 1),
        step=int(config.get("scheduling_unit") or 100),
        validation_period=validation,
        checkpoint_period=checkpoint,
        policy=config.get("checkpoint_policy") or "best",
        initial_validation=bool(config.get("perform_initial_validation")),
    )


def in_batches(length: Any, batch_size: Any, records_per_epoch: int) -> int | None:
    """Convert a length such as `{"epochs": 2}` to batches. A plain number is batches."""
    if isinstance(length, (int, float)):
        return int(length)
    if not isinstance(length, Mapping) or len(length) != 1:
        return None
    ((unit, value),) = length.items()
    if unit == "batches" or not value:
        return int(value)
    records = value if unit == "records" else value * records_per_epoch
    if not isinstance(batch_size, int) or batch_size < 1 or not records:
        return None
    return int(records) // batch_size
