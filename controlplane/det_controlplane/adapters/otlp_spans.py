"""Spans to an OpenTelemetry collector by OpenTelemetry's SDK, which only this module imports.

The standard variables OTEL_* configure the SDK. They override the cluster configuration in their process."""

import logging
import random
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from det_controlplane.core.config.telemetry import Telemetry
from det_controlplane.core.trace_context import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger("det.telemetry")

EXTRA = "determined-serverless[telemetry]"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"
_PATH = "/v1/traces"
# Measured by `python -m bench.telemetry`: the share of requests that costs less than 1 % of their CPU time.
REQUEST_SAMPLE = 0.1
# A collector that did not answer is not asked for so long.
_PAUSE_S = 30.0
_TIMEOUT_S = 3.0


def endpoint_of(environment: Mapping[str, str], telemetry: Telemetry) -> str:
    """Return the collector of this process, or '' if telemetry is off."""
    is_disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or environment.get("OTEL_TRACES_EXPORTER", "") == "none":
        return ""
    set_endpoint = next((environment[n] for n in _ENDPOINTS if environment.get(n)), "")
    return set_endpoint or telemetry.endpoint


def has_packages() -> bool:
    """Return whether the packages of the extra are in this environment."""
    try:
        return find_spec(f"{_EXPORTER}.trace_exporter") is not None
    except ModuleNotFoundError:
        return False


def spans_of(environment: Mapping[str, str], telemetry: Telemetry) -> "OtlpSpans | None":
    """Return the way to the collector, or None if telemetry is off or the packages of the extra are missing."""
    if not endpoint_of(environment, telemetry):
        return None
    try:
        return OtlpSpans(environment, telemetry)
    except ImportError as e:
        log.warning("telemetry is off: %s. Install %s", e, EXTRA)
        return None


class OtlpSpans:
    """Queues spans of requests for a background thread, and sends spans of starts in the calling thread."""

    def __init__(self, environment: Mapping[str, str], telemetry: Telemetry) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        for noisy in ("opentelemetry.exporter", "opentelemetry.sdk"):
            # Its own messages repeat for each batch. `send` reports the first failure and the end of failures.
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        self._exporter = _Watched(OTLPSpanExporter(**_options(environment, telemetry)))
        self._service = environment.get("OTEL_SERVICE_NAME", "")
        self._resource = Resource.create
        self._resources: dict[str, Any] = {}
        self._ratio = _ratio(environment)
        endpoint = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
        self._task_endpoint = telemetry.task_endpoint or endpoint

    @property
    def task_endpoint(self) -> str:
        return self._task_endpoint

    @cached_property
    def _processor(self) -> Any:
        """Create the queue at the first span, because its thread must not exist before a fork or a snapshot."""
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # It only calls the three methods of `_Watched`, whose base class would load the SDK at the import.
        return BatchSpanProcessor(self._exporter)  # type: ignore[arg-type]

    def takes_request(self) -> bool:
        return random.random() < self._ratio

    def add(self, span: Span) -> None:
        try:
            self._processor.on_end(self._readable(span))
        except Exception as e:
            log.debug("a span was lost: %s", e)

    def send(self, spans: Sequence[Span]) -> bool:
        return self._exporter.accepts([self._readable(span) for span in spans])

    def flush(self) -> None:
        """Send the queued spans. The caller waits for at most the time limit of a request."""
        if "_processor" in self.__dict__:
            self._processor.force_flush()

    def shutdown(self) -> None:
        """End the background thread. Queued spans are sent if the collector answers."""
        if "_processor" in self.__dict__:
            self._processor.shutdown()

    def _readable(self, span: Span) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        flags = TraceFlags(TraceFlags.SAMPLED)
        trace_id = int(span.context.trace_id, 16)
        parent = None
        if span.parent_id:
            parent = SpanContext(trace_id, int(span.parent_id, 16), True, flags)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(trace_id, int(span.context.span_id, 16), False, flags),
            parent=parent,
            resource=self._of_component(span.component),
            attributes=span.attributes,
            kind=SpanKind.SERVER if span.is_request else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=_nanoseconds(span.begin),
            end_time=_nanoseconds(span.end),
        )

    def _of_component(self, component: str) -> Any:
        """Return the resource of a part of the platform. OTEL_SERVICE_NAME names all parts."""
        resource = self._resources.get(component)
        if resource is None:
            name = self._service or f"determined-{component}"
            attributes = {"service.name": name, "det.component": component}
            resource = self._resources[component] = self._resource(attributes)
        return resource


class _Watched:
    """The SDK's exporter. After a failure it rests, so that an unreachable collector costs nothing."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self._rests_until = 0.0
        self._is_failing = False

    def export(self, spans: "Sequence[ReadableSpan]") -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        return SpanExportResult.SUCCESS if self.accepts(spans) else SpanExportResult.FAILURE

    def accepts(self, spans: "Sequence[ReadableSpan]") -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        if time.monotonic() < self._rests_until:
            return False
        try:
            is_accepted = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception as e:
            log.debug("the collector failed: %s", e)
            is_accepted = False
        if is_accepted:
            if self._is_failing:
                log.info("the telemetry collector answers again")
            self._is_failing = False
            return True
        self._rests_until = time.monotonic() + _PAUSE_S
        if not self._is_failing:
            log.warning(
                "the telemetry collector does not accept spans; retrying every %.0f s", _PAUSE_S
            )
        self._is_failing = True
        return False

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def _options(environment: Mapping[str, str], telemetry: Telemetry) -> dict[str, Any]:
    """Return the exporter's options that no variable sets. The exporter reads the variables itself."""
    options: dict[str, Any] = {}
    if not any(environment.get(name) for name in _ENDPOINTS):
        options["endpoint"] = telemetry.endpoint.rstrip("/") + _PATH
        if telemetry.headers:
            options["headers"] = dict(telemetry.headers)
    if not any(name.startswith("OTEL_EXPORTER_OTLP") and "TIMEOUT" in name for name in environment):
        options["timeout"] = _TIMEOUT_S
    return options


def _ratio(environment: Mapping[str, str]) -> float:
    sampler = environment.get("OTEL_TRACES_SAMPLER", "")
    if sampler.endswith("always_on"):
        return 1.0
    if sampler.endswith("always_off"):
        return 0.0
    try:
        return float(environment.get("OTEL_TRACES_SAMPLER_ARG") or REQUEST_SAMPLE)
    except ValueError:
        return REQUEST_SAMPLE


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1_000
