"""Batch requests: one thread answers all similar requests that came while the previous batch was answered.

With a thread for each request, threads would be woken several times only to wait for each other.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.api.app import App
from det_controlplane.api.http import Request
from det_controlplane.api.router import Route
from det_controlplane.entry.server.answers import WireAnswer, wire_answer

log = logging.getLogger("det.api")

_MOST = 32
_PATIENCE_S = 0.1  # with a batch that hangs; later requests do not wait for it

InThread = Callable[..., Awaitable[Any]]


@dataclass(slots=True, eq=False)
class _Waiting:
    request: Request
    answer: "asyncio.Future[WireAnswer | None]"


@dataclass(slots=True)
class _Queue:
    waiting: list[_Waiting] = field(default_factory=list)
    batches: list[Sequence[_Waiting]] = field(
        default_factory=list
    )  # requests with a client that waits

    @property
    def is_ready(self) -> bool:
        """Return whether to begin: a second batch while the first waits for the disk, if it has as many requests."""
        if not self.batches:
            return bool(self.waiting)
        return len(self.batches) == 1 and len(self.waiting) >= len(self.batches[0])


class RequestBatches:
    """Gathers requests by their route. Lives on one event loop."""

    def __init__(self, app: App, in_thread: InThread) -> None:
        self._app, self._in_thread = app, in_thread
        self._queues: defaultdict[Route, _Queue] = defaultdict(_Queue)
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, route: Route, request: Request) -> WireAnswer | None:
        """Return the answer; None: the request must be handled alone."""
        own = _Waiting(request, asyncio.get_running_loop().create_future())
        queue = self._queues[route]
        queue.waiting.append(own)
        self._begin(route, queue)
        return await own.answer

    def _begin(self, route: Route, queue: _Queue) -> None:
        while queue.is_ready:
            batch = queue.waiting[:_MOST]
            del queue.waiting[:_MOST]
            queue.batches.append(batch)
            task = asyncio.create_task(self._answer_batch(route, queue, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer_batch(self, route: Route, queue: _Queue, batch: Sequence[_Waiting]) -> None:
        answers: Sequence[WireAnswer | None] = [None] * len(batch)
        requests = [each.request for each in batch]
        try:
            work = asyncio.ensure_future(self._in_thread(self._answers, route, requests))
            await asyncio.wait({work}, timeout=_PATIENCE_S)
            self._end(route, queue, batch)
            answers = await work
        finally:
            for each, answer in zip(batch, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)

    def _end(self, route: Route, queue: _Queue, batch: Sequence[_Waiting]) -> None:
        queue.batches.remove(batch)
        self._begin(route, queue)

    def _answers(self, route: Route, requests: Sequence[Request]) -> list[WireAnswer | None]:
        """Answer a batch in a worker thread, as the log that it may write to is kept in the database."""
        try:
            answers = self._app.handle_together(route, requests)
            return [
                None if answer is None else wire_answer(request, answer)
                for request, answer in zip(requests, answers, strict=True)
            ]
        except Exception:  # each request gets its own error
            log.exception("%d requests that were answered together failed", len(requests))
            return [None] * len(requests)
