"""The probe by which ticks check that the API answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from det_controlplane.adapters.api_probe import ApiProbe


@contextmanager
def serving(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "is_up"), [(200, True), (429, False), (503, False)])
def test_only_a_healthy_api_counts_as_reached(status: int, is_up: bool) -> None:
    with serving(status) as url:
        assert ApiProbe(f"{url}/")() is is_up


def test_a_refused_connection_is_no_answer() -> None:
    with serving(200) as url:
        pass
    assert not ApiProbe(url)()
