"""The simulated worlds of searches that end early: by their expected gain, and by their cost."""

import json
from dataclasses import replace
from typing import Any

from det_controlplane.core.search import EndReason

from tests.world.agents import FakeAgent
from tests.world.configurations import cluster_config
from tests.world.endings import Endings
from tests.world.faults import Rates
from tests.world.hosts import Hosts
from tests.world.machine_people import MachineUser
from tests.world.machine_world import MachineWorld
from tests.world.script import Script, Sleep
from tests.world.users import FakeUser
from tests.world.world import World

_LENGTH, _CHUNK = 16, 4  # batches of a trial: reports are more frequent than rungs
_LONG = 320  # batches of a trial that costs more than its search may
_TROUBLE = 0.2  # of agents


class GainUser(FakeUser):
    """A user of searches that end when their expected gain is small, which is soon."""

    _pace_s = 40.0

    def _everyday(self) -> Script:
        yield from self._create()
        while not self._world.calm:
            yield Sleep(self._rng.expovariate(1 / self._pace_s))
            acts = (self._pause, self._activate, self._activate, self._move_in_queue)
            if not self._world.calm:
                yield from self._rng.choice(acts)()
        return None

    def _config(self) -> str:
        config = json.loads(super()._config())
        form: dict[str, Any] = {"time_metric": "batches", "max_time": _LENGTH}
        if self._rng.random() < 0.5:
            form = {"max_length": {"batches": _LENGTH}, "stop_once": False}
        config["searcher"] = {
            "name": "model_asha", "metric": "loss", "num_rungs": 2, "divisor": 2, "max_trials": 80,
            "max_concurrent_trials": self._rng.randint(2, 6), **form,
            "stop_when": {"expected_gain_below": self._rng.choice((0.3, 9.0))},
        }  # fmt: skip
        config["hyperparameters"]["lr"].pop("count")
        config["resources"] = {"slots_per_trial": self._rng.choice((0, 1))}
        config["data"] |= {"length": _LENGTH, "chunk": _CHUNK}
        return json.dumps(config)


class GainWorld(World):
    """`GainWorld(seed, hosts).run()` plays one history. Afterwards, `reasons` has the reasons of ended searches."""

    def __init__(self, seed: int, hosts: Hosts, *, chaos_s: float = 240.0) -> None:
        rates = replace(Rates(), agent_trouble=_TROUBLE, program_trouble=0.0)
        super().__init__(seed, hosts, rates=rates, chaos_s=chaos_s)
        self.endings = Endings(self.ledger)
        self.reasons: list[EndReason] = []

    def _populate(self) -> None:
        self._configure(cluster_config(self.stream("cluster")))
        slots = self._rng.choice((2, 4))
        self.agents += [
            FakeAgent(self, f"agent-{n}", slots) for n in range(self._rng.randint(1, 2))
        ]
        self.actors += [*self.agents, GainUser(self, 0)]

    def _check_end(self) -> None:
        super()._check_end()
        with self._hosts.observed() as tx:
            self.reasons = self.endings.check_end(tx, self.invariants.end_watches())


class CostUser(MachineUser):
    """A user of searches that soon cost more than they may, and that no user ends."""

    def _acts(self) -> Any:
        return [self._pause, self._activate, self._move_in_queue], [1, 2, 1]

    def _config(self) -> str:
        config = json.loads(super()._config())
        searcher = config["searcher"]
        if searcher["name"] == "single":
            searcher |= {"name": "random", "max_trials": 6, "max_concurrent_trials": 3}
        searcher["stop_when"] = {"or_cost_above": self._rng.choice((0.01, 0.03))}
        for key in ("max_time", "max_length"):
            if key in searcher:
                searcher[key] = _LONG if key == "max_time" else {"batches": _LONG}
        config["data"]["length"] = _LONG
        config["resources"]["slots_per_trial"] = self._rng.choice((0, 1, 1, 2))
        return json.dumps(config)


class CostWorld(MachineWorld):
    """`CostWorld(seed, hosts).run()` plays one history. Afterwards, `reasons` has the reasons of ended searches."""

    user_class = CostUser

    def __init__(self, seed: int, hosts: Hosts, *, chaos_s: float = 240.0) -> None:
        super().__init__(seed, hosts, chaos_s=chaos_s)
        # An agent without a connection cannot pass a request to stop on in time.
        self.rates = replace(self.rates, agent_trouble=0.0)
        self.endings = Endings(self.ledger)
        self.reasons: list[EndReason] = []

    def _check_step(self) -> None:
        super()._check_step()
        with self._hosts.observed() as tx:
            self.endings.check_step(tx, self.invariants.end_watches())

    def _check_end(self) -> None:
        super()._check_end()
        with self._hosts.observed() as tx:
            self.reasons = self.endings.check_end(tx, self.invariants.end_watches())
