"""Give an agent that was lost its runs back, where nothing has taken their place yet (docs/concepts/lifecycle.md#agent)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from det_controlplane.core.lifecycle import adoption, generic
from det_controlplane.core.lifecycle.adoption import LostRun, ReturnedContainer
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.generic import GenericTaskState
from det_controlplane.core.lifecycle.trial import Signal, TrialState, signal_for
from det_controlplane.db import allocations, logs, lost_runs
from det_controlplane.db.engine import Tx
from det_controlplane.db.lost_runs import LostContainer, Runs
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.scheduling import stopping
from det_controlplane.services.use_case import Change

log = logging.getLogger("det.agents")


def find_lost(tx: Tx, agent_id: str, reports: Sequence[Report]) -> list[LostContainer]:
    """Return the lost runs that an agent brings back, with their experiments locked.

    Nothing else may be locked before: whoever changes a trial locks its experiment first."""
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
    reports: Sequence[Report]


def adopt(change: Change, back: Return, lost: Sequence[LostContainer]) -> None:
    """Let each run go on that can; the agent kills the others, as nothing lists them."""
    by_id = {report.id: report for report in back.reports}
    for container in lost:
        _adopt_one(change, back, container, by_id[str(container.id)])


def _adopt_one(change: Change, back: Return, lost: LostContainer, report: Report) -> None:
    tx = change.tx
    runs = lost_runs.lock_runs(tx, lost)
    if runs.exit_kind is None:
        return  # it was given back by an earlier try of this request
    task_state = lost_runs.lock_task(tx, lost.task_id) if lost.trial_id is None else None
    trial_state = None if lost.trial_id is None else lost_runs.lock_trial(tx, lost.trial_id)
    run = LostRun(
        exit_kind=runs.exit_kind,
        containers=lost_runs.count_containers(tx, lost),
        successors=[later.successor for later in runs.later],
        trial_state=trial_state,
        task_state=task_state,
        under_killed_task=task_state is not None
        and lost_runs.is_under_killed_task(tx, lost.task_id),
        slots_free=lost_runs.has_free_slots(tx, back.agent_id, lost, runs),
    )
    returned = ReturnedContainer(report.state, report.exit_code, report.failure)
    why_not = adoption.obstacle(run, returned)
    away = f"{(change.now - back.last_seen_at).total_seconds():.0f} s out of contact"
    if why_not:
        outcome = f"Run {lost.run_id} is stopped there: {why_not}."
    else:
        _withdraw(change, runs)
        _revive(change, back.agent_id, lost, report, task_state, trial_state)
        outcome = f"Run {lost.run_id} goes on there.{_withdrawn(runs)}"
    log.info("agent %s: %s", back.agent_id, outcome)
    logs.add_line(
        change.tx,
        lost.task_id,
        f"Agent {back.agent_id} is back after {away}. {outcome}",
        change.now,
    )
    change.wake(f"logs:{lost.task_id}")


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
    agent_id: str,
    lost: LostContainer,
    report: Report,
    task_state: GenericTaskState | None,
    trial_state: TrialState | None,
) -> None:
    tx, now = change.tx, change.now
    # The end itself is taken from the next poll, as any other.
    state = ContainerState.RUNNING if report.terminated else report.state
    lost_runs.revive(tx, lost, state, now)
    lost_runs.hold_slots(tx, agent_id, lost)
    change.allocation_changed(lost.allocation_id)
    if trial_state is not None:
        _stop_if_asked(change, lost, signal_for(trial_state), f"the trial is {trial_state.value}")
        return
    if task_state is None:
        lost_runs.reopen_task(tx, lost.task_id, None, now)
        return
    state_now = generic.after_return(task_state)
    lost_runs.reopen_task(tx, lost.task_id, state_now, now)
    if state_now is GenericTaskState.STOPPING_PAUSED:
        _stop_if_asked(change, lost, Signal.TERMINATE, "the task is paused")


def _stop_if_asked(change: Change, lost: LostContainer, signal: Signal, reason: str) -> None:
    """Ask the run to stop if that was asked of its trial or task while the run was lost."""
    allocation = allocations.lock(change.tx, lost.allocation_id)
    if signal is not Signal.NONE and allocation is not None:
        stopping.stop(change, allocation, signal, reason)
