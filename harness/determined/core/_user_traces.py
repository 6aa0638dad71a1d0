"""The trace of a task for the user's own OpenTelemetry code."""

import importlib.util
import os


def join_trace() -> None:
    """Make the start of this run the parent of spans that the user's code begins.

    The platform sets TRACEPARENT if telemetry is on. Code with a current span of its own keeps it."""
    traceparent = os.environ.get("TRACEPARENT", "")
    if not traceparent or importlib.util.find_spec("opentelemetry") is None:
        return
    try:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return
    if not trace.get_current_span().get_span_context().is_valid:
        carrier = {"traceparent": traceparent}
        context.attach(TraceContextTextMapPropagator().extract(carrier))
