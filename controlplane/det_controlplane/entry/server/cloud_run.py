"""Adapt answers to Cloud Run, which refuses answers with a length above 32 MiB but accepts any size in chunks."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Any, Send], Awaitable[None]]

LARGEST_CONTENT_LENGTH = 30 * 2**20


def chunked_when_large(app: Asgi) -> Asgi:
    """Leave the length of large answers out, so that the server sends them in chunks."""

    async def serve(scope: Message, receive: Any, send: Send) -> None:
        async def send_fitting(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    header
                    for header in message["headers"]
                    if not _is_oversized_content_length(*header)
                ]
                message = {**message, "headers": headers}
            await send(message)

        has_body = scope["type"] == "http" and scope["method"] != "HEAD"
        await app(scope, receive, send_fitting if has_body else send)

    return serve


def _is_oversized_content_length(name: bytes, value: bytes) -> bool:
    return (
        name.lower() == b"content-length"
        and value.isdigit()
        and int(value) > LARGEST_CONTENT_LENGTH
    )
