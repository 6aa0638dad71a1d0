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


@dataclass(frozen=True, slots=True)
class AgentPrincipal:
    id: str
    incarnation: str
    pool: str


Principal = User | AgentPrincipal
