"""Azure Blob Storage."""

import base64
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

from determined.common.storage._objects import ObjectStorageManager
from determined.common.storage._parts import Part
from determined.common.storage._store import BlobStore, mount_wide_adapters
from determined.common.storage._transfer import PART_THREADS, SMALL_THREADS
from determined.errors import CheckpointCorrupt

_DENIED = (401, 403)
_PAST_END = 416
T = TypeVar("T")


class AzureStore(BlobStore):
    """An Azure blob container. Large files are uploaded as blocks and committed in one step."""

    def __init__(self, service: Any, name: str) -> None:
        self._service = service
        self._container = service.get_container_client(name)
        self._name = name

    def put(self, key: str, body: bytes) -> None:
        blob = self._container.get_blob_client(key)
        self._call(key, lambda: blob.upload_blob(body, overwrite=True))

    def begin_parts(self, key: str) -> str:
        return key

    def put_part(self, key: str, upload_id: str, number: int, part: Part) -> str:
        block_id = base64.b64encode(f"{number:08d}".encode()).decode()
        blob = self._container.get_blob_client(key)
        with part.whole() as body:
            self._call(key, lambda: blob.stage_block(block_id, body))
        return block_id

    def end_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        from azure.storage.blob import BlobBlock

        blob = self._container.get_blob_client(key)
        self._call(key, lambda: blob.commit_block_list([BlobBlock(tag) for tag in tags]))

    def abort_parts(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        """Return without a request: Azure deletes uncommitted blocks after a week."""

    def get(self, key: str) -> bytes:
        blob = self._container.get_blob_client(key)
        return bytes(self._call(key, lambda: blob.download_blob().readall()))

    def get_range(self, key: str, start: int, length: int) -> Iterator[bytes]:
        blob = self._container.get_blob_client(key)
        stream: Any = self._call(key, lambda: blob.download_blob(offset=start, length=length))
        yield from stream.chunks()

    def _pages(self, prefix: str) -> Iterator[Any]:
        return iter(self._container.list_blobs(name_starts_with=prefix).by_page())

    def _delete(self, key: str) -> None:
        self._container.get_blob_client(key).delete_blob()

    def close(self) -> None:
        self._service.close()  # a container's client does not own its connections

    def _call(self, key: str, work: Callable[[], T]) -> T:
        from azure.core import exceptions

        where = f"blob {key} of container {self._name}"
        try:
            return work()
        except exceptions.ResourceNotFoundError as e:
            raise FileNotFoundError(f"{where} does not exist") from e
        except exceptions.HttpResponseError as e:
            if e.status_code == _PAST_END:
                raise CheckpointCorrupt(f"{where} is shorter than when it was saved") from e
            if e.status_code not in _DENIED:
                raise
            raise PermissionError(
                f"{where} may not be used with these credentials ({e.reason})"
            ) from e


class AzureStorageManager(ObjectStorageManager):
    """`checkpoint_storage` of type azure."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "AzureStorageManager":
        """Make the manager. The configured container name may have a prefix after a slash."""
        name, _, prefix = str(config["container"]).partition("/")
        return cls(AzureStore(_service(config), name), prefix or None, f"ms://{name}")

    def close(self) -> None:
        """Close the connections."""
        assert isinstance(self._store, AzureStore)
        self._store.close()


def _service(config: Mapping[str, Any]) -> Any:
    try:
        from azure.storage.blob import BlobServiceClient
    except ImportError as e:
        raise RuntimeError(
            "checkpoint_storage of type azure needs azure-storage-blob: "
            "run `pip install azure-storage-blob`, or add it to the image"
        ) from e
    options = {"transport": _wide_transport()}
    if config.get("connection_string"):
        return BlobServiceClient.from_connection_string(config["connection_string"], **options)
    return BlobServiceClient(config["account_url"], credential=config.get("credential"), **options)


def _wide_transport() -> Any:
    from azure.core.pipeline.transport import RequestsTransport
    from requests import Session

    session = Session()
    mount_wide_adapters(session, SMALL_THREADS + PART_THREADS)
    return RequestsTransport(session=session)
