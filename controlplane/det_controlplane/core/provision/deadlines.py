"""Decide how an experiment with a deadline gets its machines: it waits, or uses spot machines or machines on demand."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import NamedTuple

from det_controlplane.core.config.moments import format_hours
from det_controlplane.core.lifecycle.machine import MachineState

from .cooldown import Cooldowns, clock
from .deadline_choice import NOWHERE, Choice, DeadlineWork, Place, Way, choose
from .deadline_model import DeadlineDecision, DeadlineJob, DeadlineRun, DeadlineState
from .deadline_outlook import Outlook, outlook
from .market import Excluded, Market, money
from .model import LEAST_URGENT, Demand, Limits, Machine, ProvisionCode
from .offers import Capacity, Offer, Scope
from .placing import could_hold
from .purchases import LEAVING_WORK
from .spot_history import SpotSpell, is_of, spell_of
from .spot_spells import SpotOffer
from .work_left import work_left_h

# A decision is made again after so long at the latest, or a tick later.
LOOK_S = 300.0
_DECISION_H = (LOOK_S + 60.0) / 3600
# A run on demand moves to spot only if that is expected to save so much more than the restart costs, which is rough.
_LEAST_GAIN = 0.5
_HELD = (MachineState.LAUNCHED, MachineState.REGISTERED)


class DeadlineMarket(NamedTuple):
    """The offers of a pool, the history of its spot offers, and its machines."""

    market: Market
    spells: Mapping[Scope, SpotSpell]
    machines: Sequence[Machine]
    limits: Limits


def decide_deadline(job: DeadlineJob, market: DeadlineMarket, now: float) -> DeadlineDecision:
    """Return the machines that an experiment may use until the next decision."""
    return _Decision(job, market, now).decide()


def watched(job: DeadlineJob, now: float) -> DeadlineDecision:
    """Return the outlook of an experiment that is paused or in a pool that rents no machines."""
    market = Market((), Cooldowns((), now), (), now)
    return decide_deadline(job, DeadlineMarket(market, {}, (), Limits()), now)


def with_decisions(demand: Iterable[Demand], decisions: Iterable[DeadlineDecision]) -> list[Demand]:
    """Return the demand with the machines that the decisions about deadlines allow."""
    of_job = {decision.job_id: decision for decision in decisions}
    return [
        replace(
            one, capacity=of_job[one.job_id].capacity, first_offer=of_job[one.job_id].first_offer
        )
        if one.slots and one.job_id in of_job
        else one
        for one in demand
    ]


def demand_of_moves(decisions: Iterable[DeadlineDecision]) -> list[Demand]:
    """Return the demand for machines to which runs are to move. It blocks no other demand."""
    return [
        Demand(
            move_id(run), "", run.slots, 0.0, priority=LEAVING_WORK if decision.is_urgent else LEAST_URGENT,
            capacity=decision.capacity, first_offer=decision.first_offer,
        )
        for decision in decisions
        for run in decision.moving
    ]  # fmt: skip


def move_id(run: DeadlineRun) -> str:
    return f"the move of {run.allocation_id}"


def trial_price(offer: Offer, slots: int) -> Decimal:
    """Return the hourly price of a trial: a share of one machine, or several whole machines."""
    if slots <= offer.slots:
        return offer.price_usd_hour * slots / offer.slots
    return offer.price_usd_hour * math.ceil(slots / offer.slots)


class _Decision:
    """The decision about one experiment."""

    def __init__(self, job: DeadlineJob, market: DeadlineMarket, now: float) -> None:
        self._job = job
        self._market = market.market
        self._spells = market.spells
        self._machines = {machine.id: machine for machine in market.machines}
        self._now = now
        self._fitting = [
            offer
            for offer in market.market.offers
            if job.slots and could_hold(offer, job.slots, job.single_agent, market.limits)
        ]
        on_demand = [
            trial_price(offer, job.slots)
            for offer in self._fitting
            if offer.capacity is Capacity.ON_DEMAND and not offer.is_absent
        ]
        self._price = min(on_demand, default=None)
        self._left_h = (job.deadline - now) / 3600
        self._work_h = work_left_h(job)
        self._restart_h = job.startup_h + (job.unsaved_h if job.runs else 0.0)
        self._machine_ids = tuple(run.machine_id for run in job.runs if run.machine_id)

    def decide(self) -> DeadlineDecision:
        if self._left_h <= 0:
            passed = format_hours(abs(self._left_h))
            return self._any_machine(f"it passed {passed} ago, so any machine is used")
        if self._work_h is None:
            cause = "its pace is not known before the first 2 % of progress, so any machine is used"
            return self._any_machine(f"{cause}; set resources.expected_hours to choose earlier")
        offers = self._spot_offers()
        if self._price is None or not offers:
            cause = "its pool has no choice between spot and on demand"
            return self._any_machine(f"{cause}, so the deadline is only watched")
        work = self._work(self._work_h)
        choice = choose(work, offers)
        expected = outlook(self._job.state, work, choice, offers)
        sentence = f"{self._numbers()}; {self._why(choice, work.place)}"
        return replace(
            self._decision(sentence, expected), way=choice.way, first_offer=choice.offer,
            moving=self._moving(choice), is_urgent=choice.is_last_chance,
        )  # fmt: skip

    def _any_machine(self, cause: str) -> DeadlineDecision:
        expected = Outlook(DeadlineState.ON_TRACK)
        if self._left_h <= 0:
            expected = Outlook(DeadlineState.MISSED)
        elif self._work_h is not None:
            expected = outlook(self._job.state, self._work(self._work_h), None, ())
        return self._decision(f"{self._numbers()}; {cause}", expected)

    def _decision(self, sentence: str, expected: Outlook) -> DeadlineDecision:
        """Return the decision for any machine."""
        if expected.state is DeadlineState.IN_DANGER:
            sentence += "; THE DEADLINE IS IN DANGER"
        next_at = self._now + LOOK_S
        if self._left_h > 0:
            next_at = min(next_at, self._job.deadline)
        end_at = None if expected.end_h is None else self._now + expected.end_h * 3600
        return DeadlineDecision(
            self._job.job_id, self._job.experiment_id, None, sentence, next_at, state=expected.state,
            state_before=self._job.state, end_at=end_at, probability=expected.probability,
            queued=self._job.queued, machine_ids=self._machine_ids,
        )  # fmt: skip

    def _work(self, work_h: float) -> DeadlineWork:
        return DeadlineWork(self._left_h, work_h, self._restart_h, _DECISION_H, self._place())

    def _spot_offers(self) -> list[SpotOffer]:
        """Return the spot offers that fit, are cheaper than a machine on demand, and are not excluded for long."""
        excluded = {one.offer: one for one in self._market.excluded}
        offers = []
        for offer in self._fitting:
            if offer.capacity is not Capacity.SPOT or self._price is None:
                continue
            obstacle = excluded.get(offer)
            is_held = any(is_of(m.offer, offer) for m in self._held_machines())
            if obstacle is not None and not is_held and not _is_passing(obstacle):
                continue
            price = float(trial_price(offer, self._job.slots) / self._price)
            if price < 1:
                is_available = is_held or obstacle is None
                spell = spell_of(self._spells, offer, self._now)
                offers.append(spell.offer(str(offer), price, is_available, self._now))
        return offers

    def _held_machines(self) -> Iterable[Machine]:
        return (
            machine
            for machine in self._machines.values()
            if machine.state in _HELD and machine.leaving_since is None and not machine.stopped
        )

    def _place(self) -> Place:
        """Return the machine that runs the experiment or will. Runs on spot machines count first."""
        places = [self._place_of_run(run) for run in self._job.runs if not run.is_leaving]
        places += [
            self._place_on(machine, machine.requested_at)
            for machine in self._machines.values()
            if machine.purpose in self._job.queued
            and machine.state in (MachineState.REQUESTED, *_HELD)
            and not machine.used_slots
        ]
        places.sort(key=lambda place: place.way is not Way.SPOT)
        return next(iter(places), NOWHERE)

    def _place_of_run(self, run: DeadlineRun) -> Place:
        machine = self._machines.get(run.machine_id)
        since = -math.inf if run.is_training else run.assigned_at
        if machine is None:
            return Place(Way.ON_DEMAND, "", 0.0)
        return self._place_on(machine, since)

    def _place_on(self, machine: Machine, since: float) -> Place:
        restart_left_h = max(0.0, self._job.startup_h - (self._now - since) / 3600)
        if machine.offer.capacity is Capacity.ON_DEMAND:
            return Place(Way.ON_DEMAND, "", restart_left_h)
        alike = (str(offer) for offer in self._fitting if is_of(machine.offer, offer))
        return Place(Way.SPOT, next(alike, str(machine.offer)), restart_left_h)

    def _moving(self, choice: Choice) -> tuple[DeadlineRun, ...]:
        """Return the runs that are to move to machines of the chosen way."""
        if choice.way is Way.ON_DEMAND and choice.is_last_chance:
            return tuple(self._runs_on(Capacity.SPOT))
        if choice.way is not Way.SPOT or any(self._runs_on(Capacity.SPOT)):
            return ()
        gain_h = choice.costs[Way.ON_DEMAND] - choice.costs[Way.SPOT]
        is_worth_it = gain_h >= _LEAST_GAIN * self._restart_h
        return tuple(self._runs_on(Capacity.ON_DEMAND)) if is_worth_it else ()

    def _runs_on(self, capacity: Capacity) -> list[DeadlineRun]:
        return [
            run
            for run in self._job.runs
            if (run.can_move or run.is_leaving)
            and run.machine_id in self._machines
            and self._machines[run.machine_id].leaving_since is None
            and self._machines[run.machine_id].offer.capacity is capacity
        ]

    def _numbers(self) -> str:
        when = datetime.fromtimestamp(self._job.deadline, timezone.utc).strftime(
            "%a %Y-%m-%d %H:%M UTC"
        )
        if self._left_h <= 0:
            return f"deadline {when}"
        work = "" if self._work_h is None else f", about {format_hours(self._work_h)} of work"
        return f"deadline {when}: {format_hours(self._left_h)} left{work}"

    def _why(self, choice: Choice, place: Place) -> str:
        slack_h = self._left_h - (self._work_h or 0.0)
        slack = f"{format_hours(max(0.0, slack_h))} of slack"
        if choice.is_last_chance and slack_h < 0:
            missing = format_hours(-slack_h)
            return f"uses machines on demand, because the work takes {missing} more than is left"
        if choice.is_last_chance:
            return (
                f"uses machines on demand, because {slack} cannot cover the loss of a spot machine"
            )
        alone_h = (self._work_h or 0.0) + (0.0 if place.way is Way.ON_DEMAND else self._restart_h)
        usd, alone_usd = self._usd(choice.costs[choice.way]), self._usd(alone_h)
        expected = f"expected cost {usd}, on demand alone {alone_usd}"
        if choice.way is Way.WAIT:
            look = clock(self._now + LOOK_S)
            sentence = f"{slack}, so it waits for a spot machine ({expected}); next look at {look}"
            return f"{sentence}{self._refusal()}"
        if choice.way is Way.SPOT:
            stays = place.way is Way.SPOT and place.offer == choice.offer
            verb = "stays on" if stays else "uses spot machines, first"
            return f"{slack}, so it {verb} {choice.offer} ({expected})"
        return f"{slack}; a machine on demand is expected to be cheapest now ({expected})"

    def _refusal(self) -> str:
        """Return why no spot offer can be rented. The cause may be an error of the pool, not the spot market."""
        fitting = set(self._fitting)
        for obstacle in self._market.excluded:
            if obstacle.offer in fitting and obstacle.offer.capacity is Capacity.SPOT:
                return f"; {obstacle.offer}: {obstacle.sentence}"
        return ""

    def _usd(self, hours: float) -> str:
        at_once = max(1, len(self._job.runs) or len(self._job.queued))
        return money((self._price or Decimal(0)) * at_once * round(Decimal(hours), 4))


def _is_passing(obstacle: Excluded) -> bool:
    return obstacle.code is ProvisionCode.COOLING_DOWN and obstacle.until is not None
