"""Files that test runs share, and locks between their creators."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    base = os.environ.get("DET_TEST_CACHE") or os.path.expanduser(
        "~/.cache/determined-serverless-tests"
    )
    path = Path(base)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Let one process at a time in: test runs beside each other must not start two engines or build one image twice."""
    with open(cache_folder() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
