"""Generic tasks: trees of programs that are paused, continued and killed together."""

import base64
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.tasks import generic_tasks
from det_controlplane.services.maintenance import tick
from det_controlplane.services.tasks import launching
from sqlalchemy import text

from tests.support.api import Api, Caller, trial_of
from tests.support.api import create as create_experiment
from tests.support.interactive import launch
from tests.support.played_agent import PlayedAgent

V = "/api/v1"
CONFIG = "entrypoint: [python3, work.py]\nresources: {slots: 0}\n"
FILE = {"path": "work.py", "type": 48, "content": base64.b64encode(b"print(1)").decode(),
        "mtime": "1", "mode": 420, "uid": 0, "gid": 0}  # fmt: skip


def create(caller: Caller, config: str = CONFIG, **more: Any) -> str:
    body = {"config": config, "contextDirectory": [], **more}
    return str(caller.post(f"{V}/generic-tasks", body)["taskId"])


def state(caller: Caller, task_id: str) -> str:
    task_state = caller.get(f"{V}/tasks/{task_id}")["task"]["taskState"]
    return str(task_state).removeprefix("GENERIC_TASK_STATE_")


def run(api: Api, agent: PlayedAgent) -> list[dict[str, Any]]:
    api.tick()
    orders = agent.poll()
    agent.poll()
    return orders


def context_of(api: Api, task_id: str) -> Any:
    with api.ctx.db.begin() as tx:
        query = text("SELECT context_id FROM tasks WHERE id = :id")
        return tx.execute(query, {"id": task_id}).scalar_one()


def test_preview_creates_no_task(user: Caller) -> None:
    body = {"config": CONFIG, "contextDirectory": [], "configText": "resources: {priority: 9}"}
    response = user.post(f"{V}/generic-tasks", {**body, "preview": True})
    resources = response["config"]["resources"]
    assert (resources["slots"], resources["priority"]) == (0, 9)
    assert user.get(f"{V}/generic-tasks")["tasks"] == []
    answer = user.ask("POST", f"{V}/generic-tasks", {**body, "config": "", "preview": True})
    assert (answer.status, "entrypoint" in answer.error) == (400, True)


def test_task_runs_its_entrypoint_and_completes(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user, contextDirectory=[FILE])
    (order,) = run(api, agent)
    assert order["spec"]["command"][-2:] == ["python3", "work.py"]
    assert order["spec"]["env"]["DET_TASK_TYPE"] == "GENERIC"
    task = user.get(f"{V}/tasks/{id}")["task"]
    assert (task["taskType"], task["taskState"]) == (
        "TASK_TYPE_GENERIC",
        "GENERIC_TASK_STATE_ACTIVE",
    )
    assert "_command" not in task["config"]
    assert "work.py" in user.get(f"{V}/tasks/{id}/config")["config"]
    (job,) = user.get(f"{V}/job-queues-v2")["jobs"]
    assert job["full"]["type"] == "TYPE_GENERIC"
    agent.poll("terminated", exit_code=0)
    assert state(user, id) == "COMPLETED"
    assert user.get(f"{V}/tasks/{id}")["task"]["endTime"]


def test_launch_in_an_archived_workspace_is_not_found(user: Caller) -> None:
    workspace = user.post(f"{V}/workspaces", {"name": "old"})["workspace"]["id"]
    answer = user.post(f"{V}/workspaces/{workspace}/projects", {"name": "old"})
    user.post(f"{V}/workspaces/{workspace}/archive")
    body = {"config": CONFIG, "contextDirectory": [], "projectId": answer["project"]["id"]}
    response = user.ask("POST", f"{V}/generic-tasks", body)
    assert response.status == 404
    assert "is archived" in response.error


