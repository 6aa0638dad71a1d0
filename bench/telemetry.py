"""Measure the CPU time of telemetry: `python -m bench.telemetry`.

The share compares the spans of requests, with their export, with the API's CPU time for an agent's poll, which is a
cheap and frequent request. A collector in another process accepts the spans. The second figure is the cost of a
request while telemetry is off.
"""

import subprocess
import sys
import time
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from det_controlplane.adapters.otlp_spans import OtlpSpans
from det_controlplane.api.http import Request
from det_controlplane.core.config.telemetry import Telemetry
from det_controlplane.entry.server.request_spans import noted_request, trace_id_of

from bench.api import agent_poll, cost_ms, figure, running

REQUESTS, ROUNDS = 20_000, 5
FLOOR_SHARE, FLOOR_OFF_US = 0.01, 3.0
_COLLECTOR = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


_ANSWER: list[MutableMapping[str, Any]] = [
    {"type": "http.response.start", "status": 200},
    {"type": "http.response.body", "body": b""},
]


async def _discard(message: MutableMapping[str, Any]) -> None:
    """Take a part of an answer."""


def request() -> Request:
    result = Request("POST", "/agents/v1/poll", headers={"user-agent": "det-agent"})
    result.route = "/agents/v1/poll"
    return result


def on_us(spans: OtlpSpans) -> float:
    """Return the CPU time of this process, with the thread that exports, for a request."""
    begin = time.process_time()
    for _ in range(REQUESTS):
        one = request()
        one.trace_id = trace_id_of(one.headers)
        with noted_request(spans, one, _discard) as send:
            for message in _ANSWER:
                with suppress(StopIteration):
                    send(message).send(None)  # type: ignore[attr-defined]
    spans.flush()
    return (time.process_time() - begin) / REQUESTS * 1e6


def off_us() -> float:
    begin = time.process_time()
    for _ in range(REQUESTS):
        one = request()
        one.trace_id = trace_id_of(one.headers)
    return (time.process_time() - begin) / REQUESTS * 1e6


def request_us() -> float:
    begin = time.process_time()
    for _ in range(REQUESTS):
        request()
    return (time.process_time() - begin) / REQUESTS * 1e6


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        poll = agent_poll(cluster)
        pids = cluster.pids("api")
        cost_ms(pids, poll)
        poll_ms = min(cost_ms(pids, poll) for _ in range(ROUNDS))
    command = [sys.executable, "-c", _COLLECTOR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        spans = OtlpSpans({}, Telemetry(f"http://127.0.0.1:{int(collector.stdout.readline())}"))
        on_us(spans)  # to load the modules
        bare = min(request_us() for _ in range(ROUNDS))
        cost_us = min(on_us(spans) for _ in range(ROUNDS)) - bare
        cost_off_us = min(off_us() for _ in range(ROUNDS)) - bare
        collector.terminate()
    figure("telemetry_share_of_a_poll", cost_us / (poll_ms * 1000), "of CPU", FLOOR_SHARE)
    figure("telemetry_on", cost_us, "us/request", None)
    figure("telemetry_off", cost_off_us, "us/request", FLOOR_OFF_US)
    figure("agent_poll_of_the_api", poll_ms, "ms", None)


if __name__ == "__main__":
    main()
