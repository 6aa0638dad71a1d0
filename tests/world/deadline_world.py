"""A simulated pool with one experiment that has a deadline, in zones that have spot machines for a while.

The decisions are real, `core.provision.decide`. The clock, the clouds, the scheduler and the training are played here.
The training keeps its pace, saves a checkpoint every ten minutes, and loses the work after it with its machine.
"""

from dataclasses import dataclass, field, replace
from random import Random

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.cooldown import after_refusal, after_success
from det_controlplane.core.provision.deadline_model import DeadlineJob, DeadlineRun
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Cooldown,
    Demand,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionPlan,
    ProvisionSnapshot,
    RefusalKind,
)
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.core.provision.spot_history import (
    SpotSpell,
    after_observation,
    observed_spells,
)
from det_controlplane.core.provision.spot_spells import end_probability

from tests.support.provisioning import NOW, offer, spot

TICK_S = 60.0
DECISION_S = 300.0
JOINS_AFTER_S = 240.0
STARTS_AFTER_S = 60.0
STARTUP_H = (JOINS_AFTER_S + STARTS_AFTER_S + TICK_S) / 3600
CHECKPOINT_S = 600.0
SURE = offer(1, "1.00")
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")


@dataclass
class Zone:
    """The spot machines of one zone, with spells that end as the law says."""

    offer: Offer
    is_available: bool
    factor: float
    age_h: float = 0.0

    def pass_time(self, rng: Random) -> None:
        hours = TICK_S / 3600
        if rng.random() < end_probability(self.age_h, hours, self.factor):
            self.is_available, self.age_h = not self.is_available, 0.0
        else:
            self.age_h += hours


