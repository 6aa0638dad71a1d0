"""Fake agents catch up after a stall. Otherwise worlds would only seem calm."""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.world.agents import FakeAgent
from tests.world.script import Call, Reply
from tests.world.timeline import Timeline


class Refusing:
    """Refuse the first requests to join, and accept later ones."""

    def __init__(self, timeline: Timeline, refusals: int) -> None:
        self.timeline, self.refusals = timeline, refusals
        self.paths: list[str] = []

    def send(self, call: Call, answer: Callable[[Reply], None], judge: Any = None) -> None:
        self.paths.append(call.path)
        self.refusals -= 1
        if self.refusals >= 0:
            reply = Reply(503)
        elif call.path.endswith("/join"):
            reply = Reply(200, {"agent_token": "agent-1"})
        else:
            reply = Reply(200, {"forget": [], "containers": [], "version": "1", "next_poll_s": 20})
        self.timeline.after(0.1, lambda: answer(reply))


class Ground:
    """As much of a world as one agent needs."""

    calm = False

    def __init__(self, refusals: int) -> None:
        self.timeline = Timeline()
        self.network = Refusing(self.timeline, refusals)
        self.ledger: Any = type("Ledger", (), {"reported": set(), "forgotten": set()})()

    def stream(self, name: str) -> Random:
        return Random(1)

    def pass_s(self, seconds: float) -> None:
        until = self.timeline.seconds + seconds
        while self.timeline.seconds < until:
            self.timeline.next()()


def test_stalled_agent_joins_later() -> None:
    ground = Ground(refusals=1)
    agent = FakeAgent(ground, "agent-1", 2)  # type: ignore[arg-type]
    agent._start()
    ground.timeline.next()()  # the refusal: another request to join is planned
    agent._stall()
    ground.timeline.after(200, lambda: None)
    ground.pass_s(150)
    assert ground.network.paths[:3] == ["/agents/v1/join", "/agents/v1/join", "/agents/v1/poll"]
