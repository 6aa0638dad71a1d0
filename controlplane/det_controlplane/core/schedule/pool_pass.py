"""What the schedulers work on: the snapshot, its shadow fleets, the limits, and the outcome so far."""

from dataclasses import replace
from functools import cached_property

from .aux_fleet import AuxFleet
from .fleet import Fleet, Roster
from .job_limits import JobLimits
from .model import PoolSnapshot, PreemptReason, Request, Running
from .outcome import Outcome
from .queue_order import QueueOrder
from .slot_fleet import SlotFleet


class PoolPass:
    def __init__(self, snapshot: PoolSnapshot) -> None:
        self.snapshot = snapshot
        self.order = QueueOrder(snapshot)
        jobs = [request.job for request in snapshot.pending]
        self.requests = self.order.arrange(snapshot.pending, jobs)
        roster = Roster(snapshot.agents, snapshot.settings)
        self._roster = roster
        self.slots = SlotFleet(roster)
        self.limits = JobLimits(jobs, snapshot.running)
        self.outcome = Outcome()
        self.running: list[Running] = list(snapshot.running)

    @cached_property
    def aux(self) -> AuxFleet:
        return AuxFleet(self._roster)

    def fleet_of(self, request: Request) -> Fleet:
        return self.slots if request.slots else self.aux

    def preempt(self, leaving: list[Running], reason: PreemptReason) -> None:
        """Ask to leave, and count on it for the rest of the pass."""
        ids = {running.allocation_id for running in leaving}
        self.outcome.ask(leaving, reason)
        self.running = [
            replace(running, releasing=True) if running.allocation_id in ids else running
            for running in self.running
        ]
