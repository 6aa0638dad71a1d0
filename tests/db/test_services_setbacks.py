"""Runs that infrastructure ends before they are ready are tried again later and later."""

from datetime import datetime, timedelta

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState, Failure
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from det_controlplane.services.queue import why
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent

_READY = text("UPDATE allocations SET ready = true WHERE state <> 'TERMINATED'")
_RUN = text("SELECT max(run_id) FROM allocations")
_RESTARTS = text("SELECT restarts FROM trials")


@pytest.fixture
def ctx(ctx: Context) -> Context:
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    return ctx


@pytest.fixture
def agent(ctx: Context) -> Agent:
    return Agent.joined(ctx)


def fails_to_start(ctx: Context, agent: Agent) -> None:
    tick.run(ctx)
    (order,) = agent.poll()
    failure = Failure.AGENT_ERROR.value
    report = Report(
        order["id"], order["epoch"], ContainerState.TERMINATED, None, failure, "no disk"
    )
    agent.poll(report)
    agent.poll()


def starts(ctx: Context, agent: Agent) -> bool:
    agent.poll()
    tick.run(ctx)
    return bool(agent.poll())


def test_run_is_retried_immediately_after_its_first_infrastructure_failure(
    ctx: Context, agent: Agent
) -> None:
    fails_to_start(ctx, agent)
    assert starts(ctx, agent)


def test_second_infrastructure_failure_delays_the_run_without_a_restart(
    ctx: Context, agent: Agent, clock: list[datetime]
) -> None:
    fails_to_start(ctx, agent)
    fails_to_start(ctx, agent)
    assert not starts(ctx, agent)
    (reason,) = why.of(ctx, "experiment", "1")
    assert reason["code"] == "BACKING_OFF"
    assert reason["sentence"] == (
        "failed to start 2 times in a row, the last time because: no disk; it is tried again at 12:00:05 UTC"
    )
    due_s = tick.run(ctx)
    assert due_s is not None
    assert due_s <= 5
    clock[0] += timedelta(seconds=5)
    assert starts(ctx, agent)
    assert ctx.db.read(_RESTARTS)[0][0] == 0


def test_ready_run_resets_the_count_of_infrastructure_failures(
    ctx: Context, agent: Agent, clock: list[datetime]
) -> None:
    fails_to_start(ctx, agent)
    tick.run(ctx)
    (order,) = agent.poll()
    with ctx.db.begin() as tx:
        tx.execute(_READY)
    report = Report(
        order["id"], order["epoch"], ContainerState.TERMINATED, None, "agent_error", "x"
    )
    agent.poll(report)
    assert starts(ctx, agent)
    assert ctx.db.read(_RUN)[0][0] == 3
