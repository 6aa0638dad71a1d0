"""A storage that tests hold in the middle of a write, and a record of the reports about checkpoints."""

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from determined.common.storage import DirectoryStorageManager
from determined.core._checkpoint_registry import CheckpointRegistry

# Reached only if the tested code waits where it must not wait.
TOO_LONG_S = 60


class HeldStorage(DirectoryStorageManager):
    """A directory. While the file `hold` exists beside it, writes stop in their middle. `fail` lets them fail."""

    def hold(self) -> None:
        self._flag("hold").parent.mkdir(parents=True, exist_ok=True)
        self._flag("hold").touch()

    def release(self) -> None:
        self._flag("hold").unlink(missing_ok=True)

    def fail(self) -> None:
        self._flag("fail").parent.mkdir(parents=True, exist_ok=True)
        self._flag("fail").touch()

    def recover(self) -> None:
        self._flag("fail").unlink(missing_ok=True)

    def wait_until_held(self) -> int:
        """Return the id of the process that waits in the middle of a write."""
        path = self._flag("held")
        deadline = time.monotonic() + TOO_LONG_S
        while not path.exists():
            assert time.monotonic() < deadline, "no write began"
            time.sleep(0.01)
        pid = int(path.read_text())
        path.unlink()
        return pid

    @contextlib.contextmanager
    def open_write(self, dst: str, path: str, expected_bytes: int = 0) -> Iterator[Any]:
        with super().open_write(dst, path, expected_bytes) as file:
            yield file
            if self._flag("hold").exists():
                scratch = self._flag("held.partial")
                scratch.write_text(str(os.getpid()))
                scratch.rename(self._flag("held"))
            while self._flag("hold").exists():
                time.sleep(0.01)
            if self._flag("fail").exists():
                raise PermissionError("the bucket may not be written")

    def _flag(self, name: str) -> pathlib.Path:
        return pathlib.Path(f"{self._base}.flags") / name


class RecordingRegistry(CheckpointRegistry):
    """Reports by checkpoint id: `active`, then `completed`, or `removed`."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.resources: dict[str, Mapping[str, int]] = {}

    def register(self, storage_id: str, metadata: Mapping[str, Any]) -> None:
        self.states[storage_id] = "active"

    def report_completed(
        self, storage_id: str, resources: Mapping[str, int], metadata: Mapping[str, Any]
    ) -> None:
        self.states[storage_id] = "completed"
        self.resources[storage_id] = resources

    def unregister(self, storage_id: str) -> None:
        self.states[storage_id] = "removed"
