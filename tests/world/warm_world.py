"""A simulated pool that chooses its warm machines, with random jobs, prices and holds over a day.

The decisions are real, `core.provision.decide`. The clock, the cloud and the scheduler are played here. A tick decides
every minute at the latest. Its books count the cost of warm machines by themselves. They count each minute of a
machine that has run nothing and that no queued job can use. They also count the minutes after the pool's idle time.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Demand,
    Hold,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionPlan,
    ProvisionSnapshot,
)
from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.provision.warm import StartRate, WarmHistory, WarmLedger, WarmPolicy

from tests.support.provisioning import offer

TICK_S, BOOT_S, DAY = 60.0, 240.0, 86_400.0
START = 20_000 * DAY


@dataclass
class Host:
    row: Machine
    busy_until: float = 0.0
    ended_at: float | None = None


@dataclass
class WarmWorld:
    seed: int
    policy: WarmPolicy | None
    most_warm: int = 0
    cost_of_days: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)
        self._now = START
        self._hosts: list[Host] = []
        self._queue: list[Demand] = []
        self._ledger = WarmLedger(START)
        self._limits = Limits(
            max_instances=8,
            max_idle_s=self._rng.choice((0.0, 600.0, 3600.0)),
            warm_policy=self.policy,
        )
        self._rates = tuple(
            StartRate(weekend, hour, 1, self._rng.choice((0.0, 0.5, 4.0, 20.0)))
            for hour in range(24)
            for weekend in (False, True)
        )
        self._offers: tuple[Offer, ...] = ()
        self._hold: Hold | None = None
        self.held_machines: list[int] = []

    def play(self) -> "WarmWorld":
        while self._now < START + DAY:
            self._happen()
            self._apply(decide(ProvisionSnapshot((self._snapshot(),)), self._now))
            self._pay()
            self._now += TICK_S
        return self

    def _happen(self) -> None:
        if self._rng.random() < 0.01 or not self._offers:
            prices = [self._rng.uniform(0.1, 2.0) for _ in range(2)]
            self._offers = tuple(
                offer(slots, round(slots * price, 2)) for slots, price in zip((1, 4), prices, strict=True)
            )  # fmt: skip
        if self._rng.random() < 0.003:
            spent = Hold("the budget is spent", of_budget=True)
            self._hold = None if self._hold else self._rng.choice((Hold("held by admin"), spent))
        if self._rng.random() < 0.05:
            id = f"job {self._now}"
            self._queue.append(Demand(id, id, 1, self._now))
        for host in self._hosts:
            row = host.row
            if row.state is MachineState.LAUNCHED and self._now - row.requested_at >= BOOT_S:
                host.row = replace(
                    row, state=MachineState.REGISTERED, registered_at=self._now, idle_since=self._now, takes_work=True
                )  # fmt: skip
            elif row.used_slots and self._now >= host.busy_until:
                host.row = replace(row, used_slots=0, idle_since=self._now)
            if (
                host.row.takes_work
                and not host.row.used_slots
                and self._queue
                and not host.ended_at
            ):
                self._queue.pop(0)
                host.busy_until = self._now + self._rng.uniform(60, 7200)
                host.row = replace(host.row, used_slots=1, idle_since=None)

    def _snapshot(self) -> PoolSnapshot:
        warm = None
        if self.policy is not None:
            warm = WarmHistory(self._rates, (BOOT_S + TICK_S) / 3600, self._ledger)
        rows = tuple(host.row for host in self._hosts if host.ended_at is None)
        holds = (self._hold,) if self._hold else ()
        return PoolSnapshot(
            "pool", self._limits, self._offers, tuple(self._queue), rows, holds=holds, warm=warm
        )

    def _apply(self, plan: ProvisionPlan) -> None:
        for decision in plan.warm:
            self._ledger = decision.ledger
        ends = {id for id, _ in plan.terminate}
        for host in self._hosts:
            if host.row.id in ends:
                host.ended_at = self._now
        for launch in plan.launch:
            id = f"m{len(self._hosts)}"
            row = Machine(
                id, "pool", launch.offers[0], MachineState.LAUNCHED, self._now, self._now, purpose=launch.purpose
            )  # fmt: skip
            self._hosts.append(Host(row))

    def _pay(self) -> None:
        """Count a minute of each warm machine. An ended machine costs another minute."""
        alive = [h for h in self._hosts if h.ended_at is None or h.ended_at == self._now]
        unused = [h for h in alive if not h.busy_until]
        unused.sort(key=lambda host: host.row.offer.price_usd_hour)
        late = [h for h in alive if h.busy_until and self._is_late(h.row)]
        warm = unused[: max(0, len(unused) - len(self._queue))] + late
        usd_hour = sum((host.row.offer.price_usd_hour for host in warm), Decimal(0))
        self.cost_of_days[int(self._now // DAY)] += float(usd_hour) * TICK_S / 3600
        self.most_warm = max(self.most_warm, len(warm))
        if self._hold:
            self.held_machines.append(sum(host.ended_at is None for host in warm))

    def _is_late(self, row: Machine) -> bool:
        """Return whether a machine is idle for longer than its idle time, and the minute in which it ends."""
        most_s = self._limits.max_idle_s + TICK_S
        return row.idle_since is not None and self._now - row.idle_since > most_s
