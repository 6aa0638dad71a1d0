"""Connections of an import: they live for hours, and the source may have a certificate of its own or none."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL

from det_controlplane.db.engine.connections import pg8000_arguments, plain_engine
from det_controlplane.db.engine.errors import BadUrl, DatabaseDown, QueryFailed

SOURCE, TARGET = "the old cluster's database", "the new cluster's database"
# A network that loses all packets is noticed after two minutes.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
_UNSAFE_TLS = (
    "; the connection must be encrypted and verified: add ?sslrootcert=FILE with the server's authority,"
    " ?sslmode=require to accept any certificate, or ?sslmode=disable in a network that you trust"
)


def source_engine(url: str) -> Engine:
    try:
        return _lasting(plain_engine(url, name=SOURCE, arguments_of=source_arguments))
    except OSError as e:  # of the file in sslrootcert
        raise BadUrl(f"sslrootcert of {SOURCE} cannot be read: {e}") from e
    except ValueError as e:
        raise BadUrl(f"the URL of {SOURCE} needs a number as its port: {e}") from e


def target_engine(url: str) -> Engine:
    return _lasting(plain_engine(url, name=TARGET))


@contextmanager
def explaining_refusals() -> Iterator[None]:
    """Add the choices of TLS to the error of an unsafe connection, and the parts of the URL to a refusal."""
    try:
        yield
    except DatabaseDown as e:
        if "ssl" not in str(e).lower():
            raise
        raise DatabaseDown(f"{e}{_UNSAFE_TLS}") from e
    except QueryFailed as e:
        raise BadUrl(
            f"{SOURCE} refuses the connection: {e}; check the user, password and database in the URL"
        ) from e


def source_arguments(url: URL) -> dict[str, Any]:
    """Return the arguments of a source. Unlike the cluster's own database, it may be unverified or unencrypted."""
    mode = url.query.get("sslmode")
    if mode not in ("disable", "require"):
        return pg8000_arguments(url)
    arguments = pg8000_arguments(url.difference_update_query(["sslmode"]))
    context: ssl.SSLContext | bool = False
    if mode == "require":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return {**arguments, "ssl_context": context}


def _lasting(engine: Engine) -> Engine:
    event.listen(engine, "connect", _keep_alive)
    return engine


def _keep_alive(connection: Any, _: Any) -> None:
    stream = getattr(connection, "_usock", None)
    if stream is None or stream.family == socket.AF_UNIX:
        return
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # macOS has other names
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
