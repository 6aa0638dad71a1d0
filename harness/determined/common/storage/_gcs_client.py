"""A client of Google Cloud Storage's JSON API for images without google-cloud-storage.

It has only the methods that the store uses, and authenticates with the machine's service account.
"""

import http.client
import json
import os
import threading
import time
import uuid
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence
from urllib.parse import quote, urlencode

from determined.common.connections import RETRY_STATUSES, Connections, pause_asked, pauses

_API = "https://storage.googleapis.com"
_METADATA = "metadata.google.internal"
_TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"
_ATTEMPTS = 4
_TIMEOUT_S = 60.0
_EARLY_S = 120.0  # renew a token this long before it expires
_RETRIED = (408, 500, *RETRY_STATUSES)


class NotFound(Exception):
    """An object or bucket that does not exist."""


class Refused(Exception):
    """The machine's service account lacks the permission."""


class PastEnd(Exception):
    """A range behind the end of an object."""


class MachineToken:
    """The access token of the machine's service account, from the metadata server or the agent's replacement of it."""

    def __init__(self) -> None:
        host = os.environ.get("GCE_METADATA_HOST") or os.environ.get("GCE_METADATA_ROOT")
        self._server = Connections(f"http://{host or _METADATA}")
        self._lock = threading.Lock()
        self._header = ""
        self._until = 0.0

    def header(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                self._renew()
            return self._header

    def forget(self) -> None:
        with self._lock:
            self._until = 0.0

    def _renew(self) -> None:
        requested_at = time.monotonic()
        flavor = {"Metadata-Flavor": "Google"}
        try:
            with self._server.exchange("GET", _TOKEN_PATH, flavor, timeout_s=10.0) as response:
                status, body = response.status, response.read()
        except (OSError, http.client.HTTPException) as e:
            raise Refused(
                f"this machine has no account of Google Cloud ({e}); other credentials need google-cloud-storage:"
                " run `pip install google-cloud-storage`, or add it to the image"
            ) from e
        if status != 200:
            raise OSError(f"the metadata server answers {status}: {body[:200]!r}")
        token = json.loads(body)
        self._header = f"Bearer {token['access_token']}"
        self._until = requested_at + float(token["expires_in"]) - _EARLY_S


class Client:
    def __init__(self) -> None:
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        self._token: Optional[MachineToken] = None if emulator else MachineToken()
        self._server = Connections(emulator or _API)

    def bucket(self, name: str) -> "Bucket":
        return Bucket(self, name)

    def list_blobs(self, bucket: str, prefix: str) -> "Listing":
        return Listing(self, bucket, prefix)

    def close(self) -> None:
        self._server.close()

    def request(
        self,
        method: str,
        target: str,
        parts: Sequence[bytes] = (),
        headers: Optional[Mapping[str, str]] = None,
    ) -> bytes:
        """Send a request, with retries. Every request of the store is safe to repeat."""
        waits = pauses(0.5, 8.0)
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            try:
                status, answer, pause_s = self._once(method, target, parts, headers or {})
            except (OSError, http.client.HTTPException):
                if is_last:
                    raise
                time.sleep(next(waits))
                continue
            if status < 300:
                return answer
            if status == 401 and self._token is not None and not is_last:
                self._token.forget()
                continue
            if status not in _RETRIED or is_last:
                raise _error(status, answer)
            time.sleep(max(pause_s, next(waits)))
        raise AssertionError("unreachable")

    def _once(
        self, method: str, target: str, parts: Sequence[bytes], headers: Mapping[str, str]
    ) -> "tuple[int, bytes, float]":
        authorization = {"Authorization": self._token.header()} if self._token is not None else {}
        request_headers: Dict[str, str] = {**headers, **authorization}
        with self._server.exchange(
            method,
            target,
            request_headers,
            parts or None,
            timeout_s=_TIMEOUT_S,
            read_timeout_s=_TIMEOUT_S,
        ) as response:
            answer = response.read()
            return response.status, answer, pause_asked(response.getheader("Retry-After"))


class Bucket:
    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.path = f"/storage/v1/b/{quote(name, safe='')}/o"

    def blob(self, name: str) -> "Blob":
        return Blob(self, name)


class Blob:
    """An object. Only blobs from a listing have a `size`."""

    def __init__(self, bucket: Bucket, name: str, size: int = 0) -> None:
        self._bucket = bucket
        self.name = name
        self.size = size

    def upload_from_string(self, body: bytes, content_type: str) -> None:
        boundary = uuid.uuid4().hex
        first = _part(boundary, "application/json; charset=UTF-8")
        head = first + json.dumps({"name": self.name}).encode() + b"\r\n"
        head += _part(boundary, content_type)
        parts = (head, body, f"\r\n--{boundary}--\r\n".encode())
        target = f"/upload{self._bucket.path}?uploadType=multipart"
        self._request("POST", target, parts, f"multipart/related; boundary={boundary}")

    def download_as_bytes(
        self, start: Optional[int] = None, end: Optional[int] = None, checksum: Optional[str] = None
    ) -> bytes:
        """Return the content, or a range of it. The caller verifies checksums."""
        target = f"/download{self._path}?alt=media"
        ranged = {} if start is None else {"Range": f"bytes={start}-{'' if end is None else end}"}
        return self._bucket.client.request("GET", target, headers=ranged)

    def delete(self) -> None:
        self._bucket.client.request("DELETE", self._path)

    def compose(self, sources: Sequence["Blob"]) -> None:
        body = {"sourceObjects": [{"name": source.name} for source in sources], "destination": {}}
        target = f"{self._path}/compose"
        self._request("POST", target, (json.dumps(body).encode(),), "application/json")

    @property
    def _path(self) -> str:
        return f"{self._bucket.path}/{quote(self.name, safe='')}"

    def _request(self, method: str, target: str, parts: Sequence[bytes], content_type: str) -> None:
        length = sum(len(part) for part in parts)
        headers = {"Content-Type": content_type, "Content-Length": str(length)}
        self._bucket.client.request(method, target, parts, headers)


def _part(boundary: str, content_type: str) -> bytes:
    return f"--{boundary}\r\nContent-Type: {content_type}\r\n\r\n".encode()


class Listing:
    """The objects of a bucket that start with a prefix, in pages."""

    def __init__(self, client: Client, bucket: str, prefix: str) -> None:
        self._bucket = Bucket(client, bucket)
        self._prefix = prefix

    @property
    def pages(self) -> "Pages":
        return Pages(self._bucket, self._prefix)


class Pages(Iterator[List[Blob]]):
    """An iterator that continues after a failed request: the next call requests the same page again."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._query: Optional[Dict[str, str]] = {
            "prefix": prefix,
            "fields": "items(name,size),nextPageToken",
        }

    def __next__(self) -> List[Blob]:
        if self._query is None:
            raise StopIteration
        target = f"{self._bucket.path}?{urlencode(self._query, quote_via=quote)}"
        page: Dict[str, Any] = json.loads(self._bucket.client.request("GET", target))
        next_token = page.get("nextPageToken")
        self._query = {**self._query, "pageToken": next_token} if next_token else None
        return [Blob(self._bucket, i["name"], int(i["size"])) for i in page.get("items") or ()]


def _error(status: int, answer: bytes) -> Exception:
    try:
        message = str(json.loads(answer)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = answer[:200].decode("utf-8", "replace")
    if status == 404:
        return NotFound(message)
    if status in (401, 403):
        return Refused(message)
    if status == 416:
        return PastEnd(message)
    return OSError(f"Google Cloud Storage answers {status}: {message}")
