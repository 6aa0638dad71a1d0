"""Choose the next workload of a trial: train some batches, validate, save a checkpoint, or stop.

The choice is a pure function of the plan (lengths, periods, policy) and of the progress. It has no state of its own,
so a resumed trial continues exactly where it stopped, and every caller gets the same result.
"""

import logging
from dataclasses import dataclass
from enum import Enum
from typing import Any, Container, Dict, Optional, Protocol, Tuple, Union

from determined.common.http import APIError, MasterUnreachableError, NotFoundError

# The number of batches to test for the next member of a container of unknown type.
_PROBE_BATCHES = 1_000_000

logger = logging.getLogger("determined.pytorch")


class Kind(str, Enum):
    RUN_STEP = "RUN_STEP"
    VALIDATE = "COMPUTE_VALIDATION_METRICS"
    CHECKPOINT = "CHECKPOINT_MODEL"
    TERMINATE = "TERMINATE"


@dataclass(frozen=True)
class Workload:
    kind: Kind
    num_batches: int = 0
    total_batches_processed: int = 0

    def to_json(self) -> Dict[str, Any]:
        return {
            "kind": self.kind.value,
            "numBatches": self.num_batches,
            "totalBatchesProcessed": self.total_batches_processed,
        }

    @staticmethod
    def from_json(obj: Dict[str, Any]) -> "Workload":
        return Workload(
            Kind(obj["kind"]),
            int(obj.get("numBatches") or 0),
            int(obj.get("totalBatchesProcessed") or 0),
        )


@dataclass(frozen=True)
class Every:
    """A period that is due at each multiple of `batches`."""

    batches: int

    def is_due(self, done: int) -> bool:
        return done % self.batches == 0

    def next_after(self, done: int) -> int:
        return (done // self.batches + 1) * self.batches


@dataclass(frozen=True)
class At:
    """A period that is due at the given numbers, counted in units of `unit` batches."""

    numbers: Container[int]
    unit: int = 1

    def is_due(self, done: int) -> bool:
        return done % self.unit == 0 and done // self.unit in self.numbers

    def next_after(self, done: int) -> Optional[int]:
        number = done // self.unit
        if isinstance(self.numbers, (list, tuple, set, frozenset)):
            later = [n for n in self.numbers if n > number]
            return min(later) * self.unit if later else None
        probes = range(number + 1, number + 1 + _PROBE_BATCHES)
        return next((n * self.unit for n in probes if n in self.numbers), None)


Period = Union[Every, At]


@dataclass(frozen=True)
class Plan:
    """The lengths and periods of a trial, in batches. They are known before the trial starts."""

    max_batches: int
    reporting: Period = Every(100)
    validation: Optional[Period] = None
    checkpoint: Optional[Period] = None
    checkpoint_policy: str = "best"
    initial_validation: bool = False


@dataclass(frozen=True)
class Progress:
    """The progress of a trial. `improved` says whether its last validation was better than all earlier ones."""

    batches: int = 0
    validated_at: Optional[int] = None
    checkpointed_at: Optional[int] = None
    improved: Optional[bool] = None
    stopping: bool = False


def next_workload(plan: Plan, progress: Progress) -> Workload:
    done = progress.batches
    saved = progress.checkpointed_at == done
    validated = progress.validated_at == done
    kind = Kind.RUN_STEP
    if progress.stopping:
        kind = Kind.TERMINATE if saved or done == 0 else Kind.CHECKPOINT
    elif not validated and _validation_due(plan, done):
        kind = Kind.VALIDATE
    elif not saved and _checkpoint_due(plan, progress):
        kind = Kind.CHECKPOINT
    elif done >= plan.max_batches:
        kind = Kind.TERMINATE
    batches = _step_end(plan, done) - done if kind is Kind.RUN_STEP else 0
    return Workload(kind, batches, done)


def _validation_due(plan: Plan, done: int) -> bool:
    if done == 0:
        return plan.initial_validation
    return done >= plan.max_batches or bool(plan.validation and plan.validation.is_due(done))


def _checkpoint_due(plan: Plan, progress: Progress) -> bool:
    done = progress.batches
    if done == 0:
        return False
    if done >= plan.max_batches or (plan.checkpoint and plan.checkpoint.is_due(done)):
        return True
    return progress.validated_at == done and _policy_saves(plan, progress)


def _policy_saves(plan: Plan, progress: Progress) -> bool:
    # Without a searcher metric, better and worse models cannot be distinguished, so every checkpoint is kept.
    best = plan.checkpoint_policy == "best" and progress.improved is not False
    return best or plan.checkpoint_policy == "all"


def _step_end(plan: Plan, done: int) -> int:
    periods = (plan.reporting, plan.validation, plan.checkpoint)
    ends: Tuple[Optional[int], ...] = tuple(p.next_after(done) for p in periods if p is not None)
    return min([plan.max_batches, *(end for end in ends if end is not None)])


@dataclass(frozen=True)
class LocalSource:
    """A source of workloads that uses only the local plan."""

    plan: Plan

    def next(self, progress: Progress) -> Workload:
        return next_workload(self.plan, progress)


class WorkloadSource(Protocol):
    """An interface that returns the workloads of a trial, one after another."""

    def next(self, progress: Progress) -> Workload: ...


class RemoteSource:
    """Workloads from `GET /api/v1/trials/{id}/workload`, or from the local plan if the request fails.

    A trial that is stopping follows the local plan, because the control plane would return the same workload.
    """

    def __init__(self, session: Any, trial_id: int, local: LocalSource) -> None:
        self._session: Optional[Any] = session
        self._path = f"/api/v1/trials/{trial_id}/workload"
        self._local = local

    def next(self, progress: Progress) -> Workload:
        planned = self._local.next(progress)
        if progress.stopping or self._session is None:
            return planned
        try:
            answer = self._session.get(self._path, {"stepsCompleted": progress.batches})
        except NotFoundError:
            self._session = None
            return planned
        except (APIError, MasterUnreachableError) as e:
            logger.warning(
                "continuing with the trial's own plan: requesting the workload failed (%s)", e
            )
            return planned
        workload = Workload.from_json(answer["workload"])
        return planned if _is_done(workload, progress) else workload


def _is_done(workload: Workload, progress: Progress) -> bool:
    """Return whether the trial already did this workload. Reports are sent in the background, so the answer may lag."""
    done_at = {Kind.VALIDATE: progress.validated_at, Kind.CHECKPOINT: progress.checkpointed_at}
    return done_at.get(workload.kind) == progress.batches
