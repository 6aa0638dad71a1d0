"""Containers of fake agents: pulled, started, running a program, ended."""

import json
import re
from collections.abc import Callable
from typing import Any

from det_controlplane.testing.world.programs import Program, program_of
from det_controlplane.testing.world.script import Call, Play, Reply
from det_controlplane.testing.world.stage import ContainerHost
from det_controlplane.testing.world.violation import Violation

_KILLED = 137
_METRICS = re.compile(r"/api/v1/trials/([0-9]+)/metrics")
_TEMPTED_STATUS = (401, 403, 404)


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
        self._killed = False
        self._play: Play | None = None

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
        self._later(self.rng.uniform(0, 0.3), self._pull)

    def vanish(self) -> None:
        """End the container without a report of its end."""
        self._gone = True
        if self._play is not None:
            self._play.stop()

    def kill(self) -> None:
        if not self._killed and self.state != "terminated":
            self._killed = True
            if self._play is not None:
                self._play.stop()
            self._later(self.rng.uniform(0.05, 3), lambda: self._end(_KILLED, "container_failed"))

    def _pull(self) -> None:
        self._become("pulling")
        self._later(self.rng.uniform(0.1, 6), self._pulled)

    def _pulled(self) -> None:
        trouble = self.rng.random() < self.agent.world.rates.program_trouble / 2
        if trouble and not self._killed:
            failure = self.rng.choice(("image_pull", "agent_error"))
            if failure == "image_pull":
                self._count_pull_failure()
            self._end(None, failure)
            return
        self._become("starting")
        self._later(self.rng.uniform(0.1, 1), self._run)

    def _run(self) -> None:
        self._become("running")
        if self._killed:
            return
        self.program: Program = program_of(self)
        timeline = self.agent.world.timeline
        self._play = Play(timeline, self.forward, self.program.script(), self._exited)
        self._play.start()

    def _exited(self, code: int | None) -> None:
        code = code or 0
        self._end(code, "container_failed" if code else None)

    def _end(self, code: int | None, failure: str | None) -> None:
        if self.state == "terminated":
            return
        self.exit_code, self.failure = code, failure
        self._become("terminated")

    def _become(self, state: str) -> None:
        self.state = state
        if state == "terminated" or self.rng.random() < 0.6:
            self.agent.poll_soon()

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        def due() -> None:
            if not self._gone and self.state != "terminated":
                act()

        self.agent.world.timeline.after(delay_s, due)

    def forward(self, call: Call, answered: Callable[[Reply], None]) -> None:
        """Forward as the agent's gateway does: what the control plane could not answer is asked again."""
        if self._gone:
            return
        if not self.agent.answers_containers:
            self._again(call, answered)
            return

        def heard(reply: Reply) -> None:
            if reply.unavailable or not self.agent.answers_containers:
                self._again(call, answered)
            else:
                answered(reply)

        def told(reply: Reply) -> None:
            if reply.ok and reply.body["outcomes"] == ["stored"]:
                heard(Reply(200))
            elif reply.unavailable:
                heard(reply)
            else:
                self.agent.world.network.send(call, heard, self._judge(call))

        delivery = _delivery(call, self.agent.token)
        if delivery is not None:
            self.agent.world.network.send(delivery, told)
        else:
            self.agent.world.network.send(call, heard, self._judge(call))

    def _again(self, call: Call, answered: Callable[[Reply], None]) -> None:
        delay_s = self.rng.uniform(1, 4)
        self._later(delay_s, lambda: self.forward(call, answered))

    def _judge(self, call: Call) -> Callable[[Reply], None]:
        """Judge an answer: a program whose allocation lives is never refused."""

        def judge(reply: Reply) -> None:
            if 400 <= reply.status < 500 and self.agent.world.invariants.is_live(
                self.allocation_id
            ):
                what = f"{call.method} {call.path} was answered {reply.status}"
                told = json.dumps(reply.body)
                raise Violation(f"{self.allocation_id} is live, but {what}: {told}")

        return judge

    def _count_pull_failure(self) -> None:
        trial = self.spec["env"].get("DET_TRIAL_ID")
        if trial is not None:
            counts = self.agent.world.ledger.pull_failures
            counts[int(trial)] = counts.get(int(trial), 0) + 1


def _delivery(call: Call, agent_token: str) -> Call | None:
    """Return the request by which an agent delivers metrics; None for what it passes on as it is."""
    trial = _METRICS.fullmatch(call.path)
    body = call.body or {}
    if trial is None or not agent_token or body.get("group") == "validation":
        return None
    report = {
        "trial_id": int(trial[1]), "token": call.token, "key": call.headers.get("idempotency-key", ""),
        "report": json.dumps(body),
    }  # fmt: skip
    return Call("POST", "/agents/v1/reports", {"reports": [report]}, agent_token)
