"""Agents join with tokens that end, are counted and can be revoked, and speak for themselves only."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tests.support.api import Api, ApiResponse, Caller, create, trial_of
from tests.support.played_agent import PlayedAgent

CPU = {"id": 0, "type": "cpu", "uuid": "u", "brand": "b"}


def join(api: Api, token: str, name: str = "a", **more: Any) -> ApiResponse:
    body = {
        "agent_id": name, "agent_key": f"key of {name}", "incarnation": str(uuid.uuid4()), "pool": "default",
        "version": "0.38.1", "hostname": "h", "addresses": ["127.0.0.1"], "runtime": "process", "slots": [CPU],
        "proof": {"kind": "bootstrap_token", "token": token}, **more,
    }  # fmt: skip
    return api.anonymous().ask("POST", "/agents/v1/join", body)


def token_of(admin: Caller, **more: Any) -> dict[str, Any]:
    agent_token: dict[str, Any] = admin.post("/api/v1/agent-tokens", more)["agentToken"]
    return agent_token


def test_agent_token_has_a_maximum_number_of_uses(api: Api, admin: Caller) -> None:
    token = token_of(admin, maxUses=2)["token"]
    assert [join(api, token, name).status for name in ("a", "b", "c")] == [200, 200, 401]
    assert join(api, token, "a").status == 200, "an agent that comes again is not counted"
    (agent_token,) = admin.get("/api/v1/agent-tokens")["agentTokens"]
    assert (agent_token["uses"], agent_token["maxUses"]) == (2, 2)
    assert "token" not in agent_token


def test_expired_agent_token_is_rejected(api: Api, admin: Caller) -> None:
    token = token_of(admin, lifespan="1h")["token"]
    assert join(api, token, "a").status == 200
    now = api.ctx.now()
    api.ctx.now = lambda: now + timedelta(hours=2)
    assert join(api, token, "b").status == 401
    assert join(api, token, "a").status == 200, "its agents come again after a restart"


def test_revoked_agent_token_is_rejected(api: Api, admin: Caller) -> None:
    created_token = token_of(admin)
    assert join(api, created_token["token"], "a").status == 200
    admin.done("DELETE", f"/api/v1/agent-tokens/{created_token['id']}")
    assert join(api, created_token["token"], "a").status == 401
    assert join(api, created_token["token"], "b").status == 401


def test_bootstrap_token_is_counted_and_can_be_revoked_and_replaced(
    api: Api, admin: Caller
) -> None:
    own = api.ctx.bootstrap_token
    assert [join(api, own, name).status for name in ("a", "b", "b")] == [200, 200, 200]
    (agent_token,) = admin.get("/api/v1/agent-tokens")["agentTokens"]
    assert (agent_token["uses"], agent_token["description"]) == (
        2,
        "the deployment's own (DET_BOOTSTRAP_TOKEN)",
    )
    assert "expiresAt" not in agent_token or agent_token["expiresAt"] is None
    admin.done("DELETE", f"/api/v1/agent-tokens/{agent_token['id']}")
    assert [join(api, own, name).status for name in ("a", "c")] == [401, 401]
    api.ctx.bootstrap_token = "another token of the deployment"
    assert join(api, api.ctx.bootstrap_token, "c").status == 200
    assert join(api, own, "d").status == 401


def test_only_administrators_manage_agent_tokens(user: Caller) -> None:
    assert user.ask("POST", "/api/v1/agent-tokens", {}).status == 403
    assert user.ask("GET", "/api/v1/agent-tokens").status == 403
    assert user.ask("DELETE", "/api/v1/agent-tokens/1").status == 403


@pytest.mark.parametrize(
    "slots",
    [
        [CPU, CPU],
        [{**CPU, "id": -1}],
        [{**CPU, "id": 2**31}],
        [{**CPU, "id": 100_000}],
        [{**CPU, "id": n} for n in range(2000)],
    ],
    ids=["twice", "negative", "huge", "large", "many"],
)
def test_rejects_impossible_slots(api: Api, slots: list[dict[str, Any]]) -> None:
    assert join(api, api.ctx.bootstrap_token, slots=slots).status == 400


def test_agent_sends_logs_only_of_its_own_tasks(api: Api, user: Caller) -> None:
    own = create(user, activate=True)
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    api.tick()
    agent.poll()
    other = create(user)
    tasks = [trial_of(user, experiment)["taskId"] for experiment in (own, other)]
    lines = [{"task_id": task, "log": "spoken", "agent_id": "agent-9"} for task in tasks]
    body = {"batch_id": str(uuid.uuid4()), "logs": lines}
    agent._caller.post("/agents/v1/logs", body)
    stored_lines = [
        [line for line in user.lines(f"/api/v1/tasks/{task}/logs") if line["log"] == "spoken"]
        for task in tasks
    ]
    assert [len(lines) for lines in stored_lines] == [1, 0]
    assert stored_lines[0][0]["agentId"] == "agent-1"


def test_unstorable_log_line_does_not_affect_others(api: Api, user: Caller) -> None:
    """Agents drop a batch that is refused, and it has lines of all tasks of a machine."""
    experiment = create(user, activate=True)
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    api.tick()
    agent.poll()
    task = trial_of(user, experiment)["taskId"]
    odd: list[dict[str, Any]] = [
        {"timestamp": "noon"}, {"timestamp": "0001-01-01T00:00:00+23:59"}, {"rank_id": "x"}, {"rank_id": 2**40},
        {"log": 5}, {"source": {}},
    ]  # fmt: skip
    sent_lines = [{"task_id": task, "log": word} for word in ("before", "after\0\ud800")]
    lines = [sent_lines[0], *({"task_id": task, "log": "odd", **o} for o in odd), sent_lines[1]]
    agent._caller.post("/agents/v1/logs", {"batch_id": str(uuid.uuid4()), "logs": lines})
    texts = [line["log"] for line in user.lines(f"/api/v1/tasks/{task}/logs")]
    assert [text for text in texts if text == "odd" or text.startswith(("before", "after"))] == [
        "before",
        "after\0\ufffd",
    ]


def test_agent_cannot_report_for_containers_of_another(api: Api, user: Caller) -> None:
    owner, other = PlayedAgent(api, "owner"), PlayedAgent(api, "other")
    owner.join()
    experiment = create(user, activate=True)
    api.tick()
    (order,) = owner.poll()
    other.join()
    other.containers = {order["id"]: order}
    assert other.poll("terminated", exit_code=1) == []
    assert [order["id"] for order in owner.poll()] == [order["id"]]
    assert user.get(f"/api/v1/experiments/{experiment}")["experiment"]["state"] == "STATE_RUNNING"


@pytest.mark.parametrize("name", [f"new-{n}" for n in range(5)])
def test_one_of_several_concurrent_agents_gets_the_name(api: Api, name: str) -> None:
    together = threading.Barrier(12)

    def status_of(number: int) -> int:
        together.wait(60)
        return join(api, api.ctx.bootstrap_token, name, agent_key=f"key {number}").status

    with ThreadPoolExecutor(together.parties) as threads:
        statuses = list(threads.map(status_of, range(together.parties)))
    assert sorted(statuses) == [200, *[409] * 11]
