"""Save and load checkpoints. A checkpoint becomes visible after all of its files are stored."""

import contextlib
import enum
import json
import logging
import os
import shutil
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from determined.common.storage import Checksums, Selector, StorageManager, list_directory, select
from determined.common.storage._base import StrPath
from determined.core._checkpoint_registry import CheckpointRegistry
from determined.core._distributed import DistributedContext
from determined.core._json import encode
from determined.core._pending import PendingCheckpoint
from determined.core._shards import (
    check_repeated,
    merge_metadata,
    merge_resources,
    on_every_rank,
    on_local_chief,
    own_files,
    place_of,
    take_over,
)
from determined.core._store_times import StoreTimes

logger = logging.getLogger("determined.core")

METADATA_FILE = "metadata.json"
STATE_FILE = "state_dict.pth"


class DownloadMode(enum.Enum):
    """The way in which workers of a container download: once for all of them, or each worker separately."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


class CheckpointContext:
    """The checkpoints of this trial. Checkpoints of other trials can be read."""

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
        self._saver: Optional[Any] = None
        self._warned_of_no_replicas = False
        self._replicator: Optional[Any] = None  # None: the task has no memory for replicas
        self._times = StoreTimes()

    def upload(
        self,
        ckpt_dir: Optional[StrPath],
        metadata: Optional[Dict[str, Any]] = None,
        *,
        shard: bool = False,
        selector: Optional[Selector] = None,
    ) -> str:
        """Store a directory as a new checkpoint and return its id.

        Without `shard` only the chief calls it. With `shard=True` every worker calls it with its
        own files (or `ckpt_dir=None`). If several workers have an equal file, the lowest rank stores it.
        `selector(path)` returns False for files to leave out.
        """
        if shard:
            return self._upload_sharded(ckpt_dir, metadata or {}, selector)
        self._chief_only("upload")
        storage_id = str(uuid.uuid4())
        self._upload_alone(storage_id, _require_directory(ckpt_dir), metadata or {}, selector)
        return storage_id

    def upload_async(
        self,
        ckpt_dir: StrPath,
        metadata: Optional[Dict[str, Any]] = None,
        *,
        selector: Optional[Selector] = None,
        delete_after: bool = False,
    ) -> PendingCheckpoint:
        """Start an `upload` without `shard` and return at once. Do not change the directory until it is done.

        The context waits for the upload when it closes. A failure is raised by `wait()`, by the next
        checkpoint call or when the context closes.
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

    def store_async(
        self,
        state: Any,
        metadata: Optional[Dict[str, Any]] = None,
        *,
        shard: bool = False,
        path: str = STATE_FILE,
        folders: Sequence[StrPath] = (),
    ) -> PendingCheckpoint:
        """Copy a state of tensors and plain values, and return. A separate process stores the copy.

        Without `shard` only the chief calls it; load the file `path` with `torch.load`. With `shard=True` every rank
        calls it with its part of a sharded state, such as FSDP's; load it with `load_sharded`. The files of `folders`
        are stored too. A failure is raised by `wait()`, by the next checkpoint call or when the context closes.
        """
        metadata = dict(metadata or {})
        self._registry.check_metadata(metadata)
        names = [os.fspath(folder) for folder in folders]
        if shard:
            from determined.checkpointing._sharded import store_async

            return store_async(self, state, metadata, names)
        self._chief_only("store_async")
        pending: PendingCheckpoint = self._async_saver().store_state(state, metadata, path, names)
        return pending

    def save_sharded(
        self,
        state: Any,
        metadata: Optional[Dict[str, Any]] = None,
        *,
        folders: Sequence[StrPath] = (),
    ) -> str:
        """Store a sharded state and return the id of the checkpoint. Every rank calls it, and uploads its shards."""
        from determined.checkpointing._sharded import save_sharded

        return save_sharded(self, state, metadata, [os.fspath(folder) for folder in folders])

    def load_sharded(self, storage_id: str, state: Dict[str, Any]) -> None:
        """Load a sharded checkpoint into the tensors of `state`, on any number of ranks. Every rank calls it."""
        from determined.checkpointing._sharded import load_sharded

        load_sharded(self, storage_id, state)

    def replicate(self, state: Any, steps_completed: int, *, rank_state: Any = None) -> None:
        """Keep a state in the memory of the trial's machines, so that the loss of a machine loses few steps.

        Every rank calls it after the same step. `state` is equal on all ranks, and stored once on each machine: tensors
        and plain values, bytes, or a function that returns them. `rank_state` belongs to this rank. It is also sent to
        the next machine. On return, the states may change. A state that does not fit ends replication with a warning.
        """
        if self._replicator is not None:
            self._replicator.replicate(state, steps_completed, rank_state)
        elif not self._warned_of_no_replicas:
            self._warned_of_no_replicas = True
            logger.info(
                "replicate() has no effect here: it needs a trial on a cluster with resources.min_slots_per_trial or "
                "resources.replica_memory"
            )

    def restore_replica(self) -> Optional[Any]:
        """Return the newest replica of an earlier run of this trial, or None if the newest checkpoint is not older.

        Every rank calls it, once and before `replicate`. The replica has `steps_completed`, `state`, `rank_states` of
        the ranks that stored it, and their number, `ranks`. The trial must then continue from it."""
        return None if self._replicator is None else self._replicator.restore()

    @contextlib.contextmanager
    def store_path(
        self, metadata: Optional[Dict[str, Any]] = None, *, shard: bool = False
    ) -> Iterator[Tuple[Any, str]]:
        """Yield a directory to fill and the id of the new checkpoint. Store the checkpoint when the block ends.

        The block may still change `metadata`.
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
        with self._registered(storage_id, metadata):
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
        """Download a checkpoint into a directory."""
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
        """Yield a directory with the checkpoint's files. It is read-only and exists until the block ends."""
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
                # The local chief must not remove the files while another worker reads them.
                self._distributed.gather_local(None)

    def get_metadata(self, storage_id: str) -> Dict[str, Any]:
        """Return the metadata that was saved with a checkpoint."""
        return self._registry.metadata_of(storage_id, self._storage)

    def delete(self, storage_id: str) -> None:
        """Delete a checkpoint from storage and report its deletion."""
        self._storage.delete(storage_id)
        self._registry.report_deleted(storage_id)

    def wait(self) -> None:
        """Block until every checkpoint of `upload_async` and `store_async` is stored and reported."""
        if self._saver is not None:
            self._saver.wait()
        for pending in list(self._pending):
            self._pending.remove(pending)
            pending.wait()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            if self._replicator is not None:
                self._replicator.close()
            if self._uploader is not None:
                self._uploader.shutdown(wait=True)
            if self._saver is not None:
                self._saver.close()

    def _upload_alone(
        self,
        storage_id: str,
        ckpt_dir: StrPath,
        metadata: Dict[str, Any],
        selector: Optional[Selector],
    ) -> None:
        self._registry.check_metadata(metadata)
        files = select(list_directory(ckpt_dir), selector)
        with self._registered(storage_id, metadata):
            checksums = self._storage.upload(ckpt_dir, storage_id, list(files))
            self._publish(storage_id, files, metadata, checksums)

    @contextlib.contextmanager
    def _registered(self, storage_id: str, metadata: Mapping[str, Any]) -> Iterator[None]:
        """Register an upload before it begins. If it fails without leaving files, unregister it."""
        self._register(storage_id, metadata)
        try:
            yield
        except Exception:
            self._unregister_if_empty(storage_id)
            raise

    def _register(self, storage_id: str, metadata: Mapping[str, Any]) -> None:
        self._times.begin(storage_id)
        self._registry.register(storage_id, metadata)

    def _unregister_if_empty(self, storage_id: str) -> None:
        self._times.forget(storage_id)
        # The storage or the cluster itself may have failed. The cluster then deletes the remaining files.
        with contextlib.suppress(Exception):
            if not self._files(storage_id):
                self._registry.unregister(storage_id)

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
        local_files = select(list_directory(ckpt_dir), selector) if ckpt_dir is not None else {}
        shards = distributed.allgather((local_files, metadata))
        listings = [shard[0] for shard in shards]
        root, rank = os.fspath(ckpt_dir or ""), distributed.rank
        check_repeated(
            listings, rank, root, distributed.cross_rank, partial(on_every_rank, distributed)
        )
        files = merge_resources(listings)
        merged = merge_metadata([shard[1] for shard in shards])
        self._registry.check_metadata(merged)
        paths = own_files(listings, rank)

        def register() -> None:
            if rank == 0:
                self._register(storage_id, merged)

        on_every_rank(distributed, register)
        checksums = on_every_rank(
            distributed,
            lambda: (
                self._storage.upload(ckpt_dir, storage_id, paths) if ckpt_dir is not None else {}
            ),
        )
        all_checksums: Checksums = {}
        for part in checksums:
            all_checksums.update(part)

        def publish() -> None:
            if distributed.rank == 0:
                self._publish(storage_id, files, merged, all_checksums)

        on_every_rank(distributed, publish)
        return storage_id

    @contextlib.contextmanager
    def _sharded_path(self, metadata: Dict[str, Any]) -> Iterator[Tuple[str, str]]:
        """Yield a separate directory for this worker. The uploads begin when all workers have left the block."""
        storage_id = self._distributed.broadcast(str(uuid.uuid4()))
        direct = self._storage.direct_path(storage_id)
        with _scratch(beside=direct, rank=self._distributed.rank) as path:
            chief = self._distributed.broadcast(place_of(path))
            yield path, storage_id
            if direct is None:
                # All ranks of this container have written their files.
                self._distributed.allgather_local(None)
                if self._distributed.local_rank == 0:
                    take_over(chief, path)
            self._upload_sharded(path, metadata, None, storage_id)

    def _publish(
        self,
        storage_id: str,
        files: Mapping[str, int],
        metadata: Mapping[str, Any],
        checksums: Checksums,
    ) -> None:
        """Report the checkpoint as complete. From now on it is visible to others."""
        content = json.dumps(json.loads(encode(dict(metadata))), indent=2).encode()
        with self._storage.open_write(storage_id, METADATA_FILE, len(content)) as file:
            file.write(content)
        if file.checksum is not None:
            checksums = {**checksums, METADATA_FILE: file.checksum}
        self._storage.write_checksums(storage_id, checksums)
        files = {**files, METADATA_FILE: file.size}
        self._registry.report_completed(storage_id, files, metadata)
        self._times.end(storage_id, sum(files.values()), metadata.get("steps_completed"))

    def _async_saver(self) -> Any:
        if self._saver is None:
            from determined.checkpointing._async import AsyncSaver

            self._saver = AsyncSaver(self)
        return self._saver

    def _raise_failed(self) -> None:
        if self._saver is not None:
            self._saver.raise_failed()
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
    """Checkpoints outside of a cluster. They are stored but not reported."""

    def __init__(self, dist: DistributedContext, storage_manager: StorageManager) -> None:
        super().__init__(dist, storage_manager, CheckpointRegistry())


def _require_directory(ckpt_dir: Optional[StrPath]) -> StrPath:
    if ckpt_dir is None:
        raise ValueError("ckpt_dir may be None only with shard=True")
    return ckpt_dir


@contextlib.contextmanager
def _scratch(beside: Optional[str] = None, rank: int = 0) -> Iterator[str]:
    """Yield an empty directory, next to `beside` if that is a path of a file system."""
    parent = os.path.dirname(beside) if beside else None
    if parent:
        os.makedirs(parent, exist_ok=True)
    path = tempfile.mkdtemp(prefix=f".determined-rank-{rank}-", dir=parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
