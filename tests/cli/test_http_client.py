"""The HTTP client of harness, agent and command line."""

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
from tests.support.fake_api import Asked, FakeApi, Raw, Refusal
from tests.support.threaded import serving


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    monkeypatch.setattr("determined.common.http.time.sleep", lambda _: None)
    with FakeApi() as fake:
        yield fake


def test_answers_are_decoded_and_empty_ones_are_none(api: FakeApi) -> None:
    api.on("GET", "/a", {"x": 1})
    api.on("POST", "/a", Raw(b""))
    session = Session(api.url)
    assert (session.get("/a"), session.post("/a")) == ({"x": 1}, None)


def test_a_prefix_in_the_address_is_kept(api: FakeApi) -> None:
    api.on("GET", "/base/a", {})
    assert Session(f"{api.url}/base/").get("/a") == {}


def test_compressed_answers_are_read(api: FakeApi) -> None:
    packed = gzip.compress(json.dumps({"x": 1}).encode())
    api.on("GET", "/a", Raw(packed, {"Content-Encoding": "gzip"}))
    assert Session(api.url).get("/a") == {"x": 1}


def test_a_page_in_the_place_of_an_answer_is_an_error_of_what_stands_before_the_server(
    api: FakeApi,
) -> None:
    api.on("GET", "/a", Raw(b"<html>maintenance</html>"))
    with pytest.raises(APIError, match="did not answer with JSON: '<html>maintenance") as failed:
        Session(api.url).get("/a")
    assert failed.value.status == 502


def test_queries_repeat_lists_and_leave_out_what_is_none(api: FakeApi) -> None:
    api.on("GET", "/a", {})
    Session(api.url).get("/a", {"many": [1, 2], "flag": True, "none": None, "text": "a b&c"})
    assert api.asked[0].query == {"many": ["1", "2"], "flag": ["true"], "text": ["a b&c"]}


def test_a_refusal_carries_status_and_sentence(api: FakeApi) -> None:
    with pytest.raises(NotFoundError, match="route 'GET /nothing' not found") as refused:
        Session(api.url).get("/nothing")
    assert refused.value.status == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"message": "plain"}', "plain"),
        (b'{"error": "short"}', "short"),
        (b"<html>", "<html>"),
        (b"", "HTTP 400"),
    ],
)
def test_other_error_bodies_are_understood(api: FakeApi, body: bytes, message: str) -> None:
    api.on("GET", "/a", Raw(body, status=400))
    with pytest.raises(APIError, match=message):
        Session(api.url).get("/a")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_in_trouble_is_asked_again(api: FakeApi, status: int) -> None:
    answers = iter([Raw(b"", status=status)] * 5 + [Raw(b"{}")])
    api.on("POST", "/a", lambda _: next(answers))
    assert Session(api.url).post("/a", {"x": 1}) == {}
    assert [a.body for a in api.asked] == [{"x": 1}] * 6


def test_requests_and_their_tries_draw_nothing_that_training_seeded(api: FakeApi) -> None:
    answers = iter([Raw(b"", status=503), Raw(b"{}")])
    api.on("GET", "/a", lambda _: next(answers))
    random.seed(7)
    before = random.getstate()
    assert Session(api.url).get("/a") == {}
    assert random.getstate() == before


