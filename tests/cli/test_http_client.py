"""The HTTP client that the harness, the agent and the command line use."""

import gzip
import json
import random
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from determined.common.http import APIError, MasterUnreachableError, NotFoundError, Session

from tests.support.certificates import write_certificate
from tests.support.fake_api import FakeApi, Raw, RecordedRequest, Refusal
from tests.support.threaded import serving


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setattr("determined.common.http.time.sleep", lambda _: None)
    with FakeApi() as fake:
        yield fake


def test_json_is_decoded_and_empty_body_is_none(api: FakeApi) -> None:
    api.on("GET", "/a", {"x": 1})
    api.on("POST", "/a", Raw(b""))
    session = Session(api.url)
    assert (session.get("/a"), session.post("/a")) == ({"x": 1}, None)


def test_path_prefix_of_address_is_kept(api: FakeApi) -> None:
    api.on("GET", "/base/a", {})
    assert Session(f"{api.url}/base/").get("/a") == {}


def test_compressed_responses_are_decoded(api: FakeApi) -> None:
    compressed = gzip.compress(json.dumps({"x": 1}).encode())
    api.on("GET", "/a", Raw(compressed, {"Content-Encoding": "gzip"}))
    assert Session(api.url).get("/a") == {"x": 1}


def test_html_response_is_a_gateway_error(
    api: FakeApi,
) -> None:
    api.on("GET", "/a", Raw(b"<html>maintenance</html>"))
    with pytest.raises(APIError, match="did not answer with JSON: '<html>maintenance") as error:
        Session(api.url).get("/a")
    assert error.value.status == 502


def test_query_repeats_lists_and_omits_none(api: FakeApi) -> None:
    api.on("GET", "/a", {})
    Session(api.url).get("/a", {"many": [1, 2], "flag": True, "none": None, "text": "a b&c"})
    assert api.asked[0].query == {"many": ["1", "2"], "flag": ["true"], "text": ["a b&c"]}


def test_api_error_has_status_and_message(api: FakeApi) -> None:
    with pytest.raises(NotFoundError, match="route 'GET /nothing' not found") as error:
        Session(api.url).get("/nothing")
    assert error.value.status == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"message": "plain"}', "plain"),
        (b'{"error": "short"}', "short"),
        (b"<html>", "<html>"),
        (b"", "HTTP 400"),
    ],
)
def test_message_is_read_from_other_error_bodies(api: FakeApi, body: bytes, message: str) -> None:
    api.on("GET", "/a", Raw(body, status=400))
    with pytest.raises(APIError, match=message):
        Session(api.url).get("/a")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_gateway_errors_are_retried(api: FakeApi, status: int) -> None:
    answers = iter([Raw(b"", status=status)] * 5 + [Raw(b"{}")])
    api.on("POST", "/a", lambda _: next(answers))
    assert Session(api.url).post("/a", {"x": 1}) == {}
    assert [a.body for a in api.asked] == [{"x": 1}] * 6


def test_retries_do_not_change_the_random_state(api: FakeApi) -> None:
    answers = iter([Raw(b"", status=503), Raw(b"{}")])
    api.on("GET", "/a", lambda _: next(answers))
    random.seed(7)
    before = random.getstate()
    assert Session(api.url).get("/a") == {}
    assert random.getstate() == before


