"""An ASGI application of a test behind a socket, carried as the API is."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from det_controlplane.entry.server.api_server import listen, uvicorn_settings
from det_controlplane.entry.server.handshakes import Server


class _Server(Server):
    def __init__(self, config: uvicorn.Config, ends: Callable[[], None]) -> None:
        super().__init__(config, ends)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def behind_socket(app: Any, port: int = 0) -> Iterator[str]:
    """Serve the application on a port of its own; give the address."""
    listening = listen("127.0.0.1", port)
    config = uvicorn.Config(app, lifespan="on", **uvicorn_settings())
    server = _Server(config, getattr(app, "end", lambda: None))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        assert server.ready.wait(60)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
