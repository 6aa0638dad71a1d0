"""The records of a rehearsal: its steps, their outcomes and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


class State(str, Enum):
    """The result of a step."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Step:
    """A part of the rehearsal."""

    name: str
    does: str
    proves: str
    expected_s: float  # the expected duration in a new account
    limit_s: float  # the step fails after this time
    machines: int = 0  # maximum number of machines with slots at the same time
    aux_machines: int = 0  # maximum number of machines without slots at the same time
    needs: tuple[str, ...] = ()  # steps that must pass first, if they are part of the rehearsal


@dataclass(frozen=True)
class Outcome:
    """The end of one step."""

    step: str
    state: State
    seconds: float = 0.0
    cost_usd: float = 0.0
    detail: str = ""
    next_step: str = ""  # advice for a failed step


@dataclass(frozen=True)
class Report:
    """The result of a rehearsal."""

    cluster_id: str
    cloud: str
    place: str  # the region, with the account or project
    started_at: datetime
    ended_at: datetime
    max_cost_usd: float
    outcomes: Sequence[Outcome]
    versions: Mapping[str, str] = field(default_factory=dict)
    leftovers: Sequence[str] = ()  # machines that could not be terminated
    remains: Sequence[str] = ()  # resources that are kept in the account
    is_finished: bool = True  # False in the reports that are written after each step

    @property
    def cost_usd(self) -> float:
        return sum(outcome.cost_usd for outcome in self.outcomes)

    @property
    def failed(self) -> Sequence[Outcome]:
        return [o for o in self.outcomes if o.state is State.FAILED]

    @property
    def has_passed(self) -> bool:
        """Return True if the rehearsal ended, no step failed and no rented machine remains."""
        return self.is_finished and not self.failed and not self.leftovers


class StepFailed(Exception):
    """A check in a step failed."""

    def __init__(self, cause: str, next_step: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step


class StepSkipped(Exception):
    """A step does not apply to this cluster. The message has the reason."""
