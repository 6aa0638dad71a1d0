"""Forward requests of containers to the control plane. During an outage they wait instead of failing."""

import contextlib
import http.client
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from determined.common.connections import RETRY_STATUSES, Connections, pause_asked, pauses, readable

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 5.0
ANSWER_TIMEOUT_S = 300.0
# Headers for a single connection (RFC 9110). `host` is set again for the next connection.
HOP_BY_HOP = frozenset(
    {
        "connection",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class CallerGone(Exception):
    """The container closed its connection or died."""


@dataclass(frozen=True)
class ForwardedRequest:
    method: str
    target: str
    headers: Mapping[str, str]
    body: IO[bytes]
    length: int
    retried: bool = True
    longest_pause_s: float = LONGEST_PAUSE_S


def end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers about the content, without its length and without headers about the connection."""
    dropped = {*HOP_BY_HOP, "content-length"}
    return {name: value for name, value in headers.items() if name.lower() not in dropped}


def send(
    upstream: Connections, request: ForwardedRequest, caller: socket.socket
) -> tuple[http.client.HTTPResponse, contextlib.ExitStack]:
    """Send with retries and return the answer. Closing the stack ends the exchange. Raises CallerGone."""
    headers = end_to_end(request.headers)
    if request.length or request.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(request.length)
    for pause_s in pauses(FIRST_PAUSE_S, request.longest_pause_s):
        request.body.seek(0)
        with contextlib.ExitStack() as stack:
            try:
                response = stack.enter_context(
                    upstream.exchange(
                        request.method,
                        request.target,
                        headers,
                        request.body if request.length else None,
                        timeout_s=ANSWER_TIMEOUT_S,
                        read_timeout_s=ANSWER_TIMEOUT_S,
                    )
                )
            except (OSError, http.client.HTTPException):
                if not request.retried:
                    raise
            else:
                if response.status not in RETRY_STATUSES or not request.retried:
                    return response, stack.pop_all()
                pause_s = max(pause_s, pause_asked(response.headers.get("Retry-After")))
        _wait_unless_gone(caller, pause_s)
    raise AssertionError("pauses never end")


def raise_if_gone(caller: socket.socket) -> None:
    """Raise CallerGone if the caller has closed its connection."""
    if not readable(caller, 0):
        return
    try:
        if caller.recv(1, socket.MSG_PEEK) == b"":
            raise CallerGone
    except OSError as e:
        raise CallerGone from e


def _wait_unless_gone(caller: socket.socket, wait_s: float) -> None:
    """Sleep. Raises CallerGone as soon as the caller closes its connection."""
    deadline = time.monotonic() + wait_s
    if readable(caller, wait_s):
        raise_if_gone(caller)
        time.sleep(max(0.0, deadline - time.monotonic()))
