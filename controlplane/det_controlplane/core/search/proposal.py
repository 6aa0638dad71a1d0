"""Propose the hyperparameters of ASHA's next trial."""

from collections.abc import Mapping
from typing import Any

from .actions import Create
from .sampling import Sampler


class Proposal:
    """Propose independent samples. Methods that learn override the hooks to make better proposals."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def create(self) -> Create:
        return self._sampler.create()

    def record(self, request_id: str, rung: int, loss: float) -> None:
        """Record that a trial reached a rung with this loss."""

    def forget(self, request_id: str) -> None:
        """Remove the records of a trial with invalid hyperparameters."""

    def close(self, request_id: str) -> None:
        """Handle a trial that will not report again."""

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a snapshot."""
