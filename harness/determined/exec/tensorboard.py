"""`python3 -m determined.exec.tensorboard`: TensorBoard over the event files of trials.

The sources are one JSON object in a file: {"sources": [{"name": "exp-1", "path": "…", "storage": {…}}], "args": []}
"""

import json
import os
import sys
import tempfile
import threading
import time
from typing import Any, Dict, List, Mapping, Sequence

from determined._paths import on_host
from determined.common import storage
from determined.common.failures import Failure
from determined.exec import _install, _serve

SPEC = "/run/determined/tensorboard.json"
FIRST_METRICS_S = 600.0
_TRACES = (".pt.trace.json", ".pt.trace.json.gz", ".xplane.pb")
_LOOK_S, _COPY_S = 1.0, 15.0


def main() -> int:
    python = _install.interpreter(_install.TENSORBOARD)
    with open(on_host(SPEC)) as f:
        spec = json.load(f)
    port, task = int(os.environ["TENSORBOARD_PORT"]), os.environ["DET_TASK_ID"]
    folder = tempfile.mkdtemp(prefix="determined-tensorboard-")
    sources = [Source(source, folder) for source in spec["sources"]]
    wait_for_metrics(sources)
    _serve.wait_for_port(port)
    if not all(source.is_direct for source in sources):
        threading.Thread(
            target=_copy_continuously, args=(sources,), name="copy", daemon=True
        ).start()
    return _serve.Service(command(python, folder, port, task, spec.get("args") or []), port).wait()


def command(python: str, folder: str, port: int, task: str, args: Sequence[str]) -> List[str]:
    options = [
        f"--logdir={folder}",
        f"--host={_serve.host()}",
        f"--port={port}",
        f"--path_prefix=/proxy/{task}",
    ]
    return [python, "-m", "tensorboard.main", *options, *args]


class Source:
    """The event files of an experiment or trial: a link if the storage is mounted here, otherwise copies."""

    def __init__(self, source: Mapping[str, Any], folder: str) -> None:
        self._manager = storage.from_config(source["storage"])
        self._path = str(source["path"])
        self._here = os.path.join(folder, str(source["name"]))
        self._copied: Dict[str, int] = {}
        self._direct = self._manager.direct_path(self._path)
        os.makedirs(os.path.dirname(self._here), exist_ok=True)
        if self._direct is not None:
            os.symlink(self._direct, self._here)

    @property
    def is_direct(self) -> bool:
        return self._direct is not None

    def update(self) -> bool:
        """Copy new files. Return whether there is data to show."""
        try:
            files = self._manager.list(self._path)
        except FileNotFoundError:
            files = {}
        if self._direct is None:
            self._copy({p: size for p, size in files.items() if self._copied.get(p) != size})
        return any(_is_shown(path) for path in files)

    def _copy(self, changed: Mapping[str, int]) -> None:
        paths = {path for path in changed if not path.endswith("/")}
        if paths:
            self._manager.download(self._path, self._here, lambda path: path in paths)
            self._copied.update(changed)


def _is_shown(path: str) -> bool:
    """Return whether TensorBoard can show a file: events, or profiler traces of PyTorch and TensorFlow."""
    return "tfevents" in path or path.endswith(_TRACES)


def wait_for_metrics(sources: Sequence[Source], timeout_s: float = FIRST_METRICS_S) -> None:
    """Wait for the first event file. Meanwhile the cluster shows this task as waiting."""
    deadline = time.monotonic() + timeout_s
    is_reported = False
    while not _update_sources(sources):
        if not is_reported:
            _serve.say("There are no metrics to show yet; waiting for the first.")
            _serve.report_waiting()
            is_reported = True
        if time.monotonic() > deadline:
            raise Failure(
                f"no metrics appeared within {timeout_s:.0f} seconds",
                "open a TensorBoard again when a trial has reported some, in an image that has tensorboard",
            )
        time.sleep(_LOOK_S)


def _update_sources(sources: Sequence[Source]) -> bool:
    """Update every source. Return whether one of them has data to show."""
    has_data = [source.update() for source in sources]
    return any(has_data)


def _copy_continuously(sources: Sequence[Source]) -> None:
    while True:
        time.sleep(_COPY_S)
        for source in sources:
            try:
                source.update()
            except Exception as e:  # an error of the storage; the next round retries
                _serve.say(f"cannot read TensorBoard files: {e}")


if __name__ == "__main__":
    sys.exit(_serve.run(main))
