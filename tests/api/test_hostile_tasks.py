"""Commands and other tasks have the rights of their user: no access to tasks, code, secrets or machines of others."""

import json
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Authz
from sqlalchemy import text

from tests.support.api import Api, Caller, config_of, create
from tests.support.fake_cluster import archive
from tests.support.house import House
from tests.support.planted_secrets import MARK, SECRET_CONFIG
from tests.support.played_agent import PlayedAgent, task_of
from tests.support.uploads import uploaded

C = "/api/v1/commands"
CONFIG = {"entrypoint": ["true"]}


def launch(caller: Caller, **config: Any) -> str:
    answer = caller.post(C, {"config": {**CONFIG, **config}})
    return str(answer["command"]["id"])


def test_task_cannot_change_commands_of_another_user(api: Api, user: Caller, admin: Caller) -> None:
    task, _ = task_of(api, user)
    own, other = launch(user), launch(admin)
    for path, body in (("set_priority", {"priority": 50}), ("kill", {})):
        assert task.ask("POST", f"{C}/{other}/{path}", body).status == 403
        assert task.ask("POST", f"{C}/{own}/{path}", body).status == 200


def test_command_cannot_send_alerts_for_experiments_of_another_user(
    api: Api, user: Caller, admin: Caller
) -> None:
    launch(user)
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    command = api.with_token(order["spec"]["env"]["DET_SESSION_TOKEN"])

    def alerted(experiment: int) -> int:
        body = {"experimentId": experiment, "data": {"title": "spent"}}
        return command.ask("POST", "/api/v1/webhooks/custom", body).status

    assert [alerted(create(admin)), alerted(create(user))] == [403, 200]


def generic(caller: Caller, **more: str) -> str:
    body = {"config": json.dumps(CONFIG), **more}
    return str(caller.post("/api/v1/generic-tasks", body)["taskId"])


def test_users_cannot_extend_or_kill_task_trees_of_others(
    api: Api, user: Caller, admin: Caller
) -> None:
    task, _ = task_of(api, user)
    other = generic(admin)
    body = {"config": json.dumps(CONFIG), "parentId": other}
    assert user.ask("POST", "/api/v1/generic-tasks", body).status == 403
    root = generic(user)
    below = generic(admin, parentId=root)  # administrators may
    assert task.ask("POST", f"/api/v1/tasks/{other}/kill").status == 403
    assert task.ask("POST", f"/api/v1/tasks/{below}/kill").status == 403
    child = generic(user, parentId=root)
    assert task.ask("POST", f"/api/v1/tasks/{child}/kill", {"killFromRoot": True}).status == 200
    assert user.get(f"/api/v1/tasks/{other}")["task"]["taskState"].endswith("ACTIVE")


def test_task_cannot_kill_a_tree_of_another_user_from_its_root(
    api: Api, user: Caller, admin: Caller
) -> None:
    task, _ = task_of(api, admin)
    child = generic(admin, parentId=generic(user))
    body = {"killFromRoot": True}
    assert task.ask("POST", f"/api/v1/tasks/{child}/kill", body).status == 403


def test_narrow_token_of_a_command_cannot_launch_tasks(api: Api, user: Caller) -> None:
    launch(user, environment={"det_token": "task"})
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    task = api.with_token(order["spec"]["session_token"])
    assert task.ask("POST", C, {"config": CONFIG}).status == 403
    assert task.ask("GET", "/api/v1/experiments").status == 403


def test_code_uploaded_by_another_user_is_not_found(api: Api, user: Caller, admin: Caller) -> None:
    for path, config in ((C, CONFIG), ("/api/v1/experiments", config_of())):
        context = uploaded(api, admin, archive({"a.py": b"secret"}))
        response = user.ask("POST", path, {"config": config, "contextId": context})
        assert (response.status, context in response.error) == (404, True), path
        assert admin.ask("POST", path, {"config": config, "contextId": context}).status == 200


@pytest.mark.parametrize(
    "config",
    [
        {"bind_mounts": [{"host_path": "/etc", "container_path": "/etc2"}]},
        {"bind_mounts": [{"host_path": "/var/run/docker.sock", "container_path": "/s"}]},
        {"resources": {"devices": [{"host_path": "/dev/sda", "container_path": "/dev/x"}]}},
        {"environment": {"add_capabilities": ["SYS_ADMIN"]}},
    ],
)
def test_rejects_commands_with_host_access(
    user: Caller, admin: Caller, config: dict[str, Any]
) -> None:
    assert user.ask("POST", C, {"config": {**CONFIG, **config}}).status == 400
    user.post("/api/v1/templates/t", {"name": "t", "config": config})
    assert user.ask("POST", C, {"config": CONFIG, "templateName": "t"}).status == 400
    launch(admin, **config)


@pytest.mark.parametrize("key", ["_command", "_files", "_environment"])
def test_rejects_internal_keys_in_a_configuration(user: Caller, key: str) -> None:
    assert user.ask("POST", C, {"config": {**CONFIG, key: ["x"]}}).status == 400


def test_only_the_agent_receives_secrets_of_a_command(api: Api, user: Caller) -> None:
    environment = SECRET_CONFIG["environment"]
    answer = user.post(C, {"config": {**CONFIG, "environment": environment}})
    second_response = user.get(f"{C}/{answer['command']['id']}")
    assert MARK not in json.dumps([answer, second_response, user.get(C)])
    with api.ctx.db.begin() as tx:
        rows = tx.execute(text("SELECT row_to_json(tasks)::text FROM tasks")).scalars()
        assert not [row for row in rows if MARK in row]
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    assert order["spec"]["env"]["WANDB_API_KEY"] == "planted-variable"


def test_command_starts_only_in_workspaces_allowed_for_its_user(api: Api, admin: Caller) -> None:
    api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
    house = House(api, admin)
    viewer = house.person("viewer", "Viewer", house.red)
    editor = house.person("editor", "Editor", house.red)
    here, there = ({"config": CONFIG, "workspaceId": w} for w in (house.red, house.blue))
    assert viewer.ask("POST", C, here).status == 403
    assert editor.ask("POST", C, there).status == 404
    other = str(admin.post(C, there)["command"]["id"])
    own = str(editor.post(C, here)["command"]["id"])
    assert editor.ask("POST", f"{C}/{other}/kill").status == 404
    assert viewer.ask("POST", f"{C}/{own}/kill").status == 403
    assert [c["id"] for c in editor.get(C)["commands"]] == [own]
    response = editor.get("/api/v1/tasks/count")
    assert response["commands"] == 1
