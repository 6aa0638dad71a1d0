"""Stop allocations: ask for a checkpoint, kill, end, and free their slots."""

from datetime import timedelta

from det_controlplane.core.lifecycle.allocation import AllocationState, Exit, ExitKind, end_sentence
from det_controlplane.core.lifecycle.trial import Signal
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations, slots
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.services import use_case
from det_controlplane.services.context import Context
from det_controlplane.services.use_case import Change

# Late log lines and reports of a container that was killed are still taken.
TOKEN_GRACE = timedelta(seconds=60)

KILL_DELAY = timedelta(seconds=10)


def signal(change: Change, allocation: AllocationRow, signal: Signal, reason: str) -> Exit | None:
    """Tell a live allocation to stop. One that never got slots ends here: its exit is returned."""
    if signal is Signal.NONE:
        return None
    if allocation.state is AllocationState.QUEUED:
        exit = Exit(ExitKind.NEVER_RAN, reason)
        end(change, allocation, exit)
        return exit
    stop(change, allocation, signal, reason)
    if signal is Signal.TERMINATE:
        # The next tick may be planned for later than the deadline.
        change.wake("schedule")
    return None


def stop(change: Change, allocation: AllocationRow, signal: Signal, reason: str) -> None:
    """Preempt what can checkpoint (it has passed its rendezvous), kill the rest."""
    if signal is Signal.TERMINATE and allocation.preemptible and allocation.ready:
        allocations.preempt(change.tx, allocation.id, reason, change.now)
        if allocation.preempt_at is None:
            logs.add_line(change.tx, allocation.task_id, _asked(reason), change.now)
    else:
        allocations.kill(change.tx, allocation.id, reason, decided=signal is Signal.KILL)
    announce(change, allocation)


def ask_to_leave(
    change: Change, experiment_id: int, request_ids: list[str], reason: str
) -> set[str]:
    """Stop trials for good that are at work and may checkpoint; returns which those were."""
    told = allocations.ask_to_leave(
        change.tx, experiment_id, request_ids, reason, _asked(reason), change.now
    )
    for allocation in told:
        change.allocation_changed(allocation.id)
        for agent_id in allocation.agents:
            change.wake(f"agent:{agent_id}")
    return {allocation.request_id for allocation in told}


def _asked(reason: str) -> str:
    return f"The run is asked to save a checkpoint and stop: {reason}."


def kill_soon(change: Change, allocation: AllocationRow, reason: str) -> None:
    """Let the program end by itself for a moment, then kill it."""
    allocations.kill_by(change.tx, allocation.id, change.now + KILL_DELAY, reason)
    change.wake("schedule")


def kill(ctx: Context, allocation_id: str, reason: str) -> None:
    """Kill an allocation in a transaction of its own."""
    with use_case.change(ctx) as changed:
        kill_now(changed, allocation_id, reason)


def kill_now(change: Change, allocation_id: str, reason: str) -> None:
    """Kill an allocation, unless it has ended."""
    allocation = allocations.lock(change.tx, allocation_id)
    if allocation is not None and allocations.kill(change.tx, allocation_id, reason):
        announce(change, allocation)


def kill_and_requeue(ctx: Context, allocation_id: str, reason: str) -> None:
    """Kill an allocation whose machine is wanted back; trials and tasks that can run again start elsewhere."""
    with use_case.change(ctx) as changed:
        if allocations.lock(changed.tx, allocation_id) is not None:
            allocations.keep_task(changed.tx, allocation_id, changed.now)
            kill_now(changed, allocation_id, reason)


def end(change: Change, allocation: AllocationRow, exit: Exit) -> None:
    """End an allocation: free what it held and let its token die."""
    reason = exit.message or exit.kind.value
    if exit.pull_failed:
        reason = f"image pull failed: {reason}"
    tx, now = change.tx, change.now
    told = allocations.end(
        tx, allocation.id, reason=reason, exit=exit, now=now, token_expires_at=now + TOKEN_GRACE
    )
    if told is None:
        return
    line = NamedLine(
        allocation.task_id, f" was terminated: {end_sentence(exit, told)}", level=_level(exit)
    )
    logs.add_named_lines(tx, [line], now)
    announce(change, allocation)
    change.queue_changed(allocation.pool)
    change.wake(f"logs:{allocation.task_id}")


def _level(exit: Exit) -> str:
    if exit.kind is ExitKind.FAILED or exit.pull_failed:
        return "LOG_LEVEL_ERROR"
    # The next run repeats the work after a failure of a machine or an agent, so it is a warning only.
    return "LOG_LEVEL_WARNING" if exit.kind is ExitKind.INFRASTRUCTURE else "LOG_LEVEL_INFO"


def announce(change: Change, allocation: AllocationRow) -> None:
    change.allocation_changed(allocation.id)
    for agent_id in slots.agents_of(change.tx, allocation.id):
        change.wake(f"agent:{agent_id}")
