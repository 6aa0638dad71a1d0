"""The facts by which the agent knows a container for as long as it exists, also after a restart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core.agent_protocol import ContainerSpec


@dataclass(frozen=True)
class ContainerKey:
    id: str
    epoch: int
    allocation_id: str
    task_id: str
    session_token: str = field(repr=False, default="")
    log_patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: ContainerSpec) -> "ContainerKey":
        return cls(
            spec.container_id,
            spec.epoch,
            spec.allocation_id,
            spec.task_id,
            spec.session_token,
            spec.log_patterns,
        )

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ContainerKey":
        return cls(**{**fields, "log_patterns": tuple(fields.get("log_patterns") or ())})

    @property
    def place(self) -> str:
        """Return the directory name of this run of the container, which a later run of it does not share."""
        return f"{self.id}.{self.epoch}"
