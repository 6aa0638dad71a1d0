"""Two polls of one agent at the same time may contain the same reports."""

from collections.abc import Callable
from typing import Any

import pytest
from det_controlplane.core import agent_protocol
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.db.engine.database import Database
from det_controlplane.services.agents import polling
from det_controlplane.services.agents.containers import Report
from det_controlplane.services.experiments import creation
from det_controlplane.services.maintenance import tick
from sqlalchemy import text

from tests.support.searching import OWNER, SINGLE, Agent, context

_EXPIRIES = text("SELECT count(*) AS tokens, count(expires_at) AS mortal FROM sessions")
_FORGET_TOKENS = text("DELETE FROM sessions")
_DELETE = text("DELETE FROM experiments")


def overtaken_by(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Something happens between the moment a poll has read its duties and the moment it acts on them."""
    extend = polling._extend_lease

    def read(*args: Any) -> Any:
        result = extend(*args)
        monkeypatch.setattr(polling, "_extend_lease", extend)
        happens()
        return result

    monkeypatch.setattr(polling, "_extend_lease", read)


def test_poll_does_not_order_a_container_that_agent_must_forget(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = agent.poll()
    report = Report(order["id"], order["epoch"], ContainerState.TERMINATED, exit_code=0)
    overtaken_by(monkeypatch, lambda: agent.poll(report))
    answer = polling.poll(ctx, polling.Poll(agent.token, agent.incarnation, [report], 2)).message
    assert answer.forget == (order["id"],)
    assert answer.containers == ()


def test_delayed_poll_does_not_restart_an_ended_container(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = agent.poll()
    agent.poll(Report(order["id"], order["epoch"], ContainerState.RUNNING))
    agent = Agent.joined(ctx)  # on another, idle machine
    overtaken: list[agent_protocol.Directive] = []
    earlier = polling.Poll(agent.token, agent.incarnation, [], 1)
    newest = polling.Poll(agent.token, agent.incarnation, [], 2)
    overtaken_by(
        monkeypatch, lambda: overtaken.extend(polling.poll(ctx, earlier).message.containers)
    )
    assert polling.poll(ctx, newest).message.containers == ()
    assert [(listed_order.id, listed_order.spec) for listed_order in overtaken] == [
        (order["id"], None)
    ]


def test_delayed_poll_lists_containers_reported_by_a_newer_poll(database: Database) -> None:
    """An agent kills containers that are not in the answer."""
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = agent.poll()
    pulling = Report(order["id"], order["epoch"], ContainerState.PULLING)
    polling.poll(ctx, polling.Poll(agent.token, agent.incarnation, [pulling], 3))
    (listed_order,) = polling.poll(
        ctx, polling.Poll(agent.token, agent.incarnation, [], 2)
    ).message.containers
    assert (listed_order.id, listed_order.desired, listed_order.spec) == (
        order["id"],
        "running",
        None,
    )


def test_token_created_while_its_allocation_ends_expires(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = agent.poll()
    with database.begin() as tx:
        tx.execute(_FORGET_TOKENS)
    report = Report(order["id"], order["epoch"], ContainerState.TERMINATED, exit_code=0)
    overtaken_by(monkeypatch, lambda: agent.poll(report))
    agent.poll()
    with database.begin() as tx:
        (expiries,) = tx.execute(_EXPIRIES).all()
    assert (expiries.tokens, expiries.mortal) == (1, 1)


def test_concurrent_polls_return_the_same_token_for_a_container(database: Database) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (first,), (second,) = agent.poll(), agent.poll()
    assert first["spec"]["session_token"] == second["spec"]["session_token"]
    with database.begin() as tx:
        (expiries,) = tx.execute(_EXPIRIES).all()
    assert expiries.tokens == 1


def test_poll_does_not_order_a_concurrently_deleted_container(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)

    def delete() -> None:
        with database.begin() as tx:
            tx.execute(_DELETE)

    overtaken_by(monkeypatch, delete)
    assert agent.poll() == []
