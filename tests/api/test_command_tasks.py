"""Commands: launched, listed, steered and ended, with an agent that the test plays."""

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.core.config.pools import Scheduler

from tests.support.api import Api, Caller
from tests.support.played_agent import PlayedAgent

C = "/api/v1/commands"


def launch(caller: Caller, *words: str, **more: Any) -> dict[str, Any]:
    config = {"entrypoint": list(words or ("echo", "hi")), **more.pop("config", {})}
    answer: dict[str, Any] = caller.post(C, {"config": config, **more})
    return answer


def test_command_is_returned_with_all_fields_and_its_configuration(user: Caller) -> None:
    answer = launch(user, "echo", "hi")
    command, config = answer["command"], answer["config"]
    assert command["state"] == "STATE_QUEUED"
    assert command["description"].startswith("Command (")
    assert (command["username"], command["resourcePool"]) == ("determined", "default")
    assert (command["exitStatus"], command["container"], command["workspaceId"]) == ("", None, 1)
    assert config["entrypoint"] == ["echo", "hi"]
    assert config["resources"]["slots"] == 1
    assert not [name for name in config if name.startswith("_")]
    second_answer = user.get(f"{C}/{command['id']}")
    assert (second_answer["command"], second_answer["config"]) == (command, config)


def test_command_container_has_the_arguments_context_and_variables(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    file = {"path": "a.txt", "type": 48, "content": base64.b64encode(b"text").decode(),
            "mtime": "1", "mode": 420, "uid": 0, "gid": 0}  # fmt: skip
    config = {
        "work_dir": "/somewhere",
        "environment": {"environment_variables": ["A=1"], "image": "mine"},
        "bind_mounts": [{"host_path": "/data", "container_path": "data"}],
    }
    launch(user, "python3", "x.py", config=config, files=[file])
    api.tick()
    (order,) = agent.poll()
    spec = order["spec"]
    assert spec["command"][-3:] == ["--", "python3", "x.py"]
    assert (spec["task_type"], spec["work_dir"], spec["image"]) == ("COMMAND", "/somewhere", "mine")
    assert (spec["env"]["A"], spec["env"]["DET_TASK_TYPE"]) == ("1", "COMMAND")
    assert spec["mounts"][0]["container_path"] == "/somewhere/data"
    task = api.with_token(spec["session_token"])
    archive = task.get(f"/api/v1/tasks/{spec['task_id']}/context_directory")["b64Tgz"]
    assert base64.b64decode(archive)[:2] == b"\x1f\x8b"


def test_single_argument_is_run_by_the_shell(api: Api, user: Caller, agent: PlayedAgent) -> None:
    launch(user, "cd / && ls | wc -l")
    api.tick()
    (order,) = agent.poll()
    assert order["spec"]["command"][-3:] == ["sh", "-c", "cd / && ls | wc -l"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"exit_code": 0}, "allocation stopped after resources exited successfully"),
        ({"exit_code": 3, "failure": "container_failed"}, "exit code: 3"),
        ({"failure": "image_pull", "message": "no such image"}, "image pull failed: no such image"),
    ],
)
def test_exit_status_of_a_command_is_a_sentence(
    api: Api, user: Caller, agent: PlayedAgent, more: dict[str, Any], sentence: str
) -> None:
    id = launch(user)["command"]["id"]
    api.tick()
    agent.poll()
    agent.poll()
    running = user.get(f"{C}/{id}")["command"]
    assert (running["state"], running["container"]["state"]) == ("STATE_RUNNING", "STATE_RUNNING")
    agent.poll("terminated", **more)
    command = user.get(f"{C}/{id}")["command"]
    assert (command["state"], command["container"]) == ("STATE_TERMINATED", None)
    assert sentence in command["exitStatus"]
    log = "".join(x["message"] for x in user.lines(f"/api/v1/tasks/{id}/logs"))
    assert sentence in log


def test_unstarted_run_is_retried_and_a_lost_one_is_not(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user)["command"]["id"]
    api.tick()
    agent.poll("assigned")
    agent.poll("terminated", failure="agent_error", message="no room")
    assert user.get(f"{C}/{id}")["command"]["state"] == "STATE_QUEUED"
    api.tick()
    agent.poll()
    agent.poll()
    agent.poll("terminated", failure="agent_error", message="fell over")
    command = user.get(f"{C}/{id}")["command"]
    assert command["exitStatus"] == "allocation failed: fell over"


