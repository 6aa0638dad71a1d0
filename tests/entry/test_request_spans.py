"""Spans of requests, and a collector that does not answer."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from det_controlplane.adapters.otlp_spans import OtlpSpans, endpoint_of, spans_of
from det_controlplane.api.http import Request, json_response
from det_controlplane.core.config.telemetry import Telemetry
from det_controlplane.core.trace_context import Span
from det_controlplane.entry.aws.events import respond
from det_controlplane.entry.server.asgi import AsgiApp
from det_controlplane.entry.server.request_spans import note_request

from tests.support.apps import small_app
from tests.support.asgi import request as ask
from tests.support.lambda_events import Http, http_api_event
from tests.support.otlp_receiver import Receiver, otlp_receiver

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TELEMETRY = Telemetry("http://127.0.0.1:9")


@dataclass
class Kept:
    """Keeps spans instead of sending them."""

    sampled: bool = True
    spans: list[Span] = field(default_factory=list)
    task_endpoint: str = ""

    def takes_request(self) -> bool:
        return self.sampled

    def add(self, span: Span) -> None:
        self.spans.append(span)

    def send(self, spans: Sequence[Span]) -> bool:
        self.spans.extend(spans)
        return True


def noted(
    kept: Kept, status: int = 200, traceparent: str = "", sender: str = "user 1"
) -> list[Span]:
    request = Request("GET", "/x/7", headers={"traceparent": traceparent} if traceparent else {})
    request.route, request.params, request.sender = "/x/{id}", {"id": "7"}, sender
    note_request(kept, request, status, 1.0, 2.5)
    return kept.spans


def test_span_of_a_request_has_route_status_and_length() -> None:
    (span,) = noted(Kept())
    assert (span.name, span.parent_id) == ("GET /x/{id}", "")
    assert span.attributes["http.response.status_code"] == 200
    assert span.attributes["det.path.id"] == "7"
    assert (span.end - span.begin).total_seconds() == 1.5


def test_request_beside_the_sample_has_no_span() -> None:
    assert noted(Kept(sampled=False)) == []


def test_internal_error_is_kept_beside_the_sample() -> None:
    (span,) = noted(Kept(sampled=False), status=500)
    assert span.error == "internal error"


def test_caller_decides_whether_its_trace_has_the_request() -> None:
    (span,) = noted(Kept(sampled=False), traceparent=CALLER)
    assert (span.context.trace_id, span.parent_id) == (CALLER[3:35], CALLER[36:52])
    assert noted(Kept(), traceparent=CALLER[:-2] + "00") == []


def test_stranger_cannot_choose_the_requests_with_spans() -> None:
    assert noted(Kept(sampled=False), traceparent=CALLER, sender="") == []
    (span,) = noted(Kept(), traceparent=CALLER, sender="")
    assert span.parent_id == ""


def test_server_and_lambda_note_requests() -> None:
    app = small_app(("/x/{id}", lambda ctx, request: json_response({})))
    kept = cast(Any, app.ctx).spans = Kept()
    assert ask(AsgiApp(app, cast(Any, _Silent())), "GET", "/x/7").status == 200
    respond(app, http_api_event(Http("GET", "/x/8")))
    assert [span.attributes["det.path.id"] for span in kept.spans] == ["7", "8"]


class _Silent:
    def seen(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("environment", "telemetry", "endpoint"),
    [
        ({}, Telemetry(), ""),
        ({}, Telemetry("http://a:4318"), "http://a:4318"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}, Telemetry("http://a"), "http://b"),
        ({"OTEL_SDK_DISABLED": "true"}, Telemetry("http://a"), ""),
        ({"OTEL_TRACES_EXPORTER": "none"}, Telemetry("http://a"), ""),
    ],
)
def test_standard_variables_override_the_configuration(
    environment: dict[str, str], telemetry: Telemetry, endpoint: str
) -> None:
    assert endpoint_of(environment, telemetry) == endpoint
    assert (spans_of(environment, telemetry) is None) is (endpoint == "")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        yield receiver


def test_spans_of_requests_arrive_with_the_name_of_the_service(receiver: Receiver) -> None:
    spans = OtlpSpans({"OTEL_SERVICE_NAME": "team"}, Telemetry(receiver.url))
    for span in noted(Kept()):
        spans.add(span)
    spans.flush()
    (arrived,) = receiver.spans
    assert (arrived.service, arrived.attributes["det.component"]) == ("team", "api")


def test_unreachable_collector_delays_no_request(caplog: pytest.LogCaptureFixture) -> None:
    spans = OtlpSpans({}, TELEMETRY)
    (span,) = noted(Kept())
    spans.add(span)  # loads the modules
    begin = time.thread_time()
    for _ in range(3000):
        spans.add(span)
    assert time.thread_time() - begin < 2
    with caplog.at_level(logging.DEBUG):
        assert spans.send([span]) is False
    assert not [r for r in caplog.records if r.name.startswith("opentelemetry")]
    spans.shutdown()


def test_collector_that_failed_is_not_asked_again_at_once() -> None:
    spans = OtlpSpans({}, TELEMETRY)
    (span,) = noted(Kept())
    assert spans.send([span]) is False
    begin = time.monotonic()
    assert [spans.send([span]) for _ in range(100)] == [False] * 100
    assert time.monotonic() - begin < 1


def test_no_thread_runs_before_the_first_span() -> None:
    before = threading.active_count()
    OtlpSpans({}, TELEMETRY)
    assert threading.active_count() == before


def test_missing_packages_turn_telemetry_off_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(cast(Any, __import__("sys")).modules, "opentelemetry.sdk.resources", None)
    with caplog.at_level(logging.WARNING, "det.telemetry"):
        assert spans_of({}, TELEMETRY) is None
    assert "determined-serverless[telemetry]" in caplog.text
