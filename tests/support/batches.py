"""Lets threads of a test come together at a `Batcher`."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from det_controlplane.services.batching import Batcher


def all_at_once(
    batcher: Batcher[Any, Any],
    about: int,
    lock: AbstractContextManager[object],
    actions: Sequence[Callable[[], object]],
) -> None:
    """Begin actions while the batcher's turn is held, each when the one before it waits or ended; then let go."""
    threads = [threading.Thread(target=action) for action in actions]
    with lock:
        for thread in threads:
            waiting = batcher.waiting(about)
            thread.start()
            while batcher.waiting(about) == waiting and thread.is_alive():
                pass
    for thread in threads:
        thread.join()


def batcher_at(turn: threading.Lock) -> Batcher[Any, Any]:
    """Return a batcher that holds the lock while it works."""

    @contextmanager
    def having(about: int) -> Iterator[None]:
        with turn:
            yield

    return Batcher(having)