def test_configuration_is_shown_as_submitted(user: Caller, admin: Caller) -> None:
    config_text = """
entrypoint: [python3, work.py]
environment:
  environment_variables: [API_KEY=planted, DATA_DIR=/data]
"""
    id = create(user, config_text)
    fork = create(user, "", forkedFrom=id)

    def shown(data_dir: str) -> dict[str, Any]:
        variables = ["API_KEY=********", f"DATA_DIR={data_dir}"]
        return {
            "entrypoint": ["python3", "work.py"],
            "environment": {"environment_variables": variables},
        }

    for task_id in (id, fork):
        path = f"{V}/tasks/{task_id}"
        assert json.loads(user.get(f"{path}/config")["config"]) == shown("/data")
        assert json.loads(admin.get(f"{path}/config")["config"]) == shown("********")
        assert json.loads(user.get(path)["task"]["config"]) == shown("********")


def test_a_failed_task_is_in_error(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user)
    run(api, agent)
    agent.poll("terminated", exit_code=2, failure="container_failed")
    assert state(user, id) == "ERROR"


def test_paused_task_continues_in_another_run(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user)
    run(api, agent)
    user.post(f"{V}/tasks/{id}/pause")
    assert state(user, id) == "STOPPING_PAUSED"
    (order,) = agent.poll()
    assert order["desired"] == "killed"
    agent.poll("terminated", exit_code=137)
    assert state(user, id) == "PAUSED"
    assert user.get(f"{V}/tasks/{id}")["task"]["endTime"] is None
    (reason,) = user.get(f"{V}/why/task/{id}")["reasons"]
    assert "det task unpause" in reason["sentence"]
    agent.poll()
    api.tick()
    assert agent.poll() == []
    user.post(f"{V}/tasks/{id}/unpause")
    (order,) = run(api, agent)
    assert order["allocation_id"] == f"{id}.2"
    assert state(user, id) == "ACTIVE"


