"""Trace contexts, and the spans of a start from its measured times."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from det_controlplane.core.trace_context import TraceContext, parse_traceparent
from det_controlplane.core.trials.start_phases import StartTimes, phases
from det_controlplane.core.trials.start_spans import TracedStart, start_spans

BEGIN = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{PARENT}-01"


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


RENTED = TracedStart(
    allocation_id="1.1.1",
    experiment_id=7,
    trial_id=9,
    run_id=1,
    pool="default",
    caller=None,
    received_at=at(-0.5),
    submitted_at=BEGIN,
    ended_at=None,
    failure="",
    times=StartTimes(
        BEGIN,
        machine_requested_at=at(2),
        machine_launched_at=at(5),
        machine_booted_at=at(20),
        machine_joined_at=at(65),
        assigned_at=at(66),
        image_ready_at=at(96),
        data_ready_at=at(97),
        started_at=at(98),
        first_report_at=at(110),
    ),
)


def test_traceparent_is_read_and_written() -> None:
    context = parse_traceparent(CALLER)
    assert context == TraceContext(TRACE, PARENT, True)
    assert context.header() == CALLER
    unsampled = parse_traceparent(CALLER[:-2] + "00")
    assert unsampled is not None
    assert not unsampled.is_sampled


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        CALLER.upper(),
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT}",
    ],
)
def test_invalid_traceparent_names_no_trace(text: str) -> None:
    assert parse_traceparent(text) is None


def test_start_has_a_span_for_each_phase_and_each_part_of_the_platform() -> None:
    spans = list(start_spans("cluster", RENTED))
    assert [(span.name, span.component) for span in spans] == [
        ("submit experiment", "api"),
        ("start trial", "tick"),
        ("decide", "tick"),
        ("rent machine", "provisioner"),
        ("boot machine", "machine"),
        ("join agent", "agent"),
        ("assign slots", "tick"),
        ("pull image", "agent"),
        ("load data", "agent"),
        ("start container", "agent"),
        ("first batch", "task"),
    ]


def test_spans_share_a_trace_and_phases_belong_to_the_start() -> None:
    submission, run, *parts = start_spans("cluster", RENTED)
    assert {span.context.trace_id for span in (run, *parts)} == {submission.context.trace_id}
    assert (submission.parent_id, run.parent_id) == ("", submission.context.span_id)
    assert {span.parent_id for span in parts} == {run.context.span_id}
    ids = [span.context.span_id for span in (submission, run, *parts)]
    assert len(set(ids)) == len(ids)


def test_spans_have_the_measured_lengths_of_the_phases() -> None:
    _, run, *parts = start_spans("cluster", RENTED)
    lengths = [(span.end - span.begin).total_seconds() for span in parts]
    assert lengths == [phase.seconds for phase in phases(RENTED.times)]
    assert (run.begin, run.end) == (parts[0].begin, parts[-1].end)
    assert all(a.end == b.begin for a, b in pairwise(parts))


def test_ids_are_the_same_in_every_process() -> None:
    assert list(start_spans("cluster", RENTED)) == list(start_spans("cluster", RENTED))
    (first, *_), (other, *_) = start_spans("cluster", RENTED), start_spans("another", RENTED)
    assert first.context.trace_id != other.context.trace_id


def test_caller_of_the_submission_is_the_parent() -> None:
    submission, *_ = start_spans("cluster", replace(RENTED, caller=CALLER))
    assert (submission.context.trace_id, submission.parent_id) == (TRACE, PARENT)


def test_runs_of_an_experiment_have_one_submission_and_different_starts() -> None:
    submission, run, *_ = start_spans("cluster", RENTED)
    other_submission, other_run, *_ = start_spans(
        "cluster", replace(RENTED, allocation_id="1.2.1", trial_id=10)
    )
    assert submission == other_submission
    assert run.context.span_id != other_run.context.span_id


def test_start_that_ends_without_a_report_is_an_error() -> None:
    times = replace(RENTED.times, first_report_at=None)
    failed = replace(RENTED, times=times, ended_at=at(130), failure="container_failed")
    _, run, *parts = start_spans("cluster", failed)
    assert (run.error, run.end) == ("container_failed", at(130))
    assert parts[-1].name == "start container"


def test_end_of_a_run_that_reported_is_no_error() -> None:
    _, run, *_ = start_spans("cluster", replace(RENTED, ended_at=at(500), failure="x"))
    assert (run.error, run.end) == ("", at(110))
