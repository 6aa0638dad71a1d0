"""Addresses of data sets: a prefix in S3 or Google Cloud Storage, a file on a web server, or a manifest."""

import re
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

Scheme = Literal["s3", "gs", "http", "https"]

_SCHEMES: dict[str, Scheme] = {"s3": "s3", "gs": "gs", "http": "http", "https": "https"}
_BUCKETS = {
    "s3": re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "gs": re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
}
LONGEST_SOURCE = 1024
# A source with such a name is a list of files, not a file of the data set.
MANIFEST_NAME = "manifest.json"


class Source(NamedTuple):
    """`place` is a bucket, or the host of a web server. `path` has no slash at its ends."""

    scheme: Scheme
    place: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}/{self.path}".rstrip("/")

    @property
    def is_web(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_manifest(self) -> bool:
        name = self.path.rpartition("/")[2]
        return name == MANIFEST_NAME or name.endswith("." + MANIFEST_NAME)

    @property
    def folder(self) -> "Source":
        """Return the place to which the paths in a manifest are relative."""
        return self._replace(path=self.path.rpartition("/")[0])


def parse_source(text: str) -> Source:
    """Parse the address of a data set. Raises ValueError with the rule that it breaks."""
    if len(text) > LONGEST_SOURCE:
        raise ValueError(f"must have at most {LONGEST_SOURCE} characters")
    scheme_name, separator, rest = text.partition("://")
    scheme = _SCHEMES.get(scheme_name)
    if not separator or scheme is None:
        raise ValueError(
            f"must begin with s3://, gs://, http:// or https://, not {text[:40]!r};"
            " for a directory of the machine, use bind_mounts"
        )
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise ValueError("must not contain control characters")
    place, _, path = rest.partition("/")
    source = Source(scheme, place, path.strip("/"))
    _check_web(text) if source.is_web else _check_bucket(source)
    parts = source.path.split("/") if source.path else []
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("must not have an empty part, '.' or '..' in its path")
    return source


def _check_bucket(source: Source) -> None:
    if not source.place:
        raise ValueError(f"must name a bucket, for example {source.scheme}://bucket/prefix")
    if not _BUCKETS[source.scheme].fullmatch(source.place):
        raise ValueError(
            f"{source.place!r} cannot be the name of a bucket: use small letters, digits, '.' and '-'"
        )


def _check_web(text: str) -> None:
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must have a port between 1 and 65535") from None
    if not host or port == 0:
        raise ValueError("must name a host, for example https://host/data/manifest.json")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "must not contain a user name or a password, because configurations are shown"
        )
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise ValueError(
            "must not have a query or a fragment; put signed addresses into a manifest"
        )
    if not parts.path.strip("/"):
        raise ValueError(
            "must name a file or a manifest, for example https://host/data/manifest.json"
        )


_STEPS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def shown_bytes(size: float) -> str:
    """Return a size for people, such as `40 GB` or `1.5 MB`. Units are powers of 1000."""
    for step, unit in _STEPS:
        if size >= step:
            value = size / step
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size:.0f} bytes"
