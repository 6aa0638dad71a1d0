"""A full disk: files of this process cannot grow, and writes beyond their end are cut short."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(file_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size, as a disk does that has no room for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal, so writes raise OSError after a partial write.
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
