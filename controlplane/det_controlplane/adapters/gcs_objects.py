"""Store objects in a bucket of Google Cloud Storage. The client library is imported at first use."""

import datetime
import functools
from typing import Any


class GcsObjects:
    """A bucket of Google Cloud Storage, with this process's account. Tests pass a `client`."""

    def __init__(self, bucket: str, *, prefix: str = "", client: Any = None) -> None:
        self._name = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._fixed_client = client

    def put(self, key: str, content: bytes) -> None:
        self._blob(key).upload_from_string(content, content_type="application/octet-stream")

    def get(self, key: str) -> bytes | None:
        from google.api_core.exceptions import NotFound

        try:
            return bytes(self._blob(key).download_as_bytes())
        except NotFound:
            return None

    def size(self, key: str) -> int | None:
        blob = self._bucket.get_blob(self._prefix + key)
        return None if blob is None else int(blob.size)

    def delete(self, key: str) -> None:
        from google.api_core.exceptions import NotFound

        try:
            self._blob(key).delete()
        except NotFound:
            pass

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        """Sign a PUT of exactly `size` bytes. The signature covers the length, so Google rejects other lengths."""
        url = self._blob(key).generate_signed_url(
            version="v4",
            method="PUT",
            expiration=datetime.timedelta(seconds=expires_s),
            headers={"content-length": str(size)},
            **self._signing(),
        )
        return str(url)

    def download_url(self, key: str, expires_s: int) -> str:
        url = self._blob(key).generate_signed_url(
            version="v4",
            method="GET",
            expiration=datetime.timedelta(seconds=expires_s),
            **self._signing(),
        )
        return str(url)

    def _blob(self, key: str) -> Any:
        return self._bucket.blob(self._prefix + key)

    def _signing(self) -> dict[str, Any]:
        """Return the arguments for signing. An account without a local key signs with Google's IAM API."""
        credentials = self._client._credentials
        if hasattr(credentials, "sign_bytes"):
            return {}
        from google.auth.transport.requests import Request

        if not credentials.valid:
            credentials.refresh(Request())
        return {
            "service_account_email": credentials.service_account_email,
            "access_token": credentials.token,
        }

    @functools.cached_property
    def _client(self) -> Any:
        if self._fixed_client is not None:
            return self._fixed_client
        from google.cloud import storage

        return storage.Client()

    @functools.cached_property
    def _bucket(self) -> Any:
        return self._client.bucket(self._name)
