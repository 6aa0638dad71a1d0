"""Processes that die between two commits, and late messages: work never waits forever because of them."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.experiment import Command
from det_controlplane.core.search import ExitReason
from det_controlplane.db.engine.database import Database
from det_controlplane.db.scheduling import schedule, wait_reasons
from det_controlplane.services.agents import containers
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import actions, creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.scheduling import schedule_pool, stopping
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, pass_time

# Other trials may find theirs valid: one that does not ends no experiment.
SAMPLED = f"{SINGLE}hyperparameters: {{lr: {{type: double, minval: 0, maxval: 1}}}}\n"
_ALLOCATION = text("SELECT * FROM allocations ORDER BY run_id DESC LIMIT 1")
_TRIAL = text("SELECT id, state::text, restarts FROM trials ORDER BY id")
_STATE = text("SELECT state::text FROM containers")
_DIRTY = text("SELECT dirty FROM pools")
_READY = text("UPDATE allocations SET ready = true")


class Crash(Exception):
    pass


def crash(*_: Any, **__: Any) -> Any:
    raise Crash


def submitted(ctx: Context, config: str = SINGLE) -> int:
    experiment = creation.create(ctx, OWNER, creation.Submission(config=config))
    assert experiment.experiment_id is not None
    return experiment.experiment_id


def started(ctx: Context, agent: Agent) -> Report:
    """Report, as its agent does, that the trial's container runs."""
    tick.run(ctx)
    (container,) = agent.poll()
    running = Report(container["id"], container["epoch"], ContainerState.RUNNING)
    agent.poll(running)
    with ctx.db.begin() as tx:
        tx.execute(_READY)
    return running


def one(database: Database, statement: Any) -> Any:
    return database.read(statement)[0]


def test_next_tick_ends_containers_after_a_crash_of_the_first(
    ctx: Context, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(ctx)
    started(ctx, Agent.joined(ctx))
    with monkeypatch.context() as patched:
        patched.setattr(containers, "end_with_agent", crash)
        with pytest.raises(Crash):
            pass_time(ctx, clock, seconds=90)
    tick.run(ctx)
    assert one(ctx.db, _STATE)[0] == "TERMINATED"
    assert (one(ctx.db, _ALLOCATION).run_id, one(ctx.db, _TRIAL).restarts) == (2, 0)


@pytest.mark.parametrize(
    ("module", "step"), [(schedule, "load"), (wait_reasons, "record")], ids=["load", "record"]
)
def test_next_tick_schedules_a_pool_after_a_crashed_pass(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    Agent.joined(ctx)
    submitted(ctx)
    with monkeypatch.context() as patched:
        patched.setattr(module, step, crash)
        with pytest.raises(Crash):
            schedule_pool.run(ctx, "default")
    assert one(ctx.db, _DIRTY)[0]
    tick.run(ctx)
    assert one(ctx.db, _ALLOCATION).state == "ASSIGNED"
    assert not one(ctx.db, _DIRTY)[0]


def test_job_submitted_during_a_pass_leaves_the_pool_dirty(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(ctx)
    load: Callable[..., Any] = schedule.load

    def arriving(*args: Any) -> Any:
        result = load(*args)
        submitted(ctx)
        return result

    with monkeypatch.context() as patched:
        patched.setattr(schedule, "load", arriving)
        schedule_pool.run(ctx, "default")
    assert one(ctx.db, _DIRTY)[0]


def test_late_poll_does_not_reset_the_state_of_a_container(ctx: Context) -> None:
    agent = Agent.joined(ctx)
    submitted(ctx)
    running = started(ctx, agent)
    pulling = Report(running.id, running.epoch, ContainerState.PULLING)
    # It was read while the container was only assigned.
    assert not containers.report(ctx, agent.id, pulling, "ASSIGNED")
    assert one(ctx.db, _STATE)[0] == "RUNNING"
    assert one(ctx.db, _ALLOCATION).state == "RUNNING"


def test_next_poll_preempts_containers_after_a_crash_of_the_first(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent.joined(ctx)
    submitted(ctx)
    running = started(ctx, agent)
    with monkeypatch.context() as patched:
        patched.setattr(stopping, "stop_all_on_agent", crash)
        with pytest.raises(Crash):
            agent.poll(running, leaving=True)
    (container,) = agent.poll(running, leaving=True)
    assert container["preempt"]


def test_pausing_does_not_delay_the_kill_of_an_exited_trial(
    ctx: Context, clock: list[datetime]
) -> None:
    experiment_id = submitted(ctx, SAMPLED)
    started(ctx, Agent.joined(ctx))
    actions.report_early_exit(ctx, one(ctx.db, _TRIAL).id, ExitReason.INVALID_HP)
    due = one(ctx.db, _ALLOCATION).kill_at
    actions.command(ctx, experiment_id, Command.PAUSE)
    assert one(ctx.db, _ALLOCATION).kill_at == due == clock[0] + timedelta(seconds=10)


def test_trial_with_invalid_hyperparameters_ends_after_loss_of_its_agent(
    ctx: Context, clock: list[datetime]
) -> None:
    submitted(ctx, SAMPLED)
    started(ctx, Agent.joined(ctx))
    actions.report_early_exit(ctx, one(ctx.db, _TRIAL).id, ExitReason.INVALID_HP)
    pass_time(ctx, clock, seconds=90)
    assert one(ctx.db, _TRIAL).state == "COMPLETED"


@pytest.mark.parametrize("paused", [False, True], ids=["queued", "paused"])
def test_early_exit_report_ends_a_trial_without_a_container(ctx: Context, paused: bool) -> None:
    """Its report arrives late: the container is gone, and the next one has no slots."""
    experiment_id = submitted(ctx, SAMPLED)
    if paused:
        actions.command(ctx, experiment_id, Command.PAUSE)
    actions.report_early_exit(ctx, one(ctx.db, _TRIAL).id, ExitReason.INVALID_HP)
    assert one(ctx.db, _TRIAL).state == "COMPLETED"
    assert one(ctx.db, _ALLOCATION).state == "TERMINATED"
