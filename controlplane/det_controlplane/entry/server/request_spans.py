"""Spans of requests: a sample, the requests of callers with a sampled trace, and all internal errors."""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from det_controlplane.api.http import Request
from det_controlplane.core.trace_context import (
    TRACEPARENT,
    Span,
    TraceContext,
    parse_traceparent,
)
from det_controlplane.core.trials.start_spans import API
from det_controlplane.ports.spans import Spans

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
_INTERNAL_ERROR = 500


def note_request(spans: Spans, request: Request, status: int, begin_s: float, end_s: float) -> None:
    """Queue the span of an answered request if the sample contains it.

    A traceparent counts only with a valid sign-in, because anonymous requests could flood the collector."""
    header = request.headers.get(TRACEPARENT)
    is_known = bool(request.sender) or request.principal is not None
    caller = parse_traceparent(header) if header and is_known else None
    is_error = status == _INTERNAL_ERROR
    is_wanted = caller.is_sampled if caller is not None else spans.takes_request()
    if not (is_wanted or is_error) or not request.route:
        return
    trace_id = caller.trace_id if caller is not None else request.trace_id or new_trace_id()
    context = TraceContext(trace_id, f"{random.getrandbits(64):016x}")
    attributes: dict[str, str | int | float] = {
        "http.request.method": request.method,
        "http.route": request.route,
        "http.response.status_code": status,
    }
    attributes |= {f"det.path.{name}": value[:100] for name, value in request.params.items()}
    begin, end = (datetime.fromtimestamp(s, timezone.utc) for s in (begin_s, end_s))
    spans.add(
        Span(
            context,
            caller.span_id if caller else "",
            f"{request.method} {request.route}",
            API,
            begin,
            end,
            attributes,
            "internal error" if is_error else "",
            is_request=True,
        )
    )


@contextmanager
def noted_request(spans: Spans, request: Request, send: Send) -> Iterator[Send]:
    """Queue the span of a request of an ASGI server at its end. Yield a `send` that notes the status."""
    begin_s, status = time.time(), 0

    async def noted_send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        await send(message)

    try:
        yield noted_send
    finally:
        note_request(spans, request, status, begin_s, time.time())


def trace_id_of(headers: Mapping[str, str]) -> str:
    """Return the trace id of a request: the caller's, or a new one. Log lines of the request have it."""
    header = headers.get(TRACEPARENT)
    caller = parse_traceparent(header) if header else None
    return caller.trace_id if caller is not None else new_trace_id()


def new_trace_id() -> str:
    return f"{random.getrandbits(128):032x}"
