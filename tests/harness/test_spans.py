"""Spans of containers by the standard library, and the trace of a program that creates an experiment."""

import os
import socket
import subprocess
import sys
import time

import pytest
from determined.common import otlp

from tests.support.otlp_receiver import otlp_receiver

TRACE, RUN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{RUN}-01"
_JOIN = """
from opentelemetry import trace
from determined.core._user_traces import join_trace

join_trace()
context = trace.get_current_span().get_span_context()
print(f"{context.trace_id:032x} {context.span_id:016x}")
"""


def test_span_of_a_block_arrives_with_its_error() -> None:
    with otlp_receiver() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url + "/", "TRACEPARENT": TRACEPARENT}
        spans = otlp.of_task({**env, "DET_ALLOCATION_ID": "1.1.1"})
        with pytest.raises(OSError), spans.span("prepare container"):
            raise OSError("no route")
        thread = spans.send()
        assert thread is not None
        thread.join()
    (span,) = receiver.spans
    assert (span.trace_id, span.parent_id, span.service) == (TRACE, RUN, "determined-task")
    assert span.error == "OSError: no route"
    assert span.attributes["det.allocation.id"] == "1.1.1"


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"TRACEPARENT": TRACEPARENT},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "TRACEPARENT": "nonsense"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "TRACEPARENT": TRACEPARENT,
            "OTEL_SDK_DISABLED": "true",
        },
    ],
)
def test_nothing_is_sent_without_a_collector_or_a_trace(env: dict[str, str]) -> None:
    spans = otlp.of_task(env)
    with spans.span("prepare container"):
        pass
    assert spans.send() is None


def test_silent_collector_does_not_delay_the_container() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "TRACEPARENT": TRACEPARENT}
        spans = otlp.of_task(env)
        begin = time.monotonic()
        with spans.span("prepare container"):
            pass
        thread = spans.send()
        assert time.monotonic() - begin < 1
        assert thread is not None
        assert thread.daemon


def test_new_experiment_joins_the_trace_of_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEPARENT", raising=False)
    assert otlp.caller_headers() == {}
    monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
    assert otlp.caller_headers() == {"traceparent": TRACEPARENT}


def test_opentelemetry_of_the_user_continues_the_trace() -> None:
    env = {**os.environ, "TRACEPARENT": TRACEPARENT}
    result = subprocess.run([sys.executable, "-c", _JOIN], env=env, capture_output=True, text=True)
    assert result.stdout.split() == [TRACE, RUN], result.stderr


def test_task_without_a_trace_does_not_import_opentelemetry() -> None:
    code = (
        "import sys; from determined.core._user_traces import join_trace; join_trace();"
        " print('opentelemetry' in sys.modules)"
    )
    env = {name: value for name, value in os.environ.items() if name != "TRACEPARENT"}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr
