"""An OpenTelemetry collector for tests: OTLP over HTTP, in protobuf and in JSON."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.processes import eventually


@dataclass(frozen=True)
class Received:
    """A span as the collector got it. Ids are in hexadecimal digits."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    begin_ns: int
    end_ns: int
    service: str
    attributes: dict[str, Any]
    error: str


@dataclass
class Receiver:
    """The spans that arrived. `status` is the answer to the next requests."""

    url: str
    spans: list[Received] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    status: int = 200

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def until(self, name: str, timeout_s: float = 30) -> Received:
        """Wait for a span."""
        assert eventually(lambda: bool(self.named(name)), timeout_s), sorted(
            span.name for span in self.spans
        )
        return self.named(name)[0]


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces", self.path
            receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
            is_json = self.headers["Content-Type"] == "application/json"
            if receiver.status == 200:
                receiver.spans.extend(_from_json(body) if is_json else _from_protobuf(body))
            answer = b"{}" if is_json else ExportTraceServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            self.send_header("Content-Type", self.headers["Content-Type"])
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Write nothing to the output of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _from_protobuf(body: bytes) -> Iterator[Received]:
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    resource["service.name"],
                    resource | _attributes(span.attributes),
                    span.status.message,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def _from_json(body: bytes) -> Iterator[Received]:
    for of_resource in json.loads(body)["resourceSpans"]:
        resource = {
            pair["key"]: pair["value"]["stringValue"]
            for pair in of_resource["resource"]["attributes"]
        }
        for scope in of_resource["scopeSpans"]:
            for span in scope["spans"]:
                yield Received(
                    span["traceId"],
                    span["spanId"],
                    span["parentSpanId"],
                    span["name"],
                    int(span["startTimeUnixNano"]),
                    int(span["endTimeUnixNano"]),
                    resource["service.name"],
                    resource,
                    span["status"].get("message", ""),
                )
