"""The agent's gateway: reports of trials wait on its disk while the control plane does not answer."""

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from tests.world.ledger import Metric
from tests.world.script import Call, Reply
from tests.world.stage import ContainerHost
from tests.world.violation import Violation

_METRICS = re.compile(r"/api/v1/trials/([0-9]+)/metrics")
_REPORTS = re.compile(r"/api/v1/(checkpoints|trials/[0-9]+/(metrics|progress|early_exit))")
_KEPT = Reply(200, {})

Answered = Callable[[Reply], None]


class Sender(Protocol):
    """The container that a gateway works for."""

    id: str
    allocation_id: str
    rng: Random

    @property
    def agent(self) -> ContainerHost: ...

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Act after a delay, unless the machine is gone by then."""
        ...


@dataclass(slots=True)
class _Report:
    call: Call
    answered: Answered | None  # None: the container has already been answered


class FakeGateway:
    """Delivers the reports of one container in order. Its other requests wait until all reports are answered."""

    def __init__(self, container: Sender) -> None:
        self._container = container
        self._reports: deque[_Report] = deque()
        self._after_reports: deque[Callable[[], None]] = deque()
        self._delivers = False
        self._in_outage = False

    def forward(self, call: Call, response: Answered) -> None:
        if call.method == "POST" and _REPORTS.fullmatch(call.path):
            report = _Report(call, response)
            self._reports.append(report)
            if self._in_outage:
                self._keep(report)
            self._deliver()
        else:
            self.when_delivered(lambda: self._pass_on(call, response))

    def when_delivered(self, act: Callable[[], None]) -> None:
        """Act as soon as every report so far has been answered."""
        self._after_reports.append(act)
        self._deliver()

    def _keep(self, report: _Report) -> None:
        on_answer, report.answered = report.answered, None
        if on_answer is not None:
            self._container.later(0.0, lambda: on_answer(_KEPT))

    def _deliver(self) -> None:
        if self._delivers:
            return
        if not self._reports:
            waiting, self._after_reports = self._after_reports, deque()
            for act in waiting:
                act()
            return
        self._delivers = True
        self._send(self._reports[0].call, self._delivered)

    def _delivered(self, reply: Reply) -> None:
        self._delivers = False
        if reply.unavailable:
            self._in_outage = True
            for report in self._reports:
                self._keep(report)
            self._container.later(self._pause_s(), self._deliver)
            return
        self._in_outage = False
        report = self._reports.popleft()
        if reply.ok:
            self._note(report.call)
        if report.answered is not None:
            report.answered(reply)
        self._deliver()

    def _pass_on(self, call: Call, response: Answered) -> None:
        """Forward a request until the control plane answers it."""

        def heard(reply: Reply) -> None:
            if reply.unavailable:
                pause_s = self._pause_s()
                self._container.later(pause_s, lambda: self.forward(call, response))
            else:
                response(reply)

        self._send(call, heard)

    def _send(self, call: Call, on_answer: Answered) -> None:
        """Send a request once. Small metrics first use the agent's own route, as in a real agent."""
        agent = self._container.agent
        if not agent.answers_containers:
            self._container.later(self._pause_s(), lambda: on_answer(Reply(0)))
            return

        def arrived(reply: Reply) -> None:
            on_answer(reply if agent.answers_containers else Reply(0))

        def delivered(reply: Reply) -> None:
            if reply.ok and reply.body["outcomes"] == ["stored"]:
                arrived(Reply(200))
            elif reply.unavailable:
                arrived(reply)
            else:
                agent.world.network.send(call, arrived, self._judge(call))

        delivery = _delivery(call, agent.token)
        if delivery is not None:
            agent.world.network.send(delivery, delivered)
        else:
            agent.world.network.send(call, arrived, self._judge(call))

    def _judge(self, call: Call) -> Callable[[Reply], None]:
        """Return a check of answers: the control plane must not refuse requests of a live allocation's program."""
        container = self._container

        def judge(reply: Reply) -> None:
            invariants = container.agent.world.invariants
            if 400 <= reply.status < 500 and invariants.is_live(container.id):
                message = f"{call.method} {call.path} was answered {reply.status}"
                answer = json.dumps(reply.body)
                raise Violation(f"{container.allocation_id} is live, but {message}: {answer}")

        return judge

    def _note(self, call: Call) -> None:
        """Record an acknowledged report in the ledger."""
        ledger, body = self._container.agent.world.ledger, call.body or {}
        if _METRICS.fullmatch(call.path):
            ledger.metrics.append(_metric(body))
        elif call.path == "/api/v1/checkpoints" and body.get("state") != "STATE_ACTIVE":
            ledger.checkpoints[body["uuid"]] = ledger.saved[body["uuid"]].run.trial_id
        elif call.path.endswith("/early_exit"):
            ledger.early_exits.add(int(call.path.split("/")[4]))

    def _pause_s(self) -> float:
        return self._container.rng.uniform(1, 4)


def _metric(body: Any) -> Metric:
    report = body["metrics"]
    loss = report["metrics"]["avgMetrics"]["loss"]
    steps = report["stepsCompleted"]
    return Metric(report["trialId"], report["trialRunId"], body["group"], steps, loss)


def _delivery(call: Call, agent_token: str) -> Call | None:
    """Return the agent's own request for a report of metrics, or None if the agent forwards the call unchanged."""
    trial = _METRICS.fullmatch(call.path)
    body = call.body or {}
    if trial is None or not agent_token or body.get("group") == "validation":
        return None
    report = {
        "trial_id": int(trial[1]), "token": call.token, "key": call.headers.get("idempotency-key", ""),
        "report": json.dumps(body),
    }  # fmt: skip
    return Call("POST", "/agents/v1/reports", {"reports": [report]}, agent_token)
