"""Asking for slots, and taking them back: the allocation side of a trial or task."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from det_controlplane.core.lifecycle.allocation import AllocationState, Exit, ExitKind
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.db import allocations, logs, slots, trials
from det_controlplane.db.allocations import AllocationRow, Delay
from det_controlplane.db.engine import Tx
from det_controlplane.db.trials import TrialRow
from det_controlplane.services.effects import Effects

if TYPE_CHECKING:
    from det_controlplane.services.experiments.live import LiveExperiment

# Late log lines and reports of a container that was killed are still taken.
TOKEN_GRACE = timedelta(seconds=60)

KILL_DELAY = timedelta(seconds=10)


def request_for_trial(live: "LiveExperiment", trial: TrialRow, delay: Delay | None = None) -> None:
    """Queue the trial's next allocation."""
    pool = trials.request_allocation(live.tx, trial, live.now, delay)
    live.effects.queue_changed(pool)


def signal(
    live: "LiveExperiment", allocation: AllocationRow, signal: Signal, reason: str
) -> Exit | None:
    """Tell a live allocation to stop. One that never got slots ends here: its exit is returned."""
    if signal is Signal.NONE:
        return None
    if allocation.state is AllocationState.QUEUED:
        exit = Exit(ExitKind.NEVER_RAN, reason)
        end(live.tx, live.effects, allocation, exit, live.now)
        return exit
    stop(live.tx, live.effects, allocation, signal, reason, live.now)
    return None


def stop(
    tx: Tx,
    effects: Effects,
    allocation: AllocationRow,
    signal: Signal,
    reason: str,
    now: datetime,
) -> None:
    """Preempt what can checkpoint (it has passed its rendezvous), kill the rest."""
    if signal is Signal.TERMINATE and allocation.preemptible and allocation.ready:
        allocations.preempt(tx, allocation.id, reason, now)
        if allocation.preempt_at is None:
            logs.add_line(tx, allocation.task_id, _asked(reason), now)
    else:
        allocations.kill(tx, allocation.id, reason)
    announce(tx, effects, allocation)


def ask_to_leave(live: "LiveExperiment", request_ids: list[str], reason: str) -> set[str]:
    """Stop trials for good that are at work and may checkpoint; returns which those were."""
    told = allocations.ask_to_leave(
        live.tx, live.row.id, request_ids, reason, _asked(reason), live.now
    )
    for allocation in told:
        live.effects.allocation_changed(allocation.id)
        for agent_id in allocation.agents:
            live.effects.wake(f"agent:{agent_id}")
    return {allocation.request_id for allocation in told}


def _asked(reason: str) -> str:
    return f"The run is asked to save a checkpoint and stop: {reason}."


def kill_soon(live: "LiveExperiment", allocation: AllocationRow, reason: str) -> None:
    """Let the program end by itself for a moment, then kill it."""
    allocations.kill_by(live.tx, allocation.id, live.now + KILL_DELAY, reason)
    live.effects.wake("schedule")


def end(tx: Tx, effects: Effects, allocation: AllocationRow, exit: Exit, now: datetime) -> None:
    """The allocation is over: free what it held and let its token die."""
    reason = exit.message or exit.kind.value
    if exit.pull_failed:
        reason = f"image pull failed: {reason}"
    expires = now + TOKEN_GRACE
    if not allocations.end(
        tx, allocation.id, reason=reason, exit=exit, now=now, token_expires_at=expires
    ):
        return
    if exit.kind in (ExitKind.FAILED, ExitKind.INFRASTRUCTURE):
        logs.add_line(tx, allocation.task_id, f"This run has failed: {reason}", now, "ERROR")
    announce(tx, effects, allocation)
    effects.queue_changed(allocation.pool)
    effects.wake(f"logs:{allocation.task_id}")


def announce(tx: Tx, effects: Effects, allocation: AllocationRow) -> None:
    effects.allocation_changed(allocation.id)
    for agent_id in slots.agents_of(tx, allocation.id):
        effects.wake(f"agent:{agent_id}")
