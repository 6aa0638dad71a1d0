"""The objects of a data set: their names, versions and checksums, and the format of manifests."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from det_controlplane.core.datasets.sources import Source

MOST_OBJECTS = 1_000_000
LARGEST_MANIFEST = 256 * 1024 * 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME = 255
_HOW_TO_BUNDLE = (
    "pack its objects into shards (for example tar files of 100 MB), or name a manifest of the objects"
    " that the trial reads"
)


class DataRefused(Exception):
    """The data set cannot be loaded until the user changes something. The message is a sentence for the user."""


class DataUnavailable(Exception):
    """The store does not answer. Another attempt may succeed."""


class DataChanged(Exception):
    """An object is not the one that was listed."""


class DataMissing(DataChanged):
    """An object was listed and does not exist any more."""


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """An object of a data set. `path` is relative to the mount point, `key` is its name in the store.

    `check` is the checksum that the store or the manifest gives: `md5:…`, `crc32c:…`, `sha256:…`, `parts:…` or ''."""

    path: str
    size: int
    key: str
    version: str = ""
    check: str = ""

    def cache_name(self, origin: str) -> str:
        """Return the name in the cache, which is different for each version of the object."""
        place = [origin, self.key, self.version]
        if self.check.startswith("sha256:"):
            place = [self.path]  # the same content, also at another address
        identity = json.dumps([*place, self.size, self.check])
        return hashlib.sha256(identity.encode()).hexdigest()[:32]

    def to_json(self) -> list[Any]:
        return [self.path, self.size, self.key, self.version, self.check]


def checked(objects: Iterable[RemoteObject], source: Source) -> list[RemoteObject]:
    """Return the objects of a listing. Raises DataRefused for names that no directory can hold, or for too many."""
    result: list[RemoteObject] = []
    for one in objects:
        if len(result) == MOST_OBJECTS:
            raise DataRefused(
                f"{source} has more than {MOST_OBJECTS:,} objects, the limit of a data set: {_HOW_TO_BUNDLE}"
            )
        result.append(one)
    if not result:
        raise DataRefused(f"{source} has no objects: check its spelling; a prefix ends at a '/'")
    _check_names(result, source)
    return result


def _check_names(objects: list[RemoteObject], source: Source) -> None:
    paths = set()
    for one in objects:
        parts = one.path.split("/")
        if any(p in ("", ".", "..") or "\0" in p for p in parts):
            raise DataRefused(
                f"object {one.path[:200]!r} of {source} cannot be a file: its name has an empty part, '.' or '..'"
            )
        if any(len(p.encode()) > _LONGEST_NAME for p in parts):
            raise DataRefused(
                f"object {one.path[:80]!r}… of {source} cannot be a file: a part of its name has more than"
                f" {_LONGEST_NAME} bytes"
            )
        if one.path in paths:
            raise DataRefused(f"{source} lists {one.path!r} twice")
        paths.add(one.path)
    folders = {folder for path in paths for folder in _folders(path)}
    if both := folders & paths:
        name = min(both)
        raise DataRefused(
            f"{source} has an object {name!r} and objects below {name + '/'!r}; a directory cannot hold both"
        )


def _folders(path: str) -> Iterator[str]:
    while (path := path.rpartition("/")[0]) != "":
        yield path


def read_manifest(text: bytes, source: Source) -> Iterator[RemoteObject]:
    """Yield the objects of a manifest (docs/guides/data.md#manifests). Raises DataRefused."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise DataRefused(f"{source} is not JSON: {e}") from e
    files = body.get("files") if isinstance(body, dict) else None
    if not isinstance(files, list):
        raise DataRefused(
            f'{source} is no manifest: it must be {{"files": [{{"path": …, "size": …, "sha256": …}}]}}'
        )
    for number, entry in enumerate(files):
        yield _manifest_entry(entry, f"files[{number}] of {source}", source)


def _manifest_entry(entry: Any, where: str, source: Source) -> RemoteObject:
    if not isinstance(entry, dict):
        raise DataRefused(f"{where} must be an object")
    path, size, sha256 = entry.get("path"), entry.get("size"), entry.get("sha256")
    if not isinstance(path, str) or not path:
        raise DataRefused(f"{where} must have a path")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise DataRefused(f"{where} must have a size in bytes")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256.lower()):
        raise DataRefused(f"{where} must have a sha256 of 64 hexadecimal digits")
    key = f"{source.folder.path}/{path}".lstrip("/")
    if source.is_web:
        key = _address(entry.get("url") or path, where, source)
    return RemoteObject(path, size, key, check=f"sha256:{sha256.lower()}")


def _address(url: Any, where: str, source: Source) -> str:
    if not isinstance(url, str):
        raise DataRefused(f"{where}: url must be a text")
    address = urljoin(str(source), url)
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataRefused(f"{where}: url must begin with http:// or https://")
    return address
