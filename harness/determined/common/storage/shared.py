"""SharedFSStorageManager, a public class for programs that store checkpoints in a directory."""

import contextlib
import pathlib
from typing import Any, Iterator, Mapping, Optional

from determined.common.storage._base import Selector
from determined.common.storage._directory import DirectoryStorageManager, join_within


class SharedFSStorageManager(DirectoryStorageManager):
    """Checkpoints in a directory that all containers share. Paths are `pathlib` paths."""

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], container_path: Optional[str]
    ) -> "SharedFSStorageManager":
        """Make the manager of a `checkpoint_storage`. Containers mount its `host_path` at `container_path`."""
        host_path = str(config["host_path"])
        return cls(join_within(container_path or host_path, host_path, config.get("storage_path")))

    @contextlib.contextmanager
    def store_path(self, dst: str) -> Iterator[Any]:
        with super().store_path(dst) as path:
            yield pathlib.Path(path)

    @contextlib.contextmanager
    def restore_path(self, src: str, selector: Optional[Selector] = None) -> Iterator[Any]:
        with super().restore_path(src, selector) as path:
            yield pathlib.Path(path)

    def store_path_is_direct_access(self) -> bool:
        return True