@pytest.mark.parametrize("runs", [False, True])
def test_killed_command_names_the_user_who_killed_it(
    api: Api, user: Caller, agent: PlayedAgent, runs: bool
) -> None:
    id = launch(user)["command"]["id"]
    if runs:
        api.tick()
        agent.poll()
        agent.poll()
    user.post(f"{C}/{id}/kill")
    if runs:
        (order,) = agent.poll()
        assert order["desired"] == "killed"
        agent.poll("terminated", exit_code=137)
    command = user.post(f"{C}/{id}/kill")["command"]
    assert command["state"] == "STATE_TERMINATED"
    assert "on request of determined" in command["exitStatus"]


def test_command_list_is_filtered_sorted_and_limited_to_a_day(
    api: Api, user: Caller, admin: Caller
) -> None:
    first = launch(user, config={"description": "b"})["command"]["id"]
    second = launch(admin, config={"description": "a"})["command"]["id"]

    def ids(**query: object) -> list[str]:
        return [c["id"] for c in user.get(C, **query)["commands"]]

    assert set(ids()) == {first, second}
    assert ids(users="admin") == [second]
    assert ids(workspaceId=1, sortBy="SORT_BY_DESCRIPTION") == [second, first]
    assert ids(workspaceId=7) == []
    assert ids(sortBy="SORT_BY_START_TIME", orderBy="ORDER_BY_DESC") == [second, first]
    user.post(f"{C}/{first}/kill")
    assert first in ids()
    now = api.ctx.now() + timedelta(hours=25)
    api.ctx.now = lambda: now
    assert ids() == [second]
    assert user.get("/api/v1/tasks/count")["commands"] == 1


def test_templates_and_pools_provide_defaults(user: Caller) -> None:
    template = {"config": {"environment": {"image": "of-template"}, "description": "named"}}
    user.post("/api/v1/templates/t", {"name": "t", "workspaceId": 1, **template})
    answer = launch(user, template_name="t")
    assert answer["config"]["environment"]["image"]["cpu"] == "of-template"
    assert answer["command"]["description"] == "named"
    answer = launch(user, config={"resources": {"resource_pool": "reserved"}})
    assert answer["command"]["resourcePool"] == "reserved"


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"config": {"entrypoint": ["a"], "colour": 1}}, 400, "colour"),
        ({"config": {"entrypoint": ["a"], "resources": {"resource_pool": "x"}}}, 400, "does not exist"),
        ({"config": {"entrypoint": ["a"]}, "workspaceId": 99}, 404, "workspace 99"),
        ({"config": {"entrypoint": ["a"]}, "templateName": "none"}, 404, "template"),
        ({"config": [1]}, 400, "config must be an object"),
        ({"config": {"entrypoint": ["a"]}, "files": [{"path": "../x", "content": ""}]}, 400, "relative"),
        ({"config": {"entrypoint": ["a"], "bind_mounts": [
            {"host_path": "/etc", "container_path": "/x"}]}}, 400, "/etc"),
    ],
)  # fmt: skip
def test_rejects_invalid_commands_with_the_cause(
    user: Caller, body: Any, status: int, sentence: str
) -> None:
    response = user.ask("POST", C, body)
    assert (response.status, sentence in response.error) == (status, True), response.body
    assert user.get(C)["commands"] == []


def test_all_problems_of_a_configuration_are_reported_together(user: Caller) -> None:
    config = {"resources": {"resource_pool": "x", "slots": -1}, "colour": 1}
    response = user.ask("POST", C, {"config": config})
    assert response.status == 400
    for place in ("resources.resource_pool", "resources.slots", "colour"):
        assert f"{place}: " in response.error


def test_error_names_the_kind_of_task(user: Caller, agent: PlayedAgent) -> None:
    config = {"entrypoint": ["true"], "resources": {"slots": 99}}
    response = user.ask("POST", C, {"config": config})
    assert response.status == 400
    assert response.error.startswith(
        "invalid command configuration: resources.slots: request unfulfillable: asks for 99"
    )
    missing_config = {"entrypoint": ["true"], "resources": {"resource_pool": "nowhere"}}
    response = user.ask("POST", C, {"config": missing_config})
    assert response.error.startswith(
        "invalid command configuration: resources.resource_pool: 'nowhere'"
    )


