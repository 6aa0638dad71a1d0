"""The way of spans to an OpenTelemetry collector."""

from collections.abc import Sequence
from typing import Protocol

from det_controlplane.core.trace_context import Span


class Spans(Protocol):
    """Sends spans. No method raises an error, because telemetry must not fail the work that it describes."""

    @property
    def task_endpoint(self) -> str:
        """Return the address of the collector for agents and tasks; empty if they send no spans."""
        ...

    def takes_request(self) -> bool:
        """Return whether the next request without a context of its caller is part of the sample."""
        ...

    def add(self, span: Span) -> None:
        """Queue a span and return at once. A full queue loses it."""
        ...

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans and return whether the collector accepted them. The wait is limited to a few seconds."""
        ...
