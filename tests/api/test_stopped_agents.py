"""An agent that ends permanently reports it and is not listed any more."""

from tests.support.api import Api, Caller, create
from tests.support.played_agent import PlayedAgent


def test_agent_that_reports_its_end_is_not_listed(api: Api, admin: Caller) -> None:
    experiment_id = create(admin, activate=True)
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    agent.poll("terminated", failure="aborted", message="the agent is being stopped", gone=True)
    api.tick()
    assert admin.get("/api/v1/agents")["agents"] == []
    assert admin.ask("POST", "/api/v1/agents/a1/enable").status == 404
    assert agent.caller.ask("POST", "/agents/v1/poll", agent.sent).status == 401
    (reason,) = admin.get(f"/api/v1/why/experiment/{experiment_id}")["reasons"]
    assert "no agent" in reason["sentence"]


def test_stopped_agent_is_listed_again_after_joining(api: Api, admin: Caller) -> None:
    agent = PlayedAgent(api, "a1")
    agent.join()
    agent.poll(gone=True)
    agent.join(pool="reserved")
    agent.poll()
    (listed_agent,) = admin.get("/api/v1/agents")["agents"]
    assert (listed_agent["resourcePools"], listed_agent["enabled"]) == (["reserved"], True)
