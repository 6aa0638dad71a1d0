"""A cluster whose certificate nobody vouches for is trusted by its fingerprint, once."""

import io
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from det_controlplane.entry.local import certificate
from determined.common.certificates import TrustStore, fingerprint_of_pem
from determined.common.http import Session, UntrustedMasterError
from determined.common.sign_in import open_session

from tests.cli.conftest import Det
from tests.support.threaded import serving


@dataclass
class Secure:
    folder: Path
    server: ThreadingHTTPServer
    heard: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.server_address[1]}"

    @property
    def cert(self) -> Path:
        return self.folder / "cert.pem"

    @property
    def fingerprint(self) -> str:
        return certificate.fingerprint(self.cert)

    def show_another_certificate(self) -> None:
        certificate.make(self.cert, self.folder / "key.pem", "127.0.0.1")
        context = self.server.socket.context  # type: ignore[attr-defined]
        context.load_cert_chain(self.cert, self.folder / "key.pem")


@pytest.fixture
def secure(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.heard.append(self.path)
            body = json.dumps({"clusterName": "secure", "version": "0.38.1"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that refuse it
    made = Secure(tmp_path, server)
    certificate.make(made.cert, tmp_path / "key.pem", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("DET_MASTER", made.url)
    with serving(server):
        yield made


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    terminal = io.StringIO(answer + "\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)


def test_the_first_command_asks_and_the_next_do_not(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    answering(monkeypatch, "y")
    first = det("master", "info")
    assert (first.code, "secure" in first.out) == (0, True)
    assert secure.fingerprint in first.err
    answering(monkeypatch, "")
    again = det("master", "info")
    assert (again.code, again.err) == (0, "")
    kept = home / ".config" / "determined" / "certs.json"
    assert json.loads(kept.read_text()) == {secure.url: secure.cert.read_text()}
    assert kept.stat().st_mode & 0o777 == 0o600


def test_nothing_is_sent_to_a_cluster_that_is_not_trusted(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "n")
    refused = det("master", "info")
    assert (refused.code, "nothing was sent" in refused.err) == (1, True)
    assert secure.heard == []
    assert TrustStore(secure.url).trusted() is None


def test_without_a_terminal_the_fingerprint_is_told_and_what_to_do(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused = det("master", "info")
    assert refused.code == 1
    assert secure.fingerprint in refused.err
    assert "DET_MASTER_CERT_FILE" in refused.err
    monkeypatch.setenv("DET_MASTER_CERT_FILE", str(secure.cert))
    assert det("master", "info").code == 0


def test_another_certificate_than_the_trusted_one_is_refused_without_a_question(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "y")
    assert det("master", "info").code == 0
    before = secure.fingerprint
    secure.show_another_certificate()
    secure.heard.clear()
    answering(monkeypatch, "y")
    refused = det("master", "info")
    assert refused.code == 1
    assert before in refused.err
    assert secure.fingerprint in refused.err
    assert secure.heard == []
    assert TrustStore(secure.url).trusted() == before


def test_the_password_is_asked_for_after_the_trust(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("det_cli.prompts.password", lambda *words: asked.extend(words))
    answering(monkeypatch, "n")
    assert det("user", "login", "ada").code == 1
    assert asked == []


def test_the_sdk_trusts_what_the_command_line_was_told_to(secure: Secure) -> None:
    with pytest.raises(UntrustedMasterError):
        open_session(secure.url).get("/info")
    TrustStore(secure.url).keep(secure.cert.read_text())
    assert open_session(secure.url).get("/info")["version"] == "0.38.1"


@pytest.mark.parametrize("written", [str, str.upper, lambda f: f"SHA256:{f.replace(':', '')}"])
def test_an_agent_trusts_the_one_certificate_with_its_fingerprint(
    secure: Secure, written: type
) -> None:
    told = written(fingerprint_of_pem(secure.cert.read_text()))
    assert Session(secure.url, retries=0, fingerprint=told).get("/info")
    secure.show_another_certificate()
    with pytest.raises(UntrustedMasterError):
        Session(secure.url, retries=0, fingerprint=told).get("/info")
