"""Machines of a pool with changed settings: requests are decided again, and machines are replaced if that is wanted."""

from collections.abc import Sequence
from uuid import UUID

from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.db.agents import agents
from det_controlplane.db.machines import machines
from det_controlplane.services.use_case import Change

# Work on a machine that drains for this reason may finish.
RENEWED = "the settings of its pool changed"


def withdraw_requests(change: Change, pool: str) -> None:
    """Withdraw the machines that no cloud has started yet. The next decision requests others by the new settings."""
    _terminate(change, machines.in_states(change.tx, pool, MachineState.REQUESTED))


def replace_machines(change: Change, pool: str) -> int:
    """Drain the machines of a pool; return their number. Machines without an agent are terminated."""
    starting = machines.in_states(change.tx, pool, MachineState.LAUNCHED)
    joined = machines.in_states(change.tx, pool, MachineState.REGISTERED)
    _terminate(change, starting)
    for id in joined:
        agent = machines.drain(change.tx, id, RENEWED, change.now)
        if agent is not None:
            agents.put_in_service(change.tx, agent, None, enabled=True, draining=True)
    return len(starting) + len(joined)


def _terminate(change: Change, ids: Sequence[UUID]) -> None:
    for id in ids:
        machines.terminate(change.tx, id, RENEWED, change.now)
    if ids:
        change.wake("provision")
