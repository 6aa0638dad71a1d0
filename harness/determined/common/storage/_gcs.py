"""Google Cloud Storage."""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar

from determined.common.storage import _gcs_client
from determined.common.storage._objects import ObjectStorageManager
from determined.common.storage._parts import Part
from determined.common.storage._store import BlobStore, mount_wide_adapters
from determined.common.storage._transfer import PART_THREADS, SMALL_THREADS, retried
from determined.errors import CheckpointCorrupt

MAX_COMPOSED = 32
DELETE_THREADS = 16
T = TypeVar("T")


class GCSStore(BlobStore):
    """A Google Cloud Storage bucket. Large files are uploaded as several objects and composed into one."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._errors = _errors_of(client)
        self._bucket_name = bucket
        self._client = client
        self._bucket = client.bucket(bucket)

    def put(self, key: str, body: bytes) -> None:
        blob = self._bucket.blob(key)
        self._call(key, lambda: blob.upload_from_string(body, "application/octet-stream"))

    def begin_parts(self, key: str) -> str:
        return uuid.uuid4().hex

    def put_part(self, key: str, upload_id: str, number: int, part: Part) -> str:
        name = f"{key}.part-{upload_id}-{number:05d}"
        with part.whole() as body:
            self.put(name, body)
        return name

    def end_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        names = list(tags)
        scratch = list(tags)
        while len(names) > MAX_COMPOSED:
            groups = [names[i : i + MAX_COMPOSED] for i in range(0, len(names), MAX_COMPOSED)]
            names = [self._compose(group, f"{group[0]}-{len(groups)}") for group in groups]
            scratch += names
        self._compose(names, key)
        self._drop(scratch)

    def abort_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        # A part may be stored even if its response was lost, so list the parts instead of using `tags`.
        self._drop([name for name, _ in self.list(f"{key}.part-{upload_id}-")])

    def get(self, key: str) -> bytes:
        return bytes(self._call(key, self._bucket.blob(key).download_as_bytes))

    def get_range(self, key: str, start: int, length: int) -> Iterator[bytes]:
        blob = self._bucket.blob(key)
        yield self._call(
            key, lambda: blob.download_as_bytes(start=start, end=start + length - 1, checksum=None)
        )

    def _pages(self, prefix: str) -> Iterator[Any]:
        return iter(self._client.list_blobs(self._bucket_name, prefix=prefix).pages)

    def _delete(self, key: str) -> None:
        self._bucket.blob(key).delete()

    def _drop(self, names: Sequence[str]) -> None:
        with ThreadPoolExecutor(DELETE_THREADS) as pool:
            list(pool.map(lambda name: retried(lambda: self.delete([name])), names))

    def _compose(self, names: List[str], target: str) -> str:
        sources = [self._bucket.blob(name) for name in names]
        self._call(target, lambda: self._bucket.blob(target).compose(sources))
        return target

    def _call(self, key: str, work: Callable[[], T]) -> T:
        missing, refused, past_end = self._errors
        where = f"gs://{self._bucket_name}/{key}"
        try:
            return work()
        except missing as e:
            raise FileNotFoundError(f"{where} does not exist") from e
        except past_end as e:
            raise CheckpointCorrupt(f"{where} is shorter than when it was saved") from e
        except refused as e:
            raise PermissionError(f"{where} may not be used with these credentials: {e}") from e


class GCSStorageManager(ObjectStorageManager):
    """`checkpoint_storage` of type gcs."""

    def __init__(self, bucket: str, prefix: Optional[str], client: Any = None) -> None:
        super().__init__(GCSStore(client or _client(), bucket), prefix, f"gs://{bucket}")


Errors = Tuple[Type[Exception], Tuple[Type[Exception], ...], Type[Exception]]


def _errors_of(client: Any) -> Errors:
    """Return the client's exception types for missing objects, denied access, and ranges behind an object's end."""
    if isinstance(client, _gcs_client.Client):
        return _gcs_client.NotFound, (_gcs_client.Refused,), _gcs_client.PastEnd
    from google.api_core import exceptions

    refused = (exceptions.Forbidden, exceptions.Unauthorized)
    return exceptions.NotFound, refused, exceptions.RequestRangeNotSatisfiable


def _client() -> Any:
    """Return Google's client if it is installed, otherwise our own, which supports only the machine's account."""
    try:
        from google.cloud import storage
    except ImportError as e:
        if not os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            return _gcs_client.Client()
        raise RuntimeError(
            "checkpoint_storage of type gcs with GOOGLE_APPLICATION_CREDENTIALS needs google-cloud-storage: "
            "run `pip install google-cloud-storage`, or add it to the image"
        ) from e
    client = storage.Client()
    if not getattr(client._http, "is_mtls", False):  # an mTLS adapter has the client's certificate
        mount_wide_adapters(client._http, SMALL_THREADS + PART_THREADS)
    return client
