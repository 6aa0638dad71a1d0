"""Notebooks and shells, with an agent that the test plays."""

import base64
import hmac
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from det_controlplane.adapters.aes_cipher import AesCipher
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.tasks import tasks
from det_controlplane.services.errors import Missing, NotSignedIn
from det_controlplane.services.tasks import access, proxying
from det_controlplane.services.tasks.proxying import RequestTokens
from sqlalchemy import text

from tests.support.api import Api, Caller, create
from tests.support.interactive import launch, somebody_else, start
from tests.support.played_agent import PlayedAgent

V = "/api/v1"


def later(api: Api, **span: float) -> None:
    now = api.ctx.now() + timedelta(**span)
    api.ctx.now = lambda: now


def proxies(api: Api, task_id: str) -> Any:
    with api.ctx.db.begin() as tx:
        query = text("SELECT proxies FROM tasks WHERE id = :id")
        return tx.execute(query, {"id": task_id}).scalar_one()


@pytest.mark.parametrize("kind", ["notebook", "shell", "command"])
def test_rejects_interactive_tasks_if_the_cluster_carries_no_traffic(
    api: Api, user: Caller, kind: str
) -> None:
    """Its machine would be paid for, though no page of the task could open."""
    api.ctx.host.carries_traffic = False
    body = {"config": {"entrypoint": ["true"]} if kind == "command" else {}}
    response = user.ask("POST", f"{V}/{kind}s", body)
    if kind == "command":
        assert response.status == 200, "its output is in its log"
        return
    assert (response.status, "carries no traffic to tasks" in response.error) == (400, True)
    assert user.get(f"{V}/{kind}s")[f"{kind}s"] == []
    preview = user.ask("POST", f"{V}/{kind}s", {**body, "preview": True})
    assert preview.status == 200


