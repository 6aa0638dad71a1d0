"""TensorBoard files of a trial, and their upload to the storage."""

import os
import pathlib
import tempfile
from typing import Any, Mapping, Optional

from determined._info import task_info


def get_base_path(checkpoint_config: Optional[Mapping[str, Any]] = None) -> pathlib.Path:
    """Return the directory of `core_context.train.get_tensorboard_path()` for this worker.

    `checkpoint_config` has no effect. Programs for Determined pass the storage or an empty dictionary."""
    info = task_info()
    name = (info.allocation_id or info.task_id) if info is not None else "off-cluster"
    rank = os.environ.get("RANK") or os.environ.get("HOROVOD_RANK") or "0"
    return pathlib.Path(tempfile.gettempdir()) / f"tensorboard-{name}-{rank}"
