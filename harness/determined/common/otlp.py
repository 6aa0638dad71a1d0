"""Spans of agents and containers, sent as OTLP in JSON over HTTP with the standard library.

Images of tasks and machines do not have OpenTelemetry's packages. Spans of user code use those packages, and join the
same trace by the variable TRACEPARENT.
"""

import contextlib
import hashlib
import json
import logging
import os
import threading
import time
import urllib.request
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

log = logging.getLogger(__name__)

TIMEOUT_S = 3.0
_PATH = "/v1/traces"


class Spans:
    """The spans of one program in a trace. They are children of the span that `traceparent` names."""

    def __init__(
        self, endpoint: str, traceparent: str, component: str, attributes: Mapping[str, str]
    ) -> None:
        self._trace_id, self._parent_id = _ids_of(traceparent)
        self._url = endpoint.rstrip("/") + _PATH if endpoint and self._trace_id else ""
        self._component = component
        self._attributes = attributes
        self._spans: List[Dict[str, Any]] = []

    def add(
        self, name: str, begin_s: float, end_s: float, parent_id: str = "", error: str = ""
    ) -> str:
        """Add a span that has ended. Return its id, which depends only on the parent, the name and the begin."""
        parent_id = parent_id or self._parent_id
        text = f"{parent_id} {self._attributes} {name} {begin_s}"
        span_id = hashlib.sha256(text.encode()).hexdigest()[:16]
        if self._url:
            self._spans.append(
                {
                    "traceId": self._trace_id,
                    "spanId": span_id,
                    "parentSpanId": parent_id,
                    "name": name,
                    "kind": 1,
                    "startTimeUnixNano": str(int(begin_s * 1e9)),
                    "endTimeUnixNano": str(int(max(begin_s, end_s) * 1e9)),
                    "status": {"code": 2, "message": error} if error else {},
                }
            )
        return span_id

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Add a span of the block's time."""
        begin_s, error = time.time(), ""
        try:
            yield
        except BaseException as e:
            error = f"{type(e).__name__}: {e}"[:200]
            raise
        finally:
            self.add(name, begin_s, time.time(), error=error)

    def send(self) -> Optional[threading.Thread]:
        """Send the added spans in a thread. A collector that does not answer loses them."""
        spans, self._spans = self._spans, []
        if not spans:
            return None
        thread = threading.Thread(target=_post, args=(self._url, self._body(spans)), daemon=True)
        thread.start()
        return thread

    def _body(self, spans: List[Dict[str, Any]]) -> bytes:
        resource: Tuple[Tuple[str, str], ...] = (
            ("service.name", f"determined-{self._component}"),
            ("det.component", self._component),
            *self._attributes.items(),
        )
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in resource]
        scope = {"scope": {"name": "determined"}, "spans": spans}
        resource_spans = {"resource": {"attributes": attributes}, "scopeSpans": [scope]}
        return json.dumps({"resourceSpans": [resource_spans]}).encode()


def trace_id_of(traceparent: str) -> str:
    """Return the trace id, or '' if the text names no trace."""
    return _ids_of(traceparent)[0]


def caller_headers() -> Dict[str, str]:
    """Return the header by which a new experiment joins the trace of this program, such as a CI pipeline."""
    traceparent = os.environ.get("TRACEPARENT", "").strip()
    return {"traceparent": traceparent} if traceparent else {}


def of_task(env: Mapping[str, str]) -> Spans:
    """Return the spans of a container. Without a collector, or with OTEL_SDK_DISABLED, they are not sent."""
    endpoint = env.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        endpoint = ""
    names = {"det.allocation.id": "DET_ALLOCATION_ID", "det.container.id": "DET_CONTAINER_ID"}
    attributes = {key: env.get(name, "") for key, name in names.items()}
    return Spans(endpoint, env.get("TRACEPARENT", ""), "task", attributes)


def _ids_of(traceparent: str) -> Tuple[str, str]:
    parts = traceparent.split("-")
    is_valid = len(parts) >= 4 and len(parts[1]) == 32 and len(parts[2]) == 16
    return (parts[1], parts[2]) if is_valid else ("", "")


def _post(url: str, body: bytes) -> None:
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            response.read()
    except Exception as e:
        log.debug("the collector at %s did not accept spans: %s", url, e)
