"""The simulated world of a cluster with rented machines."""

from contextlib import suppress
from dataclasses import replace
from random import Random
from uuid import UUID

from det_controlplane.core.config import ClusterConfig
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.ports.compute import LaunchRequest, Unreachable
from det_controlplane.testing.fakecloud import (
    CloudFaults,
    FakeCloud,
    FakeIdentityVerifier,
    RentedMachine,
)
from det_controlplane.testing.fakemarket import FakeMarket
from sqlalchemy import text

from tests.world.configurations import rented_cluster_config
from tests.world.faults import Rates
from tests.world.hosts import Hosts
from tests.world.machine_agents import MachineAgent, kind_of_proof
from tests.world.machine_books import Books
from tests.world.machine_people import MachineUser, Operator
from tests.world.renting import Renting, calls_in_order
from tests.world.violation import Violation
from tests.world.world import Summary, World

# The programs are correct, so every failure is caused by infrastructure.
RATES = Rates(dies=0.08, interleaved=0.4, agent_trouble=0.15, program_trouble=0.0)
_LEFT_BEHIND_S = 300.0
_OUTAGE_S = (5.0, 90.0)
_LOST_CLOUDS = 0.2  # worlds in which one cloud is silent from the first minute on
_ENDS = text("SELECT id, state::text AS state FROM experiments")


class Weather:
    """Clouds that cannot be reached for a while now and then, or miss a permission or a setting."""

    def __init__(self, world: "MachineWorld") -> None:
        self._world = world
        self._rng = world.stream("weather")
        self._refusing = world.stream("refusals")
        self._losing = world.stream("lost clouds")
        self._lost: FakeCloud | None = None

    def begin(self) -> None:
        if self._losing.random() < _LOST_CLOUDS:
            self._world.timeline.after(self._losing.uniform(0, 60), self._lose)
        self._world.timeline.after(self._rng.expovariate(1 / 240), self._break_off)
        self._world.timeline.after(self._rng.uniform(0, 400), self._leave_a_stray)
        self._world.timeline.after(self._refusing.expovariate(1 / 240), self._refuse)

    def calm_down(self) -> None:
        self._lost = None

    def _lose(self) -> None:
        """Let a cloud be silent until the world calms down."""
        self._lost = self._losing.choice(list(self._world.clouds.values()))
        self._lost.connected = False

    def _leave_a_stray(self) -> None:
        """Leave a machine with the cluster's tag that no row asked for, as a restored database would have."""
        pool = self._world.config.resource_pools[0]
        cloud = self._world.clouds[pool.offers[0].provider]
        id = UUID(int=self._rng.getrandbits(128), version=4)
        self._world.books.strays.add(id)
        cluster_id = self._world.cluster_id
        request = LaunchRequest(cluster_id, pool.pool_name, id, 1, pool.offers[:1], {}, "")
        with suppress(Unreachable):
            cloud.launch(request)

    def _refuse(self) -> None:
        """Refuse one type everywhere, or all types of a cloud, until an operator fixes it."""
        if self._world.calm:
            return
        rng = self._refusing
        offer = rng.choice(rng.choice(self._world.config.resource_pools).offers)
        kind = rng.choice((RefusalKind.DENIED, RefusalKind.INVALID))
        machine_type = offer.machine_type if kind is RefusalKind.INVALID else ""
        cloud = self._world.clouds[offer.provider]
        cloud.refuse(Scope(offer.provider, machine_type=machine_type), kind)
        self._world.timeline.after(rng.uniform(20, 90), cloud.allow)
        self._world.timeline.after(rng.expovariate(1 / 240), self._refuse)

    def _break_off(self) -> None:
        if self._world.calm:
            return
        cloud = self._rng.choice(list(self._world.clouds.values()))
        cloud.connected = False

        def back() -> None:
            cloud.connected = cloud is not self._lost

        self._world.timeline.after(self._rng.uniform(*_OUTAGE_S), back)
        self._world.timeline.after(self._rng.expovariate(1 / 240), self._break_off)


