"""Keys of Google for tests, and the identity tokens that its machines get."""

import time
from datetime import datetime, timedelta, timezone
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from det_controlplane.ports.compute import Unreachable
from det_provisioner_gcp.identity import CertificateSet
from google.auth import crypt, jwt

from tests.support.keys import rsa_key


class Google:
    """Keys that sign tokens, and the certificates that are published."""

    def __init__(self) -> None:
        self.keys = {key_id: rsa_key(key_id) for key_id in ("old", "new", "stranger")}
        self.published = ["old"]
        self.fetches = 0
        self.is_silent = False

    def certificates(self) -> CertificateSet:
        self.fetches += 1
        if self.is_silent:
            raise Unreachable("Google is silent")
        return CertificateSet({k: _certificate(self.keys[k]) for k in self.published}, 3600.0)

    def token(self, key_id: str = "old", **claims: Any) -> str:
        """Sign claims as the metadata server does, by a key."""
        now = int(time.time())
        payload = {
            "iss": "https://accounts.google.com",
            "azp": "100000000000000000001",
            "sub": "100000000000000000001",
            "iat": now,
            "exp": now + 3600,
            **claims,
        }
        signed_token: bytes = jwt.encode(crypt.RSASigner(self.keys[key_id], key_id), payload)
        return signed_token.decode()


def machine_claims(**claims: Any) -> dict[str, Any]:
    """Return the claims of a token of the full format about a machine."""
    return {
        "compute_engine": {
            "instance_id": "7000000001",
            "instance_creation_timestamp": 1_700_000_000,
            "project_id": "acme",
            "project_number": 42,
            "zone": "us-central1-a",
            **claims,
        }
    }


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
