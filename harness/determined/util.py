"""Utility functions for users' model code."""

import os
import time
from typing import Any, Dict, Mapping, Tuple

from determined.common.connections import JITTER
from determined.errors import InvalidHP

_TRY_AGAIN = frozenset({429, 500, 502, 503, 504})


def calculate_batch_sizes(
    hparams: Mapping[str, Any], slots_per_trial: int, trialname: str
) -> Tuple[int, int]:
    """Return the batch sizes of one slot and of all slots. `global_batch_size` is rounded down to divide evenly."""
    if "global_batch_size" not in hparams:
        raise InvalidHP(f"{trialname} needs the hyperparameter global_batch_size")
    global_size = int(hparams["global_batch_size"])
    slots = max(slots_per_trial, 1)
    per_slot = global_size // slots
    if per_slot < 1:
        raise InvalidHP(
            f"global_batch_size {global_size} is less than one record for each of {slots} slots"
        )
    return per_slot, per_slot * slots


def merge_dicts(base_dict: Mapping[Any, Any], source_dict: Mapping[Any, Any]) -> Dict[Any, Any]:
    """Return a merged dictionary. Nested dictionaries are merged; otherwise values of `source_dict` win."""
    merged = dict(base_dict)
    for key, value in source_dict.items():
        existing = merged.get(key)
        mergeable = isinstance(existing, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_dicts(existing, value) if mergeable else value  # type: ignore[arg-type]
    return merged


def is_overridden(full_method: Any, parent_class: Any) -> bool:
    """Return whether a bound method differs from the method of that name in `parent_class`."""
    inherited = getattr(parent_class, full_method.__name__, None)
    return getattr(full_method, "__func__", full_method) is not inherited


def force_create_symlink(src: str, dst: str) -> None:
    """Create a link from `dst` to `src`. An existing file or link at `dst` is replaced."""
    partial = f"{dst}.{os.getpid()}.partial"
    os.symlink(src, partial)
    os.replace(partial, dst)


def download_gcs_blob_with_backoff(blob: Any, n_retries: int = 32, max_backoff: int = 32) -> Any:
    """Return the blob's bytes. Retry with increasing pauses when Google Cloud Storage limits requests."""
    for attempt in range(n_retries):
        try:
            return blob.download_as_bytes()
        except Exception as e:
            if getattr(e, "code", None) not in _TRY_AGAIN or attempt + 1 == n_retries:
                raise
        time.sleep(min(2**attempt, max_backoff) * JITTER.uniform(0.5, 1.0))
    raise ValueError(f"n_retries must be at least 1, not {n_retries}")
