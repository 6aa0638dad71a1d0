"""Run blocking calls while signal handlers stay responsive."""

import os
import signal
import threading
from typing import Callable, List, TypeVar

T = TypeVar("T")


def hearing_signals(work: Callable[[], T]) -> T:
    """Run a blocking call in a thread, so that the main thread can run signal handlers at once.

    A signal that arrives just before the main thread enters a blocking call does not interrupt that call. Its
    Python handler would run only after the call returned. Here the main thread reads from a pipe, and Python's
    C-level handler writes each signal to that pipe.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    results: List[T] = []
    errors: List[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as e:
            errors.append(e)
        finally:
            os.write(writer, b"\0")

    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(target=run, name="determined-wait", daemon=True)
    thread.start()
    try:
        while not results and not errors:
            os.read(reader, 64)
    finally:
        signal.set_wakeup_fd(previous)
    thread.join()
    os.close(reader)
    os.close(writer)
    if errors:
        raise errors[0]
    return results[0]
