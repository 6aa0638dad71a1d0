"""Stop allocations: ask for a checkpoint, kill, end, and free their slots."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from det_controlplane.core.lifecycle.allocation import (
    AllocationState,
    Exit,
    ExitKind,
    Signal,
    can_checkpoint,
    end_sentence,
    is_setback,
)
from det_controlplane.db.logs import logs
from det_controlplane.db.logs.logs import NamedLine
from det_controlplane.db.scheduling import allocations, slots
from det_controlplane.db.scheduling.allocations import AllocationRow
from det_controlplane.db.tasks import containers
from det_controlplane.services import use_case
from det_controlplane.services.context import Context
from det_controlplane.services.use_case import Change

# Late log lines and reports of a container that was killed are still taken.
TOKEN_GRACE = timedelta(seconds=60)

KILL_DELAY = timedelta(seconds=10)


def signal(change: Change, allocation: AllocationRow, signal: Signal, reason: str) -> Exit | None:
    """Send a signal to a live allocation. Return its exit if it had no slots, so that it ended at once."""
    exits = signal_all(change, [allocation], signal, reason)
    return exits[0][1] if exits else None


def signal_all(
    change: Change, live: Sequence[AllocationRow], signal: Signal, reason: str
) -> list[tuple[AllocationRow, Exit]]:
    """Send a signal to live allocations. Return the allocations without slots, which end at once, with their exits."""
    if signal is Signal.NONE:
        return []
    queued = [row for row in live if row.state is AllocationState.QUEUED]
    running = [row for row in live if row.state is not AllocationState.QUEUED]
    stop(change, running, signal, reason)
    if running and signal is Signal.TERMINATE:
        # The next tick may be planned for later than the deadline.
        change.wake("schedule")
    exits = [(row, Exit(ExitKind.NEVER_RAN, reason)) for row in queued]
    for row, exit in exits:
        end(change, row, exit)
    return exits


def stop(change: Change, running: Sequence[AllocationRow], signal: Signal, reason: str) -> None:
    """Stop allocations that have slots: ask for a checkpoint if their programs can save one, kill the others."""
    preempted = []
    for row in running:
        if can_checkpoint(row.preemptible, row.ready, signal):
            preempted.append(row)
        else:
            allocations.kill(change.tx, row.id, reason, decided=signal is Signal.KILL)
    _preempt(change, preempted, reason)
    announce(change, running)


def _preempt(change: Change, live: Sequence[AllocationRow], reason: str) -> None:
    """Ask allocations to save a checkpoint and stop, and write a line about it to their logs."""
    if not live:
        return
    allocations.preempt(change.tx, [row.id for row in live], reason, change.now)
    task_ids = [row.task_id for row in live if row.preempt_at is None]
    line = f"The run is asked to save a checkpoint and stop: {reason}."
    logs.add_line_to_each(change.tx, task_ids, line, change.now)


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
        announce(change, [allocation])


def kill_and_requeue(ctx: Context, allocation_id: str, reason: str) -> None:
    """Kill an allocation on a reclaimed machine. Trials and restartable tasks start elsewhere."""
    with use_case.change(ctx) as changed:
        if allocations.lock(changed.tx, allocation_id) is not None:
            allocations.keep_task(changed.tx, allocation_id, changed.now)
            kill_now(changed, allocation_id, reason)


def end(change: Change, allocation: AllocationRow, exit: Exit) -> None:
    """End an allocation: release its slots and revoke its token."""
    reason = exit.message or exit.kind.value
    if exit.pull_failed:
        reason = f"image pull failed: {reason}"
    tx, now = change.tx, change.now
    stop_reason = allocations.end(
        tx, allocation.id, reason=reason, exit=exit, setback=is_setback(exit, ready=allocation.ready),
        now=now, token_expires_at=now + TOKEN_GRACE,
    )  # fmt: skip
    if stop_reason is None:
        return
    sentence = f" was terminated: {end_sentence(exit, stop_reason)}"
    line = NamedLine(allocation.task_id, sentence, level=_level(exit))
    logs.add_named_lines(tx, [line], now)
    announce(change, [allocation])
    change.queue_changed(allocation.pool)
    change.wake(f"logs:{allocation.task_id}")


def _level(exit: Exit) -> str:
    if exit.kind is ExitKind.FAILED or exit.pull_failed:
        return "LOG_LEVEL_ERROR"
    # The next run repeats the work after a failure of a machine or an agent, so it is a warning only.
    return "LOG_LEVEL_WARNING" if exit.kind is ExitKind.INFRASTRUCTURE else "LOG_LEVEL_INFO"


def announce(change: Change, changed: Sequence[AllocationRow]) -> None:
    """Wake the requests and agents that wait for changes of the allocations."""
    if not changed:
        return
    for allocation in changed:
        change.allocation_changed(allocation.id)
    for agent_id in slots.agents_of(change.tx, [allocation.id for allocation in changed]):
        change.wake(f"agent:{agent_id}")


def stop_all_on_agent(
    ctx: Context, agent_id: str, until: datetime | None = None, why: str = ""
) -> bool:
    """Ask every running allocation on the agent to save a checkpoint and stop. Return whether there was any.

    Their deadline is `until` at the latest, also for allocations that were asked before. Allocations that cannot
    save a checkpoint end with their machine: a lost notebook starts again elsewhere, a killed one does not."""
    at = "" if until is None else f" at {until.astimezone(timezone.utc):%H:%M:%S} UTC"
    reason = f"the machine of agent {agent_id} goes away{at}" + (f": {why}" if why else "")
    return ask_all_on_agent(ctx, agent_id, reason, until)


def ask_all_on_agent(
    ctx: Context, agent_id: str, reason: str, until: datetime | None = None
) -> bool:
    """Ask the allocations of an agent to save a checkpoint and stop for a reason. Return whether there was any."""
    with ctx.db.autocommit() as tx:
        allocation_ids = containers.allocations_to_ask(tx, agent_id, until)
    for allocation_id in allocation_ids:
        with use_case.change(ctx) as changed:
            allocation = allocations.lock(changed.tx, allocation_id)
            if allocation is None or allocation.state is AllocationState.TERMINATED:
                continue
            if allocation.preempt_at is None:
                stop(changed, [allocation], Signal.TERMINATE, reason)
            if until is not None:
                allocations.kill_by(changed.tx, allocation_id, until, reason)
                changed.wake("schedule")
    return bool(allocation_ids)
