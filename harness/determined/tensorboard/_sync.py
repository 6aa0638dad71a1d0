"""Upload TensorBoard files while the trial runs, so that users can watch it."""

import logging
import os
import pathlib
import tempfile
import threading
from typing import Callable, Dict, Optional, Tuple

from determined.common.storage import StorageManager

logger = logging.getLogger("determined.tensorboard")

UPLOAD_PERIOD_S = 1.0
PathSelector = Callable[[pathlib.Path], bool]
PathMangler = Callable[[pathlib.Path, int], pathlib.Path]


def keep_name(path: pathlib.Path, rank: int) -> pathlib.Path:
    return path


def name_with_rank(path: pathlib.Path, rank: int) -> pathlib.Path:
    """Add the rank to the name of traces, because ranks may use equal names. Event files already have unique names."""
    if rank == 0 or "tfevents" in path.name:
        return path
    return path.with_name(f"{path.stem}#{rank}{path.suffix}")


class TensorboardSync:
    """Uploads new files of a directory. The thread starts when the directory is first requested."""

    def __init__(
        self,
        storage: StorageManager,
        base: pathlib.Path,
        storage_path: str,
        rank: int,
        *,
        automatic: bool,
    ) -> None:
        self._storage = storage
        self._base = base
        self._storage_path = storage_path
        self._rank = rank
        self._automatic = automatic
        self._uploaded: Dict[str, Tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def path(self) -> pathlib.Path:
        self._base.mkdir(parents=True, exist_ok=True)
        if self._automatic and self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="determined-tensorboard", daemon=True
            )
            self._thread.start()
        return self._base

    def upload(
        self,
        selector: PathSelector = lambda _: True,
        mangler: PathMangler = keep_name,
    ) -> None:
        """Upload the files that changed since the last upload."""
        with self._lock:
            changed = self._changed(selector)
            if changed:
                self._send(changed, mangler)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._try_to_upload()

    def _run(self) -> None:
        while not self._stop.wait(UPLOAD_PERIOD_S):
            self._try_to_upload()

    def _try_to_upload(self) -> None:
        try:
            self.upload(mangler=name_with_rank)
        except (
            Exception
        ) as e:  # an error of the storage: the next round retries, and training continues
            logger.warning("cannot upload TensorBoard files: %s", e)

    def _changed(self, selector: PathSelector) -> Dict[str, Tuple[int, int]]:
        changed = {}
        for folder, _, names in os.walk(self._base):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    stat = os.stat(path)
                except FileNotFoundError:  # removed after the directory was listed
                    continue
                state = (stat.st_mtime_ns, stat.st_size)
                if self._uploaded.get(path) != state and selector(pathlib.Path(path)):
                    changed[path] = state
        return changed

    def _send(self, changed: Dict[str, Tuple[int, int]], mangler: PathMangler) -> None:
        """Link the files with their uploaded names into one directory, and upload that."""
        with tempfile.TemporaryDirectory(prefix="determined-tensorboard-") as scratch:
            for path in changed:
                relative = pathlib.Path(os.path.relpath(path, self._base))
                target = pathlib.Path(scratch) / mangler(relative, self._rank)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.symlink(os.path.abspath(path), target)
            self._storage.upload(scratch, self._storage_path)
        self._uploaded.update(changed)
