"""A machine of Google Compute Engine joins by a token that Google signed for that join."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from det_agent.proof_gce import gce_proof
from det_controlplane.core.agent_protocol import gce_audience
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import IdentityVerifier, MachineIdentity, NotProven, Proof
from det_provisioner_gcp.identity import (
    CertificateSet,
    GceIdentityVerifier,
    GoogleCertificates,
    fetch_certificates,
)
from google.auth import crypt, jwt

NONCE = "a" * 64
MACHINE = {
    "instance_id": "7000000001",
    "instance_name": "det-00000000000000000000000000000007-1",
    "instance_creation_timestamp": 1_700_000_000,
    "project_id": "acme",
    "project_number": 42,
    "zone": "us-central1-a",
}


class Google:
    """Keys that sign tokens, and the certificates that are published."""

    def __init__(self) -> None:
        self.keys = {key_id: _key() for key_id in ("old", "new", "stranger")}
        self.published = ["old"]
        self.fetches = 0
        self.is_silent = False

    def certificates(self) -> CertificateSet:
        self.fetches += 1
        if self.is_silent:
            raise Unreachable("Google is silent")
        return CertificateSet({k: _certificate(self.keys[k]) for k in self.published}, 3600.0)

    def token(self, key_id: str = "old", **claims: Any) -> str:
        """Sign a token as the metadata server gives it, with some claims replaced."""
        pem = self.keys[key_id].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        now = int(time.time())
        payload = {
            "iss": "https://accounts.google.com",
            "aud": f"{gce_audience(NONCE)}/1",
            "azp": "100000000000000000001",
            "sub": "100000000000000000001",
            "iat": now,
            "exp": now + 3600,
            "google": {"compute_engine": MACHINE},
            **claims,
        }
        signed: bytes = jwt.encode(crypt.RSASigner.from_string(pem, key_id), payload)
        return signed.decode()


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _certificate(key: rsa.RSAPrivateKey) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "federated-signon")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


@pytest.fixture(scope="module")
def keys() -> Google:
    return Google()


@pytest.fixture
def google(keys: Google) -> Google:
    fresh = Google.__new__(Google)
    fresh.keys, fresh.published, fresh.fetches, fresh.is_silent = keys.keys, ["old"], 0, False
    return fresh


def verify(google: Google, token: str) -> MachineIdentity:
    verifier: IdentityVerifier = GceIdentityVerifier(
        ["acme"], GoogleCertificates(google.certificates)
    )
    return verifier.verify(Proof(verifier.kind, NONCE, {"token": token}))


def test_a_token_that_google_signed_names_the_machine(google: Google) -> None:
    assert verify(google, google.token()) == MachineIdentity(
        "gcp", "acme", "us-central1", "acme/det-00000000000000000000000000000007-1"
    )


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"aud": f"{gce_audience('b' * 64)}/1"}, "audience"),
        ({"aud": f"{gce_audience(NONCE)}/1/1"}, "audience"),
        ({"aud": [f"{gce_audience(NONCE)}/1"]}, "audience"),
        ({"aud": None}, "audience"),
        ({"iss": "https://evil.example"}, "evil.example"),
        ({"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}, "expired"),
        ({"iat": int(time.time()) + 3600, "exp": int(time.time()) + 7200}, "too early"),
        ({"google": {}}, "format=full"),
        ({"google": "compute_engine"}, "format=full"),
        ({"google": {"compute_engine": {**MACHINE, "instance_id": ""}}}, "format=full"),
        ({"google": {"compute_engine": {**MACHINE, "project_id": "theirs"}}}, "theirs"),
        ({"google": {"compute_engine": {**MACHINE, "zone": "../../x"}}}, "no zone"),
    ],
)
def test_a_token_that_says_anything_else_proves_nothing(
    google: Google, claims: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(NotProven, match=f"(?i){told}"):
        verify(google, google.token(**claims))


@pytest.mark.parametrize(
    "broken",
    [
        lambda token: "",
        lambda token: "no.token",
        lambda token: token[:-8] + "AAAAAAAA",
        lambda token: ".".join([token.split(".")[0], "e30", token.split(".")[2]]),
        lambda token: "eyJhbGciOiJub25lIiwia2lkIjoib2xkIn0." + token.split(".")[1] + ".",
        lambda token: "eyJhbGciOiJIUzI1NiIsImtpZCI6Im9sZCJ9." + token.partition(".")[2],
    ],
    ids=["empty", "no token", "signature", "claims", "alg none", "alg HS256"],
)
def test_a_token_that_was_changed_proves_nothing(
    google: Google, broken: Callable[[str], str]
) -> None:
    with pytest.raises(NotProven):
        verify(google, broken(google.token()))


def test_a_key_that_is_not_googles_proves_nothing(google: Google) -> None:
    with pytest.raises(NotProven, match="not Google's"):
        verify(google, google.token("stranger"))


def test_certificates_are_kept_and_fetched_for_a_new_key(google: Google) -> None:
    clock = [0.0]
    certificates = GoogleCertificates(google.certificates, lambda: clock[0])
    assert certificates.of("old") == certificates.of("old") != ""
    assert (certificates.of("new"), google.fetches) == ("", 1)
    google.published = ["new"]
    clock[0] = 61.0
    assert certificates.of("new") != ""
    assert google.fetches == 2
    clock[0] = 4000.0
    assert certificates.of("old") == ""
    assert google.fetches == 3


def test_without_certificates_nothing_is_known(google: Google) -> None:
    google.is_silent = True
    with pytest.raises(Unreachable):
        verify(google, google.token())


def test_a_fetch_that_fails_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("det_provisioner_gcp.identity.CERTIFICATES_URL", "http://127.0.0.1:1/certs")
    with pytest.raises(Unreachable, match="certificates"):
        fetch_certificates()


@contextmanager
def metadata_server(google: Google, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
            asked = parts.path.endswith("/service-accounts/default/identity")
            rightly = asked and self.headers["Metadata-Flavor"] == "Google"
            claims: dict[str, Any] = {} if query.get("format") == "full" else {"google": {}}
            body = google.token(aud=query.get("audience", ""), **claims).encode()
            self.send_response(status if rightly else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Keep the output of tests clean."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_proof_of_an_agent_is_verified(google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with metadata_server(google) as host:
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        proof = gce_proof(NONCE)
    verifier = GceIdentityVerifier(["acme"], GoogleCertificates(google.certificates))
    assert proof["kind"] == verifier.kind
    identity = verifier.verify(Proof(verifier.kind, NONCE, proof))
    assert identity.cloud_id.endswith("-1")
    with pytest.raises(NotProven):
        verifier.verify(Proof(verifier.kind, "b" * 64, proof))


def test_each_proof_is_a_new_one(google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    with metadata_server(google) as host:
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        first, second = gce_proof(NONCE)["token"], gce_proof(NONCE)["token"]
    audiences = {jwt.decode(token, verify=False)["aud"] for token in (first, second)}
    assert len(audiences) == 2


@pytest.mark.parametrize(("status", "told"), [(404, "service_account"), (503, "503")])
def test_an_agent_that_gets_no_token_says_why(
    google: Google, monkeypatch: pytest.MonkeyPatch, status: int, told: str
) -> None:
    with metadata_server(google, status) as host:
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        with pytest.raises(OSError, match=told):
            gce_proof(NONCE)
