"""Propose the hyperparameters of ASHA's next trial."""

from collections.abc import Mapping
from typing import Any

from .actions import Create
from .sampling import Sampler


class Proposal:
    """Independent samples. A method that learns overrides the hooks and chooses better ones."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def create(self) -> Create:
        return self._sampler.create()

    def record(self, request_id: str, rung: int, loss: float) -> None:
        """Record that a trial reached a rung with this loss."""

    def forget(self, request_id: str) -> None:
        """Forget what was recorded of a trial whose hyperparameters turned out invalid."""

    def close(self, request_id: str) -> None:
        """Handle that the trial will report no more."""

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a snapshot."""
