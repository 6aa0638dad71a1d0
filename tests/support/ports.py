"""Ports that no other process on this machine gets until this process ends.

The system may give a closed port to another test or an outgoing connection. Each process of tests has its own block
below the system's range, held by a lock.
"""

import fcntl
import functools
import itertools
import os
import socket
import tempfile
from pathlib import Path

# Trials of local clusters have theirs below and above: see ports_of_others in tests/support/cluster.py.
_FIRST, _BLOCKS, _BLOCK = 14_000, 100, 100


@functools.cache
def block() -> int:
    """Return the number of this process's block."""
    folder = Path(tempfile.gettempdir()) / f"determined-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for number in range(_BLOCKS):
        # Never closed: that would let go of the block. Children do not inherit it.
        lock = os.open(folder / str(number), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number
        except BlockingIOError:
            os.close(lock)
    raise RuntimeError(f"{_BLOCKS} processes hold all blocks of ports: see {folder}")


@functools.cache
def _numbers() -> "itertools.cycle[int]":
    first = _FIRST + block() * _BLOCK
    return itertools.cycle(range(first, first + _BLOCK))


def free_port() -> int:
    """Return a free port that no other process of tests has."""
    for port in itertools.islice(_numbers(), _BLOCK):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError(f"all ports of block {block()} are taken")
