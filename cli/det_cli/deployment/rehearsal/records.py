"""The records of a rehearsal: its steps, their outcomes and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


class State(str, Enum):
    """The ways in which a step ends."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Step:
    """A part of the rehearsal."""

    name: str
    does: str
    proves: str
    expected_s: float  # on a new account
    limit_s: float  # how long the step may take before it fails
    machines: int = 0  # with slots, that the step may rent at once
    aux_machines: int = 0  # without slots
    needs: tuple[str, ...] = ()  # steps that must have passed, if they are part of the rehearsal


@dataclass(frozen=True)
class Outcome:
    """The end of one step."""

    step: str
    state: State
    seconds: float = 0.0
    cost_usd: float = 0.0
    detail: str = ""
    next_step: str = ""  # for a step that failed


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
    leftovers: Sequence[str] = ()  # machines that could not be released
    remains: Sequence[str] = ()  # resources that stay in the account on purpose
    is_finished: bool = True  # False in the copies that are kept after each step

    @property
    def cost_usd(self) -> float:
        return sum(outcome.cost_usd for outcome in self.outcomes)

    @property
    def failed(self) -> Sequence[Outcome]:
        return [o for o in self.outcomes if o.state is State.FAILED]

    @property
    def has_passed(self) -> bool:
        """Return True if the rehearsal ended, no step failed and no rented machine is left."""
        return self.is_finished and not self.failed and not self.leftovers


class StepFailed(Exception):
    """A check of a step did not hold."""

    def __init__(self, cause: str, next_step: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step


class StepSkipped(Exception):
    """A step does not apply to this cluster. The message says why."""
