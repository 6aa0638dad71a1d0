"""The server speaks HTTPS with a certificate, and clients that do not trust it do not speak to it."""

import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.entry.settings import BadSettings, from_environment

from tests.support.certificates import write_certificate


@pytest.fixture
def served(environment: dict[str, str], tmp_path: Path) -> Iterator[tuple[str, Path]]:
    cert, key = write_certificate(tmp_path)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(16)
    fd = listening.fileno()
    tls = {"DET_TLS_CERT": str(cert), "DET_TLS_KEY": str(key), "DET_LISTEN_FD": str(fd)}
    command = [sys.executable, "-m", "det_controlplane.entry.server.api_server"]
    process = subprocess.Popen(command, env={**os.environ, **environment, **tls}, pass_fds=[fd])
    yield f"https://127.0.0.1:{listening.getsockname()[1]}", cert
    process.terminate()
    process.wait(60)
    listening.close()


def info(url: str, trusted: Path | None) -> int:
    context = ssl.create_default_context(cafile=None if trusted is None else str(trusted))
    with urllib.request.urlopen(f"{url}/info", context=context, timeout=120) as answer:
        return int(answer.status)


def test_server_uses_https(served: tuple[str, Path]) -> None:
    url, cert = served
    deadline = time.monotonic() + 120
    while True:
        try:
            assert info(url, cert) == 200
            break
        except (ConnectionError, urllib.error.URLError):
            assert time.monotonic() < deadline
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        info(url, None)


def test_certificate_and_key_are_required_together(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    base = {"DET_DB_URL": "postgresql://x"}
    with pytest.raises(BadSettings, match="go together"):
        from_environment({**base, "DET_TLS_CERT": str(cert)})
    with pytest.raises(BadSettings, match="there is no file"):
        from_environment({**base, "DET_TLS_CERT": str(cert), "DET_TLS_KEY": f"{key}.gone"})
