"""Containers of fake agents: pulled, started, running a program, ended."""

from collections.abc import Callable
from typing import Any

from tests.world.gateway import FakeGateway
from tests.world.programs import Program, program_of
from tests.world.script import Play
from tests.world.stage import ContainerHost

_KILLED = 137


class FakeContainer:
    def __init__(self, agent: ContainerHost, order: dict[str, Any]) -> None:
        self.id: str = order["id"]
        self.epoch: int = order["epoch"]
        self.allocation_id: str = order["allocation_id"]
        self.spec: dict[str, Any] = order.get("spec") or {"slot_ids": [], "env": {}}
        self.preempted: bool = order["preempt"]
        self.state = "assigned"
        self.exit_code: int | None = None
        self.failure: str | None = None
        self.agent = agent
        self.rng = agent.world.stream(f"container {self.id}")
        self._gone = False
        self.killed = False
        self._play: Play | None = None
        self._gateway = FakeGateway(self)

    @classmethod
    def aborted(cls, agent: ContainerHost, order: dict[str, Any]) -> "FakeContainer":
        """Return a container that was ordered dead before it was ever begun."""
        container = cls(agent, order)
        container.state, container.failure = "terminated", "aborted"
        return container

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = {"id": self.id, "epoch": self.epoch, "state": self.state}
        if self.state in ("starting", "running"):
            report["address"] = "10.0.0.1"
        if self.exit_code is not None:
            report["exit_code"] = self.exit_code
        if self.failure is not None:
            report["failure"] = self.failure
        return report

    def begin(self) -> None:
        self.later(self.rng.uniform(0, 0.3), self._pull)

    def vanish(self) -> None:
        """End the container without a report of its end."""
        self._gone = True
        if self._play is not None:
            self._play.stop()

    def kill(self) -> None:
        if not self.killed and self.state != "terminated":
            self.killed = True
            if self._play is not None:
                self._play.stop()
            self.later(self.rng.uniform(0.05, 3), lambda: self._end(_KILLED, "aborted"))

    def lose_peer(self) -> None:
        """Fail because a peer disappeared. That is no failure of the user's code."""
        if not self.killed and self.state == "running":
            if self._play is not None:
                self._play.stop()
            self.later(self.rng.uniform(0.05, 2), lambda: self._end(1, "container_failed"))

    def _pull(self) -> None:
        self._become("pulling")
        self.later(self.rng.uniform(0.1, 6), self._pulled)

    def _pulled(self) -> None:
        trouble = self.rng.random() < self.agent.world.rates.program_trouble / 2
        if trouble and not self.killed:
            failure = self.rng.choice(("image_pull", "agent_error"))
            if failure == "image_pull":
                self._count_pull_failure()
            self._end(None, failure)
            return
        self._become("starting")
        self.later(self.rng.uniform(0.1, 1), self._run)

    def _run(self) -> None:
        self._become("running")
        if self.killed:
            return
        self.program: Program = program_of(self)
        timeline = self.agent.world.timeline
        self._play = Play(timeline, self._gateway.forward, self.program.script(), self._exited)
        self._play.start()

    def _exited(self, code: int | None) -> None:
        code = code or 0
        self._end(code, "container_failed" if code else None)

    def _end(self, code: int | None, failure: str | None) -> None:
        """Report the end once the reports before it are answered."""
        self._gateway.when_delivered(lambda: self._report_end(code, failure))

    def _report_end(self, code: int | None, failure: str | None) -> None:
        if self.state == "terminated":
            return
        self.exit_code, self.failure = code, failure
        if code is not None and not self.killed and self.agent.says_what_it_has:
            self.agent.world.ledger.ended.add(self.id)
        self._become("terminated")

    def _become(self, state: str) -> None:
        self.state = state
        if state == "terminated" or self.rng.random() < 0.6:
            self.agent.poll_soon()

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Act after a delay, unless the container has ended by then."""

        def due() -> None:
            if not self._gone and self.state != "terminated":
                act()

        self.agent.world.timeline.after(delay_s, due)

    def _count_pull_failure(self) -> None:
        trial = self.spec["env"].get("DET_TRIAL_ID")
        if trial is not None:
            counts = self.agent.world.ledger.pull_failures
            counts[int(trial)] = counts.get(int(trial), 0) + 1
