"""Read checkpoints from storages that the control plane can reach: local directories, S3, Google Cloud Storage."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from det_controlplane.adapters.checkpoint_folder import PIECE, CheckpointFolder
from det_controlplane.ports.files import StorageUnreachable, StoredFile

CONNECT_S, READ_S, RETRIES = 5, 30, 2
# A slow storage must not block a tick. Requests are therefore not retried.
LOOK_S = 3


class _Reader(Protocol):
    def exists(self, checkpoint: str) -> bool: ...

    def files(self, checkpoint: str) -> list[StoredFile]: ...

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]: ...


class ReachableCheckpoints:
    """Choose the reader by the type of the storage."""

    def files(self, storage: Mapping[str, Any], checkpoint: str) -> Sequence[StoredFile]:
        return sorted(_reader(storage).files(checkpoint), key=lambda f: f.path)

    def finder(self, storage: Mapping[str, Any]) -> Callable[[str], bool]:
        if storage.get("type") == "s3":
            return _S3(storage, LOOK_S, LOOK_S, retries=0).exists
        return _reader(storage).exists

    def read(self, storage: Mapping[str, Any], checkpoint: str, path: str) -> Iterator[bytes]:
        return _reader(storage).read(checkpoint, path)


def _reader(storage: Mapping[str, Any]) -> _Reader:
    kind = storage.get("type")
    if kind == "directory":
        return CheckpointFolder(Path(_require_key(storage, "container_path")))
    if kind == "shared_fs":
        return CheckpointFolder(
            Path(_require_key(storage, "host_path")) / (storage.get("storage_path") or "")
        )
    if kind == "s3":
        return _S3(storage)
    if kind == "gcs":
        return _Gcs(storage)
    raise StorageUnreachable(f"checkpoints in storage of type {kind!r} are not read here")


def _require_key(storage: Mapping[str, Any], key: str) -> str:
    if not storage.get(key):
        raise StorageUnreachable(f"checkpoint_storage.{key} is not told")
    return str(storage[key])


class _S3:
    def __init__(
        self,
        storage: Mapping[str, Any],
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        retries: int = RETRIES,
    ) -> None:
        self._bucket = _require_key(storage, "bucket")
        self._prefix = _prefix(storage)
        try:
            import boto3
            from botocore.config import Config

            self._client = boto3.client(
                "s3",
                aws_access_key_id=storage.get("access_key"),
                aws_secret_access_key=storage.get("secret_key"),
                endpoint_url=storage.get("endpoint_url"),
                config=Config(
                    connect_timeout=connect_s,
                    read_timeout=read_s,
                    retries={"max_attempts": retries, "mode": "standard"},
                ),
            )
        except ImportError as e:
            raise StorageUnreachable(
                "the API was installed without AWS support: install determined-serverless[aws]"
            ) from e
        except ValueError as e:
            raise StorageUnreachable(f"bucket {self._bucket}: {e}") from e

    def exists(self, checkpoint: str) -> bool:
        with self._errors():
            answer = self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=f"{self._prefix}{checkpoint}/", MaxKeys=1
            )
        return bool(answer.get("Contents"))

    def files(self, checkpoint: str) -> list[StoredFile]:
        start = f"{self._prefix}{checkpoint}/"
        files = []
        for page in self._paginated("list_objects_v2", Prefix=start):
            for entry in page.get("Contents", ()):
                path = entry["Key"].removeprefix(start)
                if path and not path.endswith("/"):
                    files.append(StoredFile(path, int(entry["Size"])))
        return files

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]:
        key = f"{self._prefix}{checkpoint}/{path}"
        body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        yield from body.iter_chunks(PIECE)

    def _paginated(self, operation: str, **arguments: str) -> Iterator[Any]:
        with self._errors():
            yield from self._client.get_paginator(operation).paginate(
                Bucket=self._bucket, **arguments
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as e:
            raise StorageUnreachable(f"bucket {self._bucket}: {e}") from e


class _Gcs:
    def __init__(self, storage: Mapping[str, Any]) -> None:
        try:
            from google.cloud import storage as cloud_storage
        except ImportError as e:
            raise StorageUnreachable(
                "the API was installed without Google Cloud support: install determined-serverless[gcp]"
            ) from e
        with _google_errors(storage):
            self._bucket = cloud_storage.Client().bucket(_require_key(storage, "bucket"))
        self._storage = storage
        self._prefix = _prefix(storage)

    def exists(self, checkpoint: str) -> bool:
        start = f"{self._prefix}{checkpoint}/"
        with _google_errors(self._storage):
            blobs = self._bucket.list_blobs(prefix=start, max_results=1, timeout=LOOK_S, retry=None)
            return any(True for _ in blobs)

    def files(self, checkpoint: str) -> list[StoredFile]:
        start = f"{self._prefix}{checkpoint}/"
        with _google_errors(self._storage):
            from google.cloud.storage.retry import DEFAULT_RETRY

            retry = DEFAULT_RETRY.with_timeout(READ_S)
            blobs = list(
                self._bucket.list_blobs(prefix=start, timeout=(CONNECT_S, READ_S), retry=retry)
            )
        paths = ((b.name.removeprefix(start), int(b.size)) for b in blobs)
        return [StoredFile(path, size) for path, size in paths if path and not path.endswith("/")]

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]:
        with self._bucket.blob(f"{self._prefix}{checkpoint}/{path}").open("rb") as stream:
            while piece := stream.read(PIECE):
                yield piece


@contextmanager
def _google_errors(storage: Mapping[str, Any]) -> Iterator[None]:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except (GoogleAPIError, GoogleAuthError, RequestException) as e:
        raise StorageUnreachable(f"bucket {storage.get('bucket')}: {e}") from e


def _prefix(storage: Mapping[str, Any]) -> str:
    prefix = str(storage.get("prefix") or "").strip("/")
    return f"{prefix}/" if prefix else ""
