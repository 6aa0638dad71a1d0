"""The metadata services of clouds. They give a machine information about itself, and answer only this machine."""

import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

TIMEOUT_S = 2.0
TOKEN_LIFE_S = 21600

# Requests to the metadata service must not use a proxy.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AwsMetadata:
    """EC2's instance metadata service, version 2. Each request contains a session token.

    The AWS SDKs read the same variable for a different address."""

    def __init__(self, url: str = "") -> None:
        configured = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "")
        self._url = (url or configured or "http://169.254.169.254").rstrip("/")
        self._lock = threading.Lock()
        self._token, self._token_until = "", 0.0

    def get(self, path: str) -> str | None:
        """Return the value of a path below /latest/, or None if the path does not exist. Raises OSError."""
        try:
            return self._get(path)
        except urllib.error.HTTPError as e:
            if e.code != 401:
                raise
        with self._lock:
            self._token_until = 0.0  # the token is not valid any more
        return self._get(path)

    def _get(self, path: str) -> str | None:
        header = {"X-aws-ec2-metadata-token": self._session()}
        return _read(f"{self._url}/latest/{path}", header)

    def _session(self) -> str:
        with self._lock:
            if time.monotonic() >= self._token_until:
                life = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_LIFE_S)}
                request = urllib.request.Request(
                    f"{self._url}/latest/api/token", headers=life, method="PUT"
                )
                self._token = _text(request)
                self._token_until = time.monotonic() + TOKEN_LIFE_S / 2
            return self._token


class GcpMetadata:
    """Google Compute Engine's metadata server. Google's libraries read the same variable for a different address."""

    def __init__(self, host: str = "") -> None:
        configured = os.environ.get("GCE_METADATA_HOST", "")
        self._url = f"http://{host or configured or 'metadata.google.internal'}"

    def get(self, path: str) -> str | None:
        """Return the value of a path below /computeMetadata/v1/, or None if it does not exist. Raises OSError."""
        return _read(f"{self._url}/computeMetadata/v1/{path}", {"Metadata-Flavor": "Google"})


def _read(url: str, headers: Mapping[str, str]) -> str | None:
    request = urllib.request.Request(url, headers=dict(headers))
    try:
        return _text(request)
    except urllib.error.HTTPError as e:
        if e.code == 404:
            return None
        raise


def _text(request: urllib.request.Request) -> str:
    """Return the answer as text. Raises OSError, also for incomplete or binary answers."""
    try:
        with _opener.open(request, timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode())
    except (HTTPException, UnicodeDecodeError) as e:
        raise OSError(f"the answer of {request.full_url} is not readable: {e!r}") from e
