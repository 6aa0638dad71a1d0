"""Actors are written as scripts: generators that sleep and call, carried along by the timeline."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.world.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def unavailable(self) -> bool:
        """Return whether a gateway tries the answer again by itself."""
        return self.status in (0, 502, 503, 504)


# Nothing came back in time: the request or its answer was lost, or the process died.
SILENCE = Reply(0)


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    token: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


Script = Generator[Sleep | Call, Reply, int | None]
Send = Callable[[Call, Callable[[Reply], None]], None]


class Play:
    """Runs one script until it returns, or until it is stopped from outside."""

    def __init__(
        self, timeline: Timeline, send: Send, script: Script, on_end: Callable[[int | None], None]
    ) -> None:
        self._timeline = timeline
        self._send = send
        self._script = script
        self._ended = on_end
        self.over = False

    def start(self) -> None:
        self._timeline.after(0.0, lambda: self._go_on(None))

    def stop(self) -> None:
        """Stop silently between two lines."""
        if not self.over:
            self.over = True
            self._script.close()

    def _go_on(self, reply: Reply | None) -> None:
        if self.over:
            return
        try:
            action = next(self._script) if reply is None else self._script.send(reply)
        except StopIteration as end:
            self.over = True
            self._ended(end.value)
            return
        if isinstance(action, Sleep):
            self._timeline.after(action.seconds, lambda: self._go_on(SILENCE))
        else:
            self._send(action, self._go_on)