def test_a_server_that_wakes_or_has_too_much_to_do_is_asked_again_when_it_says(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    monkeypatch.setattr("determined.common.http.time.sleep", paused.append)
    asked = [(503, "7"), (429, "9"), (503, "86400"), (429, "Wed, 21 Oct 2015 07:28:00 GMT")]
    told = [Raw(b"", {"Retry-After": after}, status=status) for status, after in asked]
    answers = iter([*told, Raw(b"", status=429), Raw(b"{}")])
    api.on("POST", "/a", lambda _: next(answers))
    assert Session(api.url).post("/a") == {}
    assert paused[:3] == [7.0, 9.0, 60.0]
    assert all(pause < 10 for pause in paused[3:])


def test_a_long_wait_is_told_once_with_what_the_server_says(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    full = b'{"error": {"error": "the disk of the database is full"}}'
    answers = iter([Raw(full, {"Retry-After": "2"}, status=503)] * 4 + [Raw(b"{}")])
    api.on("GET", "/a", lambda _: next(answers))
    Session(api.url).get("/a")
    assert caplog.messages == [
        f"waiting for {api.url}, which does not answer yet: the disk of the database is full"
    ]


def test_a_short_wait_is_not_told(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([Raw(b"", status=503), Raw(b"{}")])
    api.on("GET", "/a", lambda _: next(answers))
    Session(api.url).get("/a")
    assert caplog.messages == []


def test_a_refusal_tells_when_to_ask_again(api: FakeApi) -> None:
    api.on("GET", "/a", Raw(b"", {"Retry-After": "5"}, status=503))
    with pytest.raises(APIError) as refused:
        Session(api.url, retries=0).get("/a")
    assert refused.value.retry_after_s == 5


def test_the_last_answer_of_a_gateway_in_trouble_is_given(api: FakeApi) -> None:
    api.on("GET", "/a", Raw(b"busy", status=503))
    with pytest.raises(APIError, match="busy"):
        Session(api.url, retries=2).get("/a")
    assert len(api.asked) == 3


def test_a_refusal_is_not_asked_again(api: FakeApi) -> None:
    def refuse(_: Asked) -> None:
        raise Refusal(500, "no")

    api.on("GET", "/a", refuse)
    with pytest.raises(APIError):
        Session(api.url).get("/a")
    assert len(api.asked) == 1


def test_a_connection_that_breaks_is_opened_again(api: FakeApi) -> None:
    answers = iter([Raw(b"12345", cut_after=2), Raw(b"[1]")])
    api.on("GET", "/a", lambda _: next(answers))
    assert Session(api.url).get("/a") == [1]


def test_an_impatient_session_tries_an_absent_server_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("determined.common.http.time.sleep", pauses.append)
    with pytest.raises(MasterUnreachableError):
        Session("http://127.0.0.1:1", patient_at_first=False).get("/a")
    assert pauses == []
    with pytest.raises(MasterUnreachableError):
        Session("http://127.0.0.1:1", retries=2).get("/a")
    assert [0.35, 0.7] <= pauses <= [0.5, 1.0]


def test_an_impatient_session_becomes_patient_once_it_was_answered(api: FakeApi) -> None:
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


def test_a_process_ends_as_it_should_while_a_daemon_thread_reads_an_answer(api: FakeApi) -> None:
    over = threading.Event()

    def half() -> Iterator[object]:
        yield {"result": 1}
        over.wait(60)

    api.on("GET", "/a", lambda _: half())
    command = [sys.executable, "-c", ENDS_WHILE_A_BODY_IS_READ, api.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    over.set()
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A TLS server whose certificate is for `det.example`; its address and its certificate."""
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
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that refuse it
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield f"https://127.0.0.1:{server.server_address[1]}", str(certificate)


def test_a_certificate_is_expected_under_the_name_that_was_given(secure: tuple[str, str]) -> None:
    url, certificate = secure
    session = Session(url, cert_file=certificate, server_hostname="det.example")
    assert session.get("/") == {}


def test_a_certificate_for_another_name_is_refused(secure: tuple[str, str]) -> None:
    url, certificate = secure
    with pytest.raises(MasterUnreachableError, match=r"(?i)certificate"):
        Session(url, cert_file=certificate, retries=0).get("/")


def test_an_unknown_certificate_is_refused_unless_told_not_to_look(secure: tuple[str, str]) -> None:
    url, _ = secure
    with pytest.raises(MasterUnreachableError, match=r"(?i)certificate"):
        Session(url, server_hostname="det.example", retries=0).get("/")
    assert Session(url, verify=False).get("/") == {}
