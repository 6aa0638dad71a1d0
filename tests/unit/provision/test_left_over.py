"""Machines of a pool that stopped renting: running work finishes, and then no machine costs money."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Drain,
    DrainReason,
    Machine,
    ProvisionPlan,
    ProvisionSnapshot,
    Terminate,
    TerminateReason,
)
from det_controlplane.core.provision.offers import Capacity, Offer

NOW = 10_000.0
OFFER = Offer("aws", "us-east-1", "us-east-1a", "g5.xlarge", Capacity.SPOT, 1, Decimal(1))
THERE = Machine("m", "gone", OFFER, MachineState.REGISTERED, NOW - 100, NOW - 90, NOW - 50)


def plan(**changes: Any) -> ProvisionPlan:
    return decide(ProvisionSnapshot((), left_over=(replace(THERE, **changes),)), NOW)


@pytest.mark.parametrize(
    "state", [MachineState.REQUESTED, MachineState.LAUNCHED, MachineState.REGISTERED]
)
def test_one_without_work_ends(state: MachineState) -> None:
    assert plan(state=state).terminate == (Terminate("m", TerminateReason.LEFT_OVER),)


def test_one_that_works_gets_no_more_and_ends_when_that_is_done() -> None:
    working = plan(used_slots=1)
    assert working.drain == (Drain("m", DrainReason.LEFT_OVER),)
    assert working.terminate == ()
    draining = plan(used_slots=1, state=MachineState.DRAINING)
    assert (draining.drain, draining.terminate) == ((), ())
    done = plan(state=MachineState.DRAINING)
    assert done.terminate == (Terminate("m", TerminateReason.DRAINED),)


def test_one_whose_agent_is_silent_is_given_up() -> None:
    silent = plan(used_slots=1, disconnected_since=NOW - 300)
    assert (silent.terminate, silent.next_at) == ((), NOW + 300)
    lost = plan(used_slots=1, disconnected_since=NOW - 601)
    assert lost.terminate == (Terminate("m", TerminateReason.DISCONNECTED),)


@pytest.mark.parametrize(
    "state", [MachineState.TERMINATING, MachineState.GONE, MachineState.FAILED]
)
def test_one_that_ends_already_is_left_alone(state: MachineState) -> None:
    assert plan(state=state).terminate == ()
