"""Bodies that callers send to the gateway, without a gateway."""

import io
from email.message import Message

import pytest
from det_agent import request_bodies

from tests.support.full_disk import full_disk


def test_callers_with_unknown_tokens_share_a_disk_budget() -> None:
    budget, headers = request_bodies.Budget(10), Message()
    headers["Content-Length"] = "8"
    first = request_bodies.read_body(io.BytesIO(bytes(8)), headers, 100, budget)
    with pytest.raises(request_bodies.BadBody, match="too many"):
        request_bodies.read_body(io.BytesIO(bytes(8)), headers, 100, budget)
    first.close()
    request_bodies.read_body(io.BytesIO(bytes(8)), headers, 100, budget).close()


@pytest.mark.parametrize("room", [0, 1_500_000, 1_999_990])
def test_full_disk_rejects_a_body_temporarily_and_releases_its_budget(room: int) -> None:
    budget, headers = request_bodies.Budget(2_000_000), Message()
    headers["Content-Length"] = "2000000"
    with full_disk(room), pytest.raises(request_bodies.BadBody, match="no room") as error:
        request_bodies.read_body(io.BytesIO(bytes(2_000_000)), headers, 3_000_000, budget)
    assert error.value.status == 503
    request_bodies.read_body(io.BytesIO(bytes(2_000_000)), headers, 3_000_000, budget).close()


@pytest.mark.parametrize("size", [b"-5", b"0x5", b"f" * 16, b"", b"5" * 2000])
def test_rejects_an_invalid_chunk_size(size: bytes) -> None:
    headers = Message()
    headers["Transfer-Encoding"] = "chunked"
    with pytest.raises(request_bodies.BadBody):
        request_bodies.read_body(io.BytesIO(size + b"\r\nhello\r\n0\r\n\r\n"), headers, 100, None)
