"""Agents of the version before, and of the one after, speak with this control plane; their messages are written out."""

from typing import Any

import pytest
from det_controlplane.core.agent_protocol import PollAnswer

from tests.support.api import Api, Caller, create

INCARNATION = "00000000-0000-0000-0000-000000000001"
# What an agent of 0.1.0 sends. It is no copy of what today's sends: do not bring it up to date.
JOIN_0_1_0: dict[str, Any] = {
    "agent_id": "old", "agent_key": "key", "incarnation": INCARNATION, "pool": "default",
    "version": "0.38.1", "hostname": "h", "addresses": ["10.0.0.1"], "runtime": "process",
    "slots": [{"id": 0, "type": "cpu", "uuid": "u", "brand": "Artificial"}],
    "proof": {"kind": "bootstrap_token", "token": "bootstrap"},
}  # fmt: skip
POLL_0_1_0: dict[str, Any] = {"incarnation": INCARNATION, "containers": [], "wait_s": 20}
# Fields that a later version might add.
LATER: dict[str, Any] = {"cores": 8, "zone": {"name": "a"}}
# What an agent of 0.1.0 reads of a container that it is to start.
READ_0_1_0 = {
    "container_id", "allocation_id", "task_id", "epoch", "command", "session_token", "env", "files", "slot_ids",
}  # fmt: skip


def later(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, **LATER, "slots": [{**s, **LATER} for s in message.get("slots", [])]}


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


@pytest.mark.parametrize("is_later", [False, True])
def test_an_agent_of_another_minor_version_runs_a_container_to_its_end(
    api: Api, user: Caller, is_later: bool
) -> None:
    def shaped(message: dict[str, Any]) -> dict[str, Any]:
        return later(message) if is_later else message

    joined = api.anonymous().post("/agents/v1/join", shaped(JOIN_0_1_0))
    agent = api.with_token(joined["agent_token"])
    experiment_id = create(user, activate=True, resources={"slots_per_trial": 1})
    agent.post("/agents/v1/poll", shaped(POLL_0_1_0))
    api.tick()
    (directive,) = agent.post("/agents/v1/poll", shaped(POLL_0_1_0))["containers"]
    spec = directive["spec"]
    assert set(spec) >= READ_0_1_0

    for state in ("running", "terminated"):
        report = {"id": spec["container_id"], "epoch": spec["epoch"], "state": state}
        if state == "terminated":
            report["exit_code"] = 0
        if is_later:
            report |= LATER
        agent.post("/agents/v1/poll", shaped({**POLL_0_1_0, "containers": [report]}))
        api.tick()
    shown = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert shown["state"] != "STATE_ACTIVE"


def test_an_agent_passes_over_what_a_later_control_plane_tells() -> None:
    answer = PollAnswer.from_json({"containers": [], "next_poll_s": 5.0, "seq": 1, **LATER})
    assert answer.next_poll_s == 5.0
