"""Trace contexts and spans. Ids are derived from ids of the cluster, so any process can continue a trace.

The trace of an experiment begins with its submission. It belongs to the trace of the caller, if the caller has one."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

TRACEPARENT = "traceparent"
# The version, the trace id, the span id of the parent, and flags. Later versions may append fields.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span that other spans belong to: the ids of W3C trace contexts, in hexadecimal digits."""

    trace_id: str
    span_id: str
    is_sampled: bool = True

    def header(self) -> str:
        """Return the value of the header `traceparent` and of the variable TRACEPARENT."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a trace that has ended. `component` is the part of the platform that did the work."""

    context: TraceContext
    parent_id: str  # empty for the first span of a trace
    name: str
    component: str
    begin: datetime
    end: datetime
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    error: str = ""
    is_request: bool = False


def parse_traceparent(text: str) -> TraceContext | None:
    """Return the context that a header or variable names, or None if it names none."""
    match = _TRACEPARENT.fullmatch(text.strip())
    if match is None:
        return None
    trace_id, span_id, flags = match.groups()
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def submission_context(
    cluster_id: str, experiment_id: int, caller: TraceContext | None
) -> TraceContext:
    """Return the context of the span of a submission, in the caller's trace or in a trace of its own."""
    name = f"{cluster_id}/experiment/{experiment_id}"
    trace_id = caller.trace_id if caller is not None else _hexadecimal(f"trace {name}", 32)
    return TraceContext(trace_id, _hexadecimal(f"submit {name}", 16))


def run_context(submission: TraceContext, allocation_id: str) -> TraceContext:
    """Return the context of the start of a run. The spans of its containers belong to it."""
    return child_context(submission, f"run {allocation_id}")


def child_context(parent: TraceContext, name: str) -> TraceContext:
    """Return the context of a span with a name that its parent gives to no other span."""
    return TraceContext(parent.trace_id, _hexadecimal(f"{parent.span_id} {name}", 16))


def _hexadecimal(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
