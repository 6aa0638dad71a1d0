"""Store objects in a directory. Clients upload them through the API with signed URLs."""

import hashlib
import hmac
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

from det_controlplane.core.numerals import whole

UPLOAD_PATH = "/objects/"
_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


class BadKey(ValueError):
    """The key is not a plain relative path."""


class UploadRefused(Exception):
    """The URL is forged, expired, or for a different size."""


class DirectoryObjects:
    def __init__(
        self,
        folder: Path,
        secret: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._secret = secret
        self._clock = clock

    def put(self, key: str, content: bytes) -> None:
        """Write an object atomically: readers see either the old or the new content."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise

    def get(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            return None

    def size(self, key: str) -> int | None:
        path = self._path(key)
        return path.stat().st_size if path.is_file() else None

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        self._path(key)
        expires = int(self._clock()) + expires_s
        signature = self._signature(key, size, expires)
        query = urlencode({"size": size, "expires": expires, "signature": signature})
        return f"{UPLOAD_PATH}{quote(key)}?{query}"

    def download_url(self, key: str, expires_s: int) -> str:
        return ""

    def receive(self, key: str, content: bytes, size: str, expires: str, signature: str) -> None:
        """Store an uploaded object. Raises UploadRefused."""
        self.admitted(key, size, expires, signature)
        if len(content) != int(size):
            raise UploadRefused(f"the upload URL is for {size} bytes, got {len(content)}")
        self.put(key, content)

    def admitted(self, key: str, size: str, expires: str, signature: str) -> int:
        """Return the size for which an upload URL was signed. The check needs no content. Raises UploadRefused."""
        self._path(key)
        if whole(size) is None or whole(expires) is None:
            raise UploadRefused("the upload URL is not complete: ask for a new one")
        expected = self._signature(key, int(size), int(expires))
        if not hmac.compare_digest(expected.encode(), signature.encode(errors="replace")):
            raise UploadRefused("the upload URL was not made here: ask for a new one")
        if self._clock() > int(expires):
            raise UploadRefused("the upload URL has expired: ask for a new one")
        return int(size)

    def _signature(self, key: str, size: int, expires: int) -> str:
        message = f"PUT\n{key}\n{size}\n{expires}".encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise BadKey(f"object key {key!r}: use letters, digits, '.', '_', '-' and '/'")
        return self._folder / key
