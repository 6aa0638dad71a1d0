"""Batch requests: one thread answers all similar requests that came while the previous batch was answered.

With a thread for each request, threads would be woken several times only to wait for each other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from det_controlplane.api.app import App
from det_controlplane.api.http import Request
from det_controlplane.api.router import Route
from det_controlplane.entry.server.answers import WireAnswer, wire_answer
from det_controlplane.services.batching import Batcher, Ticket

log = logging.getLogger("det.api")

InThread = Callable[..., Awaitable[Any]]
_Waiting = Ticket[Request, WireAnswer | None]


class RequestBatches:
    """Gathers requests by their route. Lives on one event loop."""

    def __init__(self, app: App, in_thread: InThread) -> None:
        self._app, self._in_thread = app, in_thread
        # A second batch is answered while the first waits for the disk.
        self._batcher: Batcher[Request, WireAnswer | None] = Batcher(at_once=2)
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, route: Route, request: Request) -> WireAnswer | None:
        """Return the answer; None: the request must be handled alone."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        own = _Waiting(request)

        def called() -> None:
            if not own.answered:
                # A task of its own, because others wait for the batch if this client leaves.
                task = asyncio.create_task(self._lead(route, own, called))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif not done.done():
                done.set_result(None)

        own.wake = partial(loop.call_soon_threadsafe, called)
        if self._batcher.join(route, own):
            called()
        await done
        return own.result

    def waiting(self, route: Route) -> int:
        """Return the number of requests without an answer."""
        return self._batcher.waiting(route)

    def is_starting(self, route: Route) -> bool:
        """Return whether a batch is about to begin."""
        return self._batcher.is_starting(route)

    async def _lead(self, route: Route, own: _Waiting, called: Callable[[], None]) -> None:
        try:
            await self._in_thread(
                self._batcher.lead, route, own, partial(self._answer_batch, route)
            )
        finally:
            own.answered = True
            called()

    def _answer_batch(self, route: Route, tickets: Sequence[_Waiting]) -> None:
        """Answer a batch in a worker thread, as the log that it may write to is kept in the database."""
        requests = [ticket.item for ticket in tickets]
        answers: list[WireAnswer | None] = [None] * len(tickets)
        try:
            together = self._app.handle_together(route, requests)
            answers = [
                None if answer is None else wire_answer(request, answer)
                for request, answer in zip(requests, together, strict=True)
            ]
        except Exception:  # each request gets its own error
            log.exception("%d requests that were answered together failed", len(requests))
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.answer(answer)
