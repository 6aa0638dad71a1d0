"""Save and load checkpoints. A checkpoint is visible only once everything in it is stored."""

import contextlib
import enum
import json
import os
import shutil
import tempfile
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from determined.common.storage import Checksums, Selector, StorageManager, list_directory, select
from determined.common.storage._base import StrPath
from determined.core._checkpoint_registry import CheckpointRegistry
from determined.core._distributed import DistributedContext
from determined.core._json import encode
from determined.core._ranks import on_every_rank, on_local_chief
from determined.core._shards import check_repeated, merge_metadata, merge_resources, own_files

METADATA_FILE = "metadata.json"


class DownloadMode(enum.Enum):
    """The ways to download: the workers of a container share one download, or each makes its own."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


class PendingCheckpoint:
    """An upload that runs while training goes on."""

    def __init__(self, storage_id: str, future: "Future[None]") -> None:
        self.storage_id = storage_id
        self._future = future

    @property
    def done(self) -> bool:
        return self._future.done()

    def wait(self) -> str:
        """Block until the checkpoint is stored and reported; raise what went wrong."""
        self._future.result()
        return self.storage_id


class CheckpointContext:
    """Checkpoints of this trial, and of others for reading."""

    def __init__(
        self,
        distributed: DistributedContext,
        storage: StorageManager,
        registry: CheckpointRegistry,
    ) -> None:
        self._distributed = distributed
        self._storage = storage
        self._registry = registry
        self._uploader: Optional[ThreadPoolExecutor] = None
        self._pending: List[PendingCheckpoint] = []

    def upload(
        self,
        ckpt_dir: Optional[StrPath],
        metadata: Optional[Dict[str, Any]] = None,
        *,
        shard: bool = False,
        selector: Optional[Selector] = None,
    ) -> str:
        """Store a directory as a new checkpoint and return its id.

        Without `shard` only the chief calls it. With `shard=True` every worker does, each with its
        own files (or `ckpt_dir=None`); of equal files of one name the lowest rank's is stored.
        `selector(path)` leaves out what it returns False for.
        """
        if shard:
            return self._upload_sharded(ckpt_dir, metadata or {}, selector)
        self._chief_only("upload")
        storage_id = str(uuid.uuid4())
        self._upload_alone(storage_id, _required(ckpt_dir), metadata or {}, selector)
        return storage_id

    def upload_async(
        self,
        ckpt_dir: StrPath,
        metadata: Optional[Dict[str, Any]] = None,
        *,
        selector: Optional[Selector] = None,
        delete_after: bool = False,
    ) -> PendingCheckpoint:
        """Start an `upload` without `shard`, and return at once; leave the directory alone until it is done.

        The context waits for it when it closes. A failure is raised by `wait()`, by the next
        checkpoint call or at the end, whichever comes first.
        """
        self._chief_only("upload_async")
        self._registry.check_metadata(metadata or {})
        self._raise_failed()
        storage_id = str(uuid.uuid4())
        if self._uploader is None:
            self._uploader = ThreadPoolExecutor(1, "determined-checkpoint")

        def work() -> None:
            try:
                self._upload_alone(storage_id, ckpt_dir, metadata or {}, selector)
            finally:
                self._registry.close()
                if delete_after:
                    shutil.rmtree(ckpt_dir, ignore_errors=True)

        pending = PendingCheckpoint(storage_id, self._uploader.submit(work))
        self._pending.append(pending)
        return pending

    @contextlib.contextmanager
    def store_path(
        self, metadata: Optional[Dict[str, Any]] = None, *, shard: bool = False
    ) -> Iterator[Tuple[Any, str]]:
        """Yield a directory to fill and the checkpoint's id; the checkpoint is stored when the block ends.

        The metadata may be completed inside the block.
        """
        import pathlib

        metadata = {} if metadata is None else metadata
        if shard:
            with self._sharded_path(metadata) as (path, storage_id):
                yield pathlib.Path(path), storage_id
            return
        self._chief_only("store_path")
        storage_id = str(uuid.uuid4())
        checksums: Checksums = {}
        direct = self._storage.direct_path(storage_id)
        with self._announced(storage_id, metadata):
            with self._storage.store_path(storage_id) if direct else _scratch() as path:
                yield pathlib.Path(path), storage_id
                self._registry.check_metadata(metadata)
                files = list_directory(path)
                if direct is None:
                    checksums = self._storage.upload(path, storage_id)
            self._publish(storage_id, files, metadata, checksums)

    def download(
        self,
        storage_id: str,
        ckpt_dir: StrPath,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Optional[Selector] = None,
    ) -> None:
        """Fetch a checkpoint into a directory."""
        if download_mode is DownloadMode.NoSharedDownload:
            self._storage.download(storage_id, ckpt_dir, selector)
            return
        on_local_chief(
            self._distributed, lambda: self._storage.download(storage_id, ckpt_dir, selector)
        )

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Optional[Selector] = None,
    ) -> Iterator[Any]:
        """Yield a directory with the checkpoint's files for the time of the block; treat it as read-only."""
        import pathlib

        if download_mode is DownloadMode.NoSharedDownload or self._distributed.local_size == 1:
            with self._storage.restore_path(storage_id, selector) as path:
                yield pathlib.Path(path)
            return
        with contextlib.ExitStack() as stack:
            opened = self._storage.restore_path(storage_id, selector)
            path = on_local_chief(self._distributed, lambda: stack.enter_context(opened))
            try:
                yield pathlib.Path(path)
            finally:
                # The local chief may not remove the files while another worker reads them.
                self._distributed.gather_local(None)

    def get_metadata(self, storage_id: str) -> Dict[str, Any]:
        """Return the metadata that was saved with a checkpoint."""
        return self._registry.metadata_of(storage_id, self._storage)

    def delete(self, storage_id: str) -> None:
        """Delete a checkpoint from storage, and mark it deleted."""
        self._storage.delete(storage_id)
        self._registry.deleted(storage_id)

    def wait(self) -> None:
        """Block until every upload of `upload_async` is stored and reported."""
        for pending in list(self._pending):
            self._pending.remove(pending)
            pending.wait()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            if self._uploader is not None:
                self._uploader.shutdown(wait=True)

    def _upload_alone(
        self,
        storage_id: str,
        ckpt_dir: StrPath,
        metadata: Dict[str, Any],
        selector: Optional[Selector],
    ) -> None:
        self._registry.check_metadata(metadata)
        files = select(list_directory(ckpt_dir), selector)
        with self._announced(storage_id, metadata):
            checksums = self._storage.upload(ckpt_dir, storage_id, list(files))
            self._publish(storage_id, files, metadata, checksums)

    @contextlib.contextmanager
    def _announced(self, storage_id: str, metadata: Mapping[str, Any]) -> Iterator[None]:
        """Register an upload before it begins; withdraw that if it fails and leaves no file."""
        self._registry.begins(storage_id, metadata)
        try:
            yield
        except Exception:
            # The storage or the cluster may be what failed: then the cluster collects what is left.
            with contextlib.suppress(Exception):
                if not self._files(storage_id):
                    self._registry.withdrawn(storage_id)
            raise

    def _files(self, storage_id: str) -> Dict[str, int]:
        try:
            return self._storage.list(storage_id)
        except FileNotFoundError:
            return {}

    def _upload_sharded(
        self,
        ckpt_dir: Optional[StrPath],
        metadata: Dict[str, Any],
        selector: Optional[Selector],
        storage_id: Optional[str] = None,
    ) -> str:
        distributed = self._distributed
        storage_id = distributed.broadcast(storage_id or str(uuid.uuid4()))
        mine = select(list_directory(ckpt_dir), selector) if ckpt_dir is not None else {}
        shards = distributed.allgather((mine, metadata))
        listings = [shard[0] for shard in shards]
        root, rank = os.fspath(ckpt_dir or ""), distributed.rank
        check_repeated(
            listings, rank, root, distributed.cross_rank, partial(on_every_rank, distributed)
        )
        files = merge_resources(listings)
        merged = merge_metadata([shard[1] for shard in shards])
        self._registry.check_metadata(merged)
        own = own_files(listings, rank)

        def announce() -> None:
            if rank == 0:
                self._registry.begins(storage_id, merged)

        on_every_rank(distributed, announce)
        checksums = on_every_rank(
            distributed,
            lambda: self._storage.upload(ckpt_dir, storage_id, own) if ckpt_dir is not None else {},
        )
        everything: Checksums = {}
        for part in checksums:
            everything.update(part)

        def publish() -> None:
            if distributed.rank == 0:
                self._publish(storage_id, files, merged, everything)

        on_every_rank(distributed, publish)
        return storage_id

    @contextlib.contextmanager
    def _sharded_path(self, metadata: Dict[str, Any]) -> Iterator[Tuple[str, str]]:
        """Yield a directory of this worker's own; uploads begin when all workers have filled theirs."""
        storage_id = self._distributed.broadcast(str(uuid.uuid4()))
        direct = self._storage.direct_path(storage_id)
        with _scratch(beside=direct, rank=self._distributed.rank) as path:
            yield path, storage_id
            self._upload_sharded(path, metadata, None, storage_id)

    def _publish(
        self,
        storage_id: str,
        files: Mapping[str, int],
        metadata: Mapping[str, Any],
        checksums: Checksums,
    ) -> None:
        """Report the checkpoint as complete. It exists for others from here on, and not before."""
        with tempfile.TemporaryDirectory(prefix="determined-metadata-") as scratch:
            path = os.path.join(scratch, METADATA_FILE)
            with open(path, "wb") as f:
                f.write(json.dumps(json.loads(encode(dict(metadata))), indent=2).encode())
            size = os.path.getsize(path)
            checksums = {**checksums, **self._storage.upload(scratch, storage_id, [METADATA_FILE])}
        self._storage.write_checksums(storage_id, checksums)
        self._registry.completed(storage_id, {**files, METADATA_FILE: size}, metadata)

    def _raise_failed(self) -> None:
        for pending in [p for p in self._pending if p.done]:
            self._pending.remove(pending)
            pending.wait()

    def _chief_only(self, call: str) -> None:
        if self._distributed.rank != 0:
            raise RuntimeError(
                f"checkpoint.{call}() without shard=True was called on rank "
                f"{self._distributed.rank}: only the chief (rank 0) may, or all with shard=True"
            )


class DummyCheckpointContext(CheckpointContext):
    """Checkpoints off-cluster: they are stored, and reported to no cluster."""

    def __init__(self, dist: DistributedContext, storage_manager: StorageManager) -> None:
        super().__init__(dist, storage_manager, CheckpointRegistry())


def _required(ckpt_dir: Optional[StrPath]) -> StrPath:
    if ckpt_dir is None:
        raise ValueError("ckpt_dir may be None only with shard=True")
    return ckpt_dir


@contextlib.contextmanager
def _scratch(beside: Optional[str] = None, rank: int = 0) -> Iterator[str]:
    """Yield a directory to fill, next to the target if that is a file system."""
    parent = os.path.dirname(beside) if beside else None
    if parent:
        os.makedirs(parent, exist_ok=True)
    path = tempfile.mkdtemp(prefix=f".determined-rank-{rank}-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
