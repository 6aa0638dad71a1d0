"""Replay traces of spot availability with a deadline: the product's policy, its peers, and the optimum.

Times are hours. Prices are parts of the price on demand.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from det_controlplane.core.provision.deadline_choice import (
    NOWHERE,
    DeadlineWork,
    Place,
    Way,
    choose,
)
from det_controlplane.core.provision.spot_spells import SpotOffer

ON_DEMAND = -1
# Steps of the optimum in a tick.
PARTS = 2
IMPOSSIBLE = 1e9


@dataclass(frozen=True)
class Trace:
    """The availability of spot machines in some zones at each tick."""

    name: str
    tick_h: float
    zones: tuple[tuple[bool, ...], ...]

    def cut(self, start: int, ticks: int) -> "Trace":
        return replace(self, zones=tuple(zone[start : start + ticks] for zone in self.zones))


def read_traces(folder: Path, machines: int | None = None) -> list[Trace]:
    """Return each zone of each set alone, and the zones of each set together.

    A set is a folder of JSON files. A zone is available if it has enough machines: by default, the most of its set.
    """
    traces: list[Trace] = []
    for directory in sorted({path.parent for path in folder.rglob("*.json")}):
        zones: dict[str, list[int]] = {}
        ticks = set()
        for path in sorted(directory.glob("*.json")):
            document = json.loads(path.read_text())
            zones[path.stem] = document["data"]
            ticks.add(document["metadata"]["gap_seconds"] / 3600)
        if len(ticks) != 1:
            raise SystemExit(f"{directory}: the files have different gap_seconds: {sorted(ticks)}")
        (tick_h,) = ticks
        needed = machines or max(max(data) for data in zones.values())
        rows = {name: tuple(count >= needed for count in counts) for name, counts in zones.items()}
        traces += [Trace(name, tick_h, (row,)) for name, row in rows.items()]
        if len(rows) > 1:
            length = min(map(len, rows.values()))
            together = tuple(row[:length] for row in rows.values())
            traces.append(Trace(f"{directory.name} ({len(rows)} zones)", tick_h, together))
    if not traces:
        raise SystemExit(f"{folder}: there are no traces (JSON files) in it")
    return traces


@dataclass(frozen=True)
class Job:
    """Work of some hours with a deadline."""

    work_h: float
    slack: float  # as a part of the work
    restart_h: float
    spot_price: float

    def ticks(self, trace: Trace) -> int:
        """Return the ticks before the deadline."""
        return math.floor(self.work_h * (1 + self.slack) / trace.tick_h + 1e-9)


@dataclass(frozen=True)
class Moment:
    """The state of a job at a tick. `place` is a zone, `ON_DEMAND`, or None while the job waits."""

    left_h: float
    work_h: float
    place: int | None
    restart_left_h: float
    available: tuple[bool, ...]


class Policy(Protocol):
    def start(self, job: Job, trace: Trace) -> None: ...

    def choose(self, moment: Moment) -> int | None: ...


@dataclass(frozen=True)
class Outcome:
    cost: float
    missed: bool
    starts: int


def replay(policy: Policy, job: Job, trace: Trace) -> Outcome:
    """Run a job from the first tick of a trace to its end or its deadline."""
    policy.start(job, trace)
    tick, ticks = trace.tick_h, job.ticks(trace)
    work, restart_left, cost, starts = job.work_h, 0.0, 0.0, 0
    place: int | None = None
    for now in range(ticks):
        available = tuple(zone[now] for zone in trace.zones)
        if place is not None and place != ON_DEMAND and not available[place]:
            place = None
        chosen = policy.choose(
            Moment(
                (ticks - now) * tick,
                work,
                place,
                restart_left if place is not None else 0.0,
                available,
            )
        )
        if chosen is None:
            place = None
            continue
        if chosen != place:
            place, restart_left, starts = chosen, job.restart_h, starts + 1
        price = 1.0 if place == ON_DEMAND else job.spot_price
        if restart_left + work <= tick + 1e-9:
            return Outcome(cost + price * (restart_left + work), False, starts)
        cost += price * tick
        work -= max(0.0, tick - restart_left)
        restart_left = max(0.0, restart_left - tick)
    return Outcome(cost, True, starts)


def optimum(job: Job, trace: Trace) -> float:
    """Return the least cost that any policy could have, one that knows the trace included.

    Dynamic programming over ticks, places and the work that is left. A restart is rounded down, so this is a bound.
    """
    unit = trace.tick_h / PARTS
    whole = math.ceil(job.work_h / unit - 1e-9)
    restart = math.floor(job.restart_h / unit + 1e-9)
    size = whole + restart + 1
    after_tick = np.maximum(np.arange(size) - PARTS, 0)
    hours = np.minimum(np.arange(size), PARTS) * unit
    costs = np.full((len(trace.zones) + 2, size), IMPOSSIBLE)  # zones, on demand, waiting
    costs[:, 0] = 0.0
    for now in reversed(range(job.ticks(trace))):
        running = np.full_like(costs, IMPOSSIBLE)
        running[-2] = hours + costs[-2][after_tick]
        for zone, states in enumerate(trace.zones):
            if states[now]:
                running[zone] = hours * job.spot_price + costs[zone][after_tick]
        started = np.full(size, IMPOSSIBLE)
        started[: size - restart] = running.min(axis=0)[restart:]
        moved = np.minimum(started, costs[-1])
        costs = np.minimum(running, moved)
        costs[:, 0] = 0.0
    return float(costs[-1][whole])


class OnDemandOnly:
    def start(self, job: Job, trace: Trace) -> None:
        pass

    def choose(self, moment: Moment) -> int | None:
        return ON_DEMAND


class _SpotWithSafetyNet:
    """Base of policies that run on demand until the end as soon as any loss could make the work late."""

    def start(self, job: Job, trace: Trace) -> None:
        self.job, self.tick_h = job, trace.tick_h
        self.whole_h = job.ticks(trace) * trace.tick_h
        self.is_safe = False

    def spot(self, moment: Moment) -> int | None:
        """Return the zone that runs the work, or else the first available one."""
        if moment.place is not None and moment.place != ON_DEMAND:
            return moment.place
        return next((zone for zone, here in enumerate(moment.available) if here), None)

    def can_lose(self, moment: Moment, restart_left_h: float) -> bool:
        """Return whether the work can finish on demand if the next tick ends without a machine."""
        done = max(0.0, self.tick_h - restart_left_h)
        left = moment.left_h - self.tick_h
        return left >= moment.work_h - done + self.job.restart_h - 1e-9

    def may_run_on(self, zone: int, moment: Moment) -> bool:
        stays = zone == moment.place
        return self.can_lose(moment, moment.restart_left_h if stays else self.job.restart_h)

    def may_wait(self, moment: Moment) -> bool:
        return self.can_lose(moment, self.tick_h)


class Greedy(_SpotWithSafetyNet):
    """Run on spot where it is available, else wait, and run on demand when the time gets short."""

    def choose(self, moment: Moment) -> int | None:
        zone = self.spot(moment)
        self.is_safe = self.is_safe or not (
            self.may_wait(moment) if zone is None else self.may_run_on(zone, moment)
        )
        return ON_DEMAND if self.is_safe else zone


class UniformProgress(_SpotWithSafetyNet):
    """The policy of "Can't Be Late" (NSDI 2024): never be behind a uniform progress from start to deadline."""

    def choose(self, moment: Moment) -> int | None:
        restart = self.job.restart_h
        spot = self.spot(moment)
        if moment.left_h < moment.work_h + 2 * restart + self.tick_h:
            self.is_safe = True
        if self.is_safe:
            stays = spot is not None and spot == moment.place and self.may_run_on(spot, moment)
            return spot if stays else ON_DEMAND
        now = self.whole_h - moment.left_h
        rate = self.job.work_h / self.whole_h
        done = self.job.work_h - moment.work_h
        if moment.place == ON_DEMAND:
            # It leaves the machine only if the time of two restarts is gained.
            return ON_DEMAND if done < rate * (now + 2 * restart) else spot
        if spot is not None:
            return spot
        return ON_DEMAND if done < rate * now else None


class Product:
    """The policy of the product. It knows only the ticks of the job that have passed."""

    def start(self, job: Job, trace: Trace) -> None:
        self.job, self.tick_h = job, trace.tick_h
        self.offers: list[SpotOffer] = []

    def choose(self, moment: Moment) -> int | None:
        self._observe(moment.available)
        place = NOWHERE
        if moment.place == ON_DEMAND:
            place = Place(Way.ON_DEMAND, "", moment.restart_left_h)
        elif moment.place is not None:
            place = Place(Way.SPOT, str(moment.place), moment.restart_left_h)
        work = DeadlineWork(moment.left_h, moment.work_h, self.job.restart_h, self.tick_h, place)
        choice = choose(work, self.offers)
        if choice.way is Way.SPOT:
            return int(choice.offer)
        return ON_DEMAND if choice.way is Way.ON_DEMAND else None

    def _observe(self, available: Sequence[bool]) -> None:
        if not self.offers:
            price = self.job.spot_price
            self.offers = [SpotOffer(str(z), price, here) for z, here in enumerate(available)]
            return
        self.offers = [
            offer.after(self.tick_h, here)
            for offer, here in zip(self.offers, available, strict=True)
        ]


POLICIES: dict[str, type[Policy]] = {
    "product": Product,
    "uniform_progress": UniformProgress,
    "greedy": Greedy,
    "on_demand": OnDemandOnly,
}