def test_task_with_a_preemption_timeout_is_preempted_before_a_kill(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = create(user, CONFIG + "preemption_timeout: 60\n")
    (order,) = run(api, agent)
    user.post(f"{V}/tasks/{id}/pause")
    task = api.with_token(order["spec"]["session_token"])
    allocation = f"{V}/allocations/{order['allocation_id']}/signals"
    assert task.get(f"{allocation}/preemption")["preempt"]
    task.post(f"{allocation}/ack_preemption")
    agent.poll("terminated", exit_code=0)
    assert state(user, id) == "PAUSED"


def test_tick_is_due_at_the_preemption_deadline(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user, CONFIG + "preemption_timeout: 2\n")
    run(api, agent)
    channels: list[str] = []
    api.ctx.waker = SimpleNamespace(wake=channels.append)
    user.post(f"{V}/tasks/{id}/pause")
    assert "schedule" in channels, "the tick sleeps until what was due before"
    next_due_s = tick.run(api.ctx)
    assert next_due_s is not None
    assert next_due_s <= 2


def test_queued_task_can_be_paused_and_killed(user: Caller) -> None:
    paused_task, killed_task = create(user), create(user)
    user.post(f"{V}/tasks/{paused_task}/pause")
    user.post(f"{V}/tasks/{killed_task}/kill", {"taskId": killed_task})
    assert (state(user, paused_task), state(user, killed_task)) == ("PAUSED", "CANCELED")
    user.post(f"{V}/tasks/{paused_task}/kill")
    assert state(user, paused_task) == "CANCELED"
    user.post(f"{V}/tasks/{paused_task}/kill")


def test_task_tree_can_be_paused_continued_and_killed_from_any_node(user: Caller) -> None:
    root = create(user)
    child = create(user, parentId=root)
    leaf, steady = create(user, parentId=child), create(user, parentId=child, noPause=True)
    tree = (root, child, leaf, steady)
    assert user.get(f"{V}/tasks/{leaf}")["task"]["parentId"] == child

    def states() -> list[str]:
        return [state(user, id) for id in tree]

    user.post(f"{V}/tasks/{child}/pause")
    assert states() == ["ACTIVE", "PAUSED", "PAUSED", "ACTIVE"]
    user.post(f"{V}/tasks/{root}/pause")
    assert states() == ["PAUSED", "PAUSED", "PAUSED", "ACTIVE"]
    user.post(f"{V}/tasks/{root}/unpause")
    assert states() == ["ACTIVE"] * 4
    user.post(f"{V}/tasks/{child}/kill")
    assert states() == ["ACTIVE", "CANCELED", "CANCELED", "CANCELED"]
    other = create(user, parentId=root)
    user.post(f"{V}/tasks/{other}/kill", {"taskId": other, "killFromRoot": True})
    assert [state(user, root), state(user, other)] == ["CANCELED", "CANCELED"]


@pytest.mark.parametrize(("action", "then"), [("kill", "CANCELED"), ("pause", "PAUSED")])
def test_child_created_during_an_action_follows_its_tree(
    user: Caller, monkeypatch: pytest.MonkeyPatch, action: str, then: str
) -> None:
    root = create(user)
    look, late = generic_tasks.tree_below, list[str]()

    def overtaken(tx: Tx, id: str, within: Sequence[int] | None = None) -> list[str]:
        rows = look(tx, id, within)
        if len(late) < 2:
            late.append(create(user, parentId=[root, *late][-1]))
        return rows

    monkeypatch.setattr(generic_tasks, "tree_below", overtaken)
    user.post(f"{V}/tasks/{root}/{action}")
    assert [state(user, id) for id in (root, *late)] == [then] * 3


def test_paused_task_accepts_only_children_without_pauses(user: Caller) -> None:
    root = create(user)
    user.post(f"{V}/tasks/{root}/pause")
    body = {"config": CONFIG, "parentId": root}
    response = user.ask("POST", f"{V}/generic-tasks", body)
    assert response.status == 400
    assert "unpause it first" in response.error
    assert state(user, create(user, parentId=root, noPause=True)) == "ACTIVE"
    user.post(f"{V}/tasks/{root}/unpause")
    assert state(user, create(user, parentId=root)) == "ACTIVE"


def test_children_and_forks_inherit_files_and_configurations(api: Api, user: Caller) -> None:
    first = create(user, contextDirectory=[FILE])
    files = context_of(api, first)
    assert files is not None
    child = create(user, parentId=first, inheritContext=True)
    assert context_of(api, child) == files
    assert context_of(api, create(user, parentId=first)) is None
    fork = create(user, "", forkedFrom=first)
    assert context_of(api, fork) == files
    assert user.get(f"{V}/tasks/{fork}")["task"]["forkedFrom"] == first
    assert user.get(f"{V}/tasks/{fork}/config") == user.get(f"{V}/tasks/{first}/config")


def test_running_task_creates_children_with_its_own_token(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    root = create(user, contextDirectory=[FILE])
    (order,) = run(api, agent)
    task = api.with_token(order["spec"]["session_token"])
    child = create(task, parentId=root, inheritContext=True)
    assert user.get(f"{V}/tasks/{child}")["task"]["parentId"] == root


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"config": "entrypoint: []"}, 400, "invalid task configuration: entrypoint"),
        ({"config": "colour: 1"}, 400, "colour"),
        ({"config": ": ["}, 400, "invalid task configuration: not valid YAML"),
        ({"config": CONFIG, "parentId": "none"}, 404, "none"),
        ({"config": CONFIG, "forkedFrom": "none"}, 404, "none"),
        ({"config": CONFIG, "projectId": 99}, 404, "project 99"),
        ({"config": CONFIG, "inheritContext": True}, 400, "parent"),
    ],
)
def test_rejects_invalid_tasks(user: Caller, body: Any, status: int, sentence: str) -> None:
    response = user.ask("POST", f"{V}/generic-tasks", body)
    assert (response.status, sentence in response.error) == (status, True), response.body