def test_notebook_serves_on_its_own_port_and_address(
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


def test_only_owner_and_administrators_see_task_credentials(
    api: Api, user: Caller, admin: Caller
) -> None:
    other = somebody_else(api, admin)
    notebook = launch(user, "notebook")["notebook"]["id"]
    shell = launch(user, "shell")["shell"]["id"]
    for caller, is_visible in ((user, True), (admin, True), (other, False)):
        address = caller.get(f"{V}/notebooks/{notebook}")["notebook"]["serviceAddress"]
        key = caller.get(f"{V}/shells/{shell}")["shell"]["privateKey"]
        assert ("token=" in address, "PRIVATE KEY" in key) == (is_visible, is_visible)
    (listed_shell,) = user.get(f"{V}/shells")["shells"]
    assert listed_shell["privateKey"] == ""
    assert listed_shell["publicKey"].startswith("ssh-ed25519 ")
    assert listed_shell["agentUserGroup"] == {"user": "", "uid": 0, "group": "", "gid": 0}
    agent_user = {"agentUser": "ada", "agentUid": 7, "agentGroup": "lab", "agentGid": 8}
    owner = user.get(f"{V}/me")["user"]["id"]
    admin.done("PATCH", f"{V}/users/{owner}", {"agentUserGroup": agent_user})
    (listed_shell,) = user.get(f"{V}/shells")["shells"]
    assert listed_shell["agentUserGroup"] == {"user": "ada", "uid": 7, "group": "lab", "gid": 8}


@pytest.mark.parametrize(
    ("told", "shown"), [({"user": "ubuntu"}, "ubuntu"), ({}, "ada"), ({"user": "-oX=y z"}, "ada")]
)
def test_running_shell_has_its_login_user(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent, told: dict[str, str], shown: str
) -> None:
    owner = user.get(f"{V}/me")["user"]["id"]
    agent_user = {"agentUser": "ada", "agentUid": 7, "agentGroup": "lab", "agentGid": 8}
    admin.done("PATCH", f"{V}/users/{owner}", {"agentUserGroup": agent_user})
    id = launch(user, "shell")["shell"]["id"]
    spec = start(api, agent)
    allocation = spec["env"]["DET_ALLOCATION_ID"]
    api.with_token(spec["session_token"]).post(f"{V}/allocations/{allocation}/ready", told)
    shell = user.get(f"{V}/shells/{id}")
    assert shell["shell"]["agentUserGroup"]["user"] == shown
    assert "PRIVATE KEY" in shell["shell"]["privateKey"]
    assert "_shell" not in shell["config"]


def test_task_opens_only_with_the_right_token(api: Api, user: Caller) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    address = user.get(f"{V}/notebooks/{id}")["notebook"]["serviceAddress"]
    token, key = address.partition("?token=")[2], access_key(api, id)
    assert access.opens(api.ctx, id, key, token)
    assert not access.opens(api.ctx, id, key, token[:-1])
    assert not access.opens(api.ctx, id, key, "é")
    assert not access.opens(api.ctx, id, key, key), "readers of the database have that"
    for no_key in (None, ""):
        assert not access.opens(api.ctx, id, no_key, token)


def access_key(api: Api, task_id: str) -> str:
    with api.ctx.db.begin() as tx:
        query = text("SELECT access_key FROM tasks WHERE id = :id")
        return str(tx.execute(query, {"id": task_id}).scalar())


def made_of(key: str, task_id: str) -> str:
    """Return the token that a task had before tokens were random."""
    digest = hmac.digest(key.encode(), f"access to task {task_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def test_database_content_does_not_suffice_to_derive_task_tokens(api: Api, user: Caller) -> None:
    """Clusters in clouds have no bootstrap token; tokens were once made of that and the row."""
    api.ctx.bootstrap_token = ""
    id = launch(user, "notebook")["notebook"]["id"]
    key = access_key(api, id)
    assert not access.opens(api.ctx, id, key, made_of(key, id))
    earlier = "the key of an earlier row"
    assert not access.opens(api.ctx, id, earlier, made_of(earlier, id))
    api.ctx.bootstrap_token = "known to agents only"
    assert access.opens(api.ctx, id, earlier, made_of(f"known to agents only{earlier}", id))
    assert access.token_of(api.ctx, id, {}, earlier) == made_of(
        f"known to agents only{earlier}", id
    )


def test_token_with_a_lost_key_is_not_returned(api: Api, user: Caller) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    api.ctx.cipher = AesCipher(["another key of the tests"])
    notebook = user.get(f"{V}/notebooks/{id}")["notebook"]
    assert notebook["serviceAddress"] == f"/proxy/{id}/"


def test_task_address_opens_only_its_task(api: Api, user: Caller, agent: PlayedAgent) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    start(api, agent)
    address = user.get(f"{V}/notebooks/{id}")["notebook"]["serviceAddress"]
    other = launch(user, "notebook", config={"resources": {"slots": 0}})["notebook"]["id"]
    token = address.partition("?token=")[2]
    target = proxying.target(api.ctx, id, RequestTokens(in_address=token))
    assert (target.task_id, target.to_keep) == (id, token)
    assert proxying.target(api.ctx, id, RequestTokens(kept=token)).port == target.port
    for service, tokens in (
        (other, RequestTokens(in_address=token)),
        (id, RequestTokens(kept="x")),
    ):
        with pytest.raises(NotSignedIn):
            proxying.target(api.ctx, service, tokens)
    assert api.with_token(token).ask("GET", f"{V}/me").status == 401
    for not_it in ("x", "x\r\nSet-Cookie: auth=y", f"{token}\r\n", "é"):
        both = RequestTokens(in_address=not_it, kept=token)
        assert proxying.target(api.ctx, id, both).to_keep == ""


def test_permitted_callers_read_why_a_task_ended(api: Api, user: Caller, admin: Caller) -> None:
    response = launch(user, "notebook")["notebook"]
    id, token = response["id"], response["serviceAddress"].partition("?token=")[2]
    user.post(f"{V}/notebooks/{id}/kill")

    def told_to(tokens: RequestTokens) -> str:
        with pytest.raises((Missing, NotSignedIn)) as error:
            proxying.target(api.ctx, id, tokens)
        return str(error.value)

    for tokens in (
        RequestTokens(bearer=user.token),
        RequestTokens(in_address=token),
        RequestTokens(kept=token),
    ):
        assert "has ended: allocation ended before it started: on request of" in told_to(tokens)
    other = somebody_else(api, admin)
    message = told_to(RequestTokens(bearer=other.token))
    assert message == f"no running task has the proxied port '{id}'"
    assert told_to(RequestTokens(in_address=f"{token}x")).startswith("sign in to reach tasks")


def test_unauthenticated_shell_clients_learn_that_it_ended(api: Api, user: Caller) -> None:
    id = launch(user, "shell")["shell"]["id"]
    user.post(f"{V}/shells/{id}/kill")
    with pytest.raises(Missing, match=f"^task {id} has ended$"):
        proxying.target(api.ctx, id, RequestTokens())
    with pytest.raises(NotSignedIn):
        proxying.target(api.ctx, f"{id}:1", RequestTokens())


def test_task_address_of_a_deactivated_user_is_rejected(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    start(api, agent)
    address = user.get(f"{V}/notebooks/{id}")["notebook"]["serviceAddress"]
    tokens = RequestTokens(in_address=address.partition("?token=")[2])
    assert proxying.target(api.ctx, id, tokens).task_id == id
    me = user.get(f"{V}/me")["user"]["id"]
    admin.done("PATCH", f"{V}/users/{me}", {"active": False})
    with pytest.raises(NotSignedIn):
        proxying.target(api.ctx, id, tokens)


@pytest.mark.parametrize("kind", ["notebook", "shell", "command"])
def test_preview_creates_no_task(user: Caller, kind: str) -> None:
    entrypoint = {"entrypoint": ["true"]} if kind == "command" else {}
    response = launch(user, kind, preview=True, config={**entrypoint, "resources": {"slots": 2}})
    assert response["config"]["resources"]["slots"] == 2
    assert response[kind]["id"] == ""
    assert user.get(f"{V}/{kind}s")[f"{kind}s"] == []


def test_tensorboard_preview_rejects_missing_experiments(user: Caller) -> None:
    experiment_id = create(user, environment={"image": "own"})
    response = launch(user, "tensorboard", preview=True, experimentIds=[experiment_id])
    assert response["config"]["environment"]["image"]["cuda"] == "own"
    answer = user.ask(
        "POST", f"{V}/tensorboards", {"preview": True, "experimentIds": [experiment_id, 9999]}
    )
    assert (answer.status, "experiment 9999" in answer.error) == (404, True)
    assert user.get(f"{V}/tensorboards")["tensorboards"] == []


def test_configuration_text_overrides_the_configuration(user: Caller) -> None:
    config = {"description": "mine", "resources": {"slots": 1, "priority": 7}}
    response = launch(user, "notebook", config=config, configText="resources:\n  slots: 2\n")
    assert response["config"]["description"] == "mine"
    resources = response["config"]["resources"]
    assert (resources["slots"], resources["priority"]) == (2, 7)
    answer = user.ask("POST", f"{V}/notebooks", {"configText": "resources: [\n"})
    assert (answer.status, "line 2" in answer.error) == (400, True)


def test_shell_accepts_only_the_key_of_its_owner(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    shell = launch(user, "shell")["shell"]
    spec = start(api, agent)
    proxy, terminals = proxies(api, shell["id"])
    assert (terminals["tcp"], terminals["unauthenticated"]) == (True, False)
    assert (proxy["tcp"], proxy["unauthenticated"], proxy["id"]) == (True, True, shell["id"])
    assert 3200 <= proxy["port"] < 3500
    (file,) = spec["files"]
    assert base64.b64decode(file["content_b64"]).decode().strip() == shell["publicKey"]
    with api.ctx.db.begin() as tx:
        config_text = tx.execute(text("SELECT config::text FROM tasks")).scalar_one()
    assert "PRIVATE KEY" not in config_text


def test_only_owner_and_administrators_open_terminals_of_a_shell(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    other = somebody_else(api, admin)
    id = launch(user, "shell")["shell"]["id"]
    env = start(api, agent)["env"]
    body = {"address": f"/proxy/{id}:{env['TERMINAL_PORT']}/", "token": env["DET_TERMINAL_TOKEN"]}
    path = f"{V}/shells/{id}/terminal"
    assert user.get(path) == admin.get(path) == body
    with api.ctx.db.begin() as tx:
        config_text = tx.execute(text("SELECT config::text FROM tasks")).scalar_one()
    assert body["token"] not in config_text
    response = other.ask("GET", path)
    assert (response.status, body["token"] in response.error) == (403, False)
    stranger = RequestTokens(in_address="made up")
    with pytest.raises(NotSignedIn):
        proxying.target(api.ctx, f"{id}:{env['TERMINAL_PORT']}", stranger)
    # Such a port shows no page, so no page could use an administrator's session.
    viewer = RequestTokens(cookies=(admin.token,))
    assert proxying.target(api.ctx, f"{id}:{env['TERMINAL_PORT']}", viewer).tcp
    user.post(f"{V}/shells/{id}/kill")
    agent.poll("terminated", exit_code=137)
    answer = user.ask("GET", path)
    assert (answer.status, "has ended" in answer.error) == (400, True)


def test_opening_a_terminal_of_another_user_is_audited(
    api: Api, user: Caller, admin: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "shell")["shell"]["id"]
    start(api, agent)
    path = f"{V}/shells/{id}/terminal"
    user.get(path)
    assert opened(admin, "shell.terminal") == []
    token = admin.get(path)["token"]
    (row,) = opened(admin, "shell.terminal")
    assert (row["username"], row["object"]) == ("admin", f"shell {id}")
    assert token not in str(row)


@pytest.mark.parametrize("kind", ["shell", "notebook"])
def test_reading_task_credentials_of_another_user_is_audited_hourly(
    api: Api, user: Caller, admin: Caller, kind: str
) -> None:
    """Administrators are recorded. Other users get no token, and owners read their own."""
    id = launch(user, kind)[kind]["id"]
    path, other = f"{V}/{kind}s/{id}", somebody_else(api, admin)
    user.get(path)
    other.get(path)
    assert opened(admin, kind) == []
    reported_tasks = [admin.get(path)[kind] for _ in range(2)]
    (row,) = opened(admin, kind)
    assert (row["username"], row["object"]) == ("admin", f"{kind} {id}")
    assert reported_tasks[0].get("privateKey", reported_tasks[0].get("serviceAddress")) not in str(
        row
    )
    api.signed_in("admin").get(path)
    assert len(opened(admin, kind)) == 2, "each sign-in has its own"
    later(api, hours=2)
    api.signed_in("admin").get(path)
    assert len(opened(admin, kind)) == 3


def test_changing_a_task_does_not_return_its_credentials(user: Caller, admin: Caller) -> None:
    shell = launch(user, "shell")["shell"]["id"]
    for deed, body in (("set_priority", {"priority": 40}), ("kill", {})):
        reported_shell = admin.post(f"{V}/shells/{shell}/{deed}", body)["shell"]
        assert (reported_shell["id"], reported_shell["privateKey"]) == (shell, "")


def opened(admin: Caller, kind: str) -> list[dict[str, Any]]:
    rows = admin.get(f"{V}/audit")["entries"]
    return [row for row in rows if row["action"] == f"{kind}.open"]


def test_shell_with_its_own_entrypoint_has_no_terminal(user: Caller) -> None:
    id = launch(user, "shell", config={"entrypoint": ["sleep", "1"]})["shell"]["id"]
    response = user.ask("GET", f"{V}/shells/{id}/terminal")
    assert (response.status, "det shell open" in response.error) == (400, True)


def test_task_code_cannot_read_credentials_of_other_tasks(
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


def test_task_code_receives_the_key_of_a_shell_it_launches(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    launch(user, "notebook", config={"resources": {"slots": 0}})
    task = api.with_token(start(api, agent)["session_token"])
    response = launch(task, "shell")["shell"]
    assert "PRIVATE KEY" in response["privateKey"]


def test_tasks_never_share_a_port(api: Api, user: Caller) -> None:
    numbers = iter([7, 7, 7, 7, 7, 7])
    api.ctx.random.seed = lambda: next(numbers)
    ids = [launch(user, "notebook")["notebook"]["id"] for _ in range(3)]
    assert [proxies(api, id)[0]["port"] for id in ids] == [2907, 2908, 2909]


def test_task_is_ready_after_its_program_reports_it(
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


def test_only_an_idle_notebook_ends_after_its_timeout(
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
    notebook = user.get(f"{V}/notebooks/{id}")["notebook"]
    assert notebook["exitStatus"] == "allocation killed: nobody used it for 10m"


def test_notebook_used_just_before_its_timeout_stays(
    api: Api, user: Caller, agent: PlayedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = launch(user, "notebook", config={"idle_timeout": "10m"})["notebook"]["id"]
    spec = start(api, agent)
    api.with_token(spec["session_token"]).post(f"{V}/allocations/{spec['allocation_id']}/ready")
    later(api, minutes=11)
    agent.poll()
    idle_tasks = tasks.idle

    def found_just_before_use(tx: Tx, now: datetime) -> list[tasks.IdleTask]:
        idle = idle_tasks(tx, now)
        tx.execute(text("UPDATE tasks SET proxied_at = :now"), {"now": now})
        return idle

    monkeypatch.setattr(tasks, "idle", found_just_before_use)
    api.tick()
    assert not _killed(user, id)


def _killed(user: Caller, id: str) -> bool:
    (reason,) = user.get(f"{V}/why/task/{id}")["reasons"]
    return bool(reason["code"] == "KILLED")


def test_tick_is_due_at_the_idle_timeout(api: Api, user: Caller, agent: PlayedAgent) -> None:
    from det_controlplane.services.maintenance import tick

    api.ctx.config = replace(api.ctx.config, notebook_timeout=12.0)
    launch(user, "notebook")
    spec = start(api, agent)
    api.with_token(spec["session_token"]).post(f"{V}/allocations/{spec['allocation_id']}/ready")
    api.tick()
    due = tick.run(api.ctx)
    assert due is not None
    assert due <= 12


def test_task_reports_only_its_own_idleness(api: Api, user: Caller, agent: PlayedAgent) -> None:
    other = launch(user, "notebook", config={"resources": {"slots": 0}})["notebook"]["id"]
    spec = start(api, agent)
    launch(user, "notebook")
    task = api.with_token(spec["session_token"])
    assert task.ask("PUT", f"{V}/notebooks/{other}/report_idle", {"idle": True}).status == 200
    (own_id,) = [n["id"] for n in user.get(f"{V}/notebooks")["notebooks"] if n["id"] != other]
    assert task.ask("PUT", f"{V}/notebooks/{own_id}/report_idle", {"idle": False}).status == 403


def test_notebook_restarts_after_the_loss_of_its_machine(
    api: Api, user: Caller, agent: PlayedAgent
) -> None:
    id = launch(user, "notebook")["notebook"]["id"]
    start(api, agent)
    agent.poll("terminated", failure="agent_error", message="fell over")
    assert user.get(f"{V}/notebooks/{id}")["notebook"]["state"] == "STATE_QUEUED"
    start(api, agent)
    assert user.get(f"{V}/notebooks/{id}")["notebook"]["state"] == "STATE_RUNNING"
