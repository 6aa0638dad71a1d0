"""Sharded checkpoints on `torch.distributed.checkpoint`: each rank uploads its shards and reads the ones it needs."""

import contextlib
import dataclasses
import io
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import distributed
from torch.distributed import checkpoint as dcp
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.planner import LoadItemType
from torch.distributed.checkpoint.storage import WriteResult

from determined.checkpointing import _metadata
from determined.checkpointing._async import stored
from determined.checkpointing._buffers import plan as plan_slots
from determined.checkpointing._exchange import Exchange, by_cause
from determined.checkpointing._jobs import ShardJob, Written, as_bytes, write_folders, write_shard
from determined.common.storage import Checksums
from determined.core._pending import PendingCheckpoint

READ_THREADS = 8


@dataclasses.dataclass(frozen=True)
class _StoredItem(WriteResult):  # type: ignore[misc]
    """A stored item. The first one of a rank also has the rank's files."""

    written: Optional[Written] = None


class _PlanOnly(dcp.StorageWriter):  # type: ignore[misc]
    """Keeps the plan of this rank and the metadata of the chief, without writing."""

    metadata: Any = None

    def __init__(self) -> None:
        self.rank = 0
        self.items: List[Tuple[Any, Any]] = []

    def reset(self, checkpoint_id: Any = None) -> None:
        """Do nothing: an object stores one checkpoint."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Do nothing: every rank knows the storage."""

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        return [dataclasses.replace(plan, storage_data=rank) for rank, plan in enumerate(plans)]

    def write_data(self, plan: Any, planner: Any) -> Any:
        self.rank = plan.storage_data or 0
        self.items = [(item.index, as_bytes(planner.resolve_data(item))) for item in plan.items]
        return _done(self.write())

    def write(self) -> List[Any]:
        return []

    def finish(self, metadata: Any, results: List[List[Any]]) -> None:
        self.metadata = metadata

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True

    @property
    def path(self) -> str:
        return f"__{self.rank}_0.distcp"


