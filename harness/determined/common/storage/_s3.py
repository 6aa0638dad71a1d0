"""Amazon S3 and compatible services, through boto3."""

from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

from determined.common.storage._objects import ObjectStorageManager
from determined.common.storage._parts import Part
from determined.common.storage._store import ObjectStore
from determined.common.storage._transfer import PART_THREADS, SMALL_THREADS
from determined.errors import CheckpointCorrupt

READ_CHUNK = 1024 * 1024
LARGEST_PART = 32 * 1024 * 1024
_MISSING = ("NoSuchKey", "NoSuchBucket", "404", "NotFound")
_PAST_END = ("InvalidRange", "416")
_DENIED = ("AccessDenied", "403", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")


class S3Store(ObjectStore):
    """A bucket, accessed through a boto3 client."""

    delete_batch = 1000  # the maximum of a request
    largest_part = LARGEST_PART

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        self._call("put_object", Key=key, Body=body)

    def begin_parts(self, key: str) -> str:
        return str(self._call("create_multipart_upload", Key=key)["UploadId"])

    def put_part(self, key: str, upload_id: str, number: int, part: Part) -> str:
        with part.stream() as body:
            answer = self._call(
                "upload_part", Key=key, UploadId=upload_id, PartNumber=number, Body=body
            )
        return str(answer["ETag"])

    def end_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        parts = [{"PartNumber": n + 1, "ETag": tag} for n, tag in enumerate(tags)]
        upload = {"Parts": parts}
        self._call("complete_multipart_upload", Key=key, UploadId=upload_id, MultipartUpload=upload)

    def abort_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        self._call("abort_multipart_upload", Key=key, UploadId=upload_id)

    def abort_unfinished(self, prefix: str) -> None:
        uploads = self._call("list_multipart_uploads", Prefix=prefix).get("Uploads") or []
        for upload in uploads:
            self.abort_parts(upload["Key"], upload["UploadId"], [])

    def get(self, key: str) -> bytes:
        return bytes(self._call("get_object", Key=key)["Body"].read())

    def get_range(self, key: str, start: int, length: int) -> Iterator[bytes]:
        byte_range = f"bytes={start}-{start + length - 1}"
        body = self._call("get_object", Key=key, Range=byte_range)["Body"]
        try:
            yield from iter(lambda: body.read(READ_CHUNK), b"")
        finally:
            body.close()

    def list(self, prefix: str) -> Iterator[Tuple[str, int]]:
        token: Dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", Prefix=prefix, **token)
            for item in page.get("Contents", []):
                yield str(item["Key"]), int(item["Size"])
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, keys: Sequence[str]) -> None:
        request = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        errors = self._call("delete_objects", Delete=request).get("Errors") or []
        if errors:
            first = errors[0]
            raise OSError(
                f"{len(errors)} of {len(keys)} objects of s3://{self._bucket} could not be "
                f"deleted, the first is {first.get('Key')}: {first.get('Message')}"
            )

    def _call(self, operation: str, **arguments: Any) -> Any:
        from botocore.exceptions import ClientError

        try:
            return getattr(self._client, operation)(Bucket=self._bucket, **arguments)
        except ClientError as e:
            raise _translate_error(
                e, operation, f"s3://{self._bucket}/{arguments.get('Key', '')}"
            ) from e


class S3StorageManager(ObjectStorageManager):
    """`checkpoint_storage` of type s3."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "S3StorageManager":
        bucket = str(config["bucket"])
        return cls(S3Store(open_client(config), bucket), config.get("prefix"), f"s3://{bucket}")


def open_client(config: Mapping[str, Any]) -> Any:
    try:
        import boto3
    except ImportError as e:
        raise RuntimeError(
            "checkpoint_storage of type s3 needs boto3: run `pip install boto3`, or add it to the image"
        ) from e
    return boto3.session.Session().client(
        "s3",
        endpoint_url=config.get("endpoint_url"),
        aws_access_key_id=config.get("access_key"),
        aws_secret_access_key=config.get("secret_key"),
        config=_client_config(encrypted=not str(config.get("endpoint_url")).startswith("http:")),
    )


def _client_config(encrypted: bool) -> Any:
    from botocore.config import Config

    common: Dict[str, Any] = {
        "max_pool_connections": SMALL_THREADS + PART_THREADS,
        "retries": {"mode": "standard", "max_attempts": 6},
        "tcp_keepalive": True,
    }
    if encrypted:
        # TLS protects the body already, and computing its SHA-256 takes as long as the rest of an upload.
        common["s3"] = {"payload_signing_enabled": False}
    try:
        # The harness keeps its own end-to-end checksums. A second checksum for each request only costs time.
        return Config(
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            **common,
        )
    except (
        TypeError
    ):  # botocore before 1.36 has no such options, and computes no checksums by default
        return Config(**common)


def _translate_error(error: Any, operation: str, where: str) -> Exception:
    code = str(error.response.get("Error", {}).get("Code"))
    if code in _MISSING:
        return FileNotFoundError(f"{where} does not exist ({operation}: {code})")
    if code in _PAST_END:
        return CheckpointCorrupt(f"{where} is shorter than when it was saved")
    if code in _DENIED:
        return PermissionError(f"{where} may not be used with these credentials ({code})")
    return OSError(f"{operation} of {where} failed: {error}")