class MachineWorld(World):
    """`MachineWorld(seed, hosts).run()` plays a cluster with pools that rent from two misbehaving clouds."""

    _longest_quiet_s = 7200.0

    def __init__(self, seed: int, hosts: Hosts, *, chaos_s: float = 420.0) -> None:
        self.clouds: dict[str, FakeCloud] = {}
        self.markets: dict[str, FakeMarket] = {}
        self._known: set[str] = set()
        self._demand_ended_s: float | None = None
        super().__init__(seed, hosts, rates=RATES, chaos_s=chaos_s)

    def run(self) -> Summary:
        with calls_in_order():
            return replace(super().run(), machines=len(self._known))

    user_class: type[MachineUser] = MachineUser

    def _populate(self) -> None:
        config = rented_cluster_config(self.stream("cluster"))
        rng = self.stream("clouds")
        for provider in ("aws", "gcp"):
            self.clouds[provider] = FakeCloud(
                provider, self.seed, _faults(rng), now=self._now_s, boot_s=30.0,
                most_machines=rng.choice((None, None, 3)),
            )  # fmt: skip
        for process in self._hosts.processes:
            process.ctx.host.public_url = "https://cluster.example"
            process.ctx.verifiers.machines = {
                kind_of_proof(name): FakeIdentityVerifier(cloud, kind_of_proof(name))
                for name, cloud in self.clouds.items()
            }
        self._configure(config)
        pools = tuple(pool.pool_name for pool in config.resource_pools)
        self.renting = Renting(
            self, self.stream("renting"), self.clouds, self._make_markets(config)
        )
        self.books = Books(
            self._hosts, self.timeline, self.clouds.values(),
            {pool.pool_name: pool.limits.max_instances for pool in config.resource_pools},
        )  # fmt: skip
        self.users = [self.user_class(self, n, pools) for n in range(self._rng.randint(1, 3))]
        self.actors += [*self.users, Operator(self, pools), Weather(self), self.renting]

    def _make_markets(self, config: ClusterConfig) -> dict[str, FakeMarket]:
        rng = self.stream("markets")
        offers = [offer for pool in config.resource_pools for offer in pool.offers]
        for provider in self.clouds:
            market = FakeMarket(provider, now=self._now_s, seed=self.seed)
            market.drift = rng.choice((0.0, 0.2, 0.6))
            market.follow(offers)
            market.connected = rng.random() < 0.8
            self.markets[provider] = market
        return self.markets

    @property
    def cluster_id(self) -> str:
        return self._hosts.processes[0].ctx.cluster_id

    def _now_s(self) -> float:
        return self.timeline.now().timestamp()

    def _woken(self, topic: str) -> None:
        super()._woken(topic)
        if topic == "provision":
            self.renting.wake()

    def _check_step(self) -> None:
        self._attend()
        super()._check_step()
        self.books.check_step()

    def _attend(self) -> None:
        """Boot new machines, take those down that were ended."""
        for cloud in self.clouds.values():
            for machine in cloud.rented[-8:]:
                if machine.cloud_id not in self._known:
                    self._known.add(machine.cloud_id)
                    self._begin_machine(cloud, machine)
        for agent in self._machine_agents():
            agent.look()
        over = [agent for agent in self._machine_agents() if agent.is_over]
        for agent in over:
            self.agents.remove(agent)
            self.actors.remove(agent)

    def _begin_machine(self, cloud: FakeCloud, machine: RentedMachine) -> None:
        agent = MachineAgent(self, cloud, machine, self.cluster_id)
        self.agents.append(agent)
        self.actors.append(agent)
        agent.begin()

    def _machine_agents(self) -> list[MachineAgent]:
        return [agent for agent in self.agents if isinstance(agent, MachineAgent)]

    def _calm_down(self) -> None:
        for cloud in self.clouds.values():
            cloud.faults, cloud.most_machines, cloud.connected = CloudFaults(), None, True
            cloud.allow()
        self._configure(_nothing_kept(self.config))
        super()._calm_down()

    def _is_over(self) -> bool:
        """Return whether work has ended, its machines soon after it, and no user continues it."""
        if not super()._is_over():
            self._demand_ended_s = None
            return False
        now = self.timeline.seconds
        if self._demand_ended_s is None:
            self._demand_ended_s = now
        alive = self.books.alive()
        idle_s = max(pool.limits.max_idle_s for pool in self.config.resource_pools)
        late_s = now - self._demand_ended_s - idle_s
        if alive and late_s > _LEFT_BEHIND_S:
            names = ", ".join(machine.cloud_id for machine in alive)
            raise Violation(
                f"{names} still alive {late_s:.0f} s after they were idle for long enough"
            )
        users_are_done = all(user.is_done for user in self.users)
        return users_are_done and not alive and late_s > _LEFT_BEHIND_S

    def _check_end(self) -> None:
        super()._check_end()
        self.books.check_end()
        with self._hosts.observed() as tx:
            for row in tx.execute(_ENDS).all():
                if row.state != "COMPLETED" and row.id not in self.ledger.ending:
                    raise Violation(f"experiment {row.id} is {row.state}, and nobody ended it")


def _faults(rng: Random) -> CloudFaults:
    return CloudFaults(
        lost_request=0.05,
        lost_answer=0.1,
        delivered_twice=0.05,
        throttled=0.05,
        stockout=rng.choice((0.0, 0.3, 0.6)),
        listed_late=rng.choice((0.0, 0.3, 1.0)),
        slow_boot=0.1,
        dead_boot=rng.choice((0.0, 0.1, 0.3)),
        reclaims_per_hour=rng.choice((0.0, 4.0, 12.0)),
        reclaims_unannounced=0.4,
    )


def _nothing_kept(config: ClusterConfig) -> ClusterConfig:
    """Return the cluster with pools that keep no machine without work and have no cost limits."""
    pools = tuple(
        replace(
            pool,
            limits=replace(pool.limits, min_instances=0, warm_instances=0, max_hourly_cost=None),
        )
        for pool in config.resource_pools
    )
    return replace(config, resource_pools=pools)
