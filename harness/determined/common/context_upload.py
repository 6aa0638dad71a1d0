"""Bringing a context to the cluster: inside the request, or straight to its object store."""

import hashlib
import http.client
import tempfile
from typing import IO, Any, Callable, ContextManager, Dict, Optional, Tuple
from urllib.parse import urlsplit

from determined.common.connections import Connections
from determined.common.context import Context
from determined.common.failures import Failure
from determined.common.http import APIError, Session

# Of the request: AWS Lambda takes 6 MB, with its quotes escaped, and the configuration is in it too.
INLINE_BYTES = 5 * 2**20
_FIELDS_OF_A_FILE = 200
TIMEOUT_S = 300
_CHUNK = 256 * 1024
_NO_SUCH_WAY = (404, 405, 501)
Watch = Callable[[int], None]
# Called with the size when an upload begins; the context tells how far it is.
Watching = Callable[[int], ContextManager[Watch]]


def send(session: Session, context: Context, watching: Optional[Watching] = None) -> Dict[str, Any]:
    """Upload the code if it is large, and return the fields of the request for a new experiment that describe it."""
    if _size_inline(context) > INLINE_BYTES:
        id = _upload(session, context, watching)
        if id is not None:
            return {"contextId": id}
    return {"modelDefinition": context.inline()}


def _size_inline(context: Context) -> int:
    """Return about how much of a request the files take: their content in base64, and their names."""
    return sum(
        4 * (entry.size // 3 + 1) + len(entry.path) + _FIELDS_OF_A_FILE for entry in context.entries
    )


def _upload(session: Session, context: Context, watching: Optional[Watching]) -> Optional[str]:
    """Put the archive where the cluster says; None when it knows no such way."""
    with tempfile.TemporaryFile() as archive:
        context.write_tar_gz(archive)
        size = archive.tell()
        try:
            wanted = {"size": size, "sha256": _digest(archive)}
            place = session.post("/api/v1/contexts", wanted)
        except APIError as e:
            if e.status in _NO_SUCH_WAY:
                return None
            raise
        archive.seek(0)
        server, target = _store(session, place["uploadUrl"])
        headers = {**(place.get("headers") or {}), "Content-Length": str(size)}
        if watching is None:
            _put(server, target, headers, archive)
        else:
            with watching(size) as watch:
                _put(server, target, headers, _Watched(archive, watch))
    return str(place["contextId"])


def _digest(archive: IO[bytes]) -> str:
    archive.seek(0)
    digest = hashlib.sha256()
    for chunk in iter(lambda: archive.read(_CHUNK), b""):
        digest.update(chunk)
    return digest.hexdigest()


class _Watched:
    """Count how much of a file was read."""

    def __init__(self, file: IO[bytes], watch: Watch) -> None:
        self._file = file
        self._watch = watch

    def read(self, count: int = _CHUNK) -> bytes:
        chunk = self._file.read(max(count, _CHUNK))
        self._watch(len(chunk))
        return chunk


def _store(session: Session, url: str) -> Tuple[Connections, str]:
    """Return where the upload goes: a cluster that takes it itself names the path, under its own address."""
    if url.startswith("/"):
        return session.connections(), url
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return Connections(f"{parts.scheme}://{parts.netloc}"), target


def _put(server: Connections, target: str, headers: Dict[str, str], body: Any) -> None:
    try:
        with server.exchange(
            "PUT", target, headers, body, timeout_s=TIMEOUT_S, read_timeout_s=TIMEOUT_S
        ) as answer:
            text = answer.read(500).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as e:
        raise Failure(
            f"the upload of the code to {server.address} failed: {e}", "run the command again"
        ) from e
    finally:
        server.close()
    if answer.status >= 300:
        raise Failure(
            f"the object store refused the code with status {answer.status}: {text}",
            "run the command again",
        )
