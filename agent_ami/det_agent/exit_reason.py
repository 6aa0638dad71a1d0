"""The sentence that a failed task left about its end, and the one for an image without Python."""

import io
import os
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

from det_agent.environment import RUN_DIR

FILE = "exit-reason"
PATH = f"{RUN_DIR}/{FILE}"
NOT_FOUND = 127  # the exit status of a container's first process for a command that is not there
_MOST_BYTES = 4096
_MOST_CHARACTERS = 1000
_MOST_ARCHIVE_BYTES = 1024 * 1024


def of_file(path: Path) -> str:
    """Return the sentence in the task's file, or '' if the file does not exist."""
    try:
        # The task may have replaced the file by a link or a pipe, and the agent can read files that the task cannot.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        is_file = stat.S_ISREG(os.fstat(file).st_mode)
        return _sentence(os.read(file, _MOST_BYTES)) if is_file else ""
    finally:
        os.close(file)


def of_archive(parts: Iterable[bytes]) -> str:
    """Return the sentence in a Docker engine's archive of the file, or '' if the entry is not a regular file."""
    packed = io.BytesIO()
    for part in parts:
        packed.write(part)
        if packed.tell() > _MOST_ARCHIVE_BYTES:
            return ""
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        entry = tar.next()
        file = tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return _sentence(file.read(_MOST_BYTES)) if file is not None else ""


def no_python(image: str) -> str:
    return (
        f"image {image} has no python3, which starts every task: choose an image with Python 3.9 or newer"
        " (environment.image), or install it in yours (apt-get install python3)"
    )


def _sentence(content: bytes) -> str:
    text = content.decode("utf-8", "replace")[:_MOST_CHARACTERS]
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