def test_rejected_actions_have_a_reason(user: Caller) -> None:
    steady = create(user, noPause=True)
    response = user.ask("POST", f"{V}/tasks/{steady}/pause")
    assert (response.status, "without pauses" in response.error) == (400, True)
    user.post(f"{V}/tasks/{steady}/kill")
    for deed in ("pause", "unpause"):
        response = user.ask("POST", f"{V}/tasks/{steady}/{deed}")
        assert response.status == 400
    response = user.ask("POST", f"{V}/generic-tasks", {"config": CONFIG, "parentId": steady})
    assert (response.status, "no more children" in response.error) == (400, True)
    command = user.post(f"{V}/commands", {"config": {"entrypoint": ["a"]}})["command"]["id"]
    response = user.ask("POST", f"{V}/tasks/{command}/kill")
    assert (response.status, "det command" in response.error) == (400, True)
    assert user.ask("POST", f"{V}/tasks/none/kill").status == 404


def other_runs(caller: Caller, task_id: str) -> int:
    return len(caller.get(f"{V}/tasks/{task_id}")["task"]["allocations"]) - 1


def test_pausable_tasks_restart_after_their_agent_is_disabled(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    id = create(user)
    run(api, agent)
    steady = create(user, noPause=True)
    run(api, agent)
    admin.post(f"{V}/agents/a1/disable", {})
    agent.poll("terminated", exit_code=137, failure="container_failed")
    assert (state(user, id), other_runs(user, id)) == ("ACTIVE", 1)
    assert (state(user, steady), other_runs(user, steady)) == ("CANCELED", 0)
    admin.post(f"{V}/agents/a1/enable", {})
    (order,) = run(api, agent)
    assert order["allocation_id"] == f"{id}.2"


def test_killed_task_on_a_disabled_agent_does_not_restart(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    id = create(user)
    run(api, agent)
    admin.post(f"{V}/agents/a1/disable", {})
    user.post(f"{V}/tasks/{id}/kill", {"taskId": id})
    agent.poll("terminated", exit_code=137, failure="container_failed")
    assert (state(user, id), other_runs(user, id)) == ("CANCELED", 0)


def test_project_can_be_deleted_after_its_tasks_ended(api: Api, user: Caller) -> None:
    workspace = user.post(f"{V}/workspaces", {"name": "mine"})["workspace"]["id"]
    answer = user.post(f"{V}/workspaces/{workspace}/projects", {"name": "words"})
    project = answer["project"]["id"]
    id = create(user, projectId=project)
    response = user.ask("DELETE", f"{V}/projects/{project}")
    assert response.status == 400
    assert f"`det task kill {id}`" in response.error
    user.post(f"{V}/tasks/{id}/kill", {"taskId": id})
    assert user.ask("DELETE", f"{V}/projects/{project}").status == 200
    api.tick()
    (task,) = user.get(f"{V}/generic-tasks")["tasks"]
    assert (task["id"], task["projectId"]) == (id, None)


def project_of(caller: Caller) -> int:
    workspace = caller.post(f"{V}/workspaces", {"name": "mine"})["workspace"]["id"]
    response = caller.post(f"{V}/workspaces/{workspace}/projects", {"name": "words"})
    return int(response["project"]["id"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DELETE FROM projects WHERE id = :id", (404, "project {} not found")),
        (
            "UPDATE projects SET state = 'DELETING' WHERE id = :id",
            (400, "project {} is being deleted, or could not be deleted: choose another"),
        ),
    ],
)  # fmt: skip
def test_rejects_task_for_a_concurrently_deleted_project(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch, change: str, told: tuple[int, str]
) -> None:
    project, resolve = project_of(user), launching.resolve

    def and_then_deleted(*args: Any) -> Any:
        result = resolve(*args)
        with api.ctx.db.begin() as tx:
            tx.execute(text(change), {"id": project})
        return result

    monkeypatch.setattr(launching, "resolve", and_then_deleted)
    body = {"config": CONFIG, "contextDirectory": [], "projectId": project}
    response = user.ask("POST", f"{V}/generic-tasks", body)
    assert (response.status, response.error) == (told[0], told[1].format(project))
    assert listed(user) == []


def test_creating_a_task_locks_its_project(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, settle = project_of(user), generic_tasks.settle
    free: list[Any] = []

    def and_looked_at(tx: Tx, id: str, **place: Any) -> None:
        settle(tx, id, **place)
        with api.ctx.db.begin() as other:
            lock = text("SELECT id FROM projects WHERE id > 0 FOR UPDATE SKIP LOCKED")
            free.extend(other.execute(lock).scalars())

    monkeypatch.setattr(generic_tasks, "settle", and_looked_at)
    create(user, projectId=project)
    assert project not in free
    assert free, "others may be deleted"


def listed(caller: Caller, **query: Any) -> list[tuple[str, str | None]]:
    """Return id and state of the generic tasks that are listed, newest last."""
    tasks = caller.get(f"{V}/generic-tasks", **query)["tasks"]
    return [(t["id"], t["state"].removeprefix("STATE_")) for t in tasks]


def test_lists_have_states_kinds_and_parents(api: Api, user: Caller, agent: PlayedAgent) -> None:
    top = create(user)
    run(api, agent)
    child = create(user, parentId=top)
    assert listed(user) == [(top, "RUNNING"), (child, "QUEUED")]
    summaries = user.get(f"{V}/tasks")["allocationIdToSummary"]
    assert {
        (s["taskId"], s["taskType"], s["state"], s["parentId"]) for s in summaries.values()
    } == {
        (top, "TASK_TYPE_GENERIC", "STATE_RUNNING", None),
        (child, "TASK_TYPE_GENERIC", "STATE_QUEUED", top),
    }
    user.post(f"{V}/tasks/{child}/pause")
    assert listed(user) == [(top, "RUNNING"), (child, "PAUSED")]
    assert f"{child}.1" not in user.get(f"{V}/tasks")["allocationIdToSummary"]


def test_tree_list_includes_tasks_that_ended_long_ago(api: Api, user: Caller) -> None:
    top = create(user)
    child = create(user, parentId=top)
    create(user)
    user.post(f"{V}/tasks/{child}/kill", {"taskId": child})
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE tasks SET ended_at = ended_at - interval '25 hours'"))
    assert listed(user, treeOf=child) == [(top, "QUEUED"), (child, "CANCELED")]
    assert child not in dict(listed(user))
    assert user.ask("GET", f"{V}/generic-tasks", query={"treeOf": "none"}).status == 404


def test_task_has_its_agents_and_costs(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = create(user)
    run(api, agent)
    task = user.get(f"{V}/tasks/{id}")["task"]
    assert (task["username"], task["allocations"][0]["agentIds"]) == ("determined", ["a1"])
    assert user.get(f"{V}/costs/tasks", ids=[id])["costs"] == [
        {"id": id, "costUsd": 0.0, "slotHours": 0.0}
    ]


@pytest.mark.parametrize("deed", ["kill", "pause", "unpause"])
def test_error_for_other_task_kinds_names_the_right_command(
    api: Api, user: Caller, agent: PlayedAgent, deed: str
) -> None:
    experiment = create_experiment(user, activate=True)
    (order,) = run(api, agent)
    trial = trial_of(user, experiment)["id"]
    task = order["spec"]["task_id"]
    response = user.ask("POST", f"{V}/tasks/{task}/{deed}", {"taskId": task})
    assert response.status == 400
    assert (
        f"`det trial kill {trial}` kills it, `det experiment pause {experiment}`" in response.error
    )
    command = launch(user, "command", config={"entrypoint": ["true"]})["command"]["id"]
    response = user.ask("POST", f"{V}/tasks/{command}/{deed}", {"taskId": command})
    assert (response.status, "a command: `det command kill` ends it" in response.error) == (
        400,
        True,
    )
