"""A front end for PostgreSQL: a server with a handler for its connections."""

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.threaded import serving


class FrontServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    behind: str  # the socket of the database
    judge: Any  # the handler's view of connections


@contextmanager
def database_front(
    database_url: str, handler: type[socketserver.BaseRequestHandler], judge: Any
) -> Iterator[str]:
    """Put a front before the database of a URL that names a socket of this machine; yield its URL."""
    parts = urlsplit(database_url)
    server = FrontServer(("127.0.0.1", 0), handler)
    server.behind, server.judge = parse_qs(parts.query)["unix_sock"][0], judge
    with serving(server):
        yield f"postgresql://{parts.username}@127.0.0.1:{server.server_address[1]}{parts.path}"
