"""The links between the GPUs of an agent decide which slots a trial gets."""

import uuid
from itertools import combinations
from typing import Any

import pytest

from tests.support.api import Api, Caller, create
from tests.support.topologies import nvlink_pairs

SLOTS = [
    {"id": n, "type": "cuda", "brand": "A40", "uuid": f"GPU-{n}", "numa_node": n // 2}
    for n in range(4)
]
LINKS = [link._asdict() for link in nvlink_pairs(4)]


def join(api: Api, **more: Any) -> str:
    body = {
        "agent_id": "a", "agent_key": "key", "incarnation": str(uuid.uuid4()), "runtime": "process",
        "slots": SLOTS, "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token}, "links": LINKS,
        **more,
    }  # fmt: skip
    token = api.anonymous().post("/agents/v1/join", body)["agent_token"]
    return f"{body['incarnation']} {token}"


def poll(api: Api, agent: str) -> list[dict[str, Any]]:
    incarnation, token = agent.split()
    body = {"incarnation": incarnation, "seq": 1, "containers": [], "signals": []}
    orders: list[dict[str, Any]] = api.with_token(token).post("/agents/v1/poll", body)["containers"]
    return orders


def test_an_agent_shows_its_links_and_numa_nodes(api: Api, user: Caller) -> None:
    join(api)
    agent = user.get("/api/v1/agents/a")["agent"]
    assert agent["links"] == [
        [0, 1, "NV4"], [0, 2, "SYS"], [0, 3, "SYS"], [1, 2, "SYS"], [1, 3, "SYS"], [2, 3, "NV4"],
    ]  # fmt: skip
    assert [agent["slots"][str(n)]["numaNode"] for n in range(4)] == [0, 0, 1, 1]


def test_an_agent_that_joins_again_without_links_has_none(api: Api, user: Caller) -> None:
    join(api)
    join(api, links=[])
    assert user.get("/api/v1/agents/a")["agent"]["links"] == []


def test_a_trial_gets_the_slots_with_the_best_links(api: Api, user: Caller, admin: Caller) -> None:
    agent = join(api)
    admin.post("/api/v1/agents/a/slots/1/disable", {})
    create(user, activate=True, resources={"slots_per_trial": 2})
    api.tick()
    (order,) = poll(api, agent)
    assert order["spec"]["slot_ids"] == [2, 3]


def test_a_strict_trial_waits_until_a_pair_is_free(api: Api, user: Caller, admin: Caller) -> None:
    agent = join(api)
    for slot in (1, 3):
        admin.post(f"/api/v1/agents/a/slots/{slot}/disable", {})
    id = create(user, activate=True, resources={"slots_per_trial": 2, "topology": "strict"})
    api.tick()
    assert poll(api, agent) == []
    why = str(user.get(f"/api/v1/why/experiment/{id}"))
    assert "linked by SYS" in why
    admin.post("/api/v1/agents/a/slots/3/enable", {})
    api.tick()
    (order,) = poll(api, agent)
    assert order["spec"]["slot_ids"] == [2, 3]


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"a": 0, "b": 9, "kind": "NV4"}, "not two slots"),
        ({"a": 1, "b": 1, "kind": "NV4"}, "not two slots"),
        ({"a": 0, "b": 1, "kind": "<b>"}, "kind must be"),
    ],
)
def test_invalid_links_are_rejected(api: Api, link: dict[str, Any], problem: str) -> None:
    body = {
        "agent_id": "a", "agent_key": "key", "incarnation": str(uuid.uuid4()), "slots": SLOTS,
        "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token}, "links": [link],
    }  # fmt: skip
    answer = api.anonymous().ask("POST", "/agents/v1/join", body)
    assert answer.status == 400
    assert problem in str(answer.body)


def test_an_unknown_topology_is_rejected(user: Caller) -> None:
    assert "resources.topology" in str(
        user.ask("POST", "/api/v1/experiments", {"config": "resources: {topology: best}"}).body
    )


def test_every_pair_of_slots_has_a_link() -> None:
    assert [(link["a"], link["b"]) for link in LINKS] == list(combinations(range(4), 2))
