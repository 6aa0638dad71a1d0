"""The simulated world of elastic gangs: machines disappear, and the other ranks of their gangs fail."""

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tests.world.agents import FakeAgent
from tests.world.configurations import cluster_config
from tests.world.faults import Rates
from tests.world.gang_world import GangUser
from tests.world.hosts import Hosts
from tests.world.machine_people import MachineUser
from tests.world.machine_world import MachineWorld
from tests.world.world import World

_LENGTH = 800  # batches of a trial, which then runs long enough to grow
_TROUBLE = 0.25


class ElasticAgent(FakeAgent):
    """An agent whose end breaks the connections of its containers to their peers."""

    def _vanish(self) -> None:
        allocations = {c.allocation_id for c in self.containers.values() if c.state == "running"}
        super()._vanish()
        for agent in self.world.agents:
            if isinstance(agent, ElasticAgent) and agent is not self:
                agent._lose_peers(allocations)

    def _lose_peers(self, allocations: Collection[str]) -> None:
        for container in self.containers.values():
            if container.allocation_id in allocations:
                container.lose_peer()


class ElasticUser(GangUser):
    """A user of trials that run on one agent to all of them."""

    def _config(self) -> str:
        config: dict[str, Any] = json.loads(super()._config())
        slots = config["resources"]["slots_per_trial"]
        config["resources"]["min_slots_per_trial"] = self._rng.randint(1, slots)
        config["data"]["length"] = _LENGTH
        return json.dumps(config)


class ElasticWorld(World):
    """`ElasticWorld(seed, hosts).run()` plays one history."""

    def __init__(
        self, seed: int, hosts: Hosts, *, rates: Rates | None = None, chaos_s: float = 360.0
    ) -> None:
        rates = rates or replace(Rates(), agent_trouble=_TROUBLE, program_trouble=0.01)
        super().__init__(seed, hosts, rates=rates, chaos_s=chaos_s)

    def _populate(self) -> None:
        self._configure(cluster_config(self.stream("cluster")))
        rng = self.stream("gangs")
        slots = rng.choice((1, 1, 2))
        self.agents += [ElasticAgent(self, f"agent-{n}", slots) for n in range(rng.randint(2, 4))]
        self.actors += [*self.agents, ElasticUser(self, 0)]


class RentingElasticUser(MachineUser):
    """A user of rented machines with trials that also run with fewer slots."""

    def _config(self) -> str:
        config: dict[str, Any] = json.loads(super()._config())
        slots = config["resources"]["slots_per_trial"]
        if slots > 1:
            config["resources"]["min_slots_per_trial"] = self._rng.randint(1, slots)
            config["data"]["length"] = _LENGTH
        return json.dumps(config)


class ElasticMachineWorld(MachineWorld):
    """Pools that rent the slots that elastic gangs lack, from clouds that reclaim machines."""

    user_class = RentingElasticUser
