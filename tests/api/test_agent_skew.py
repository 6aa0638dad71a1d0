"""Agents of the version before, and of the one after, speak with this control plane; their messages are written out."""

from typing import Any

import pytest
from det_controlplane.core.agent_protocol import JoinAnswer, PollAnswer

from tests.support.api import Api, Caller, create
from tests.support.played_agent import task_of

INCARNATION = "00000000-0000-0000-0000-000000000001"
# The requests of an agent of 0.1.0. They are fixed on purpose: do not update them.
JOIN_0_1_0: dict[str, Any] = {
    "agent_id": "old", "agent_key": "key", "incarnation": INCARNATION, "pool": "default",
    "version": "0.38.1", "hostname": "h", "addresses": ["10.0.0.1"], "runtime": "process",
    "slots": [{"id": 0, "type": "cpu", "uuid": "u", "brand": "Artificial"}],
    "proof": {"kind": "bootstrap_token", "token": "bootstrap"},
}  # fmt: skip
POLL_0_1_0: dict[str, Any] = {"incarnation": INCARNATION, "containers": [], "wait_s": 20}
# Fields that a later version might add.
LATER: dict[str, Any] = {"cores": 8, "zone": {"name": "a"}}
# The fields of a container's order that an agent of 0.1.0 reads.
READ_0_1_0 = {
    "container_id", "allocation_id", "task_id", "epoch", "command", "session_token", "env", "files", "slot_ids",
}  # fmt: skip


def later(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, **LATER, "slots": [{**s, **LATER} for s in message.get("slots", [])]}


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


@pytest.mark.parametrize("is_later", [False, True])
def test_agent_of_another_minor_version_runs_a_container(
    api: Api, user: Caller, is_later: bool
) -> None:
    def shaped(message: dict[str, Any]) -> dict[str, Any]:
        return later(message) if is_later else message

    answer = api.anonymous().post("/agents/v1/join", shaped(JOIN_0_1_0))
    agent = api.with_token(answer["agent_token"])
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
    experiment = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert experiment["state"] != "STATE_ACTIVE"


def test_agent_without_poll_numbers_gets_an_unreported_container_again(
    api: Api, user: Caller
) -> None:
    """The newest of its polls is unknown, so unreported containers are not ended."""
    answer = api.anonymous().post("/agents/v1/join", JOIN_0_1_0)
    agent = api.with_token(answer["agent_token"])
    create(user, activate=True, resources={"slots_per_trial": 1})
    api.tick()
    (first,) = agent.post("/agents/v1/poll", POLL_0_1_0)["containers"]
    running = {"id": first["id"], "epoch": first["epoch"], "state": "running"}
    (container,) = agent.post("/agents/v1/poll", {**POLL_0_1_0, "containers": [running]})[
        "containers"
    ]
    assert "spec" not in container
    (second_container,) = agent.post("/agents/v1/poll", POLL_0_1_0)["containers"]
    assert second_container["spec"] == first["spec"]


def test_agent_ignores_fields_of_a_later_control_plane() -> None:
    answer = PollAnswer.from_json({"containers": [], "next_poll_s": 5.0, "seq": 1, **LATER})
    assert answer.next_poll_s == 5.0


# The answers of a control plane of 0.1.0. They are fixed on purpose: do not update them.
JOINED_0_1_0: dict[str, Any] = {
    "agent_token": "t",
    "cluster_id": "c",
    "master_id": "c",
    "lease_s": 60,
}
SPEC_0_1_0: dict[str, Any] = {
    "container_id": "c1", "allocation_id": "1.0", "task_id": "1", "epoch": 3, "command": ["true"], "session_token": "s",
    "env": {"A": "b"}, "files": [{"path": "run.sh", "content_b64": ""}], "slot_ids": [0],
}  # fmt: skip
TOLD_0_1_0: dict[str, Any] = {
    "containers": [{"id": "c1", "epoch": 3, "desired": "running", "spec": SPEC_0_1_0}],
    "forget": [], "version": "0.38.1", "next_poll_s": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(("more", "shown"), [({}, ""), ({"product_version": "0.2.0"}, "0.2.0")])
def test_program_version_of_an_agent_is_shown_if_reported(
    api: Api, user: Caller, more: dict[str, str], shown: str
) -> None:
    api.anonymous().post("/agents/v1/join", {**JOIN_0_1_0, **more})
    (agent,) = user.get("/api/v1/agents")["agents"]
    assert (agent["version"], agent["productVersion"]) == ("0.38.1", shown)


@pytest.mark.parametrize("is_later", [False, True])
def test_current_agent_reads_responses_of_another_minor_version(is_later: bool) -> None:
    more = LATER if is_later else {}
    join_answer = JoinAnswer.from_json({**JOINED_0_1_0, **more})
    assert (join_answer.agent_token, join_answer.may_wait_s) == ("t", 0.0)
    (first,) = TOLD_0_1_0["containers"]
    poll_answer = PollAnswer.from_json(
        {**TOLD_0_1_0, "containers": [{**first, "spec": {**SPEC_0_1_0, **more}, **more}], **more}
    )
    (directive,) = poll_answer.containers
    assert (poll_answer.draining, poll_answer.relay, directive.preempt) == (False, "", False)
    assert directive.spec is not None
    assert (directive.spec.command, directive.spec.files[0].path) == (("true",), "run.sh")
    assert directive.spec.user.uid == 0, "what the answer leaves out has a default"


def test_log_lines_from_another_minor_version_are_stored(api: Api, user: Caller) -> None:
    task, experiment_id = task_of(api, user)
    trial = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]
    line = {"taskId": trial["taskId"], "log": "a line\n", "level": "LOG_LEVEL_INFO", **LATER}
    task.post("/task-logs", [line])
    lines = user.lines(f"/api/v1/trials/{trial['id']}/logs")
    assert any("a line" in each["message"] for each in lines)


def test_metrics_from_another_minor_version_are_stored(api: Api, user: Caller) -> None:
    task, experiment_id = task_of(api, user)
    trial = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]["id"]
    report = {"trialId": trial, "trialRunId": 1, "stepsCompleted": 1}
    metrics = {"avgMetrics": {"loss": 0.5}}
    task.post(
        f"/api/v1/trials/{trial}/metrics",
        {"metrics": {**report, "metrics": metrics, **LATER}, "group": "validation", **LATER},
    )
    stored_trial = user.get(f"/api/v1/trials/{trial}")["trial"]
    assert stored_trial["bestValidation"]["metrics"]["avgMetrics"] == {"loss": 0.5}
