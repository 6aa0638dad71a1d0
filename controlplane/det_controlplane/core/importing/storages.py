"""Convert the storages of checkpoints, which Determined keeps in one table for each kind."""

from collections.abc import Mapping
from typing import Any

KINDS = ("shared_fs", "s3", "gcs", "azure", "directory")


def storage_config(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `checkpoint_storage` section of a row of storage_backend_<kind>."""
    values = {name: value for name, value in row.items() if name != "id" and value is not None}
    return {"type": kind, **values}
