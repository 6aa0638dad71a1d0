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
def test_idle_machine_is_terminated(state: MachineState) -> None:
    assert plan(state=state).terminate == (Terminate("m", TerminateReason.LEFT_OVER),)


def test_busy_machine_is_drained_and_then_terminated() -> None:
    working = plan(used_slots=1)
    assert working.drain == (Drain("m", DrainReason.LEFT_OVER),)
    assert working.terminate == ()
    draining = plan(used_slots=1, state=MachineState.DRAINING)
    assert (draining.drain, draining.terminate) == ((), ())
    finished_draining = plan(state=MachineState.DRAINING)
    assert finished_draining.terminate == (Terminate("m", TerminateReason.DRAINED),)


def test_disconnected_machine_is_terminated_after_ten_minutes() -> None:
    silent = plan(used_slots=1, disconnected_since=NOW - 300)
    assert (silent.terminate, silent.next_at) == ((), NOW + 300)
    disconnected = plan(used_slots=1, disconnected_since=NOW - 601)
    assert disconnected.terminate == (Terminate("m", TerminateReason.DISCONNECTED),)


@pytest.mark.parametrize(
    "state", [MachineState.TERMINATING, MachineState.GONE, MachineState.FAILED]
)
def test_terminating_machine_is_not_terminated_again(state: MachineState) -> None:
    assert plan(state=state).terminate == ()
