"""Upload a context to the cluster, inside the request or directly to its object store."""

import hashlib
import http.client
import tempfile
from typing import IO, Any, Callable, ContextManager, Dict, Optional, Tuple
from urllib.parse import urlsplit

from determined.common.connections import Connections
from determined.common.context import Context
from determined.common.failures import Failure
from determined.common.http import APIError, Session

# AWS Lambda accepts requests of 6 MB. Escaped quotes and the configuration count towards the limit.
INLINE_BYTES = 5 * 2**20
_FIELDS_OF_A_FILE = 200
TIMEOUT_S = 300
_CHUNK = 256 * 1024
_NO_SUCH_WAY = (404, 405, 501)
Watch = Callable[[int], None]
# Called with the size when an upload begins. The callback that it yields receives the uploaded byte counts.
Watching = Callable[[int], ContextManager[Watch]]


def send(session: Session, context: Context, watching: Optional[Watching] = None) -> Dict[str, Any]:
    """Upload the code if it is large. Return the fields of the creation request that contain or name the code."""
    if _size_inline(context) > INLINE_BYTES:
        id = _upload(session, context, watching)
        if id is not None:
            return {"contextId": id}
    return {"modelDefinition": context.inline()}


def _size_inline(context: Context) -> int:
    """Estimate the size of the files in a request: base64 content and names."""
    return sum(
        4 * (entry.size // 3 + 1) + len(entry.path) + _FIELDS_OF_A_FILE for entry in context.entries
    )


def _upload(session: Session, context: Context, watching: Optional[Watching]) -> Optional[str]:
    """Upload the archive to the address that the cluster returns. Return None if the cluster has no such route."""
    with tempfile.TemporaryFile() as archive:
        context.write_tar_gz(archive)
        size = archive.tell()
        try:
            description = {"size": size, "sha256": _digest(archive)}
            place = session.post("/api/v1/contexts", description)
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
    """A file that reports the number of bytes read."""

    def __init__(self, file: IO[bytes], watch: Watch) -> None:
        self._file = file
        self._watch = watch

    def read(self, count: int = _CHUNK) -> bytes:
        chunk = self._file.read(max(count, _CHUNK))
        self._watch(len(chunk))
        return chunk


def _store(session: Session, url: str) -> Tuple[Connections, str]:
    """Return the server and path of the upload. A cluster that stores uploads itself returns a path of its own."""
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
