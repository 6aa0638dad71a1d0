"""Simulate a month of a team's work on rented machines, for docs/cost.md.

The decisions, cooldowns and prices are the product's own. `bench.reference_market` is the spot market. The same
work runs on spot capacity with fallback, and on demand. Only the seed determines random values.

`python -m bench.reference_month --traces DIR` replays traces of the same zones. It prints outcomes as JSON lines.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from uuid import UUID

from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.providers import Section
from det_controlplane.core.lifecycle.machine import MachineState as S
from det_controlplane.core.provision.catalog import machine_type
from det_controlplane.core.provision.cooldown import after_refusal, after_success
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Cooldown,
    Demand,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionSnapshot,
)
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.core.provision.prices import MarketKnowledge, Quote, current, wanted_of
from det_controlplane.core.provision.warm import StartRate, WarmHistory, WarmLedger, WarmPolicy
from det_controlplane.ports.compute import CloudMachine, LaunchRequest, Place
from det_controlplane.testing.fakecloud import CloudFaults, FakeCloud, RentedMachine, SpotSpells
from det_controlplane.testing.fakemarket import FakeMarket

from bench.reference_market import PLENTY, SCARCITY, DrawnSpells, Factors, TracedSpells

SEED, DAYS, USERS = 20260, 30, 20
TYPES = ("g4dn.xlarge", "g4dn.12xlarge", "g5.xlarge")
# A third of the reclaims comes without a notice.
FAULTS = CloudFaults(reclaims_unannounced=0.33, slow_boot=0.05)
DRIFT = 0.15  # of spot prices
HOUR, DAY = 3600.0, 86_400.0
BOOT_S = 120.0
CHECKPOINT_S = 600.0  # between checkpoints of a trial
RESTART_S = 60.0  # to pull the image and to restore
LONGEST_STEP_S = 600.0
PRICES_S = 1800.0


@dataclass(slots=True)
class Trial:
    """Work of some slots. `left_s` counts from its last checkpoint."""

    id: str
    job: str
    slots: int
    submitted: float
    left_s: float
    started: float = 0.0


@dataclass(slots=True)
class Host:
    """A machine as the control plane knows it, with the trials on it."""

    row: Machine
    cloud: RentedMachine
    trials: list[Trial] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.row.offer.slots - sum(trial.slots for trial in self.trials)


@dataclass(frozen=True, slots=True)
class Outcome:
    trials: int
    gpu_hours: float  # of submitted work
    machine_hours: float
    active_hours: float  # with at least one machine
    machines: int
    reclaims: int
    refusals: int
    usd: float
    longest_wait_h: float
    median_wait_s: float  # until the first trial of a job starts
    p95_wait_s: float
    warm_usd: float  # a part of `usd`
    warm_usd_day: float  # the most on a day


def work(seed: int, days: int) -> list[Trial]:
    """Return the trials that the team submits: during the day, and few at weekends."""
    rng = random.Random(f"{seed}/work")
    trials: list[Trial] = []
    for day in range(days):
        busy = 0.05 if day % 7 in (5, 6) else 1.0
        for user in range(USERS):
            at = day * DAY + rng.uniform(9, 18) * HOUR
            kind = rng.random()
            if rng.random() > busy or kind > 0.73:
                continue
            job = f"{day}-{user}"
            if kind < 0.5:
                lengths = [(1, rng.uniform(1, 4) * HOUR)]
            elif kind < 0.65:  # an adaptive search, in which most trials stop at a first rung
                rungs = rng.choices((0.25, 1.0, 3.0), (60, 25, 15), k=16)
                lengths = [(1, rung * HOUR) for rung in rungs]
            else:
                lengths = [(4, rng.uniform(2, 6) * HOUR)]
            trials += [
                Trial(f"{job}.{n}", job, slots, at, length)
                for n, (slots, length) in enumerate(lengths)
            ]
    return sorted(trials, key=lambda trial: (trial.submitted, trial.id))


def offers(capacities: Sequence[Capacity], zones: Iterable[str]) -> tuple[Offer, ...]:
    """Return T4 and A10G machines of AWS at list prices."""
    return tuple(
        Offer("aws", zone[:-1], zone, name, capacity, machine.type.slots, machine.price(zone[:-1], capacity))
        for name in TYPES
        for machine in [machine_type("aws", name)]
        for zone in zones
        for capacity in capacities
    )  # fmt: skip


class Month:
    """Simulates the work on one pool, from one event to the next."""

    def __init__(
        self,
        capacities: Sequence[Capacity],
        zones: Collection[str],
        spells: SpotSpells,
        seed: int,
        days: int,
        warm: WarmPolicy | None = None,
    ) -> None:
        self.now = 0.0
        self._coming = work(seed, days)
        self._trials = len(self._coming)
        self._gpu_hours = sum(t.slots * t.left_s for t in self._coming) / HOUR
        self._queue: list[Trial] = []
        self._hosts: list[Host] = []
        self._done = 0
        self._wait_s = 0.0
        self._waits_s: dict[str, float] = {}
        self._jobs: dict[tuple[str, int], int] = {}  # slots by job and hour of the month
        self._ledger, self._warm_usd = WarmLedger(0.0), [0.0] * (days + 3)
        self._reclaims = self._refusals = 0
        self._cooldowns: tuple[Cooldown, ...] = ()
        self._interruptions: list[tuple[Scope, float]] = []
        self._ids = random.Random(f"{seed}/ids")
        self._cloud = FakeCloud(
            "aws", seed, FAULTS, now=lambda: self.now, boot_s=BOOT_S, spells=spells
        )
        self._region = next(iter(zones))[:-1]
        self._listed = offers(capacities, zones)
        self._market = FakeMarket("aws", now=lambda: self.now, seed=seed, drift=DRIFT)
        self._market.follow([o for o in self._listed if o.capacity is Capacity.SPOT])
        self._pool = Pool(sections=(Section("aws", {}, (self._region,)),))
        self._known, self._read_at = MarketKnowledge(), -PRICES_S
        self._limits = Limits(max_instances=60, max_idle_s=600, preemption=False, warm_policy=warm)
        self._next_decision = 0.0

    def play(self) -> Outcome:
        while self._coming or self._queue or self._hosts:
            self.now = self._next_event()
            while self._coming and self._coming[0].submitted <= self.now:
                trial = self._coming.pop(0)
                self._jobs[trial.job, int(trial.submitted // HOUR)] = trial.slots
                self._queue.append(trial)
            self._attend()
            self._place()
            self._decide()
        machines = self._cloud.rented
        return Outcome(
            trials=self._done,
            gpu_hours=round(self._gpu_hours, 1),
            machine_hours=round(sum(m.ends_at - m.launched_at for m in machines) / HOUR, 1),
            active_hours=round(_union_s((m.launched_at, m.ends_at) for m in machines) / HOUR, 1),
            machines=len(machines),
            reclaims=self._reclaims,
            refusals=self._refusals,
            usd=float(round(self._cloud.cost_usd(), 2)),
            longest_wait_h=round(self._wait_s / HOUR, 2),
            median_wait_s=round(median(self._waits_s.values()), 1),
            p95_wait_s=round(quantiles(self._waits_s.values(), n=20)[-1], 1),
            warm_usd=round(sum(self._warm_usd), 2),
            warm_usd_day=round(max(self._warm_usd), 2),
        )

    def _next_event(self) -> float:
        times = [self._next_decision]
        times += [trial.submitted for trial in self._coming[:1]]
        for host in self._hosts:
            machine = host.cloud
            times += [machine.boots_at, machine.notice_at, machine.ends_at]
            times += [trial.started + RESTART_S + trial.left_s for trial in host.trials]
        later = [time for time in times if time > self.now]
        busy = self.now + LONGEST_STEP_S if self._queue or self._hosts else float("inf")
        return min([*later, busy])

    def _attend(self) -> None:
        """Process ended trials, announced reclaims and new machines."""
        for host in list(self._hosts):
            machine = host.cloud
            for trial in [t for t in host.trials if self._is_done(t)]:
                host.trials.remove(trial)
                self._done += 1
                host.row = replace(host.row, idle_since=self.now)
            if self.now >= machine.ends_at:
                self._requeue(host, announced=False)
                self._hosts.remove(host)
            elif self.now >= machine.notice_at and host.row.leaving_since is None:
                self._requeue(host, announced=True)
                self._interrupted(host)
                host.row = replace(host.row, leaving_since=self.now, takes_work=False)
            elif host.row.state is S.LAUNCHED and machine.runs_agent(self.now):
                host.row = replace(
                    host.row, state=S.REGISTERED, registered_at=self.now, takes_work=True, idle_since=self.now
                )  # fmt: skip

    def _is_done(self, trial: Trial) -> bool:
        return self.now >= trial.started + RESTART_S + trial.left_s

    def _requeue(self, host: Host, *, announced: bool) -> None:
        """Return work to the queue. With a notice it saved a checkpoint, otherwise it continues from the last one."""
        if host.trials and not announced:
            self._interrupted(host)
        for trial in host.trials:
            work_s = max(0.0, self.now - trial.started - RESTART_S)
            saved_s = work_s if announced else work_s - work_s % CHECKPOINT_S
            trial.left_s = max(trial.left_s - saved_s, 1.0)
            trial.submitted = self.now
            self._queue.insert(0, trial)
        host.trials.clear()

    def _interrupted(self, host: Host) -> None:
        self._reclaims += 1
        scope = Scope.of(host.row.offer)._replace(capacity="")
        self._interruptions.append((scope, self.now))

    def _place(self) -> None:
        """Assign free slots to the queue in its order, on the machine with the fewest remaining slots."""
        for trial in list(self._queue):
            free = [h for h in self._hosts if h.row.takes_work and h.free >= trial.slots]
            if not free:
                continue
            host = min(free, key=lambda h: (h.free, h.row.id))
            host.trials.append(trial)
            self._wait_s = max(self._wait_s, self.now - trial.submitted)
            self._waits_s.setdefault(trial.job, self.now - trial.submitted)
            trial.started = self.now
            self._queue.remove(trial)

    def _decide(self) -> None:
        plan = decide(self._snapshot(), self.now)
        self._next_decision = float("inf") if plan.next_at is None else plan.next_at
        for decision in plan.warm:
            self._ledger = decision.ledger
            self._warm_usd[int(self.now // DAY)] = decision.ledger.spent_usd
        by_id = {host.row.id: host for host in self._hosts}
        for id, _ in plan.drain:
            by_id[id].row = replace(by_id[id].row, state=S.DRAINING, takes_work=False)
        for id, _ in plan.terminate:
            host = by_id[id]
            self._cloud.terminate([_listed(host.cloud)])
            host.row = replace(host.row, state=S.TERMINATING, takes_work=False)
        has_refusal = False
        for launch in plan.launch:
            has_refusal |= not self._launch(launch.offers, launch.purpose)
        if has_refusal:
            self._next_decision = self.now + 1.0

    def _snapshot(self) -> ProvisionSnapshot:
        demand = tuple(
            Demand(t.id, t.job, t.slots, t.submitted, single_agent=t.slots > 1) for t in self._queue
        )
        machines = tuple(
            replace(
                host.row,
                used_slots=sum(t.slots for t in host.trials),
                idle_since=None if host.trials else host.row.idle_since,
            )
            for host in self._hosts
        )
        pool = PoolSnapshot(
            "gpu", self._limits, self._offers(), demand, machines, warm=self._warm()
        )
        recent = tuple((s, at) for s, at in self._interruptions if self.now - at < 3 * DAY)
        return ProvisionSnapshot((pool,), self._cooldowns, recent)

    def _warm(self) -> WarmHistory | None:
        """Return the starts of the days like today, as the query of `db.machines.warm_pools` counts them."""
        if self._limits.warm_policy is None:
            return None
        today = int(self.now // DAY)
        is_free = today % 7 in (5, 6)
        days = max(
            2 if is_free else 5, sum((day % 7 in (5, 6)) is is_free for day in range(today + 1))
        )
        starts = Counter(
            (hour % 24, slots)
            for (_, hour), slots in self._jobs.items()
            if (hour // 24 % 7 in (5, 6)) is is_free
        )
        # The first day of the month is a Monday, and the first day of the product's time a Thursday.
        is_weekend = (today + 3) % 7 >= 5
        rates = (StartRate(is_weekend, *key, count / days) for key, count in starts.items())
        return WarmHistory(tuple(rates), (BOOT_S + RESTART_S) / HOUR, self._ledger)

    def _offers(self) -> tuple[Offer, ...]:
        if self.now - self._read_at >= PRICES_S:
            queries = sorted({wanted_of(o, self._pool.sections) for o in self._listed})
            prices = self._market.read(Place(self._region, {}), queries)
            self._known = MarketKnowledge(
                {p.scope: Quote(p.usd_hour, self.now) for p in prices.prices}
            )
            self._read_at = self.now
        return current(self._listed, self._pool.sections, self._known)

    def _launch(self, choices: tuple[Offer, ...], purpose: str) -> bool:
        id = UUID(int=self._ids.getrandbits(128), version=4)
        outcome = self._cloud.launch(LaunchRequest("month", "gpu", id, 1, choices, {}, ""))
        cooldowns = {c.scope: c for c in self._cooldowns}
        for r in outcome.refusals:
            self._refusals += 1
            cooldowns[r.scope] = after_refusal(
                cooldowns.get(r.scope), r.kind, r.scope, r.sentence, self.now, hint=r.hint
            )
        self._cooldowns = tuple(cooldowns.values())
        if outcome.machine is None:
            return False
        machine = self._cloud.rented[-1]
        self._cooldowns = after_success(self._cooldowns, machine.offer)
        row = Machine(
            str(id), "gpu", machine.offer, S.LAUNCHED, self.now, self.now, purpose=purpose
        )
        self._hosts.append(Host(row, machine))
        return True


def _union_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return the number of seconds that are in at least one of the spans."""
    total, until = 0.0, 0.0
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _listed(machine: RentedMachine) -> CloudMachine:
    return CloudMachine("aws", machine.offer.region, machine.zone, machine.cloud_id, "running")


