"""Who is calling."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class User:
    """A person, or a task that acts for one (`allocation_id` set)."""

    id: int
    username: str
    admin: bool
    session_id: int
    allocation_id: str | None = None
    task_id: str | None = None
    trial_id: int | None = None
    experiment_id: int | None = None
    narrow: bool = False  # a task's token that is only for the task itself


@dataclass(frozen=True, slots=True)
class AgentPrincipal:
    id: str
    incarnation: str
    pool: str


Principal = User | AgentPrincipal
