"""Fake agents: they join, poll, run containers, and stall, vanish, restart and come back."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tests.world.containers import FakeContainer
from tests.world.invariants import Returned
from tests.world.processes import BOOTSTRAP_TOKEN
from tests.world.script import Call, Reply
from tests.world.stage import Stage
from tests.world.violation import Violation

_SOON_S = 0.05


@dataclass(frozen=True, slots=True)
class _Identity:
    """The incarnation and token that a process of the agent polls with."""

    incarnation: str
    token: str


class FakeAgent:
    def __init__(self, world: Stage, id: str, slots: int, pool: str = "default") -> None:
        self.id = id
        self._pool = pool
        self.world = world
        self.rng: Random = world.stream(id)
        self.slots = slots
        self.containers: dict[str, FakeContainer] = {}
        self.connected = True
        self.hears = True  # answers arrive
        self._key = f"{id}-key-0"
        self._life = 0  # of the process; callbacks of an earlier one are void
        self._up = False
        self._me: _Identity | None = None
        self._applied = 0
        self._seq = 0
        self._seen = ""
        self._leaving = False
        # Agents of the version before do not.
        self.says_what_it_has = world.stream(f"{id} version").random() < 0.9
        self._spoke_at = world.timeline.now()  # when it last polled
        self._plan_number = 0
        self._planned: Callable[[], None] = self._poll

    def begin(self) -> None:
        self.world.timeline.after(self.rng.uniform(0, 20), self._start)
        self._plan_trouble()

    def calm_down(self) -> None:
        self.connected = self.hears = True
        if not self._up:
            self._start()
        self.poll_soon()

    @property
    def answers_containers(self) -> bool:
        """Return whether the gateway of its containers gets through."""
        return self._up and self.connected and self.hears

    @property
    def token(self) -> str:
        return self._me.token if self._me is not None else ""

    def wake(self) -> None:
        """Answer a held poll."""
        if self.rng.random() < 0.7:
            self.poll_soon()

    def poll_soon(self) -> None:
        if self._me is not None:
            self._plan(_SOON_S, self._poll)

    def _start(self) -> None:
        """Begin the process; containers that still run are its own again."""
        self._life += 1
        self._up, self._me, self._applied = True, None, 0
        self._seq, self._seen, self._leaving = 0, "", False
        self._join(str(UUID(int=self.rng.getrandbits(128), version=4)))

    def _join(self, incarnation: str) -> None:
        self._planned = lambda: self._join(incarnation)
        slots = [{"id": n, "type": "cpu", "brand": "Artificial"} for n in range(self.slots)]
        reports = [c.report() for c in self.containers.values()] if self.says_what_it_has else []
        body = {
            "agent_id": self.id, "agent_key": self._key, "incarnation": incarnation,
            "pool": self._pool, "slots": slots, "runtime": "docker", "proof": self._proof(incarnation),
            "containers": reports,
        }  # fmt: skip
        kept_ids = [r["id"] for r in reports if _may_go_on(r)]
        whole = [r["id"] for r in reports if _is_whole(r) and not self.containers[r["id"]].killed]
        returned_agent = Returned(self.id, kept_ids, whole, self._spoke_at)

        def judge(reply: Reply) -> None:
            if reply.ok:
                self.world.invariants.check_given_back(returned_agent)

        call = Call("POST", "/agents/v1/join", body)
        self._send(call, lambda r: self._joined(incarnation, r), judge)

    def _proof(self, incarnation: str) -> dict[str, str]:
        return {"kind": "bootstrap_token", "token": BOOTSTRAP_TOKEN}

    def _joined(self, incarnation: str, reply: Reply) -> None:
        if reply.ok:
            self._me = _Identity(incarnation, reply.body["agent_token"])
            self.poll_soon()
        else:
            delay_s = self.rng.uniform(2, 6)
            self._plan(delay_s, lambda: self._join(incarnation))

    def _poll(self) -> None:
        me = self._me
        if me is None:
            return
        applied = self._applied
        reports = [c.report() for c in self.containers.values()]
        self._seq += 1
        body = {
            "incarnation": me.incarnation, "seq": self._seq, "seen": self._seen, "wait_s": 0,
            "containers": reports,
            "signals": [{"kind": "spot_interruption"}] if self._leaving else [],
        }  # fmt: skip
        call = Call("POST", "/agents/v1/poll", body, me.token)
        self._send(call, lambda r: self._polled(me, applied, r), self._judge(reports))
        self._plan(20.0, self._poll)

    def _judge(self, reports: list[dict[str, Any]]) -> Callable[[Reply], None]:
        """Judge an answer: a poll is refused only because its sender was replaced, or given up."""

        heard_before = self._spoke_at

        def judge(reply: Reply) -> None:
            if reply.status == 401:
                self._spoke_at = heard_before  # the poll of a lost agent extends no lease
            if reply.ok:
                started_ids = {r["id"] for r in reports if r["state"] != "assigned"}
                self.world.ledger.reported |= started_ids
            fine = reply.status in (200, 401) or reply.unavailable
            if not fine and "was replaced" not in str(reply.body):
                raise Violation(f"{self.id}: a poll was answered {reply.status}: {reply.body}")

        return judge

    def _polled(self, me: _Identity, applied: int, reply: Reply) -> None:
        if me is not self._me:
            return
        if reply.ok:
            ledger = self.world.ledger
            ledger.forgotten |= set(reply.body["forget"])
            if applied == self._applied:
                self._applied += 1
                self._seen = reply.body["version"]
                self._apply(reply.body)
            self._plan(reply.body["next_poll_s"] * self.rng.uniform(0.8, 3), self._poll)
        elif reply.status == 401:
            self._me = None
            self._join(me.incarnation)
        elif reply.status == 409:
            self._stop()
            self.world.timeline.after(self.rng.uniform(1, 10), self._restart_if_down)
        else:
            self._plan(self.rng.uniform(1, 4), self._poll)

    def _apply(self, answer: dict[str, Any]) -> None:
        """Kill containers without an order, then start new ones."""
        for id in answer["forget"]:
            self.containers.pop(id, None)
        ordered = {d["id"]: d for d in answer["containers"]}
        self._check_orders(answer["containers"])
        for container in list(self.containers.values()):
            order = ordered.get(container.id)
            if order is None:
                container.kill()  # its reports are delivered before its end
            elif order["epoch"] != container.epoch:
                container.vanish()
                del self.containers[container.id]
            else:
                container.preempted |= order["preempt"]
                if order["desired"] == "killed":
                    container.kill()
        for id, order in ordered.items():
            if id not in self.containers:
                self._begin_container(order)

    def _check_orders(self, orders: list[dict[str, Any]]) -> None:
        slots: list[int] = []
        for order in orders:
            container = self.containers.get(order["id"])
            spec = container.spec if container is not None else order.get("spec")
            slots += spec["slot_ids"] if spec else []
        if len(set(slots)) != len(slots) or not set(slots) <= set(range(self.slots)):
            raise Violation(f"{self.id} with {self.slots} slots is ordered to use slots {slots}")

    def _begin_container(self, order: dict[str, Any]) -> None:
        if order["desired"] == "killed":
            self.containers[order["id"]] = FakeContainer.aborted(self, order)
            self.poll_soon()
            return
        if "spec" not in order:
            if order["id"] not in self.world.ledger.reported:
                raise Violation(f"{self.id} is to run {order['id']} and was never told what it is")
            return  # it went with its machine, and a newer poll ends it
        if order["id"] in self.world.ledger.reported:
            raise Violation(f"container {order['id']} of {order['allocation_id']} runs twice")
        container = FakeContainer(self, order)
        self.containers[order["id"]] = container
        container.begin()

    def _send(
        self,
        call: Call,
        on_reply: Callable[[Reply], None],
        judge: Callable[[Reply], None] | None = None,
    ) -> None:
        """Send through the network, as long as this life of the process lasts."""
        life = self._life

        def heard(reply: Reply) -> None:
            if life == self._life and self._up:
                on_reply(reply if self.connected and self.hears else Reply(0))

        if self.connected:
            if call.token:
                self._spoke_at = self.world.timeline.now()
            self.world.network.send(call, heard, judge)
        else:
            self.world.timeline.after(5.0, lambda: heard(Reply(0)))

    def _plan(self, delay_s: float, act: Callable[[], None]) -> None:
        """Plan the next act of the process; a later plan replaces it."""
        self._plan_number += 1
        self._planned = act
        number, life = self._plan_number, self._life

        def due() -> None:
            if number == self._plan_number and life == self._life and self._up:
                act()

        self.world.timeline.after(delay_s, due)

    def _stop(self) -> None:
        self._up = False

    def _restart_if_down(self) -> None:
        if not self._up:
            self._start()

    def _plan_trouble(self) -> None:
        self.world.timeline.after(self.rng.expovariate(1 / 40), self._trouble)

    def _trouble(self) -> None:
        if self.world.calm:
            return
        self._plan_trouble()
        # In a day without the control plane no machine would be left.
        rare = self.world.outage is not None and self.rng.random() < 0.9
        if self._up and not rare and self.rng.random() < self.world.rates.agent_trouble:
            self.rng.choice(self._troubles())()

    def _troubles(self) -> tuple[Callable[[], None], ...]:
        return self._stall, self._vanish, self._restart, self._lose_network, self._get_notice

    def _get_notice(self) -> None:
        """Receive the notice that the machine goes away soon."""
        self._leaving = True
        self.poll_soon()
        self.world.timeline.after(self.rng.uniform(5, 60), self._vanish)

    def _stall(self) -> None:
        """Stall, and do the planned actions later. The containers continue."""
        self._plan(self.rng.uniform(10, 90), self._planned)

    def _lose_network(self) -> None:
        """Lose both ways, or only the one on which answers come."""
        if self.rng.random() < 0.7:
            self.connected = False
        else:
            self.hears = False

        def back() -> None:
            self.connected = self.hears = True

        self.world.timeline.after(self.rng.choice((30, 120, 300)) * self.rng.uniform(0.2, 1), back)

    def cut_off(self, length_s: float) -> None:
        """Lose the way to the control plane, which the agent shares with others."""
        self.connected = False

        def back() -> None:
            self.connected = True

        self.world.timeline.after(length_s, back)

    def _restart(self) -> None:
        """Let another incarnation adopt the containers; the old one sometimes says something yet."""
        old = self._me
        self._stop()
        self.world.timeline.after(self.rng.uniform(0.5, 15), self._restart_if_down)
        if old is not None:
            self.world.timeline.after(self.rng.uniform(0, 30), lambda: self._old_voice(old))

    def _old_voice(self, old: _Identity) -> None:
        """Speak as an incarnation that was replaced, which must not get orders."""
        now = self._me
        if now is None or now is old:
            return
        body = {"incarnation": old.incarnation, "wait_s": 0, "containers": []}

        def judge(reply: Reply) -> None:
            if reply.ok and now is self._me:
                raise Violation(f"{self.id}: an incarnation that was replaced got orders")

        call = Call("POST", "/agents/v1/poll", body, old.token)
        self.world.network.send(call, lambda reply: None, judge)

    def _vanish(self) -> None:
        """Take the machine down with all that runs on it; it comes back later, or as another."""
        self._stop()
        for container in self.containers.values():
            container.vanish()
        self.containers.clear()
        if self.rng.random() < 0.3:
            self._key = f"{self.id}-key-{self._life}"
        self.world.timeline.after(self.rng.uniform(3, 150), self._restart_if_down)


def _is_whole(report: dict[str, Any]) -> bool:
    """Return whether a container still runs, or has ended well."""
    ended_well = report.get("exit_code") == 0 and "failure" not in report
    return report["state"] != "terminated" or ended_well


def _may_go_on(report: dict[str, Any]) -> bool:
    """Return whether a container still runs, or has ended by itself."""
    if report["state"] != "terminated":
        return True
    return "exit_code" in report and report.get("failure") in (None, "container_failed")
