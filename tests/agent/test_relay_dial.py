"""The agent sends its token only to a relay with a trusted certificate."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from det_agent.relay import RelayConnection
from determined.common import certificates
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request

from tests.support.certificates import write_certificate

OTHERS = certificates.fingerprint(b"another certificate")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return write_certificate(tmp_path)


def pin(certificate: tuple[Path, Path]) -> str:
    return certificates.fingerprint_of_pem(certificate[0].read_text())


async def dial(
    certificate: tuple[Path, Path], trust: Mapping[str, Any], relay: str, lines: list[str]
) -> None:
    """Dial a server with this certificate once; it notes the tokens that it hears. Raises OSError."""

    def note(_: ServerConnection, request: Request) -> None:
        lines.append(request.headers["Authorization"])

    async def take(websocket: ServerConnection) -> None:
        await websocket.wait_closed()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with serve(take, "127.0.0.1", 0, ssl=context, process_request=note) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        agent = RelayConnection(f"https://127.0.0.1:{port}", trust, lambda: "t0ken", lambda *_: [])
        async with agent._connected(relay.format(port=port)):
            return


def test_relay_with_the_pinned_certificate_gets_the_token(
    certificate: tuple[Path, Path],
) -> None:
    lines: list[str] = []
    asyncio.run(dial(certificate, {"fingerprint": pin(certificate)}, "/relay", lines))
    assert lines == ["Bearer t0ken"]


def test_relay_with_the_certificate_of_the_file_gets_the_token(
    certificate: tuple[Path, Path],
) -> None:
    lines: list[str] = []
    asyncio.run(dial(certificate, {"cert_file": str(certificate[0])}, "/relay", lines))
    assert lines == ["Bearer t0ken"]


def test_relay_with_another_certificate_gets_no_token(
    certificate: tuple[Path, Path],
) -> None:
    lines: list[str] = []
    with pytest.raises(certificates.UntrustedCertificate):
        asyncio.run(dial(certificate, {"fingerprint": OTHERS}, "/relay", lines))
    assert lines == []


@pytest.mark.parametrize("relay", ["/relay", "https://localhost:{port}/relay"])
def test_relay_with_an_untrusted_certificate_gets_no_token(
    certificate: tuple[Path, Path], relay: str
) -> None:
    """Show that the pin is of the control plane's certificate, not of a relay's beside it."""
    trust = {} if relay == "/relay" else {"fingerprint": pin(certificate)}
    lines: list[str] = []
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(dial(certificate, trust, relay, lines))
    assert lines == []
