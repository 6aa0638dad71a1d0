"""The trace of a start in an OpenTelemetry collector, from facts in the database."""

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import pytest
from det_controlplane.adapters.otlp_spans import OtlpSpans
from det_controlplane.core.config.telemetry import Telemetry
from det_controlplane.services.trials import start_traces

from tests.api.test_start_phases import start_and_report
from tests.support.api import Caller, create
from tests.support.otlp_receiver import Received, Receiver, otlp_receiver
from tests.support.rented import RentedCluster

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture
def traced(cluster: RentedCluster, receiver: Receiver) -> RentedCluster:
    cluster.api.ctx.spans = OtlpSpans({}, Telemetry(receiver.url, receiver.url, {"api-key": "k"}))
    return cluster


@pytest.fixture
def user(traced: RentedCluster) -> Caller:
    return traced.api.signed_in("determined")


def sent(cluster: RentedCluster, receiver: Receiver) -> dict[str, Received]:
    start_traces.send_due(cluster.api.ctx)
    return {span.name: span for span in receiver.spans}


def test_start_of_a_trial_arrives_as_one_trace(
    traced: RentedCluster, user: Caller, receiver: Receiver
) -> None:
    trial_id = start_and_report(traced, user)
    spans = sent(traced, receiver)
    names = [
        "submit experiment",
        "start trial",
        "decide",
        "rent machine",
        "boot machine",
        "join agent",
    ]
    assert [name for name in names if name not in spans] == []
    assert len({span.trace_id for span in spans.values()}) == 1
    run, submission = spans["start trial"], spans["submit experiment"]
    assert (submission.parent_id, run.parent_id) == ("", submission.span_id)
    parts = [span for span in receiver.spans if span not in (run, submission)]
    parts.sort(key=lambda span: (span.begin_ns, span.end_ns))
    assert {span.parent_id for span in parts} == {run.span_id}
    assert all(a.end_ns == b.begin_ns for a, b in pairwise(parts))
    assert spans["rent machine"].service == "determined-provisioner"
    assert run.attributes["det.trial.id"] == trial_id
    assert receiver.headers[0]["api-key"] == "k"


def test_spans_have_the_lengths_that_the_trial_shows(
    traced: RentedCluster, user: Caller, receiver: Receiver
) -> None:
    trial_id = start_and_report(traced, user)
    spans = sent(traced, receiver)
    start = user.get(f"/api/v1/trials/{trial_id}/start")["start"]
    seconds = {phase["name"]: phase["seconds"] for phase in start["phases"]}
    boot, first = spans["boot machine"], spans["first batch"]
    assert (boot.end_ns - boot.begin_ns) / 1e9 == pytest.approx(seconds["boot"], abs=0.1)
    assert (first.end_ns - first.begin_ns) / 1e9 == pytest.approx(seconds["first report"], abs=0.1)
    requested_at = datetime.fromisoformat(start["requestedAt"]).timestamp()
    assert spans["start trial"].begin_ns / 1e9 == pytest.approx(requested_at, abs=0.001)


def test_trial_shows_the_id_of_its_trace(
    traced: RentedCluster, user: Caller, receiver: Receiver
) -> None:
    trial_id = start_and_report(traced, user)
    spans = sent(traced, receiver)
    start = user.get(f"/api/v1/trials/{trial_id}/start")["start"]
    assert start["traceId"] == spans["start trial"].trace_id


def test_start_is_sent_once(traced: RentedCluster, user: Caller, receiver: Receiver) -> None:
    start_and_report(traced, user)
    sent(traced, receiver)
    count = len(receiver.spans)
    assert start_traces.send_due(traced.api.ctx) is None
    assert len(receiver.spans) == count > 0


def test_start_is_sent_only_after_its_first_report(
    traced: RentedCluster, user: Caller, receiver: Receiver
) -> None:
    create(user, activate=True)
    traced.settle()
    traced.boot(traced.cloud.alive()[0])
    traced.settle()
    assert start_traces.send_due(traced.api.ctx) == 2.0
    assert receiver.spans == []


def test_refused_start_is_sent_again(
    traced: RentedCluster, user: Caller, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    start_and_report(traced, user)
    receiver.status = 400
    with caplog.at_level(logging.WARNING, "det.telemetry"):
        assert start_traces.send_due(traced.api.ctx) == 30.0
        assert start_traces.send_due(traced.api.ctx) == 30.0
    assert [r.message for r in caplog.records if r.name == "det.telemetry"] == [
        "the telemetry collector does not accept spans; retrying every 30 s"
    ]
    receiver.status = 200
    traced.api.ctx.spans = OtlpSpans({}, Telemetry(receiver.url))
    assert "first batch" in sent(traced, receiver)


def test_pipeline_of_the_submission_is_the_parent(
    traced: RentedCluster, user: Caller, receiver: Receiver
) -> None:
    body = json.loads(json.dumps({"config": _CONFIG, "activate": True}))
    answer = user.ask("POST", "/api/v1/experiments", body, headers={"traceparent": CALLER})
    assert answer.status == 200, answer.body
    traced.settle()
    agent = traced.boot(traced.cloud.alive()[0])
    traced.settle()
    agent.work()
    (order,) = agent.running.values()
    run = order["spec"]["trace"]["traceparent"].split("-")
    assert run[1] == TRACE
    assert order["spec"]["env"]["TRACEPARENT"] == "-".join(run)
    assert order["spec"]["trace"]["is_rented"] is True
    agent.finish()
    spans = sent(traced, receiver)
    assert spans["submit experiment"].parent_id == PARENT
    assert spans["start trial"].span_id == run[2]
    assert spans["start trial"].error


def test_container_gets_the_standard_variables(
    traced: RentedCluster, user: Caller, receiver: Receiver
) -> None:
    create(user, activate=True)
    traced.settle()
    agent = traced.boot(traced.cloud.alive()[0])
    traced.settle()
    agent.work()
    (order,) = agent.running.values()
    env = order["spec"]["env"]
    assert env["OTEL_EXPORTER_OTLP_ENDPOINT"] == receiver.url
    assert env["OTEL_SERVICE_NAME"] == "determined-task"
    assert "det.trial.id=1" in env["OTEL_RESOURCE_ATTRIBUTES"].split(",")


def test_containers_have_no_trace_while_telemetry_is_off(cluster: RentedCluster) -> None:
    create(cluster.api.signed_in("determined"), activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[0])
    cluster.settle()
    agent.work()
    (order,) = agent.running.values()
    assert "trace" not in order["spec"]
    assert not [n for n in order["spec"]["env"] if n.startswith(("OTEL", "TRACE"))]


_CONFIG = "{name: a, entrypoint: train.py, searcher: {name: single, metric: loss, max_length: {batches: 1}}}"