ANY, ON_DEMAND = (Capacity.SPOT, Capacity.ON_DEMAND), (Capacity.ON_DEMAND,)
CASES: dict[str, tuple[Mapping[str, Factors], tuple[Capacity, ...]]] = {
    "spot, often available": (PLENTY, ANY),
    "spot, scarce": (SCARCITY, ANY),
    "on demand": (PLENTY, ON_DEMAND),
}


def played(
    days: int, traces: Path | None = None, warm: WarmPolicy | None = None
) -> dict[str, Outcome]:
    """Return the cost of the same work in each market. Spot machines have on-demand machines as a fallback."""
    outcomes = {}
    for name, (zones, capacities) in CASES.items():
        spells = TracedSpells(traces, zones, TYPES) if traces else DrawnSpells(zones, SEED)
        outcomes[name] = Month(capacities, zones, spells, SEED, days, warm).play()
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, metavar="DIR", help="a folder of trace files")
    parser.add_argument(
        "--warm", type=float, metavar="USD", help="keep machines warm for at most this a day"
    )
    args = parser.parse_args()
    warm = None if args.warm is None else WarmPolicy(args.warm)
    for name, outcome in played(DAYS, args.traces, warm).items():
        print(json.dumps({"market": name, **asdict(outcome)}))


if __name__ == "__main__":
    main()
