"""The simulated world of gangs: trials over several agents, which lose their connection together for a while."""

import json
from dataclasses import replace

from tests.world.agents import FakeAgent
from tests.world.configurations import cluster_config, experiment_config
from tests.world.faults import Rates
from tests.world.hosts import Hosts
from tests.world.users import FakeUser
from tests.world.world import World

_LENGTH = 320  # batches of a trial, which takes longer than an agent is waited for
_LENGTHS_S = (50.0, 65.0, 90.0, 90.0, 150.0)
_SPREAD_S = 20.0  # agents find their way back within that time
_TROUBLE = 0.1  # of single agents, which would end each gang soon


class Cuts:
    """An actor that disconnects all agents, or some, from a control plane that works."""

    def __init__(self, world: "GangWorld") -> None:
        self._world = world
        self._rng = world.stream("cuts")

    def begin(self) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self._world.timeline.after(self._rng.uniform(40, 240), self._cut)

    def calm_down(self) -> None:
        return None

    def _cut(self) -> None:
        if self._world.calm:
            return
        length_s = self._rng.choice(_LENGTHS_S)
        some = self._rng.random() < 0.25
        for agent in self._world.agents:
            if not some or self._rng.random() < 0.5:
                agent.cut_off(length_s + self._rng.uniform(0, _SPREAD_S))


class GangUser(FakeUser):
    """A user of trials that train long on several agents, and that are mostly left alone."""

    _pace_s = 60.0

    def _config(self) -> str:
        agents = self._world.agents
        config = json.loads(experiment_config(self._rng, agents[0].slots, len(agents)))
        config["resources"] = {
            "slots_per_trial": agents[0].slots * self._rng.randint(2, len(agents))
        }
        config["searcher"] = {"name": "single", "metric": "loss"}
        if self._rng.random() < 0.3:
            config["searcher"] |= {"name": "random", "max_trials": 2}
        config["data"]["length"] = _LENGTH
        return json.dumps(config)


class GangWorld(World):
    """`GangWorld(seed, hosts).run()` plays one history."""

    def __init__(
        self, seed: int, hosts: Hosts, *, rates: Rates | None = None, chaos_s: float = 360.0
    ) -> None:
        rates = rates or replace(Rates(), agent_trouble=_TROUBLE, program_trouble=0.01)
        super().__init__(seed, hosts, rates=rates, chaos_s=chaos_s)

    def _populate(self) -> None:
        self._configure(cluster_config(self.stream("cluster")))
        rng = self.stream("gangs")
        slots = rng.choice((1, 1, 2))
        self.agents += [FakeAgent(self, f"agent-{n}", slots) for n in range(rng.randint(2, 4))]
        self.actors += [*self.agents, GangUser(self, 0), Cuts(self)]
