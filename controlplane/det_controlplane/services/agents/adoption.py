"""Continue the runs of a lost agent that joins again, unless a replacement has begun (docs/concepts/lifecycle.md#agent)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from det_controlplane.core.lifecycle import adoption, task
from det_controlplane.core.lifecycle.adoption import LostRun, ReturnedContainer
from det_controlplane.core.lifecycle.allocation import ContainerState, Failure, Signal
from det_controlplane.core.lifecycle.task import GenericTaskState
from det_controlplane.core.lifecycle.trial import TrialState, signal_for
from det_controlplane.db.agents import lost_runs
from det_controlplane.db.agents.lost_runs import LostContainer, Member, Runs
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.logs import logs
from det_controlplane.db.scheduling import allocations
from det_controlplane.services.agents import containers
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import Change

log = logging.getLogger("det.agents")


def find_lost(tx: Tx, agent_id: str, reports: Sequence[Report]) -> list[LostContainer]:
    """Return the lost runs of an agent that joins again, with their experiments locked.

    This must be the first lock of the transaction, because every change of a trial locks its experiment first."""
    if not reports:
        return []
    lost = lost_runs.of_agent(tx, agent_id, [report.id for report in reports])
    epochs = {report.id: report.epoch for report in reports}
    lost = [container for container in lost if epochs[str(container.id)] == container.epoch]
    experiments = {c.experiment_id for c in lost if c.experiment_id is not None}
    if experiments:
        lost_runs.lock_experiments(tx, sorted(experiments))
    return lost


@dataclass(frozen=True, slots=True)
class Return:
    """An agent that joins again, with the containers that it has."""

    agent_id: str
    last_seen_at: datetime
    was_lost: bool
    reports: Sequence[Report]
    wait: timedelta  # for other agents of its runs


def adopt(change: Change, back: Return, lost: Sequence[LostContainer]) -> None:
    """Continue each run that can continue. The agent kills the other containers, because no answer lists them."""
    by_id = {report.id: report for report in back.reports}
    for container in lost:
        outcome = _adopt_one(change, back, container, by_id[str(container.id)])
        if outcome:
            _explain(change, back, container.task_id, outcome)


def _explain(change: Change, back: Return, task_id: str, outcome: str) -> None:
    log.info("agent %s: %s", back.agent_id, outcome, extra={"agent_id": back.agent_id})
    away = f"{(change.now - back.last_seen_at).total_seconds():.0f} s out of contact"
    line = f"Agent {back.agent_id} is back after {away}. {outcome}"
    logs.add_line(change.tx, task_id, line, change.now)
    change.wake(f"logs:{task_id}")


def _adopt_one(change: Change, back: Return, lost: LostContainer, report: Report) -> str:
    """Decide about one lost container; return the outcome for its run, or '' if that stays as it is."""
    tx = change.tx
    runs = lost_runs.lock_runs(tx, lost)
    members = lost_runs.members(tx, lost, back.agent_id, back.last_seen_at)
    own = next((member for member in members if member.id == lost.id), None)
    if runs is None or own is None:
        return ""
    if own.peer.failure != Failure.AGENT_LOST.value:
        return _complete(change, back, lost, members)
    task_state = lost_runs.lock_task(tx, lost.task_id) if lost.trial_id is None else None
    trial_state = None if lost.trial_id is None else lost_runs.lock_trial(tx, lost.trial_id)
    peers = [member for member in members if member is not own]
    absent = [member for member in peers if member.peer.is_awaited]
    run = LostRun(
        exit_kind=runs.exit_kind,
        successors=[later.successor for later in runs.later],
        peers=[member.peer for member in peers],
        ready=runs.ready,
        heard_end=own.peer.heard_end,
        trial_state=trial_state,
        task_state=task_state,
        under_killed_task=task_state is not None
        and lost_runs.is_under_killed_task(tx, lost.task_id),
        slots_free=lost_runs.have_free_slots(tx, [own, *absent], runs),
    )
    container = ReturnedContainer(report.state, report.exit_code, report.failure)
    obstacle = adoption.obstacle(run, container)
    if obstacle:
        return f"Run {lost.run_id} is stopped there: {obstacle}."
    _withdraw(change, runs)
    _revive(change, lost, own, report, absent, change.now + back.wait)
    _reopen_task(change, lost, task_state, trial_state)
    waits = _waits_for(absent, back.wait)
    return f"Run {lost.run_id} goes on there{waits}.{_withdrawn(runs)}"


def _waits_for(absent: Sequence[Member], wait: timedelta) -> str:
    if not absent:
        return ""
    names = " and ".join(member.peer.agent_id for member in absent)
    return f" and waits up to {wait.total_seconds():.0f} s for agent {names}"


def _complete(change: Change, back: Return, lost: LostContainer, members: Sequence[Member]) -> str:
    """Note that an agent joined for which its run waits, or that joined again by a repeated request."""
    if not back.was_lost:
        return ""
    if not any(member.peer.agent_away for member in members):
        lost_runs.stop_waiting_for(change.tx, back.agent_id)
    return f"Run {lost.run_id} goes on there."


def _withdrawn(runs: Runs) -> str:
    numbers = [str(later.successor.run_id) for later in runs.later]
    if not numbers:
        return ""
    return f" Run {' and '.join(numbers)}, which had not begun, is withdrawn."


def _withdraw(change: Change, runs: Runs) -> None:
    if not runs.later:
        return
    ids = [later.allocation_id for later in runs.later]
    withdrawn = lost_runs.withdraw(change.tx, ids, change.now)
    for allocation_id in ids:
        change.allocation_changed(allocation_id)
    for agent_id in withdrawn.agents:
        change.wake(f"agent:{agent_id}")
    for pool in withdrawn.pools:
        change.queue_changed(pool)


def _revive(
    change: Change,
    lost: LostContainer,
    own: Member,
    report: Report,
    absent: Sequence[Member],
    deadline: datetime,
) -> None:
    tx, now = change.tx, change.now
    lost_runs.revive(tx, lost, now, deadline if absent else None)
    # The end itself is taken from the next poll, as any other.
    state = ContainerState.RUNNING if report.terminated else report.state
    lost_runs.revive_container(tx, own, state)
    for member in absent:
        lost_runs.revive_container(tx, member, ContainerState.RUNNING)
    allocation = allocations.lock(tx, lost.allocation_id)
    if allocation is not None:
        containers.advance(change, allocation)
    change.allocation_changed(lost.allocation_id)


def _reopen_task(
    change: Change,
    lost: LostContainer,
    task_state: GenericTaskState | None,
    trial_state: TrialState | None,
) -> None:
    """Reopen the task of a revived run; ask the run to stop if its trial or task was paused meanwhile."""
    tx, now = change.tx, change.now
    if trial_state is not None:
        _stop_if_requested(
            change, lost, signal_for(trial_state), f"the trial is {trial_state.value}"
        )
        return
    if task_state is None:
        lost_runs.reopen_task(tx, lost.task_id, None, now)
        return
    state_now = task.after_return(task_state)
    lost_runs.reopen_task(tx, lost.task_id, state_now, now)
    if state_now is GenericTaskState.STOPPING_PAUSED:
        _stop_if_requested(change, lost, Signal.TERMINATE, "the task is paused")


def _stop_if_requested(change: Change, lost: LostContainer, signal: Signal, reason: str) -> None:
    """Ask the run to stop if that was asked of its trial or task while the run was lost."""
    allocation = allocations.lock(change.tx, lost.allocation_id)
    if signal is not Signal.NONE and allocation is not None:
        stopping.stop(change, [allocation], signal, reason)
