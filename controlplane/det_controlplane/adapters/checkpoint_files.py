"""Reading checkpoints where the control plane can: directories of this machine, S3, Google Cloud Storage."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from det_controlplane.ports.checkpoint_files import StorageUnreachable, StoredFile

PIECE = 1024 * 1024


class _Reader(Protocol):
    def files(self, checkpoint: str) -> list[StoredFile]: ...

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]: ...


class ReachableCheckpoints:
    """Chooses the reader by the storage's type."""

    def files(self, storage: Mapping[str, Any], checkpoint: str) -> Sequence[StoredFile]:
        return sorted(_reader(storage).files(checkpoint), key=lambda f: f.path)

    def read(self, storage: Mapping[str, Any], checkpoint: str, path: str) -> Iterator[bytes]:
        return _reader(storage).read(checkpoint, path)


def _reader(storage: Mapping[str, Any]) -> _Reader:
    kind = storage.get("type")
    if kind == "directory":
        return _Folder(Path(str(storage["container_path"])))
    if kind == "shared_fs":
        return _Folder(Path(str(storage["host_path"])) / (storage.get("storage_path") or ""))
    if kind == "s3":
        return _S3(storage)
    if kind == "gcs":
        return _Gcs(storage)
    raise StorageUnreachable(f"checkpoints in storage of type {kind!r} are not read here")


class _Folder:
    def __init__(self, base: Path) -> None:
        self._base = base

    def files(self, checkpoint: str) -> list[StoredFile]:
        folder = self._base / checkpoint
        if not self._base.is_dir():
            raise StorageUnreachable(
                f"{self._base} is not a directory of the machine that runs the API"
            )
        inside = (p for p in folder.rglob("*") if self._is_inside(p, folder))
        return [
            StoredFile(p.relative_to(folder).as_posix(), p.stat().st_size)
            for p in inside
            if p.is_file()
        ]

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]:
        folder = self._base / checkpoint
        file = folder / path
        if not self._is_inside(file, folder):
            raise StorageUnreachable(f"{path} is not inside checkpoint {checkpoint}")
        with file.open("rb") as stream:
            while piece := stream.read(PIECE):
                yield piece

    @staticmethod
    def _is_inside(path: Path, folder: Path) -> bool:
        """A link in a checkpoint must not lead to what else this machine has."""
        return path.resolve().is_relative_to(folder.resolve())


class _S3:
    def __init__(self, storage: Mapping[str, Any]) -> None:
        import boto3

        self._bucket = str(storage["bucket"])
        self._prefix = _prefix(storage)
        self._client = boto3.client(
            "s3",
            aws_access_key_id=storage.get("access_key"),
            aws_secret_access_key=storage.get("secret_key"),
            endpoint_url=storage.get("endpoint_url"),
        )

    def files(self, checkpoint: str) -> list[StoredFile]:
        start = f"{self._prefix}{checkpoint}/"
        found = []
        for page in self._asked("list_objects_v2", Prefix=start):
            for entry in page.get("Contents", ()):
                path = entry["Key"].removeprefix(start)
                if path and not path.endswith("/"):
                    found.append(StoredFile(path, int(entry["Size"])))
        return found

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]:
        key = f"{self._prefix}{checkpoint}/{path}"
        body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        yield from body.iter_chunks(PIECE)

    def _asked(self, operation: str, **arguments: str) -> Iterator[Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield from self._client.get_paginator(operation).paginate(
                Bucket=self._bucket, **arguments
            )
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
        self._bucket = cloud_storage.Client().bucket(str(storage["bucket"]))
        self._prefix = _prefix(storage)

    def files(self, checkpoint: str) -> list[StoredFile]:
        start = f"{self._prefix}{checkpoint}/"
        blobs = self._bucket.list_blobs(prefix=start)
        paths = ((b.name.removeprefix(start), int(b.size)) for b in blobs)
        return [StoredFile(path, size) for path, size in paths if path and not path.endswith("/")]

    def read(self, checkpoint: str, path: str) -> Iterator[bytes]:
        with self._bucket.blob(f"{self._prefix}{checkpoint}/{path}").open("rb") as stream:
            while piece := stream.read(PIECE):
                yield piece


def _prefix(storage: Mapping[str, Any]) -> str:
    prefix = str(storage.get("prefix") or "").strip("/")
    return f"{prefix}/" if prefix else ""
