"""Save and load a sharded checkpoint on several ranks.

If the work fails on one rank it fails on all, so that no rank blocks forever. Files and metadata of ranks are merged,
and conflicts between ranks are reported."""

import hashlib
import os
import shutil
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from determined.common.storage import list_directory
from determined.core._distributed import DistributedContext
from determined.errors import CheckpointConflict

SHOWN_CONFLICTS = 10
_READ_BYTES = 1 << 20

# A value for each file of a rank, by path. Equal values mean equal files.
Contents = Mapping[str, Any]
# Calls a function on every rank and returns the results of all ranks.
Exchange = Callable[[Callable[[], Dict[str, Any]]], List[Dict[str, Any]]]


# A directory of a rank: its path, and the numbers of its device and inode, which differ on other machines.
Place = Tuple[str, int, int]


def place_of(path: str) -> Place:
    stat = os.stat(path)
    return path, stat.st_dev, stat.st_ino


def take_over(chief: Place, own: str) -> None:
    """Move files that a program of this machine wrote to the chief's path into a rank's own directory.

    Lightning sends the path of rank 0 to all ranks. On another machine, this path is a directory of its own.
    """
    path, *_ = chief
    if not os.path.isdir(path) or place_of(path) == chief:
        return
    for name in list_directory(path):
        target = os.path.join(own, name)
        if name.endswith("/"):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.replace(os.path.join(path, name), target)
    shutil.rmtree(path)


def merge_resources(by_rank: Sequence[Mapping[str, int]]) -> Dict[str, int]:
    """Return the files of all ranks. Files of several ranks must have been checked for equality."""
    merged: Dict[str, int] = {}
    for files in by_rank:
        merged.update(files)
    return dict(sorted(merged.items()))


def own_files(by_rank: Sequence[Mapping[str, int]], rank: int) -> List[str]:
    """Return the paths that a rank uploads: its directories, and the files that no lower rank has."""
    lower: Set[str] = {path for files in by_rank[:rank] for path in files}
    return [path for path in by_rank[rank] if path.endswith("/") or path not in lower]


def check_repeated(
    by_rank: Sequence[Mapping[str, int]], rank: int, root: str, place: int, exchange: Exchange
) -> None:
    """Raise CheckpointConflict if ranks have different files with the same path.

    `place` identifies the container. Workers of one container that save the same directory need not read its files.
    """
    repeated = _find_repeated_paths(by_rank)
    if not repeated:
        return
    _raise_conflicts(by_rank, by_rank, repeated)
    inodes = exchange(lambda: _inodes(root, place, [p for p in repeated if p in by_rank[rank]]))
    differing = [path for path in repeated if _differs(inodes, path)]
    if differing:
        digests = exchange(lambda: _digests(root, [p for p in differing if p in by_rank[rank]]))
        _raise_conflicts(by_rank, digests, differing)


def _find_repeated_paths(by_rank: Sequence[Mapping[str, int]]) -> List[str]:
    counts: Dict[str, int] = {}
    for files in by_rank:
        for path in files:
            counts[path] = counts.get(path, 0) + 1
    return sorted(p for p, count in counts.items() if count > 1 and not p.endswith("/"))


def _differs(contents: Sequence[Contents], path: str) -> bool:
    return len({values[path] for values in contents if path in values}) > 1


def _inodes(root: str, place: int, paths: Sequence[str]) -> Dict[str, Any]:
    inodes = {}
    for path in paths:
        stat = os.stat(os.path.join(root, path))
        inodes[path] = (place, stat.st_dev, stat.st_ino)
    return inodes


def _digests(root: str, paths: Sequence[str]) -> Dict[str, Any]:
    return {path: _digest(os.path.join(root, path)) for path in paths}


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _raise_conflicts(
    by_rank: Sequence[Mapping[str, int]], contents: Sequence[Contents], paths: Sequence[str]
) -> None:
    conflicts = [
        f"{path} (ranks {', '.join(str(r) for r, files in enumerate(by_rank) if path in files)})"
        for path in paths
        if _differs(contents, path)
    ]
    if conflicts:
        raise CheckpointConflict(
            f"ranks saved different files of one name: {'; '.join(conflicts[:SHOWN_CONFLICTS])}"
            f"{'; …' if len(conflicts) > SHOWN_CONFLICTS else ''}. "
            "Give each file to one rank, or leave the others out with a selector"
        )


def merge_metadata(by_rank: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """Merge the metadata of ranks recursively by key. Ranks may give equal values for the same key."""
    merged: Dict[str, Any] = {}
    conflicts: List[Tuple[str, int]] = []
    for rank, metadata in enumerate(by_rank):
        _merge_into(merged, metadata, "", rank, conflicts)
    if conflicts:
        named = "; ".join(f"{key} (rank {rank})" for key, rank in conflicts[:SHOWN_CONFLICTS])
        raise CheckpointConflict(
            f"ranks gave different values for the same metadata: {named}. "
            "Use one key per rank, or let one rank give it"
        )
    return merged


def _merge_into(
    merged: Dict[str, Any],
    metadata: Mapping[str, Any],
    prefix: str,
    rank: int,
    conflicts: List[Tuple[str, int]],
) -> None:
    for key, value in metadata.items():
        if key not in merged:
            merged[key] = _copy(value)
        elif isinstance(merged[key], dict) and isinstance(value, Mapping):
            _merge_into(merged[key], value, f"{prefix}{key}.", rank, conflicts)
        elif merged[key] != value:
            conflicts.append((prefix + key, rank))


def _copy(value: Any) -> Any:
    """Copy nested dictionaries, so that merging does not change the caller's dictionaries."""
    if isinstance(value, Mapping):
        return {k: _copy(v) for k, v in value.items()}
    return value


def on_every_rank(distributed: DistributedContext, work: Callable[[], Any]) -> List[Any]:
    """Call `work` on every rank and return all results. If one call fails, every rank raises."""
    error: Optional[BaseException] = None
    result: Any = None
    try:
        result = work()
    except Exception as e:
        error = e
    outcomes = distributed.allgather((result, repr(error) if error else None))
    if error is not None:
        raise error
    failed = [f"rank {r}: {o[1]}" for r, o in enumerate(outcomes) if o[1] is not None]
    if failed:
        raise RuntimeError(f"the checkpoint failed on another worker: {'; '.join(failed)}")
    return [o[0] for o in outcomes]


def on_local_chief(distributed: DistributedContext, work: Callable[[], Any]) -> Any:
    """Call `work` once for each container. Every worker of the container returns its result, or raises."""
    if distributed.local_rank != 0:
        result, error = distributed.broadcast_local(None)
        if error is not None:
            raise RuntimeError(f"the download failed on this container's local chief: {error}")
        return result
    try:
        result = work()
    except Exception as e:
        distributed.broadcast_local((None, repr(e)))
        raise
    distributed.broadcast_local((result, None))
    return result