@dataclass
class DeadlineWorld:
    """`DeadlineWorld(seed).play()` returns the seconds between the end of the work and its deadline."""

    seed: int
    now: float = NOW
    machines: dict[str, Machine] = field(default_factory=dict)
    cooldowns: dict[Scope, Cooldown] = field(default_factory=dict)
    spells: dict[Scope, SpotSpell] = field(default_factory=dict)
    reclaims: list[tuple[Scope, float]] = field(default_factory=list)
    runs_on: str = ""
    run: int = 1
    assigned_at: float = 0.0
    saved_at: float = 0.0
    run_s: float = 0.0
    capacity: str = "none"
    capacities: list[str] = field(default_factory=list)  # of the runs

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        zones = ZONES[: self.rng.randint(1, 3)]
        self.zones = {
            zone: Zone(
                spot(1, self.rng.choice(("0.30", "0.40", "0.60")), zone=zone),
                self.rng.random() < 0.6, self.rng.choice((0.3, 1.0, 3.0)),
            )
            for zone in zones
        }  # fmt: skip
        self.offers = (*(zone.offer for zone in self.zones.values()), SURE)
        self.work_h = self.left_h = self.rng.uniform(3, 12)
        slack_h = self.work_h * self.rng.choice((0.02, 0.1, 0.3, 0.6))
        self.deadline = NOW + (1.05 * self.work_h + STARTUP_H + slack_h) * 3600

    def play(self) -> float:
        decided_at = 0.0
        while self.left_h > 0:
            changed = self._pass_time()
            if changed or self.now - decided_at >= DECISION_S:
                while self._decide():  # a refusal or an ended run is decided on at once
                    pass
                decided_at = self.now
            if self.now > self.deadline + 48 * 3600:
                break
        return self.deadline - self.now

    def _pass_time(self) -> bool:
        self.now += TICK_S
        changed = self._train()
        for zone in self.zones.values():
            zone.pass_time(self.rng)
        for machine in list(self.machines.values()):
            if self._is_reclaimed(machine):
                self._lose(machine)
                changed = True
            elif (
                machine.state is MachineState.LAUNCHED
                and self.now - machine.requested_at >= JOINS_AFTER_S
            ):
                self.machines[machine.id] = replace(
                    machine, state=MachineState.REGISTERED, registered_at=self.now, takes_work=True,
                    idle_since=self.now,
                )  # fmt: skip
                changed = True
        return self._schedule() or changed

    def _train(self) -> bool:
        if not self.runs_on or self.now - self.assigned_at <= STARTS_AFTER_S:
            return False
        self.left_h = max(0.0, self.left_h - TICK_S / 3600)
        self.run_s += TICK_S
        if self.now - self.saved_at >= CHECKPOINT_S:
            self.saved_at = self.now
        return False

    def _is_reclaimed(self, machine: Machine) -> bool:
        is_spot = machine.offer.capacity is Capacity.SPOT
        return is_spot and not self.zones[machine.offer.zone].is_available

    def _lose(self, machine: Machine) -> None:
        del self.machines[machine.id]
        self.reclaims.append((Scope.of(machine.offer)._replace(capacity=""), self.now))
        if self.runs_on == machine.id:
            self.left_h = min(self.work_h, self.left_h + self._unsaved_s() / 3600)
            self._end_run()

    def _unsaved_s(self) -> float:
        if not self.runs_on:
            return 0.0
        return max(0.0, self.now - max(self.saved_at, self.assigned_at + STARTS_AFTER_S))

    def _end_run(self) -> None:
        if self.runs_on in self.machines:
            machine = self.machines[self.runs_on]
            self.machines[machine.id] = replace(machine, used_slots=0, idle_since=self.now)
        self.runs_on, self.capacity, self.run = "", "none", self.run + 1

    def _schedule(self) -> bool:
        """Start the queued run on a free machine that its decision allows."""
        for machine in self.machines.values():
            allowed = self.capacity in ("", machine.offer.capacity.value)
            if machine.takes_work and not machine.used_slots and allowed and not self.runs_on:
                self.runs_on, self.assigned_at, self.saved_at = machine.id, self.now, self.now
                self.machines[machine.id] = replace(machine, used_slots=1, idle_since=None)
                self.capacities.append(machine.offer.capacity.value)
                return True
        return False

    def _decide(self) -> bool:
        """Make a decision and apply it. Return whether the next decision has to follow at once."""
        held = [m.offer for m in self.machines.values()]
        self.spells |= observed_spells(self.offers, held, self.reclaims, self.spells, self.now)
        plan = decide(self._snapshot(), self.now)
        (decision,) = plan.deadlines
        before, self.capacity = self.capacity, decision.capacity
        for machine_id, _ in plan.terminate:
            self.machines.pop(machine_id, None)
        is_refused = self._launch(plan)
        if plan.moves:
            self.saved_at = self.now
            self._end_run()
        started = self._schedule()
        return is_refused or bool(plan.moves) or (started and before != self.capacity)

    def _launch(self, plan: ProvisionPlan) -> bool:
        is_refused = False
        for launch in plan.launch:
            first = launch.offers[0]
            scope, is_spot = Scope.of(first), first.capacity is Capacity.SPOT
            is_available = not is_spot or self.zones[first.zone].is_available
            if is_spot:
                spell = self.spells.get(scope)
                self.spells[scope] = after_observation(spell, is_available, self.now)
            if not is_available:
                self.cooldowns[scope] = after_refusal(
                    self.cooldowns.get(scope),
                    RefusalKind.NO_CAPACITY,
                    scope,
                    "no capacity",
                    self.now,
                )
                is_refused = True
                continue
            kept = after_success(self.cooldowns.values(), first)
            self.cooldowns = {cooldown.scope: cooldown for cooldown in kept}
            id = f"m{len(self.machines)}-{self.now:.0f}"
            self.machines[id] = Machine(
                id, "pool", first, MachineState.LAUNCHED, self.now, self.now, purpose=launch.purpose
            )
        return is_refused

    def _snapshot(self) -> ProvisionSnapshot:
        id = f"r{self.run}"
        queued = () if self.runs_on else (id,)
        is_training = self.now - self.assigned_at > STARTS_AFTER_S
        run = DeadlineRun(id, self.runs_on, 1, self.assigned_at, is_training, is_training)
        job = DeadlineJob(
            "j", 1, self.deadline, 1, False, 1 - self.left_h / self.work_h, self.run_s / 3600, self.work_h,
            self._unsaved_s() / 3600, STARTUP_H, queued, (run,) if self.runs_on else (),
        )  # fmt: skip
        pool = PoolSnapshot(
            "pool", Limits(max_instances=4), self.offers, tuple(Demand(q, "j", 1, NOW) for q in queued),
            tuple(self.machines.values()), deadline_jobs=(job,),
        )  # fmt: skip
        return ProvisionSnapshot(
            (pool,), tuple(self.cooldowns.values()), tuple(self.reclaims[-20:]), self.spells
        )
