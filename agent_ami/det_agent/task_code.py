"""Fetch a task's code from the object store, because large archives do not fit into the control plane's answers."""

import base64
import contextlib
import hashlib
import http.client
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any
from urllib.request import urlopen

from determined.common.connections import RETRY_STATUSES, pauses

_PATH = re.compile(r"/api/v1/tasks/[^/]+/context_directory")
_TRIES = 4
_TIMEOUT_S = 300.0
_BLOCK = 3 * 64 * 1024  # whole groups of base64
_HEAD, _TAIL = b'{"b64Tgz":"', b'"}'


def is_code(method: str, path: str) -> bool:
    return method == "GET" and _PATH.fullmatch(path) is not None


def asking_for_address(target: str) -> str:
    return target + ("&" if "?" in target else "?") + "url=true"


@dataclass(frozen=True)
class CodeAddress:
    """The URL of an archive and its SHA-256. Older control planes send no SHA-256."""

    url: str
    sha256: str


def address_in(answer: bytes) -> CodeAddress | None:
    """Return the address of the archive, or None if the answer contains the archive or no archive exists."""
    try:
        body = json.loads(answer)
    except ValueError:
        return None
    url = body.get("url") if isinstance(body, dict) else None
    if not (isinstance(url, str) and url.startswith(("https://", "http://"))):
        return None
    return CodeAddress(url, str(body.get("sha256") or ""))


@dataclass(frozen=True)
class Archive:
    """An open archive. `parts` returns it in the format of the control plane's answers for small archives."""

    file: IO[bytes]
    size: int
    sha256: str = ""

    @property
    def length(self) -> int:
        return len(_HEAD) + 4 * ((self.size + 2) // 3) + len(_TAIL)

    def parts(self) -> Iterator[bytes]:
        """Yield the answer. Raises ConnectionError if the archive is incomplete or differs from the uploaded one."""
        yield _HEAD
        remaining, digest = self.size, hashlib.sha256()
        while remaining:
            block = self.file.read(min(remaining, _BLOCK))  # short only at the end
            if not block or len(block) < min(remaining, _BLOCK):
                raise ConnectionError("the object store closed the connection inside the code")
            remaining -= len(block)
            digest.update(block)
            if not remaining and self.sha256 not in ("", digest.hexdigest()):
                raise ConnectionError("the code in the object store is not what was uploaded")
            yield base64.b64encode(block)
        yield _TAIL


@contextlib.contextmanager
def stored_archive(place: CodeAddress) -> Iterator[Archive]:
    """Open an archive in the object store, with retries. Raises OSError."""
    answer: Any = None
    for attempt, pause_s in zip(range(_TRIES), pauses(0.2, 5.0), strict=False):
        try:
            answer = urlopen(place.url, timeout=_TIMEOUT_S)
            break
        except (OSError, http.client.HTTPException) as e:
            if attempt + 1 == _TRIES or getattr(e, "code", 503) not in RETRY_STATUSES:
                raise OSError(f"the object store does not give the code of the task: {e}") from e
            time.sleep(pause_s)
    with answer:
        yield Archive(answer, int(answer.headers["Content-Length"]), place.sha256)
