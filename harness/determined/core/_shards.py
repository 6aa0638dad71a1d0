"""Merge what the ranks of a sharded checkpoint saved, or say where they contradict each other."""

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from determined.errors import CheckpointConflict

SHOWN_CONFLICTS = 10


def merge_resources(by_rank: Sequence[Mapping[str, int]]) -> Dict[str, int]:
    """Directories may repeat; a file belongs to one rank."""
    merged: Dict[str, int] = {}
    owners: Dict[str, List[int]] = {}
    for rank, files in enumerate(by_rank):
        for path, size in files.items():
            merged[path] = size
            owners.setdefault(path, []).append(rank)
    conflicts = [
        f"{path} (ranks {', '.join(map(str, ranks))})"
        for path, ranks in sorted(owners.items())
        if len(ranks) > 1 and not path.endswith("/")
    ]
    if conflicts:
        raise CheckpointConflict(
            f"files saved by several ranks: {'; '.join(conflicts[:SHOWN_CONFLICTS])}"
            f"{'; …' if len(conflicts) > SHOWN_CONFLICTS else ''}. "
            "Give each file to one rank, or leave the others out with a selector"
        )
    return dict(sorted(merged.items()))


def merge_metadata(by_rank: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """Dictionaries merge by key, at every depth; equal values may repeat."""
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
    """Copy a nested dictionary, so that merging does not change the caller's."""
    if isinstance(value, Mapping):
        return {k: _copy(v) for k, v in value.items()}
    return value