def test_retry_after_header_sets_the_delay(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("determined.common.http.time.sleep", pauses.append)
    headers = [(503, "7"), (429, "9"), (503, "86400"), (429, "Wed, 21 Oct 2015 07:28:00 GMT")]
    refusals = [Raw(b"", {"Retry-After": after}, status=status) for status, after in headers]
    answers = iter([*refusals, Raw(b"", status=429), Raw(b"{}")])
    api.on("POST", "/a", lambda _: next(answers))
    assert Session(api.url).post("/a") == {}
    assert pauses[:3] == [7.0, 9.0, 60.0]
    assert all(pause < 10 for pause in pauses[3:])


def test_long_wait_is_logged_once_with_server_message(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    full = b'{"error": {"error": "the disk of the database is full"}}'
    answers = iter([Raw(full, {"Retry-After": "2"}, status=503)] * 4 + [Raw(b"{}")])
    api.on("GET", "/a", lambda _: next(answers))
    Session(api.url).get("/a")
    assert caplog.messages == [
        f"waiting for {api.url}, which does not answer yet: the disk of the database is full"
    ]


def test_short_wait_is_not_logged(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([Raw(b"", status=503), Raw(b"{}")])
    api.on("GET", "/a", lambda _: next(answers))
    Session(api.url).get("/a")
    assert caplog.messages == []


def test_api_error_has_retry_after(api: FakeApi) -> None:
    api.on("GET", "/a", Raw(b"", {"Retry-After": "5"}, status=503))
    with pytest.raises(APIError) as error:
        Session(api.url, retries=0).get("/a")
    assert error.value.retry_after_s == 5


def test_last_gateway_error_is_raised(api: FakeApi) -> None:
    api.on("GET", "/a", Raw(b"busy", status=503))
    with pytest.raises(APIError, match="busy"):
        Session(api.url, retries=2).get("/a")
    assert len(api.asked) == 3


def test_server_error_is_not_retried(api: FakeApi) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(500, "no")

    api.on("GET", "/a", refuse)
    with pytest.raises(APIError):
        Session(api.url).get("/a")
    assert len(api.asked) == 1


def test_broken_connection_is_retried(api: FakeApi) -> None:
    answers = iter([Raw(b"12345", cut_after=2), Raw(b"[1]")])
    api.on("GET", "/a", lambda _: next(answers))
    assert Session(api.url).get("/a") == [1]


def test_impatient_session_tries_unreachable_server_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("determined.common.http.time.sleep", pauses.append)
    with pytest.raises(MasterUnreachableError):
        Session("http://127.0.0.1:1", patient_at_first=False).get("/a")
    assert pauses == []
    with pytest.raises(MasterUnreachableError):
        Session("http://127.0.0.1:1", retries=2).get("/a")
    assert [0.35, 0.7] <= pauses <= [0.5, 1.0]


def test_impatient_session_retries_after_first_response(api: FakeApi) -> None:
    answers = iter([Raw(b"1"), Raw(b"12345", cut_after=2), Raw(b"2")])
    api.on("GET", "/a", lambda _: next(answers))
    session = Session(api.url, patient_at_first=False)
    assert (session.get("/a"), session.get("/a")) == (1, 2)


ENDS_WHILE_A_BODY_IS_READ = """
import sys, threading
from determined.common.http import Session

session = Session(sys.argv[1])
reader = threading.Thread(target=session.get, args=("/a",), daemon=True)
reader.start()

def stack():
    frame, names = sys._current_frames().get(reader.ident), []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names

while not (stack()[:1] == ["readinto"] and "read" in stack()):
    assert reader.is_alive()
print("ends")
"""


def test_process_exits_while_daemon_thread_reads_response(api: FakeApi) -> None:
    over = threading.Event()

    def half() -> Iterator[object]:
        yield {"result": 1}
        over.wait(60)

    api.on("GET", "/a", lambda _: half())
    command = [sys.executable, "-c", ENDS_WHILE_A_BODY_IS_READ, api.url]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    over.set()
    assert (result.returncode, result.stdout) == (0, "ends\n"), result.stderr


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Serve TLS with a certificate for `det.example`. Yield the URL and the certificate file."""
    certificate, key = write_certificate(tmp_path, "det.example", ip="10.9.9.9")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients reject the certificate
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield f"https://127.0.0.1:{server.server_address[1]}", str(certificate)


def test_certificate_is_checked_against_server_hostname(secure: tuple[str, str]) -> None:
    url, certificate = secure
    session = Session(url, cert_file=certificate, server_hostname="det.example")
    assert session.get("/") == {}


def test_certificate_for_another_name_is_rejected(secure: tuple[str, str]) -> None:
    url, certificate = secure
    with pytest.raises(MasterUnreachableError, match=r"(?i)certificate"):
        Session(url, cert_file=certificate, retries=0).get("/")


def test_unknown_certificate_is_rejected_unless_verify_is_false(secure: tuple[str, str]) -> None:
    url, _ = secure
    with pytest.raises(MasterUnreachableError, match=r"(?i)certificate"):
        Session(url, server_hostname="det.example", retries=0).get("/")
    assert Session(url, verify=False).get("/") == {}
