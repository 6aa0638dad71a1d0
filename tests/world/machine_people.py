"""Users with work for rented machines, and operators of the pools."""

import json
from collections.abc import Callable
from random import Random

from tests.world.configurations import rented_experiment_config
from tests.world.hosts import USER_TOKEN
from tests.world.script import Call, Play, Reply, Script, Sleep
from tests.world.stage import Stage
from tests.world.users import FakeUser

_E = "/api/v1/experiments"
_MONEY = "/api/v1/budgets"


class MachineUser(FakeUser):
    """Create, pause, activate, cancel and kill; at the end, activate all paused work."""

    def __init__(self, world: Stage, number: int, pools: tuple[str, ...]) -> None:
        super().__init__(world, number)
        self._pools = pools
        self.is_done = False  # and leaves no work paused

    def calm_down(self) -> None:
        return None  # its script sees it

    def _everyday(self) -> Script:
        yield from self._create()
        while not self._world.calm:
            yield Sleep(self._rng.expovariate(1 / 60))
            if not self._world.calm:
                yield from self._rng.choices(*self._acts())[0]()
        yield Sleep(60.0)  # the repeated request has arrived
        yield from self._see_work_go_on()
        return None

    def _see_work_go_on(self) -> Script:
        """Activate paused work after the last budget is deleted, because a budget would pause it again."""
        while (
            not (reply := (yield Call("GET", _MONEY, token=USER_TOKEN))).ok or reply.body["budgets"]
        ):
            yield Sleep(5.0)
        for id in self._mine:
            yield from self._see_it_go_on(id)
        self.is_done = True
        return None

    def _acts(self) -> tuple[list[Callable[[], Script]], list[int]]:
        chances: dict[Callable[[], Script], int] = {
            self._create: 4, self._pause: 3, self._activate: 5, self._cancel: 1, self._kill: 1,
            self._change_resources: 1, self._move_in_queue: 1,
        }  # fmt: skip
        return list(chances), list(chances.values())

    def _config(self) -> str:
        return rented_experiment_config(self._rng, self._pools)

    def _may_be_refused(self, reply: Reply) -> bool:
        """Return whether it asks for more than the pool may ever rent, or than a budget allows."""
        return "slots" in str(reply.body) or "is spent" in str(reply.body)

    def _see_it_go_on(self, id: int) -> Script:
        yield Call("PATCH", f"{_E}/{id}", {"resources": {"maxSlots": 100}}, USER_TOKEN)
        while True:
            reply = yield Call("GET", f"{_E}/{id}", token=USER_TOKEN)
            if reply.ok and "PAUSED" not in json.dumps(reply.body["experiment"]["state"]):
                return None
            yield self._post(f"{_E}/{id}/activate")
            yield Sleep(5.0)


class Operator:
    """Holds and resumes pools, ends machines, sets budgets; at the end allows everything again."""

    def __init__(self, world: Stage, pools: tuple[str, ...]) -> None:
        self._world = world
        self._rng: Random = world.stream("operator")
        self._pools = pools

    def begin(self) -> None:
        Play(
            self._world.timeline, self._world.network.send, self._everyday(), lambda code: None
        ).start()

    def calm_down(self) -> None:
        return None

    def _everyday(self) -> Script:
        acts: tuple[Callable[[], Script], ...] = (
            self._hold, self._resume, self._resume, self._terminate, self._set_budget, self._delete_budgets,
        )  # fmt: skip
        while not self._world.calm:
            yield Sleep(self._rng.expovariate(1 / 90))
            if not self._world.calm:
                yield from self._rng.choice(acts)()
        yield Sleep(40.0)
        yield from self._delete_budgets()
        for pool in self._pools:
            while not (yield self._post(f"/api/v1/rented-pools/{pool}/resume")).ok:
                yield Sleep(2.0)
        return None

    def _hold(self) -> Script:
        yield self._post(f"/api/v1/rented-pools/{self._rng.choice(self._pools)}/hold")
        return None

    def _resume(self) -> Script:
        yield self._post(f"/api/v1/rented-pools/{self._rng.choice(self._pools)}/resume")
        return None

    def _terminate(self) -> Script:
        reply = yield Call("GET", "/api/v1/instances", token=USER_TOKEN)
        ids = sorted(i["id"] for i in reply.body.get("instances", ()))
        if ids:
            yield self._post(f"/api/v1/instances/{self._rng.choice(ids)}/terminate")
        return None

    def _set_budget(self) -> Script:
        scope, of = self._rng.choice([("pool", p) for p in self._pools] + [("experiment", "1")])
        body = {"scope": scope, "of": of, "limitUsd": str(self._rng.choice((0.05, 0.2, 1)))}
        yield Call("PUT", _MONEY, body, USER_TOKEN)
        return None

    def _delete_budgets(self) -> Script:
        while True:
            reply = yield Call("GET", _MONEY, token=USER_TOKEN)
            if reply.ok and not reply.body["budgets"]:
                return None
            for budget in reply.body.get("budgets", ()):
                yield Call("DELETE", f"{_MONEY}/{budget['id']}", token=USER_TOKEN)
            if not self._world.calm:
                return None
            yield Sleep(2.0)

    def _post(self, path: str) -> Call:
        return Call("POST", path, {}, USER_TOKEN)
