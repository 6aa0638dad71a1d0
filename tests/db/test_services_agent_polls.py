"""Two polls of one agent at the same time: each may bring what the other brings."""

from typing import Any

import pytest
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.db.engine import Database
from det_controlplane.services import agents, creation, tick
from det_controlplane.services.containers import Report
from det_controlplane.services.principal import AgentPrincipal

from tests.support.searching import OWNER, SINGLE, Agent, context


def test_a_container_that_is_to_be_forgotten_is_not_ordered_too(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    agent = Agent.joined(ctx)
    creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    tick.run(ctx)
    (order,) = agent.poll()
    ended = Report(order["id"], order["epoch"], ContainerState.TERMINATED, exit_code=0)
    duties = agents._duties

    def overtaken(*args: Any) -> Any:
        read = duties(*args)
        monkeypatch.setattr(agents, "_duties", duties)
        agent.poll(ended)
        return read

    monkeypatch.setattr(agents, "_duties", overtaken)
    principal = AgentPrincipal(agent.id, agent.incarnation, "default")
    answer = agents.poll(ctx, agents.Poll(principal, agent.incarnation, [ended], 2)).body
    assert answer["forget"] == [order["id"]]
    assert answer["containers"] == []
