"""Agents of rented machines: they come with their machine, prove it, and go with it."""

from collections.abc import Callable
from typing import Any

from det_controlplane.core.agent_protocol import join_nonce
from det_controlplane.core.provision.offers import Capacity
from det_controlplane.testing.fakecloud import NEVER, FakeCloud, RentedMachine

from tests.world.agents import FakeAgent
from tests.world.script import Reply
from tests.world.stage import Stage

_NOTICE_S = 120.0
# Clocks have microseconds: without it half of the machines would look whether they have booted just before they have.
_ROUNDING_S = 0.001


def kind_of_proof(provider: str) -> str:
    return f"fake_{provider}"


class MachineAgent(FakeAgent):
    def __init__(
        self, world: Stage, cloud: FakeCloud, machine: RentedMachine, cluster_id: str
    ) -> None:
        super().__init__(world, machine.cloud_id, machine.offer.slots)
        self.machine = machine
        self._cloud = cloud
        self._cluster_id = cluster_id
        self._proofs = 0

    def begin(self) -> None:
        machine = self.machine
        self._at(machine.boots_at, self._restart_if_down)
        self._at(machine.notice_at, self._hear_notice)
        self._at(machine.ends_at, self.look)
        self._plan_trouble()

    def calm_down(self) -> None:
        self.connected = self.hears = True
        self._restart_if_down()
        self.poll_soon()

    def look(self) -> None:
        """Go down where the machine does not run any more."""
        if self._up and not self._runs:
            self._stop()
            for container in self.containers.values():
                container.vanish()
            self.containers.clear()

    @property
    def is_over(self) -> bool:
        return self._now >= self.machine.ends_at

    @property
    def _now(self) -> float:
        return self.world.timeline.now().timestamp()

    @property
    def _runs(self) -> bool:
        return self.machine.runs_agent(self._now)

    def _at(self, time: float, act: Callable[[], None]) -> None:
        if time != NEVER:
            self.world.timeline.after(max(0.0, time - self._now) + _ROUNDING_S, act)

    def _start(self) -> None:
        super()._start()
        self._leaving = self.machine.notice_at <= self._now

    def _restart_if_down(self) -> None:
        if self._runs:
            super()._restart_if_down()

    def _hear_notice(self) -> None:
        if self._up and self._runs:
            self._leaving = True
            self.poll_soon()

    def _proof(self, incarnation: str) -> dict[str, str]:
        """Return a proof of its own for each join: the control plane takes none twice."""
        self._proofs += 1
        nonce = join_nonce(self._cluster_id, self.id, self._key, incarnation)
        kind = kind_of_proof(self._cloud.provider)
        return {"kind": kind, "cloud_id": self.id, "nonce": nonce, "number": str(self._proofs)}

    def _joined(self, incarnation: str, reply: Reply) -> None:
        self.look()
        if self._up:
            super()._joined(incarnation, reply)

    def _apply(self, answer: dict[str, Any]) -> None:
        self.look()
        if self._up:
            super()._apply(answer)

    def _troubles(self) -> tuple[Callable[[], None], ...]:
        return self._stall, self._restart, self._lose_network, self._get_notice, self._fail

    def _get_notice(self) -> None:
        """Receive the reclaim notice of spot capacity."""
        if self._runs and self.machine.offer.capacity is Capacity.SPOT:
            self._cloud.reclaim(self.id, notice_s=_NOTICE_S)
            self._hear_notice()
            self._at(self.machine.ends_at, self.look)

    def _fail(self) -> None:
        """Lose the machine, or stop it so that it stays in the cloud's list."""
        if self._runs:
            end = self._cloud.stop if self.rng.random() < 0.4 else self._cloud.reclaim
            end(self.id)
            self.look()
