"""The addresses of AWS and Google behind a TLS proxy with certificates of the box.

The tested programs get only the usual variables for proxies and certificates.
"""

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BUNDLE = "authority.pem"


@dataclass(frozen=True)
class Request:
    method: str
    host: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] | None = None


# Answers a request, or None where the connection breaks.
Route = Callable[[Request], Answer | None]


@contextmanager
def internet(folder: Path, route: Route) -> Iterator[Mapping[str, str]]:
    """Serve every host by `route`; gives the variables by which programs find it."""
    handler = partial(_Handler, route, cache(_Authority(folder).context))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="internet")
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    certificates = {
        name: str(folder / BUNDLE)
        for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
    }
    try:
        yield {**certificates, "HTTPS_PROXY": url, "NO_PROXY": "127.0.0.1,localhost"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Authority:
    """Issues certificates for hosts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority of the box")
        builder = _certificate(self._name, self._name, self._key, self._key)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        certificate = builder.add_extension(basic, critical=True).sign(self._key, hashes.SHA256())
        (folder / BUNDLE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def context(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(_name(host), self._name, key, self._key)
        alternative_names = x509.SubjectAlternativeName([x509.DNSName(host)])
        certificate = builder.add_extension(alternative_names, critical=False).sign(
            self._key, hashes.SHA256()
        )
        file = self._folder / f"{host}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuers_key: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(of_issuer, critical=False)
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(
        self, route: Route, context_of: Callable[[str], ssl.SSLContext], *options: Any
    ) -> None:
        self._route = route
        self._context_of = context_of
        self._host = ""
        super().__init__(*options)

    def do_CONNECT(self) -> None:
        """Act as the requested host; further data on the connection are requests to it."""
        self._host = self.path.rpartition(":")[0]
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.connection = self._context_of(self._host).wrap_socket(
            self.connection, server_side=True
        )
        self.request = self.connection
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", 0)
        self.close_connection = False

    def _carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self._host, self.path, dict(self.headers.items()), body)
        answer = self._route(request)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in (answer.headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_DELETE = _carry

    def finish(self) -> None:
        super().finish()
        self.connection.close()  # the server knows the connection as it was before TLS

    def log_message(self, *_: Any) -> None:
        return None
