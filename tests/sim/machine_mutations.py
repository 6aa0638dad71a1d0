"""Bugs of renting machines, put in on purpose: some world of rented machines must notice each."""

from dataclasses import replace
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

import pytest
import yaml
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision import pool_pass, sightings, upkeep
from det_controlplane.core.provision.cooldown import Cooldowns
from det_controlplane.core.provision.model import TerminateReason
from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.provision.purchases import Allowance
from det_controlplane.db.agents import agents
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.machines import machines
from det_controlplane.db.money import costs
from det_controlplane.db.scheduling import schedule
from det_controlplane.ports.compute import LaunchRequest
from det_controlplane.services.machines import calling

from tests.sim.mutations import Mutation, nothing, without
from tests.world import machine_people
from tests.world.configurations import rented_experiment_config

_SEEDS = range(1, 31)


def _a_token_for_each_call(patch: pytest.MonkeyPatch) -> None:
    calls = count()
    token = property(lambda self: f"{self.machine_id}-{self.attempt}-{next(calls)}")
    patch.setattr(LaunchRequest, "token", token)


def _believe_one_listing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sightings, "ABSENCES_BELIEVED", 1)
    patch.setattr(sightings, "ABSENCE_BELIEVED_S", 0.0)


def _believe_two_listings_within_a_moment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sightings, "ABSENCE_BELIEVED_S", 0.0)


def _ignore_orphans(patch: pytest.MonkeyPatch) -> None:
    reconcile = sightings.reconcile
    patch.setattr(calling, "reconcile", lambda *a: replace(reconcile(*a), orphans=()))


def _end_what_drains_at_once(patch: pytest.MonkeyPatch) -> None:
    dead = upkeep._dead

    def hasty(machine: Any, limits: Any, now: float) -> Any:
        if machine.state is MachineState.DRAINING:
            return TerminateReason.DRAINED
        return dead(machine, limits, now)

    patch.setattr(upkeep, "_dead", hasty)


def _wait_for_ever_for_agents(patch: pytest.MonkeyPatch) -> None:
    dead = upkeep._dead

    def patient(machine: Any, limits: Any, now: float) -> Any:
        reason = dead(machine, limits, now)
        return None if reason is TerminateReason.NEVER_REGISTERED else reason

    patch.setattr(upkeep, "_dead", patient)


def _rent_beyond_the_maximum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pool_pass.PoolPass, "_allowance", lambda self: Allowance(1000, Decimal(10**6)))


def _pay_what_was_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calling, "_rented", lambda ctx, tx, requested, machine: requested.offers[0])


def gangs_only(rng: Random, pools: tuple[str, ...]) -> str:
    config = yaml.safe_load(rented_experiment_config(rng, pools))
    config["resources"]["slots_per_trial"] = 8
    return str(yaml.safe_dump(config))


def _know_no_places(patch: pytest.MonkeyPatch) -> None:
    """Neither rent nor place gangs within one region of one cloud, where all work needs two machines."""
    without(schedule, "_AGENTS", "i.provider || ' ' || i.region", "''")(patch)
    patch.setattr(Offer, "place", "")
    patch.setattr(machine_people, "rented_experiment_config", gangs_only)


def _take_reclaims_for_failed_starts(patch: pytest.MonkeyPatch) -> None:
    original = machines.record_unordered_end

    def suspected(tx: Tx, id: UUID, reason: str, *, no_show: bool) -> str | None:
        return original(tx, id, reason, no_show=True)

    patch.setattr(machines, "record_unordered_end", suspected)


MACHINE_MUTATIONS = tuple(
    Mutation(name, breaks, _SEEDS, rented=True)
    for name, breaks in (
        ("each call for a machine has a token of its own", _a_token_for_each_call),
        ("one listing without a machine is believed", _believe_one_listing),
        ("two listings within a moment are believed", _believe_two_listings_within_a_moment),
        ("machines that nobody asked for are ignored", _ignore_orphans),
        ("draining machines are ended while they work", _end_what_drains_at_once),
        ("agents that never join are awaited for ever", _wait_for_ever_for_agents),
        ("refusals are forgotten at once", nothing(Cooldowns, "of")),
        ("pools rent beyond their maximum", _rent_beyond_the_maximum),
        ("gangs are spread over clouds", _know_no_places),
        ("reclaims count as starts that failed", _take_reclaims_for_failed_starts),
        ("idle machines are kept", nothing(upkeep, "idle_deadline", float("inf"))),
        ("nobody calls the cloud for ends that were ordered", nothing(calling, "_terminate")),
        ("agents outlive their machines", nothing(agents, "give_up")),
        ("a machine costs what the first offer would have", _pay_what_was_asked_for),
        (
            "ended machines go on costing money",
            without(costs, "_BY_POOL", "least(coalesce(i.ended_at, :now), r.before)", "r.before"),
        ),
    )
)
