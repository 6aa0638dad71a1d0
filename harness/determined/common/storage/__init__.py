"""Checkpoint storage: `from_config` reads a configuration section, `from_string` reads a path or URL."""

import importlib
import os
from typing import Any, Mapping, Optional

from determined._paths import on_host
from determined.common.storage._base import (
    Checksums,
    Selector,
    StorageManager,
    check_storage_id,
    list_directory,
    select,
)
from determined.common.storage._directory import DirectoryStorageManager, join_within
from determined.common.storage.shared import SharedFSStorageManager

__all__ = [
    "Checksums",
    "DirectoryStorageManager",
    "Selector",
    "SharedFSStorageManager",
    "StorageManager",
    "build",
    "check_storage_id",
    "from_config",
    "from_string",
    "list_directory",
    "select",
]

SHARED_FS_CONTAINER_PATH = "/determined_shared_fs"


# Classes that need a cloud's library, and their modules.
_CLOUD_MODULES = {
    "S3StorageManager": "_s3",
    "GCSStorageManager": "_gcs",
    "AzureStorageManager": "_azure",
}


def __getattr__(name: str) -> Any:
    if name in _CLOUD_MODULES:
        module = importlib.import_module(f"determined.common.storage.{_CLOUD_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'determined.common.storage' has no attribute {name!r}")


def build(config: Mapping[str, Any], container_path: Optional[str]) -> StorageManager:
    """Make a storage from a configuration, like `from_config`. `container_path` replaces the path of a shared_fs."""
    if container_path is not None and config.get("type") == "shared_fs":
        config = {**config, "host_path": container_path}
    return from_config(config)


def from_config(config: Mapping[str, Any], *, in_task: bool = False) -> StorageManager:
    """Make the storage that the `checkpoint_storage` section describes.

    Tasks use the mount point of a shared_fs; other programs use its `host_path`.
    """
    manager = _make(config, in_task)
    manager.origin = (from_config, dict(config))
    return manager


def _make(config: Mapping[str, Any], in_task: bool) -> StorageManager:
    kind = config.get("type")
    if kind == "shared_fs":
        return DirectoryStorageManager(_shared_fs_path(config, in_task))
    if kind == "directory":
        return DirectoryStorageManager(on_host(str(config["container_path"])))
    if kind == "s3":
        from determined.common.storage._s3 import S3StorageManager

        return S3StorageManager.from_config(config)
    if kind == "gcs":
        from determined.common.storage._gcs import GCSStorageManager

        return GCSStorageManager(str(config["bucket"]), config.get("prefix"))
    if kind == "azure":
        from determined.common.storage._azure import AzureStorageManager

        return AzureStorageManager.from_config(config)
    raise ValueError(
        f"checkpoint_storage.type {kind!r} is not known: use s3, gcs, azure, shared_fs or directory"
    )


def from_string(shortcut: str) -> StorageManager:
    """Make the storage of `s3://bucket/prefix`, `gs://bucket/prefix`, `ms://account/container` or a path."""
    scheme, _, rest = shortcut.partition("://")
    if not rest:
        return DirectoryStorageManager(os.path.abspath(os.path.expanduser(shortcut)))
    place, _, prefix = rest.partition("/")
    if scheme == "file":
        return DirectoryStorageManager("/" + rest.lstrip("/"))
    if scheme == "s3":
        return from_config({"type": "s3", "bucket": place, "prefix": prefix or None})
    if scheme == "gs":
        return from_config({"type": "gcs", "bucket": place, "prefix": prefix or None})
    if scheme == "ms":
        account = place if "." in place else f"{place}.blob.core.windows.net"
        config = {"type": "azure", "account_url": f"https://{account}", "container": prefix}
        return from_config(config)
    raise ValueError(f"storage {shortcut!r}: use a path, s3://, gs:// or ms://")


def _shared_fs_path(config: Mapping[str, Any], in_task: bool) -> str:
    host_path = str(config["host_path"])
    base = on_host(SHARED_FS_CONTAINER_PATH) if in_task else host_path
    return join_within(base, host_path, config.get("storage_path"))
