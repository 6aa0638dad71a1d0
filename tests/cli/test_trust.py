"""Self-signed certificates: users trust the fingerprint of a cluster once."""

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
            secure_server.heard.append(self.path)
            body = json.dumps({"clusterName": "secure", "version": "0.38.1"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients reject the certificate
    secure_server = Secure(tmp_path, server)
    certificate.make(secure_server.cert, tmp_path / "key.pem", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(secure_server.cert, tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("DET_MASTER", secure_server.url)
    with serving(server):
        yield secure_server


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    terminal = io.StringIO(answer + "\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)


def test_first_command_prompts_and_later_commands_do_not(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    answering(monkeypatch, "y")
    first = det("master", "info")
    assert (first.code, "secure" in first.out) == (0, True)
    assert secure.fingerprint in first.err
    answering(monkeypatch, "")
    result = det("master", "info")
    assert (result.code, result.err) == (0, "")
    store = home / ".config" / "determined" / "certs.json"
    assert json.loads(store.read_text()) == {secure.url: secure.cert.read_text()}
    assert store.stat().st_mode & 0o777 == 0o600


def test_untrusted_cluster_receives_no_request(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "n")
    result = det("master", "info")
    assert (result.code, "no request was sent" in result.err) == (1, True)
    assert secure.heard == []
    assert TrustStore(secure.url).trusted() is None


def test_error_without_terminal_has_fingerprint_and_variable(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    result = det("master", "info")
    assert result.code == 1
    assert secure.fingerprint in result.err
    assert "DET_MASTER_CERT_FILE" in result.err
    monkeypatch.setenv("DET_MASTER_CERT_FILE", str(secure.cert))
    assert det("master", "info").code == 0


def test_changed_certificate_is_rejected_without_prompt(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "y")
    assert det("master", "info").code == 0
    before = secure.fingerprint
    secure.show_another_certificate()
    secure.heard.clear()
    answering(monkeypatch, "y")
    result = det("master", "info")
    assert result.code == 1
    assert before in result.err
    assert secure.fingerprint in result.err
    assert secure.heard == []
    assert TrustStore(secure.url).trusted() == before


def test_password_prompt_follows_trust_prompt(
    secure: Secure, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []
    monkeypatch.setattr("det_cli.prompts.password", lambda *words: prompts.extend(words))
    answering(monkeypatch, "n")
    assert det("user", "login", "ada").code == 1
    assert prompts == []


def test_sdk_trusts_certificates_of_the_command_line(secure: Secure) -> None:
    with pytest.raises(UntrustedMasterError):
        open_session(secure.url).get("/info")
    TrustStore(secure.url).keep(secure.cert.read_text())
    assert open_session(secure.url).get("/info")["version"] == "0.38.1"


@pytest.mark.parametrize("notation", [str, str.upper, lambda f: f"SHA256:{f.replace(':', '')}"])
def test_agent_trusts_only_the_certificate_with_the_fingerprint(
    secure: Secure, notation: type
) -> None:
    fingerprint = notation(fingerprint_of_pem(secure.cert.read_text()))
    assert Session(secure.url, retries=0, fingerprint=fingerprint).get("/info")
    secure.show_another_certificate()
    with pytest.raises(UntrustedMasterError):
        Session(secure.url, retries=0, fingerprint=fingerprint).get("/info")
