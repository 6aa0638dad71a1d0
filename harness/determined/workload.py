"""The workloads of harnesses before 0.20, which some tests of users create by hand."""

from enum import Enum
from typing import Any, Dict


class InvalidHP:
    """The response of a trial that rejects its hyperparameters."""


class Workload:
    """A piece of work of a trial. The arguments `e_id`, `t_id` and `s_id` are experiment, trial and step."""

    class Kind(Enum):
        """The kinds of work."""

        RUN_STEP = 1
        COMPUTE_VALIDATION_METRICS = 2
        CHECKPOINT_MODEL = 3

    def __init__(
        self,
        kind: Kind,
        e_id: int,
        t_id: int,
        s_id: int,
        num_batches: int,
        total_batches_processed: int,
    ) -> None:
        self.kind = kind
        self.experiment_id = e_id
        self.trial_id = t_id
        self.step_id = s_id
        self.num_batches = num_batches
        self.total_batches_processed = total_batches_processed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        is_training = self.kind is Workload.Kind.RUN_STEP
        batches = f" ({self.num_batches} Batches)" if is_training else ""
        place = f"({self.experiment_id},{self.trial_id},{self.step_id})"
        return f"<{self.kind.name}{batches}: {place}>"

    @staticmethod
    def from_json(data: Dict[str, Any]) -> "Workload":
        return Workload(
            Workload.Kind[data["kind"]],
            data["experiment_id"],
            data["trial_id"],
            data["step_id"],
            data["num_batches"],
            data["total_batches_processed"],
        )


def train_workload(
    step_id: int,
    exp_id: int = 1,
    trial_id: int = 1,
    num_batches: int = 1,
    total_batches_processed: int = 0,
) -> Workload:
    kind = Workload.Kind.RUN_STEP
    return Workload(kind, exp_id, trial_id, step_id, num_batches, total_batches_processed)


def validation_workload(
    step_id: int = 1, exp_id: int = 1, trial_id: int = 1, total_batches_processed: int = 0
) -> Workload:
    kind = Workload.Kind.COMPUTE_VALIDATION_METRICS
    return Workload(kind, exp_id, trial_id, step_id, 0, total_batches_processed)


def checkpoint_workload(
    step_id: int = 1, exp_id: int = 1, trial_id: int = 1, total_batches_processed: int = 0
) -> Workload:
    kind = Workload.Kind.CHECKPOINT_MODEL
    return Workload(kind, exp_id, trial_id, step_id, 0, total_batches_processed)


def ignore_workload_response(*_: Any) -> None:
    """Accept a response and do nothing with it."""
