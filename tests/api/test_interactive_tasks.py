"""Notebooks, shells and TensorBoards, with an agent that the test plays."""

import base64
import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.db import interactive
from det_controlplane.db.engine import Tx
from det_controlplane.services.errors import NotSignedIn
from det_controlplane.services.tasks import access, proxying
from det_controlplane.services.tasks.proxying import Carriers
from sqlalchemy import text

from tests.support.api import Api, Caller, create, trial_of
from tests.support.played_agent import PlayedAgent

V = "/api/v1"


@pytest.fixture
def agent(api: Api) -> PlayedAgent:
    played = PlayedAgent(api, "a1")
    played.join()
    return played


def launch(caller: Caller, kind: str, **body: Any) -> dict[str, Any]:
    made: dict[str, Any] = caller.post(f"{V}/{kind}s", {"config": {}, **body})
    return made


def start(api: Api, agent: PlayedAgent) -> dict[str, Any]:
    """Let the only queued task run; return what its container is told."""
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    spec: dict[str, Any] = order["spec"]
    return spec


def somebody_else(api: Api, admin: Caller) -> Caller:
    user = {"username": "grace", "active": True}
    admin.post(f"{V}/users", {"user": user, "password": "Aa345678", "isHashed": False})
    return api.signed_in("grace", "Aa345678")


def later(api: Api, **span: float) -> None:
    now = api.ctx.now() + timedelta(**span)
    api.ctx.now = lambda: now


def proxies(api: Api, task_id: str) -> Any:
    with api.ctx.db.begin() as tx:
        found = text("SELECT proxies FROM tasks WHERE id = :id")
        return tx.execute(found, {"id": task_id}).scalar_one()


@pytest.mark.parametrize("kind", ["notebook", "shell", "command"])
def test_what_nobody_could_reach_is_not_started(api: Api, user: Caller, kind: str) -> None:
    """An idle machine for a page that never opens would be paid for."""
    api.ctx.carries_traffic = False
    body = {"config": {"entrypoint": ["true"]} if kind == "command" else {}}
    told = user.ask("POST", f"{V}/{kind}s", body)
    if kind == "command":
        assert told.status == 200, "its output is in its log"
        return
    assert (told.status, "carries no traffic to tasks" in told.error) == (400, True)
    assert user.get(f"{V}/{kind}s")[f"{kind}s"] == []
    preview = user.ask("POST", f"{V}/{kind}s", {**body, "preview": True})
    assert preview.status == (200 if kind == "notebook" else 400)