class StorageWriter(_PlanOnly):
    """Stores a sharded state as a checkpoint: `dcp.save(state, storage_writer=StorageWriter(core.checkpoint))`.

    Every rank makes one for each checkpoint. `storage_id` is the id of the checkpoint.
    """

    def __init__(
        self,
        checkpoints: Any,
        metadata: Optional[Dict[str, Any]] = None,
        folders: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._checkpoints = checkpoints
        self._user_metadata = dict(metadata or {})
        self._folders = folders
        checkpoints._registry.check_metadata(self._user_metadata)
        self.storage_id: str = checkpoints._distributed.broadcast(str(uuid.uuid4()))

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if is_coordinator:
            self._checkpoints._register(self.storage_id, self._user_metadata)

    def write(self) -> List[Any]:
        written = Written()
        storage = self._checkpoints._storage
        write_shard(storage, self.storage_id, self.path, self.items, written)
        write_folders(storage, self.storage_id, self._folders, written)
        places = [(self.path, offset, length) for _, offset, length in written.items]
        results: List[Any] = [
            _StoredItem(index, 0, place) for (index, _), place in zip(self.items, places)
        ]
        files = Written(written.files, written.checksums)
        return [*results, _StoredItem(None, 0, None, files)]

    def finish(self, metadata: Any, results: List[List[Any]]) -> None:
        merged = Written()
        places = []
        for item in (item for of_rank in results for item in of_rank):
            if item.written is None:
                places.append((item.index, *item.storage_data))
            else:
                merged.files.update(item.written.files)
                merged.checksums.update(item.written.checksums)
        _publish(self._checkpoints, self.storage_id, self._user_metadata, metadata, places, merged)


class StorageReader(dcp.StorageReader):  # type: ignore[misc]
    """Reads a sharded checkpoint: `dcp.load(state, storage_reader=StorageReader(core.checkpoint, storage_id))`.

    Each rank reads only the pieces that it needs.
    """

    def __init__(self, checkpoints: Any, storage_id: str) -> None:
        storage = getattr(checkpoints, "_storage", checkpoints)
        self._storage = storage
        self._storage_id = storage_id
        self._places: Dict[Any, Any] = {}
        self._checksums: Checksums = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Do nothing: an object reads one checkpoint."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Any:
        path, storage_id = _metadata.METADATA_FILE, self._storage_id
        files = self._storage.list(storage_id)
        if path not in files:
            raise FileNotFoundError(
                f"checkpoint {storage_id} is not sharded: it has no file {path}"
                if files
                else f"checkpoint {storage_id} has no files at {self._storage.url(storage_id)}; was it deleted?"
            )
        self._checksums = self._storage.read_checksums(storage_id)
        saved = self._checksums.get(path)
        crc = saved.crcs[0] if saved is not None and len(saved.crcs) == 1 else None
        size = files[path] if saved is None else saved.size
        return _metadata.loads(self._storage.read_range(storage_id, path, 0, size, crc))

    def set_up_storage_reader(
        self, metadata: Any, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: List[Any]) -> List[Any]:
        return plans

    def read_data(self, plan: Any, planner: Any) -> Any:
        by_place: Dict[Any, List[Any]] = {}
        for item in plan.items:
            by_place.setdefault(item.storage_index, []).append(item)
        groups = list(by_place.items())
        with ThreadPoolExecutor(READ_THREADS, "determined-shards") as pool:
            # Each window is read while the one before it is copied, so that memory stays bounded.
            window = [pool.submit(self._fetch, index) for index, _ in groups[:READ_THREADS]]
            for number, (_, items) in enumerate(groups):
                content = window.pop(0).result()
                following = number + READ_THREADS
                if following < len(groups):
                    window.append(pool.submit(self._fetch, groups[following][0]))
                _give(planner, items, content)
        return _done(None)

    def _fetch(self, index: Any) -> bytes:
        place = self._places[index]
        path, start = str(place.relative_path), place.offset
        saved = self._checksums.get(path)
        crc = None if saved is None else saved.pieces.get(start)
        content: bytes = self._storage.read_range(self._storage_id, path, start, place.length, crc)
        return content

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


class PlainLoadPlanner(dcp.DefaultLoadPlanner):  # type: ignore[misc]
    """Loads values that are not tensors without unpickling objects that could run code."""

    def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
        from torch.distributed.checkpoint._nested_dict import set_element

        loaded = torch.load(value, weights_only=True)
        if self.flatten_state_dict:
            path = self.mappings[read_item.dest_index.fqn]
            set_element(self.original_state_dict, path, loaded)
        else:
            self.state_dict[read_item.dest_index.fqn] = loaded


def _plan_and_write(state: Any, writer: _PlanOnly) -> None:
    with _plain_errors():
        dcp.save(state, storage_writer=writer, no_dist=not distributed.is_initialized())


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise the failures of ranks as one RuntimeError. Torch's exception is not an `Exception`."""
    with warnings.catch_warnings():
        # A single process is not an accident here.
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        try:
            yield
        except CheckpointException as e:
            failures = {rank: cause[0] for rank, cause in e.failures.items()}
            raise RuntimeError(f"the sharded checkpoint failed on {by_cause(failures)}") from e


def save_sharded(
    checkpoints: Any, state: Any, metadata: Optional[Dict[str, Any]], folders: Sequence[str] = ()
) -> str:
    writer = StorageWriter(checkpoints, metadata, folders)
    try:
        _plan_and_write(state, writer)
    except Exception:
        if checkpoints._distributed.rank == 0:
            checkpoints._unregister_if_empty(writer.storage_id)
        raise
    return writer.storage_id


def load_sharded(checkpoints: Any, storage_id: str, state: Dict[str, Any]) -> None:
    load_into(state, StorageReader(checkpoints, storage_id), not distributed.is_initialized())


def load_into(state: Dict[str, Any], reader: StorageReader, alone: bool) -> None:
    """Fill the tensors of a state, and replace its other values. `alone` reads everything in this process."""
    with _plain_errors():
        dcp.load(state, storage_reader=reader, planner=PlainLoadPlanner(), no_dist=alone)


def store_async(
    checkpoints: Any, state: Any, metadata: Dict[str, Any], folders: Sequence[str] = ()
) -> PendingCheckpoint:
    """Copy this rank's shards and return. If the shards of any rank do not fit into memory, store before returning."""
    started = time.monotonic()
    saver, ranks = checkpoints._async_saver(), checkpoints._distributed
    planned = _PlanOnly()
    _plan_and_write(state, planned)
    tensors = [content for _, content in planned.items if not isinstance(content, bytes)]
    slots, size = plan_slots(tensors)
    saver.wait()
    all_fit, storage_ids = zip(*ranks.allgather((saver.can_hold(size), str(uuid.uuid4()))))
    if not all(all_fit):
        saver.warn_too_large(size)
        return stored(save_sharded(checkpoints, state, metadata, folders))
    saver.fill(tensors, slots, size)
    numbers = iter(range(len(tensors)))
    contents = [c if isinstance(c, bytes) else next(numbers) for _, c in planned.items]
    indices = [index for index, _ in planned.items]
    storage_id = storage_ids[0]
    job = ShardJob(
        checkpoints._storage, storage_id, planned.path, indices, contents, slots, tuple(folders)
    )
    exchange = Exchange(storage_id, ranks.rank, ranks.size)
    write = _Background(checkpoints, saver, exchange, job, metadata, planned.metadata)
    pending: PendingCheckpoint = saver.submit(storage_id, write.run, started)
    return pending


@dataclasses.dataclass(frozen=True)
class _Background:
    """The part of an asynchronous sharded checkpoint that runs beside training on each rank."""

    checkpoints: Any
    saver: Any
    exchange: Exchange
    job: ShardJob
    user_metadata: Dict[str, Any]
    metadata: Any

    def run(self) -> None:
        if self.checkpoints._distributed.rank:
            self.exchange.wait_for_announcement()
            self._write()
            self.exchange.wait_for_end()
            return
        error: Optional[BaseException] = None
        try:
            self._run_on_chief()
        except BaseException as e:
            error = e
            raise
        finally:
            self.exchange.end(error)

    def _run_on_chief(self) -> None:
        checkpoints, storage_id = self.checkpoints, self.job.storage_id
        with checkpoints._registered(storage_id, self.user_metadata):
            self.exchange.announce()
            self._write()
            merged, places = Written(), []
            for rank, written in enumerate(self.exchange.collect()):
                merged.files.update(written.files)
                merged.checksums.update(written.checksums)
                path = f"__{rank}_0.distcp"
                places += [(index, path, at, length) for index, at, length in written.items]
            _publish(checkpoints, storage_id, self.user_metadata, self.metadata, places, merged)

    def _write(self) -> None:
        try:
            written = self.saver.run(self.job)
        except Exception as e:
            self.exchange.send(None, e)
            raise
        self.exchange.send(written, None)


def _publish(
    checkpoints: Any,
    storage_id: str,
    user_metadata: Dict[str, Any],
    metadata: Any,
    places: List[Tuple[Any, str, int, int]],
    written: Written,
) -> None:
    """Write the file `.metadata` and report the checkpoint as complete."""
    path = _metadata.METADATA_FILE
    content = _metadata.dumps(metadata, places)
    with checkpoints._storage.open_write(storage_id, path, len(content)) as file:
        file.write(content)
    written.files[path] = file.size
    if file.checksum is not None:
        written.checksums[path] = file.checksum
    checkpoints._publish(storage_id, written.files, user_metadata, written.checksums)


def _give(planner: Any, items: List[Any], content: bytes) -> None:
    """Pass a stored item to the parts of tensors that need it."""
    tensor = None
    for item in items:
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(content))
            continue
        if tensor is None:
            tensor = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        piece = narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        target.copy_(piece)
        planner.commit_tensor(item, target)


def _done(value: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(value)
    return future
