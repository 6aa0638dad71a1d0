"""One trace of a whole local run: command, API, tick, agent, container and the user's own code."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pytest

from tests.support.cluster import Cluster, local_cluster
from tests.support.otlp_receiver import Received, Receiver, otlp_receiver

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONFIG = """
name: traced
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: single, metric: loss}
"""
# Without an image and data sets these phases are shorter than the time between two polls of the agent.
SHORT_PHASES = ("pull image", "load data")
TRAIN = """
import determined as det
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
with det.core.init() as context:
    with trace.get_tracer("mine").start_as_current_span("my step"):
        pass
    context.train.report_validation_metrics(1, {"loss": 1.0})
"""


@dataclass(frozen=True)
class Traced:
    cluster: Cluster
    receiver: Receiver


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with otlp_receiver() as receiver:
        config = f"telemetry: {{otel_enabled: true, otel_endpoint: '{receiver.url}'}}"
        folder = tmp_path_factory.mktemp("traced")
        environ = {"OTEL_TRACES_SAMPLER": "always_on", "DET_LOG_FORMAT": "json"}
        with local_cluster(folder, runtime="process", config=config, environ=environ) as cluster:
            yield Traced(cluster, receiver)


@pytest.fixture(scope="module")
def spans(traced: Traced, tmp_path_factory: pytest.TempPathFactory) -> list[Received]:
    """Return the spans of an experiment that a pipeline created, in the pipeline's trace."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "train.py").write_text(TRAIN)
    (folder / "config.yaml").write_text(CONFIG)
    answer = traced.cluster.run(
        "experiment", "create", folder / "config.yaml", folder,
        environ={"TRACEPARENT": f"00-{TRACE}-{PARENT}-01"},
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert traced.cluster.until_state(1, "COMPLETED", "ERROR") == "COMPLETED"
    for name in ("first batch", "my step", "prepare container", "POST /api/v1/experiments"):
        traced.receiver.until(name)
    return [span for span in traced.receiver.spans if span.trace_id == TRACE]


def one(spans: list[Received], name: str) -> Received:
    (span,) = [span for span in spans if span.name == name]
    return span


def test_each_part_of_the_platform_is_in_one_trace(spans: list[Received]) -> None:
    services = {span.name: span.service for span in spans if span.name not in SHORT_PHASES}
    assert services == {
        "POST /api/v1/experiments": "determined-api",
        "submit experiment": "determined-api",
        "start trial": "determined-tick",
        "decide": "determined-tick",
        "start container": "determined-agent",
        "prepare container": "determined-task",
        "my step": "determined-task",
        "first batch": "determined-task",
    }


def test_parents_of_spans_lead_to_the_pipeline(spans: list[Received]) -> None:
    submission, run = one(spans, "submit experiment"), one(spans, "start trial")
    assert (submission.parent_id, run.parent_id) == (PARENT, submission.span_id)
    assert one(spans, "POST /api/v1/experiments").parent_id == PARENT
    others = [s for s in spans if s.name not in ("submit experiment", "POST /api/v1/experiments")]
    assert {span.parent_id for span in others if span is not run} == {run.span_id}


def test_times_of_spans_are_in_order(spans: list[Received]) -> None:
    names = ("submit experiment", "decide", "start container", "first batch")
    phases = [one(spans, name) for name in names]
    assert [span.begin_ns for span in phases] == sorted(span.begin_ns for span in phases)
    assert all(span.begin_ns <= span.end_ns for span in spans)
    run = one(spans, "start trial")
    for name in ("decide", "first batch", "my step", "prepare container"):
        span = one(spans, name)
        assert run.begin_ns <= span.begin_ns
        assert span.end_ns <= run.end_ns, name


def test_trial_describe_shows_the_trace(traced: Traced, spans: list[Received]) -> None:
    assert spans
    assert f"(trace {TRACE})" in traced.cluster.det("trial", "describe", "1").out


def test_logs_of_api_and_agent_are_json_with_ids(traced: Traced, spans: list[Received]) -> None:
    run = one(spans, "start trial")
    logs = {path.stem: path for path in (traced.cluster.folder / "data").rglob("*.log")}
    lines = {
        name: [json.loads(line) for line in path.read_text().splitlines()]
        for name, path in logs.items()
        if name == "api" or name.startswith("agent-")
    }
    for line in chain.from_iterable(lines.values()):
        assert {"time", "level", "logger", "message"} <= line.keys()
    (agent,) = (name for name in lines if name.startswith("agent-"))
    of_container = [line for line in lines[agent] if "container_id" in line]
    assert {line["trace_id"] for line in of_container} == {TRACE}
    assert {line["allocation_id"] for line in of_container} == {run.attributes["det.allocation.id"]}


def test_user_code_has_the_ids_of_its_trial(spans: list[Received]) -> None:
    attributes = one(spans, "my step").attributes
    assert (attributes["det.trial.id"], attributes["det.experiment.id"]) == ("1", "1")
