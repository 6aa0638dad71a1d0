"""Certificates without a trusted authority: compared by fingerprint and stored in the file of Determined's client."""

import contextlib
import hashlib
import hmac
import os
import socket
import ssl
from typing import Any, Dict, Optional, Union

from determined.common.token_store import default_path, file_lock, load_json, write_json

_FETCH_S = 20.0


class UntrustedCertificate(ssl.SSLError):
    """The server's certificate differs from the trusted certificate."""


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 fingerprint of a certificate in the usual notation: 0a:7b:…"""
    return hashlib.sha256(der).digest().hex(":")


def same(one: str, other: str) -> bool:
    """Compare two fingerprints regardless of their notation: 0A:7B…, 0a7b…, SHA256:…"""
    return hmac.compare_digest(_plain(one), _plain(other))


def _plain(text: str) -> str:
    return text.lower().replace("sha256", "").replace(":", "").replace("=", "").strip()


def check(connected: Union[ssl.SSLSocket, ssl.SSLObject], expected: str) -> None:
    """Raise UntrustedCertificate unless the peer shows the certificate with this fingerprint."""
    der = connected.getpeercert(binary_form=True) or b""
    if not same(fingerprint(der), expected):
        raise UntrustedCertificate(
            f"the server shows the certificate {fingerprint(der)}, and {expected} is trusted"
        )


def fetch(host: str, port: int) -> str:
    """Return a server's certificate as PEM, without verifying it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(socket.create_connection((host, port), timeout=_FETCH_S))
        connected = stack.enter_context(context.wrap_socket(plain, server_hostname=host))
        return ssl.DER_cert_to_PEM_cert(connected.getpeercert(binary_form=True) or b"")


def fingerprint_of_pem(pem: str) -> str:
    """Return the fingerprint of the first certificate in a PEM text."""
    end = "-----END CERTIFICATE-----"
    first = pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(end) + len(end)]
    return fingerprint(ssl.PEM_cert_to_DER_cert(first))


class TrustStore:
    """The certificates that a user trusts, by address. Determined's own client reads the same file."""

    def __init__(self, master: str, path: Optional[str] = None) -> None:
        self.master = master
        self.path = path or os.path.join(os.path.dirname(default_path()), "certs.json")

    def trusted(self) -> Optional[str]:
        """Return the fingerprint of the trusted certificate of this address, or None."""
        pem = self._load().get(self.master)
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            return fingerprint_of_pem(str(pem))
        return None

    def keep(self, pem: str) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with file_lock(self.path + ".lock"):
            write_json(self.path, {**self._load(), self.master: pem})

    def _load(self) -> Dict[str, Any]:
        hint = "remove that file; `det user login` asks again whether to trust the cluster"
        return load_json(self.path, "trusted certificates", hint)
