"""The spans of the start of a run, from the facts by which the platform measures its phases."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from det_controlplane.core.trace_context import (
    Span,
    TraceContext,
    child_context,
    parse_traceparent,
    run_context,
    submission_context,
)
from det_controlplane.core.trials.start_phases import StartTimes, intervals

API, TICK, PROVISIONER, MACHINE, AGENT, TASK = (
    "api", "tick", "provisioner", "machine", "agent", "task",
)  # fmt: skip
# The name of the span of each phase, and the part of the platform that does its work.
_SPANS = {
    "decision": ("decide", TICK),
    "rent": ("rent machine", PROVISIONER),
    "boot": ("boot machine", MACHINE),
    "join": ("join agent", AGENT),
    "assignment": ("assign slots", TICK),
    "image": ("pull image", AGENT),
    "data": ("load data", AGENT),
    "container": ("start container", AGENT),
    "first report": ("first batch", TASK),
}
RUN, SUBMISSION = "start trial", "submit experiment"


@dataclass(frozen=True, slots=True)
class TracedStart:
    """A start of a run that has reported or ended, with the facts of its experiment's submission."""

    allocation_id: str
    experiment_id: int
    trial_id: int
    run_id: int
    pool: str
    caller: str | None  # the traceparent of the submission
    received_at: datetime | None  # None for submissions while telemetry was off
    submitted_at: datetime
    ended_at: datetime | None
    failure: str
    times: StartTimes


def submission_of(cluster_id: str, experiment_id: int, caller: str | None) -> TraceContext:
    """Return the context of the span of an experiment's submission."""
    return submission_context(cluster_id, experiment_id, parse_traceparent(caller or ""))


def start_spans(cluster_id: str, start: TracedStart) -> Iterator[Span]:
    """Yield the spans of a submission, of the start of a run, and of the phases of the start.

    All runs of an experiment yield the same span of its submission."""
    caller = parse_traceparent(start.caller or "")
    submission = submission_of(cluster_id, start.experiment_id, start.caller)
    experiment: dict[str, str | int | float] = {
        "det.cluster.id": cluster_id,
        "det.experiment.id": start.experiment_id,
    }
    received_at = min(start.received_at or start.submitted_at, start.submitted_at)
    parent_id = caller.span_id if caller else ""
    yield Span(submission, parent_id, SUBMISSION, API, received_at, start.submitted_at, experiment)
    run = run_context(submission, start.allocation_id)
    attributes = experiment | {
        "det.trial.id": start.trial_id,
        "det.run.id": start.run_id,
        "det.allocation.id": start.allocation_id,
        "det.pool": start.pool,
    }
    begin, phases = start.times.requested_at, intervals(start.times)
    has_reported = start.times.first_report_at is not None
    ended_at = None if has_reported else start.ended_at
    end = max([begin, *(phase.end for phase in phases), *([ended_at] if ended_at else [])])
    error = (start.failure or "the run ended without a report") if ended_at else ""
    yield Span(run, submission.span_id, RUN, TICK, begin, end, attributes, error)
    for phase in phases:
        name, component = _SPANS[phase.name]
        context = child_context(run, phase.name)
        yield Span(context, run.span_id, name, component, phase.begin, phase.end, attributes)