def test_a_notebook_serves_on_a_port_of_its_own_under_its_address(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    notebook = launch(user, "notebook")["notebook"]
    spec = start(api, agent)
    (port,) = [p["port"] for p in proxies(api, notebook["id"])]
    assert 2900 <= port < 3200
    assert spec["command"][-3:] == ["python3", "-m", "determined.exec.notebook"]
    env = spec["env"]
    assert (env["NOTEBOOK_PORT"], env["DET_TASK_TYPE"]) == (str(port), "NOTEBOOK")
    assert spec["local_ports"] == [port]
    assert port not in spec["ports"], "it would be open to the machine's network"
    address = f"/proxy/{notebook['id']}/?token={env['DET_NOTEBOOK_TOKEN']}"
    assert user.get(f"{V}/notebooks/{notebook['id']}")["notebook"]["serviceAddress"] == address


def test_what_opens_a_task_is_told_to_its_owner_and_administrators(
    api: Api, user: Caller, admin: Caller
) -> None:
    other = somebody_else(api, admin)
    notebook = launch(user, "notebook")["notebook"]["id"]
    shell = launch(user, "shell")["shell"]["id"]
    for caller, told in ((user, True), (admin, True), (other, False)):
        address = caller.get(f"{V}/notebooks/{notebook}")["notebook"]["serviceAddress"]
        key = caller.get(f"{V}/shells/{shell}")["shell"]["privateKey"]
        assert ("token=" in address, "PRIVATE KEY" in key) == (told, told)
    (listed,) = user.get(f"{V}/shells")["shells"]
    assert listed["privateKey"] == ""
    assert listed["publicKey"].startswith("ssh-ed25519 ")
    assert listed["agentUserGroup"] == {"user": "", "uid": 0, "group": "", "gid": 0}
    who = {"agentUser": "ada", "agentUid": 7, "agentGroup": "lab", "agentGid": 8}
    owner = user.get(f"{V}/me")["user"]["id"]
    admin.done("PATCH", f"{V}/users/{owner}", {"agentUserGroup": who})
    (listed,) = user.get(f"{V}/shells")["shells"]
    assert listed["agentUserGroup"] == {"user": "ada", "uid": 7, "group": "lab", "gid": 8}


@pytest.mark.parametrize(
    ("told", "shown"), [({"user": "ubuntu"}, "ubuntu"), ({}, "ada"), ({"user": "-oX=y z"}, "ada")]
)
def test_a_shell_that_serves_tells_as_whom_to_log_in(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent, told: dict[str, str], shown: str
) -> None:
    owner = user.get(f"{V}/me")["user"]["id"]
    who = {"agentUser": "ada", "agentUid": 7, "agentGroup": "lab", "agentGid": 8}
    admin.done("PATCH", f"{V}/users/{owner}", {"agentUserGroup": who})
    id = launch(user, "shell")["shell"]["id"]
    spec = start(api, agent)
    allocation = spec["env"]["DET_ALLOCATION_ID"]
    api.with_token(spec["session_token"]).post(f"{V}/allocations/{allocation}/ready", told)
    shell = user.get(f"{V}/shells/{id}")
    assert shell["shell"]["agentUserGroup"]["user"] == shown
    assert "PRIVATE KEY" in shell["shell"]["privateKey"]
    assert "_shell" not in shell["config"]


def test_only_the_right_token_opens_a_task(api: Api, user: Caller) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    with api.ctx.db.begin() as tx:
        key = tx.execute(text("SELECT access_key FROM tasks WHERE id = :id"), {"id": id}).scalar()
    token = access.token_of(api.ctx, id, key)
    assert access.opens(api.ctx, id, key, token)
    assert not access.opens(api.ctx, id, key, token[:-1])
    assert not access.opens(api.ctx, "another", key, token)
    assert not access.opens(api.ctx, id, None, access.token_of(api.ctx, id, None))


def test_the_address_that_the_owner_was_told_opens_this_task_and_no_other(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    start(api, agent)
    address = user.get(f"{V}/notebooks/{id}")["notebook"]["serviceAddress"]
    other = launch(user, "notebook", config={"resources": {"slots": 0}})["notebook"]["id"]
    token = address.partition("?token=")[2]
    target = proxying.target(api.ctx, id, Carriers(in_address=token))
    assert (target.task_id, target.to_keep) == (id, token)
    assert proxying.target(api.ctx, id, Carriers(kept=token)).port == target.port
    for service, carriers in ((other, Carriers(in_address=token)), (id, Carriers(kept="x"))):
        with pytest.raises(NotSignedIn):
            proxying.target(api.ctx, service, carriers)
    assert api.with_token(token).ask("GET", f"{V}/me").status == 401
    for not_it in ("x", "x\r\nSet-Cookie: auth=y", f"{token}\r\n", "é"):
        both = Carriers(in_address=not_it, kept=token)
        assert proxying.target(api.ctx, id, both).to_keep == ""


def test_the_address_of_a_deactivated_user_s_task_opens_nothing(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    start(api, agent)
    address = user.get(f"{V}/notebooks/{id}")["notebook"]["serviceAddress"]
    carriers = Carriers(in_address=address.partition("?token=")[2])
    assert proxying.target(api.ctx, id, carriers).task_id == id
    me = user.get(f"{V}/me")["user"]["id"]
    admin.done("PATCH", f"{V}/users/{me}", {"active": False})
    with pytest.raises(NotSignedIn):
        proxying.target(api.ctx, id, carriers)


def test_a_preview_makes_nothing(user: Caller) -> None:
    told = launch(user, "notebook", preview=True, config={"resources": {"slots": 2}})
    assert told["config"]["resources"]["slots"] == 2
    assert told["notebook"]["id"] == ""
    assert user.get(f"{V}/notebooks")["notebooks"] == []


def test_a_shell_lets_in_only_the_key_that_its_owner_has(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    shell = launch(user, "shell")["shell"]
    spec = start(api, agent)
    (proxy,) = proxies(api, shell["id"])
    assert (proxy["tcp"], proxy["unauthenticated"], proxy["id"]) == (True, True, shell["id"])
    assert 3200 <= proxy["port"] < 3500
    (file,) = spec["files"]
    assert base64.b64decode(file["content_b64"]).decode().strip() == shell["publicKey"]
    with api.ctx.db.begin() as tx:
        stored = tx.execute(text("SELECT config::text FROM tasks")).scalar_one()
    assert "PRIVATE KEY" not in stored


def test_the_code_of_a_task_is_not_told_what_opens_other_tasks_of_its_owner(
    api: Api, admin: Caller, agent: PlayedAgent
) -> None:
    shell = launch(admin, "shell", config={"resources": {"slots": 0}})["shell"]["id"]
    own = start(api, agent)["session_token"]
    notebook = launch(admin, "notebook", config={"resources": {"slots": 0}})["notebook"]["id"]
    api.tick()
    specs = [order["spec"] for order in agent.poll() if "spec" in order]
    (other,) = (spec["session_token"] for spec in specs if spec["task_id"] == notebook)
    for token, told in ((own, (True, False)), (other, (False, True))):
        task = api.with_token(token)
        key = task.get(f"{V}/shells/{shell}")["shell"]["privateKey"]
        address = task.get(f"{V}/notebooks/{notebook}")["notebook"]["serviceAddress"]
        assert ("PRIVATE KEY" in key, "token=" in address) == told


def test_the_code_of_a_task_opens_the_shell_that_it_launches(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    launch(user, "notebook", config={"resources": {"slots": 0}})
    task = api.with_token(start(api, agent)["session_token"])
    made = launch(task, "shell")["shell"]
    assert "PRIVATE KEY" in made["privateKey"]


def test_two_tasks_never_share_a_port(api: Api, user: Caller) -> None:
    numbers = iter([7, 7, 7, 7, 7, 7])
    api.ctx.new_seed = lambda: next(numbers)
    ids = [launch(user, "notebook")["notebook"]["id"] for _ in range(3)]
    assert [proxies(api, id)[0]["port"] for id in ids] == [2907, 2908, 2909]


def test_a_task_is_ready_when_its_program_says_so(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    spec = start(api, agent)
    task = api.with_token(spec["session_token"])
    assert not user.get(f"{V}/tasks/{id}")["task"]["allocations"][0]["isReady"]
    for _ in range(2):
        task.post(f"{V}/allocations/{spec['allocation_id']}/ready")
    assert user.get(f"{V}/tasks/{id}")["task"]["allocations"][0]["isReady"]
    log = [line["message"] for line in user.lines(f"{V}/tasks/{id}/logs")]
    assert sum("is available" in line for line in log) == 1


def test_an_unused_notebook_ends_after_its_time_and_a_used_one_does_not(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook", config={"idle_timeout": "10m"})["notebook"]["id"]
    spec = start(api, agent)
    task = api.with_token(spec["session_token"])
    later(api, minutes=11)
    agent.poll()
    api.tick()
    assert not _killed(user, id), "it has not begun to serve"
    task.post(f"{V}/allocations/{spec['allocation_id']}/ready")
    later(api, minutes=9)
    task.done("PUT", f"{V}/notebooks/{id}/report_idle", {"idle": False, "notebookId": id})
    later(api, minutes=9)
    task.done("PUT", f"{V}/notebooks/{id}/report_idle", {"idle": True, "notebookId": id})
    agent.poll()
    api.tick()
    assert not _killed(user, id)
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE tasks SET proxied_at = :now"), {"now": api.ctx.now()})
    later(api, minutes=9)
    agent.poll()
    api.tick()
    assert not _killed(user, id)
    later(api, minutes=2)
    agent.poll()
    api.tick()
    assert _killed(user, id)
    agent.poll("terminated", exit_code=137)
    ended = user.get(f"{V}/notebooks/{id}")["notebook"]
    assert ended["exitStatus"] == "allocation killed: nobody used it for 10m"


def test_a_notebook_that_is_used_just_before_its_end_stays(
    api: Api, user: Caller, agent: PlayedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = launch(user, "notebook", config={"idle_timeout": "10m"})["notebook"]["id"]
    spec = start(api, agent)
    api.with_token(spec["session_token"]).post(f"{V}/allocations/{spec['allocation_id']}/ready")
    later(api, minutes=11)
    agent.poll()
    found = interactive.idle

    def found_just_before_use(tx: Tx, now: datetime) -> list[interactive.IdleTask]:
        idle = found(tx, now)
        tx.execute(text("UPDATE tasks SET proxied_at = :now"), {"now": now})
        return idle

    monkeypatch.setattr(interactive, "idle", found_just_before_use)
    api.tick()
    assert not _killed(user, id)


def _killed(user: Caller, id: str) -> bool:
    (reason,) = user.get(f"{V}/why/task/{id}")["reasons"]
    return bool(reason["code"] == "KILLED")


def test_the_tick_comes_back_when_a_task_will_have_been_idle_for_too_long(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    from det_controlplane.services.maintenance import tick

    api.ctx.config = replace(api.ctx.config, notebook_timeout=12.0)
    launch(user, "notebook")
    spec = start(api, agent)
    api.with_token(spec["session_token"]).post(f"{V}/allocations/{spec['allocation_id']}/ready")
    api.tick()
    due = tick.run(api.ctx)
    assert due is not None
    assert due <= 12


def test_a_task_reports_idleness_only_of_itself(api: Api, user: Caller, agent: PlayedAgent) -> None:
    other = launch(user, "notebook", config={"resources": {"slots": 0}})["notebook"]["id"]
    spec = start(api, agent)
    launch(user, "notebook")
    task = api.with_token(spec["session_token"])
    assert task.ask("PUT", f"{V}/notebooks/{other}/report_idle", {"idle": True}).status == 200
    (mine,) = [n["id"] for n in user.get(f"{V}/notebooks")["notebooks"] if n["id"] != other]
    assert task.ask("PUT", f"{V}/notebooks/{mine}/report_idle", {"idle": False}).status == 403


def test_a_tensorboard_reads_what_its_experiments_wrote(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    first, second = create(user), create(user, environment={"image": "newest"})
    trial = trial_of(user, first)["id"]
    body = {"experimentIds": [second], "trialIds": [trial], "config": {"tensorboard_args": ["--x"]}}
    answer = launch(user, "tensorboard", **body)
    shown = answer["tensorboard"]
    assert (shown["experimentIds"], shown["trialIds"]) == ([second], [trial])
    assert answer["config"]["resources"]["slots"] == 0
    spec = start(api, agent)
    assert spec["image"] == "newest"
    (file,) = spec["files"]
    work = json.loads(base64.b64decode(file["content_b64"]))
    base = f"{api.ctx.cluster_id}/tensorboard/experiment"
    assert [(s["name"], s["path"]) for s in work["sources"]] == [
        (f"exp-{second}", f"{base}/{second}"),
        (f"exp-{first}/trial-{trial}", f"{base}/{first}/trial/{trial}"),
    ]
    assert work["args"] == ["--x"]
    assert work["sources"][0]["storage"]["container_path"] == str(api.checkpoints)
    assert 2600 <= int(spec["env"]["TENSORBOARD_PORT"]) < 2900


def test_a_tensorboard_sees_a_shared_directory_read_only(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    storage = {"type": "shared_fs", "host_path": "/data/all", "storage_path": "mine"}
    api.ctx.config = replace(api.ctx.config, checkpoint_storage=storage)
    launch(user, "tensorboard", experimentIds=[create(user)])
    spec = start(api, agent)
    (mount,) = spec["mounts"]
    assert (mount["host_path"], mount["read_only"]) == ("/data/all", True)
    work = json.loads(base64.b64decode(spec["files"][0]["content_b64"]))
    seen = work["sources"][0]["storage"]
    assert seen == {"type": "directory", "container_path": f"{mount['container_path']}/mine"}


def test_credentials_of_one_user_are_not_lent_to_another(
    api: Api, user: Caller, admin: Caller
) -> None:
    other = somebody_else(api, admin)
    storage = {"type": "s3", "bucket": "b", "access_key": "k", "secret_key": "s"}
    id = create(user, checkpoint_storage=storage)
    told = other.ask("POST", f"{V}/tensorboards", {"config": {}, "experimentIds": [id]})
    assert (told.status, "credentials of its owner" in told.error) == (403, True)
    launch(user, "tensorboard", experimentIds=[id])
    api.ctx.config = replace(api.ctx.config, checkpoint_storage=storage)
    launch(other, "tensorboard", experimentIds=[id])


def test_credentials_that_a_tensorboard_needs_reach_its_container_only(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    storage = {"type": "s3", "bucket": "b", "access_key": "key-1", "secret_key": "word-1"}
    launch(user, "tensorboard", experimentIds=[create(user, checkpoint_storage=storage)])
    spec = start(api, agent)
    work = json.loads(base64.b64decode(spec["files"][0]["content_b64"]))
    assert work["sources"][0]["storage"]["secret_key"] == "word-1"
    with api.ctx.db.begin() as tx:
        stored = tx.execute(text("SELECT config::text FROM tasks WHERE kind = 'TENSORBOARD'"))
        assert "word-1" not in stored.scalar_one()
    id = spec["task_id"]
    for path in (f"tasks/{id}", f"tensorboards/{id}", "tensorboards"):
        assert "word-1" not in json.dumps(user.get(f"{V}/{path}"))
        assert "_files" not in json.dumps(user.get(f"{V}/{path}"))


def test_a_tensorboard_waits_for_metrics_and_then_runs(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "tensorboard", experimentIds=[create(user)])["tensorboard"]["id"]
    spec = start(api, agent)
    task = api.with_token(spec["session_token"])

    def state() -> str:
        return str(user.get(f"{V}/tensorboards/{id}")["tensorboard"]["state"])

    task.post(f"{V}/allocations/{spec['allocation_id']}/waiting")
    assert state() == "STATE_WAITING"
    task.post(f"{V}/allocations/{spec['allocation_id']}/ready")
    assert state() == "STATE_RUNNING"


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 400, "at least one experiment or trial"),
        ({"experimentIds": [99]}, 404, "experiment 99"),
        ({"trialIds": [98]}, 404, "trial 98"),
        ({"experimentIds": ["x"]}, 400, "must be an integer"),
        ({"experimentIds": list(range(2000))}, 400, "1000"),
    ],
)
def test_a_tensorboard_of_nothing_is_refused(
    user: Caller, body: Any, status: int, sentence: str
) -> None:
    told = user.ask("POST", f"{V}/tensorboards", {"config": {}, **body})
    assert (told.status, sentence in told.error) == (status, True), told.body


def test_a_tensorboard_takes_experiments_by_filters(user: Caller) -> None:
    wanted, _ = create(user, labels=["a"]), create(user)
    made = launch(user, "tensorboard", filters={"labels": ["a"]})["tensorboard"]
    assert made["experimentIds"] == [wanted]


def test_lost_machines_bring_notebooks_back_elsewhere(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    start(api, agent)
    agent.poll("terminated", failure="agent_error", message="fell over")
    assert user.get(f"{V}/notebooks/{id}")["notebook"]["state"] == "STATE_QUEUED"
    start(api, agent)
    assert user.get(f"{V}/notebooks/{id}")["notebook"]["state"] == "STATE_RUNNING"