def test_config_policies_limit_slots_and_priorities(user: Caller, admin: Caller) -> None:
    policy = "constraints: {resources: {max_slots: 2}, priority_limit: 30}"
    fields = {"workloadType": "NTSC", "configPolicies": policy}
    admin.done("PUT", "/api/v1/config-policies/global/NTSC", fields)
    body: dict[str, Any] = {"config": {"entrypoint": ["a"], "resources": {"slots": 3}}}
    assert "3" in user.ask("POST", C, body).error
    id = launch(user)["command"]["id"]
    response = user.ask("POST", f"{C}/{id}/set_priority", {"priority": 0})
    message = f"command {id}: priority must be between 1 (first) and 99 (last), not 0"
    assert (response.status, response.error) == (400, message)
    response = user.ask("POST", f"{C}/{id}/set_priority", {"priority": 5})
    assert (response.status, "more urgent" in response.error) == (400, True)
    user.post(f"{C}/{id}/set_priority", {"priority": 33})
    assert user.get(f"{C}/{id}")["config"]["resources"]["priority"] == 33
    (job,) = user.get("/api/v1/job-queues-v2")["jobs"]
    assert (job["full"]["priority"], job["full"]["type"]) == (33, "TYPE_COMMAND")
    user.post(f"{C}/{id}/kill")
    assert user.ask("POST", f"{C}/{id}/set_priority", {"priority": 34}).status == 400


@pytest.mark.parametrize("launch_error", [True, False])
@pytest.mark.parametrize("kind", ["commands", "notebooks", "shells"])
def test_rejects_more_slots_than_any_agent_has(
    api: Api, user: Caller, agent: PlayedAgent, kind: str, launch_error: bool
) -> None:
    api.ctx.config = replace(api.ctx.config, launch_error=launch_error)
    response = user.ask("POST", f"/api/v1/{kind}", {"config": {"resources": {"slots": 3}}})
    assert response.status == 400
    assert "request unfulfillable: asks for 3 slots" in response.error
    answer = user.post(f"/api/v1/{kind}", {"config": {"resources": {"slots": 2}}})
    assert answer["warnings"] == []


@pytest.mark.parametrize("body", [{"config": {}}, {}, {"config": None}])
def test_command_without_an_entrypoint_runs_only_its_startup_hook(
    api: Api, user: Caller, agent: PlayedAgent, body: dict[str, Any]
) -> None:
    user.post(C, body)
    api.tick()
    (order,) = agent.poll()
    assert order["spec"]["command"][-1] == "true"


@pytest.mark.parametrize("kind", ["notebook", "shell"])
@pytest.mark.parametrize("body", [{}, {"config": None}])
def test_notebooks_and_shells_need_no_configuration(
    api: Api, user: Caller, agent: PlayedAgent, kind: str, body: dict[str, Any]
) -> None:
    user.post(f"/api/v1/{kind}s", body)
    api.tick()
    (order,) = agent.poll()
    assert order["spec"]["command"][-1] == f"determined.exec.{kind}"


def test_launch_in_an_archived_workspace_is_not_found(user: Caller) -> None:
    workspace = user.post("/api/v1/workspaces", {"name": "old"})["workspace"]["id"]
    user.post(f"/api/v1/workspaces/{workspace}/archive")
    response = user.ask("POST", C, {"config": {"entrypoint": ["a"]}, "workspaceId": workspace})
    assert response.status == 404
    assert "archived" in response.error


def test_routes_of_other_task_kinds_do_not_find_the_task(user: Caller) -> None:
    id = launch(user)["command"]["id"]
    assert user.ask("GET", f"/api/v1/notebooks/{id}").status == 404
    assert user.ask("POST", f"/api/v1/shells/{id}/kill").status == 404


def test_waiting_command_has_a_reason(api: Api, user: Caller) -> None:
    id = launch(user)["command"]["id"]
    api.tick()
    (reason,) = user.get(f"/api/v1/why/task/{id}")["reasons"]
    assert "needs 1 slot" in reason["sentence"]
    assert api.ctx.config.resource_pools[0].scheduler == Scheduler()
