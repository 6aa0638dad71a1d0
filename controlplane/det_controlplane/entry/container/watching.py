"""Watch beside the work of a process whether it should end."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watching(watch: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Run `watch` in a thread, which returns soon after the event that it is given is set."""
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def end_process() -> None:
    """End this process as its host would, by SIGTERM."""
    os.kill(os.getpid(), signal.SIGTERM)
