"""Bringing a context to the cluster: inside the request when small, else straight to its object store."""

import hashlib
import http.client
import tempfile
from typing import IO, Any
from urllib.parse import urlsplit

from determined.common.context import Context
from determined.common.http import APIError, Session

from det_cli.connection import V1
from det_cli.errors import CommandError
from det_cli.progress import Progress

INLINE_BYTES = 4 * 2**20
_CHUNK = 256 * 1024


def send(session: Session, context: Context) -> dict[str, Any]:
    """What the request for a new experiment says about its code."""
    if context.size > INLINE_BYTES:
        id = _upload(session, context)
        if id is not None:
            return {"contextId": id}
    return {"modelDefinition": context.inline()}


def _upload(session: Session, context: Context) -> "str | None":
    """Put the archive where the cluster says; None when it knows no such way."""
    with tempfile.TemporaryFile() as archive:
        context.write_tar_gz(archive)
        size = archive.tell()
        wanted = {"size": size, "sha256": _digest(archive)}
        try:
            place = session.post(V1 + "/contexts", wanted)
        except APIError as e:
            if e.status in (404, 405, 501):
                return None
            raise
        archive.seek(0)
        _put(place["uploadUrl"], place.get("headers") or {}, archive, size)
    return str(place["contextId"])


def _digest(archive: IO[bytes]) -> str:
    archive.seek(0)
    digest = hashlib.sha256()
    while chunk := archive.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


class _Watched:
    """A file whose reading moves the bar."""

    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def read(self, count: int = _CHUNK) -> bytes:
        chunk = self._file.read(max(count, _CHUNK))
        self._progress.add(len(chunk))
        return chunk


def _put(url: str, headers: dict[str, str], archive: IO[bytes], size: int) -> None:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=300)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    try:
        with Progress("Sending code", size) as progress:
            body = _Watched(archive, progress)
            connection.request("PUT", target, body, {**headers, "Content-Length": str(size)})
        answer = connection.getresponse()
        text = answer.read(500).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as e:
        raise CommandError(
            f"the upload of the code to {parts.hostname} failed: {e}", "run the command again"
        ) from e
    finally:
        connection.close()
    if answer.status >= 300:
        raise CommandError(
            f"the object store refused the code with status {answer.status}: {text}",
            "run the command again",
        )
