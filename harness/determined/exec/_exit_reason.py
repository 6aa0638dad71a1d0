"""Store the reason why a task ends. The agent reads it after the container has failed."""

import contextlib
import os

from determined import _paths

FILE = "exit-reason"
_MOST_CHARACTERS = 1000


def record(reason: str) -> None:
    """Write the reason to a file of the task. A later reason replaces it."""
    path = os.path.join(_paths.run_dir(), FILE)
    # A task without a writable run directory still has its log.
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as f:
        f.write(reason[:_MOST_CHARACTERS])


def image_name() -> str:
    """Return the name of the task's image for messages."""
    image = os.environ.get("DET_IMAGE")
    return f"image {image}" if image else "this task's image"
