"""A disk that is full: files of this process grow no further, and what is written over their end is cut short."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(file_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size, as a disk does that has no room for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal of it, so writes fail by OSError, after those of which a part fits.
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
