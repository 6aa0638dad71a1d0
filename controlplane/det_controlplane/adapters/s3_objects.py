"""Store objects in an S3 bucket. boto3 is imported at first use, because most requests need no object."""

import functools
from typing import Any


class S3Objects:
    def __init__(self, bucket: str, *, prefix: str = "", endpoint_url: str | None = None) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._endpoint_url = endpoint_url

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(**self._object(key), Body=content)

    def get(self, key: str) -> bytes | None:
        try:
            answer = self._client.get_object(**self._object(key))
        except self._client.exceptions.NoSuchKey:
            return None
        return bytes(answer["Body"].read())

    def size(self, key: str) -> int | None:
        try:
            return int(self._client.head_object(**self._object(key))["ContentLength"])
        except self._client.exceptions.ClientError as e:
            if e.response["Error"]["Code"] in ("404", "NoSuchKey"):
                return None
            raise

    def delete(self, key: str) -> None:
        self._client.delete_object(**self._object(key))

    def upload_url(self, key: str, size: int, expires_s: int) -> str:
        """Sign a PUT of exactly `size` bytes. The signature covers the length, so S3 rejects other lengths."""
        url = self._client.generate_presigned_url(
            "put_object",
            Params={**self._object(key), "ContentLength": size},
            ExpiresIn=expires_s,
            HttpMethod="PUT",
        )
        return str(url)

    def download_url(self, key: str, expires_s: int) -> str:
        url = self._client.generate_presigned_url(
            "get_object", Params=self._object(key), ExpiresIn=expires_s, HttpMethod="GET"
        )
        return str(url)

    def _object(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    @functools.cached_property
    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        config = Config(
            signature_version="s3v4",
            retries={"max_attempts": 3, "mode": "standard"},
            # Presigned URLs must not require a checksum, because plain HTTP clients do not send one.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return boto3.client("s3", endpoint_url=self._endpoint_url, config=config)
