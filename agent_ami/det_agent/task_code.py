"""The code of a task, fetched where the control plane says that it lies: large archives do not fit into its answers."""

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
    """The place of an archive, and its SHA-256; control planes from before tell none."""

    url: str
    sha256: str


def address_in(answer: bytes) -> CodeAddress | None:
    """Return where the archive lies; nothing where the answer carries it, or there is none."""
    try:
        found = json.loads(answer)
    except ValueError:
        return None
    url = found.get("url") if isinstance(found, dict) else None
    if not (isinstance(url, str) and url.startswith(("https://", "http://"))):
        return None
    return CodeAddress(url, str(found.get("sha256") or ""))


@dataclass(frozen=True)
class Archive:
    """Hold an archive that is being read, and give it as the control plane answers small ones."""

    file: IO[bytes]
    size: int
    sha256: str = ""

    @property
    def length(self) -> int:
        return len(_HEAD) + 4 * ((self.size + 2) // 3) + len(_TAIL)

    def parts(self) -> Iterator[bytes]:
        """Yield the answer. Raises ConnectionError when the archive ends early, or is another than was uploaded."""
        yield _HEAD
        left, read = self.size, hashlib.sha256()
        while left:
            block = self.file.read(min(left, _BLOCK))  # short only at the end
            if not block or len(block) < min(left, _BLOCK):
                raise ConnectionError("the object store closed the connection inside the code")
            left -= len(block)
            read.update(block)
            if not left and self.sha256 not in ("", read.hexdigest()):
                raise ConnectionError("the code in the object store is not what was uploaded")
            yield base64.b64encode(block)
        yield _TAIL


@contextlib.contextmanager
def stored_archive(place: CodeAddress) -> Iterator[Archive]:
    """Open what an object store keeps, after some tries. Raises OSError."""
    answer: Any = None
    for tried, pause_s in zip(range(_TRIES), pauses(0.2, 5.0), strict=False):
        try:
            answer = urlopen(place.url, timeout=_TIMEOUT_S)
            break
        except (OSError, http.client.HTTPException) as e:
            if tried + 1 == _TRIES or getattr(e, "code", 503) not in RETRY_STATUSES:
                raise OSError(f"the object store does not give the code of the task: {e}") from e
            time.sleep(pause_s)
    with answer:
        yield Archive(answer, int(answer.headers["Content-Length"]), place.sha256)
