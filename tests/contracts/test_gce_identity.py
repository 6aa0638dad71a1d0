"""A machine of Google Compute Engine joins with a token that Google signed for that join."""

import string
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from det_agent.proofs import gce_proof
from det_controlplane.core.agent_protocol import gce_audience
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import IdentityVerifier, MachineIdentity, NotProven, Proof
from det_provisioner_gcp.identity import (
    GceIdentityVerifier,
    GoogleCertificates,
    fetch_certificates,
)
from google.auth import jwt

from tests.support.google_machines import Google, machine_claims
from tests.support.threaded import serving

NONCE = "a" * 64
NAME = "det-00000000000000000000000000000007-1"


def token(signer: Google, key_id: str = "old", **claims: Any) -> str:
    """Return a token for this join, with some claims replaced."""
    usual = {"aud": f"{gce_audience(NONCE)}/1", "google": machine_claims(instance_name=NAME)}
    return signer.token(key_id, **{**usual, **claims})


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


def test_signed_token_identifies_the_machine(google: Google) -> None:
    assert verify(google, token(google)) == MachineIdentity(
        "gcp", "acme", "us-central1", f"acme/{NAME}", ""
    )


def test_differently_encoded_token_counts_as_the_same(google: Google) -> None:
    """Some bits of a signature's last letter are ignored."""
    first = token(google)
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    place = letters.index(first.rstrip("=")[-1])
    variant = first.rstrip("=")[:-1] + letters[place ^ 1]
    assert variant != first.rstrip("=")
    assert verify(google, variant).signed == verify(google, first).signed
    assert verify(google, token(google, jti="2")).signed != verify(google, first).signed


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"aud": f"{gce_audience('b' * 64)}/1"}, "audience"),
        ({"aud": f"{gce_audience(NONCE)}/1/1"}, "audience"),
        ({"aud": [f"{gce_audience(NONCE)}/1"]}, "audience"),
        ({"aud": None}, "audience"),
        ({"iss": "https://evil.example"}, "evil.example"),
        ({"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}, "expired"),
        ({"iat": int(time.time()) + 86_400, "exp": int(time.time()) + 90_000}, "too early"),
        ({"google": {}}, "format=full"),
        ({"google": "compute_engine"}, "format=full"),
        ({"google": machine_claims(instance_name=NAME, instance_id="")}, "format=full"),
        ({"google": machine_claims(instance_name=NAME, project_id="theirs")}, "theirs"),
        ({"google": machine_claims(instance_name=NAME, zone="../../x")}, "no zone"),
    ],
)
def test_rejects_token_with_wrong_claims(
    google: Google, claims: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(NotProven, match=f"(?i){told}"):
        verify(google, token(google, **claims))


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
def test_rejects_changed_token(google: Google, broken: Callable[[str], str]) -> None:
    with pytest.raises(NotProven):
        verify(google, broken(token(google)))


def test_rejects_key_that_is_not_googles(google: Google) -> None:
    with pytest.raises(NotProven, match="not Google's"):
        verify(google, token(google, "stranger"))


def test_certificates_are_cached_and_fetched_for_a_new_key(google: Google) -> None:
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


def test_missing_certificates_are_unreachable(google: Google) -> None:
    google.is_silent = True
    with pytest.raises(Unreachable):
        verify(google, token(google))


def test_failed_fetch_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("det_provisioner_gcp.identity.CERTIFICATES_URL", "http://127.0.0.1:1/certs")
    with pytest.raises(Unreachable, match="certificates"):
        fetch_certificates()


@contextmanager
def metadata_server(google: Google, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
            is_identity = parts.path.endswith("/service-accounts/default/identity")
            rightly = is_identity and self.headers["Metadata-Flavor"] == "Google"
            claims: dict[str, Any] = {} if query.get("format") == "full" else {"google": {}}
            body = token(google, aud=query.get("audience", ""), **claims).encode()
            self.send_response(status if rightly else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Discard the message."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        yield f"127.0.0.1:{server.server_address[1]}"


def test_proof_of_an_agent_is_verified(google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_agent_without_a_token_reports_the_reason(
    google: Google, monkeypatch: pytest.MonkeyPatch, status: int, told: str
) -> None:
    with metadata_server(google, status) as host:
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        with pytest.raises(OSError, match=told):
            gce_proof(NONCE)
