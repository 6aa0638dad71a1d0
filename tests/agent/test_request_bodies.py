"""Bodies that callers send to the gateway, without a gateway."""

import io
from email.message import Message

import pytest
from det_agent import request_bodies


def test_callers_with_unknown_tokens_share_what_the_disk_has_for_them() -> None:
    budget, headers = request_bodies.Budget(10), Message()
    headers["Content-Length"] = "8"
    first = request_bodies.read_body(io.BytesIO(bytes(8)), headers, 100, budget)
    with pytest.raises(request_bodies.BadBody, match="too many"):
        request_bodies.read_body(io.BytesIO(bytes(8)), headers, 100, budget)
    first.close()
    request_bodies.read_body(io.BytesIO(bytes(8)), headers, 100, budget).close()


@pytest.mark.parametrize("size", [b"-5", b"0x5", b"f" * 16, b"", b"5" * 2000])
def test_a_chunk_of_no_size_is_refused(size: bytes) -> None:
    headers = Message()
    headers["Transfer-Encoding"] = "chunked"
    with pytest.raises(request_bodies.BadBody):
        request_bodies.read_body(io.BytesIO(size + b"\r\nhello\r\n0\r\n\r\n"), headers, 100, None)
