"""The callers of the API: users, tasks and agents."""

from dataclasses import dataclass

from det_controlplane.core.people.roles import OPEN, Grants


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """The workspace of an object that a request names, read together with the caller; None: no such object."""

    kind: str
    name: str
    workspace_id: int | None


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
    via: str = "user"  # the kind of the token
    administers: bool = True  # may manage people, if its rights allow it
    narrow: bool = False  # a task's token that is only for the task itself
    grants: Grants = OPEN
    place: NamedPlace | None = None
    writes: int = 0  # changes by requests of the user (db/engine/replica.py)
    presides: bool = False  # administrates the workspaces of all that the request names
    pools: int = 0  # the count of changes of pools in the database

    def is_person(self, user_id: int | None) -> bool:
        """Return whether the caller is the signed-in user and not a task of the user."""
        return self.id == user_id and self.allocation_id is None

    @property
    def caller(self) -> str:
        """Return the key for limits of a process. All sessions and tasks of a user share it."""
        return f"user {self.id}"

    def log_ids(self) -> dict[str, object]:
        """Return the ids of the caller for log lines. People have none there."""
        return {
            "allocation_id": self.allocation_id,
            "task_id": self.task_id,
            "trial_id": self.trial_id,
            "experiment_id": self.experiment_id,
        }


@dataclass(frozen=True, slots=True)
class AgentPrincipal:
    id: str
    incarnation: str
    pool: str
    pools: int = 0  # the count of changes of pools in the database

    @property
    def caller(self) -> str:
        return f"agent {self.id}"

    def log_ids(self) -> dict[str, object]:
        """Return the ids of the caller for log lines."""
        return {"agent_id": self.id, "pool": self.pool}


Principal = User | AgentPrincipal
