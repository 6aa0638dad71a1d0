"""Small functions that model code of users imports from here."""

import os
import time
from typing import Any, Dict, Mapping, Tuple

from determined.common.connections import JITTER
from determined.errors import InvalidHP

_TRY_AGAIN = frozenset({429, 500, 502, 503, 504})


def calculate_batch_sizes(
    hparams: Mapping[str, Any], slots_per_trial: int, trialname: str
) -> Tuple[int, int]:
    """Return the batch size of a slot and of all slots: `global_batch_size`, rounded down until it divides."""
    if "global_batch_size" not in hparams:
        raise InvalidHP(f"{trialname} needs the hyperparameter global_batch_size")
    wanted = int(hparams["global_batch_size"])
    slots = max(slots_per_trial, 1)
    per_slot = wanted // slots
    if per_slot < 1:
        raise InvalidHP(
            f"global_batch_size {wanted} is less than one record for each of {slots} slots"
        )
    return per_slot, per_slot * slots


def merge_dicts(base_dict: Mapping[Any, Any], source_dict: Mapping[Any, Any]) -> Dict[Any, Any]:
    """Return a new dictionary: values that are dictionaries in both are merged, otherwise `source_dict` wins."""
    merged = dict(base_dict)
    for key, value in source_dict.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_dicts(below, value) if both else value  # type: ignore[arg-type]
    return merged


def is_overridden(full_method: Any, parent_class: Any) -> bool:
    """Return whether a bound method differs from the method of that name in `parent_class`."""
    inherited = getattr(parent_class, full_method.__name__, None)
    return getattr(full_method, "__func__", full_method) is not inherited


def force_create_symlink(src: str, dst: str) -> None:
    """Make `dst` a link to `src`, also where a file or another link is."""
    partial = f"{dst}.{os.getpid()}.partial"
    os.symlink(src, partial)
    os.replace(partial, dst)


def download_gcs_blob_with_backoff(blob: Any, n_retries: int = 32, max_backoff: int = 32) -> Any:
    """Return the blob's bytes, and wait where Google Cloud Storage asks its many readers to come back later."""
    for attempt in range(n_retries):
        try:
            return blob.download_as_bytes()
        except Exception as e:
            if getattr(e, "code", None) not in _TRY_AGAIN or attempt + 1 == n_retries:
                raise
        time.sleep(min(2**attempt, max_backoff) * JITTER.uniform(0.5, 1.0))
    raise ValueError(f"n_retries must be at least 1, not {n_retries}")
