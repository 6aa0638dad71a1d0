"""The simulated world of a cluster with a pool that administrators create, change and delete while users work in it."""

from collections.abc import Callable
from random import Random
from typing import Any

from det_controlplane.db.scheduling import resource_pools

from tests.world.hosts import USER_TOKEN
from tests.world.machine_people import MachineUser
from tests.world.machine_world import MachineWorld
from tests.world.script import Call, Play, Reply, Script, Sleep
from tests.world.violation import Violation

EXTRA = "extra"
_POOLS = "/api/v1/pools"
_TYPES = ("g5.xlarge", "g5.12xlarge", "g6.xlarge")


class PoolUser(MachineUser):
    """A user with work in the pools of the configuration and in the pool that comes and goes."""

    def __init__(self, world: "PoolWorld", number: int, pools: tuple[str, ...]) -> None:
        super().__init__(world, number, (*pools, EXTRA, EXTRA))

    def _may_be_refused(self, reply: Reply) -> bool:
        return f"'{EXTRA}'" in str(reply.body) or super()._may_be_refused(reply)


class PoolKeeper:
    """Create, change and delete the pool. At the end keep it until its users are done, then delete it."""

    def __init__(self, world: "PoolWorld") -> None:
        self._world = world
        self._rng: Random = world.stream("pool keeper")
        self.is_done = False

    def begin(self) -> None:
        send = self._world.network.send
        Play(self._world.timeline, send, self._everyday(), lambda code: None).start()

    def calm_down(self) -> None:
        return None

    def _everyday(self) -> Script:
        acts: tuple[Callable[[], Script], ...] = (
            self._create, self._create, self._change, self._drain, self._keep,
        )  # fmt: skip
        while not self._world.calm:
            yield from self._rng.choice(acts)()
            yield Sleep(self._rng.expovariate(1 / 45))
        while not all(user.is_done for user in self._world.users):
            yield from self._create()
            yield from self._keep()
            yield Sleep(5.0)
        while (yield Call("GET", f"{_POOLS}/{EXTRA}", token=USER_TOKEN)).status != 404:
            yield from self._drain()
            yield Sleep(5.0)
        self.is_done = True
        return None

    def _settings(self) -> dict[str, Any]:
        types = sorted(self._rng.sample(_TYPES, 2))
        provider = {
            "type": "aws", "region": "us-east-1", "instance_types": types, "spot": self._rng.random() < 0.5,
            "max_instances": self._rng.randint(3, 5), "max_idle_agent_period": "60s",
        }  # fmt: skip
        return {"provider": provider}

    def _create(self) -> Script:
        yield self._call("POST", _POOLS, {"settings": {"pool_name": EXTRA, **self._settings()}})
        return None

    def _change(self) -> Script:
        body = {"settings": self._settings(), "replaceMachines": self._rng.random() < 0.3}
        yield self._call("PATCH", f"{_POOLS}/{EXTRA}", body)
        return None

    def _drain(self) -> Script:
        yield self._call("DELETE", f"{_POOLS}/{EXTRA}?drain=true")
        return None

    def _keep(self) -> Script:
        yield self._call("POST", f"{_POOLS}/{EXTRA}/keep", {})
        return None

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Call:
        return Call(method, path, body, USER_TOKEN)


class PoolWorld(MachineWorld):
    """`PoolWorld(seed, hosts).run()` plays a cluster with rented machines and a pool that comes and goes."""

    user_class = PoolUser

    def _populate(self) -> None:
        super()._populate()
        self.keeper = PoolKeeper(self)
        self.actors.append(self.keeper)

    def _is_over(self) -> bool:
        return super()._is_over() and self.keeper.is_done

    def _check_end(self) -> None:
        super()._check_end()
        with self._hosts.observed() as tx:
            if resource_pools.every(tx):
                raise Violation("a deleted pool has a row")
