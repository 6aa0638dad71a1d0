"""The list of agents shows their slots and containers, and counts the slots by type and brand."""

import uuid
from typing import Any

import pytest

from tests.support.api import Api, Caller, create

SLOTS = [
    {"id": 0, "type": "cuda", "brand": 'Big "8"', "uuid": "GPU-0"},
    {"id": 1, "type": "cuda", "brand": 'Big "8"', "uuid": "GPU-1"},
    {"id": 10, "type": "cpu", "brand": "Small", "uuid": "CPU-0"},
]


@pytest.fixture
def container_id(api: Api, user: Caller, admin: Caller) -> str:
    """Start a container on two slots of `busy`, drain one of its slots and disable its third. `idle` has no slots."""
    create(user, activate=True, resources={"slots_per_trial": 2})
    for agent_id, slots in (("idle", []), ("busy", SLOTS)):
        incarnation = str(uuid.uuid4())
        body = {
            "agent_id": agent_id, "agent_key": "key", "incarnation": incarnation, "runtime": "process",
            "slots": slots, "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token},
        }  # fmt: skip
        token = api.anonymous().post("/agents/v1/join", body)["agent_token"]
    api.tick()
    poll = {"incarnation": incarnation, "seq": 1, "containers": [], "signals": []}
    (order,) = api.with_token(token).post("/agents/v1/poll", poll)["containers"]
    admin.post("/api/v1/agents/busy/slots/1/disable", {"drain": True})
    admin.post("/api/v1/agents/busy/slots/10/disable", {})
    return str(order["id"])


def test_slots_show_their_device_and_container(user: Caller, container_id: str) -> None:
    agents = user.get("/api/v1/agents")["agents"]
    assert [agent["id"] for agent in agents] == ["busy", "idle"]
    busy, idle = agents
    devices = [
        {"id": n, "brand": 'Big "8"', "uuid": f"GPU-{n}", "type": "TYPE_CUDA"} for n in (0, 1)
    ]
    container = {
        "id": container_id,
        "parent": "busy",
        "permissionDenied": False,
        "state": "STATE_ASSIGNED",
        "devices": devices,
    }
    small = {"id": 10, "brand": "Small", "uuid": "CPU-0", "type": "TYPE_CPU"}
    assert busy["containers"] == {container_id: container}
    assert busy["slots"] == {
        "0": _slot(devices[0], container, enabled=True),
        "1": _slot(devices[1], container, draining=True),
        "10": _slot(small),
    }
    assert (idle["slots"], idle["containers"]) == ({}, {})
    assert user.get("/api/v1/agents/busy")["agent"] == busy


def _slot(device: dict[str, Any], container: Any = None, **more: bool) -> dict[str, Any]:
    slot = {"id": str(device["id"]), "device": device, "container": container}
    return {**slot, "enabled": False, "draining": False, **more}


def test_slots_are_counted_by_type_and_brand(user: Caller, container_id: str) -> None:
    busy, idle = user.get("/api/v1/agents")["agents"]
    big = {"states": {"STATE_ASSIGNED": 2}, "disabled": 0, "draining": 1, "total": 2}
    small = {"states": {}, "disabled": 1, "draining": 0, "total": 1}
    assert busy["slotStats"] == {
        "typeStats": {"TYPE_CUDA": big, "TYPE_CPU": small},
        "brandStats": {'Big "8"': big, "Small": small},
    }
    assert idle["slotStats"] == {"typeStats": {}, "brandStats": {}}


def test_slots_and_containers_can_be_left_out(user: Caller, container_id: str) -> None:
    (whole, _) = user.get("/api/v1/agents")["agents"]
    (agent, _) = user.get("/api/v1/agents", excludeSlots="true")["agents"]
    assert agent == {**whole, "slots": {}}
    (agent, _) = user.get("/api/v1/agents", excludeContainers="true")["agents"]
    assert agent == {**whole, "containers": {}}


def test_page_has_some_of_the_agents(user: Caller, container_id: str) -> None:
    page = user.get("/api/v1/agents", offset=1, limit=1)
    assert [agent["id"] for agent in page["agents"]] == ["idle"]
    assert page["pagination"]["total"] == 2
