"""Accounts, groups and tokens, and their rights."""

import pytest
from det_controlplane.db.people import sessions
from det_controlplane.services.identity.authentication import token_hash
from det_controlplane.services.identity.passwords import client_hash
from det_controlplane.services.identity.sign_in import FREE_ATTEMPTS

from tests.support.api import (
    PASSWORD,
    Api,
    ApiResponse,
    Caller,
    config_of,
    create,
    report_metrics,
    trial_of,
)
from tests.support.played_agent import task_of

STRONG = "a better password"


def make(admin: Caller, username: str, **more: object) -> int:
    body = {"user": {"username": username, **more}, "password": STRONG, "isHashed": False}
    return int(admin.post("/api/v1/users", body)["user"]["id"])


def test_a_new_user_can_sign_in(api: Api, admin: Caller) -> None:
    user_id = make(admin, "grace", displayName="Grace H.", active=True)
    me = api.signed_in("grace", STRONG).get("/api/v1/me")["user"]
    assert (me["id"], me["displayName"], me["admin"]) == (user_id, "Grace H.", False)


def test_only_administrators_create_users(user: Caller) -> None:
    response = user.ask("POST", "/api/v1/users", {"user": {"username": "grace"}})
    assert response.status == 403
    assert "administrator" in response.error


def test_error_for_editing_another_user_does_not_show_its_id(admin: Caller, user: Caller) -> None:
    other = make(admin, "grace")
    response = user.ask("PATCH", f"/api/v1/users/{other}", {"displayName": "G"})
    message = "only an administrator may edit another user; you are signed in as determined"
    assert (response.status, response.error) == (403, message)


@pytest.mark.parametrize(
    ("username", "status"),
    [("x", 400), ("  y ", 400), ("na\u00efve", 400), ("admin", 403), ("determined", 403)],
)
def test_rejects_forbidden_user_names(admin: Caller, username: str, status: int) -> None:
    response = admin.ask("POST", "/api/v1/users", {"user": {"username": username}})
    assert response.status == status


def test_user_names_are_unique_regardless_of_case(admin: Caller) -> None:
    make(admin, "grace", displayName="Amazing")
    for name in ("grace", "GRACE", "amazing"):
        response = admin.ask("POST", "/api/v1/users", {"user": {"username": name}})
        assert response.status == 409, name


def test_deactivated_user_cannot_sign_in_and_tokens_are_rejected(api: Api, admin: Caller) -> None:
    user_id = make(admin, "grace")
    grace = api.signed_in("grace", STRONG)
    admin.done("PATCH", f"/api/v1/users/{user_id}", {"active": False})
    assert grace.ask("GET", "/api/v1/me").status == 401
    login = {"username": "grace", "password": STRONG, "isHashed": False}
    response = api.anonymous().ask("POST", "/api/v1/auth/login", login)
    assert (response.status, response.error) == (403, "user is not active")


def test_a_new_password_ends_every_other_session(api: Api, user: Caller) -> None:
    caller = api.signed_in("determined")
    user.done("PATCH", "/api/v1/users/2", {"password": STRONG, "isHashed": False})
    assert user.ask("GET", "/api/v1/me").status == 200
    assert caller.ask("GET", "/api/v1/me").status == 401
    api.signed_in("determined", STRONG)


def test_users_can_edit_themselves_but_not_their_rights(user: Caller) -> None:
    user_after = user.done("PATCH", "/api/v1/users/2", {"displayName": "Me"})["user"]
    assert user_after["displayName"] == "Me"
    assert user.ask("PATCH", "/api/v1/users/2", {"admin": True}).status == 403
    assert user.ask("PATCH", "/api/v1/users/1", {"displayName": "You"}).status == 403


def test_last_administrator_cannot_be_removed(admin: Caller) -> None:
    for change in ({"admin": False}, {"active": False}):
        assert admin.ask("PATCH", "/api/v1/users/1", change).status == 400


def test_a_remote_user_has_no_password(api: Api, admin: Caller) -> None:
    admin.post("/api/v1/users", {"user": {"username": "faraway", "remote": True}})
    login = {"username": "faraway", "password": "", "isHashed": True}
    assert api.anonymous().ask("POST", "/api/v1/auth/login", login).status == 401


def test_agent_user_requires_all_four_fields(admin: Caller) -> None:
    part = {"agentUserGroup": {"agentUid": 1000, "agentUser": "grace"}}
    response = admin.ask("PATCH", "/api/v1/users/2", part)
    assert response.status == 400
    assert "agentGid" in response.error


@pytest.mark.parametrize("path", ["users/2", "workspaces/{}"])
@pytest.mark.parametrize("uid", ["root", {}, -1, 2**31, True, 1.5])
def test_rejects_agent_user_ids_out_of_range(admin: Caller, path: str, uid: object) -> None:
    """Agents get no orders any more, and tasks are not listed, where one has no number there."""
    workspace_id = admin.post("/api/v1/workspaces", {"name": "ours"})["workspace"]["id"]
    group = {"agentUid": uid, "agentUser": "grace", "agentGid": 8, "agentGroup": "lab"}
    response = admin.ask("PATCH", f"/api/v1/{path.format(workspace_id)}", {"agentUserGroup": group})
    assert (response.status, "agentUid" in response.error) == (400, True)
    admin.done(
        "PATCH",
        f"/api/v1/{path.format(workspace_id)}",
        {"agentUserGroup": {**group, "agentUid": "7"}},
    )


def test_users_are_filtered_and_paged(admin: Caller) -> None:
    make(admin, "grace")
    page = admin.get("/api/v1/users", limit=1, offset=2, sortBy="SORT_BY_ID")
    assert [u["username"] for u in page["users"]] == ["grace"]
    assert page["pagination"]["total"] == 3
    assert len(admin.get("/api/v1/users", admin="true")["users"]) == 1
    assert admin.get("/api/v1/users", name="g_ace")["users"] == []
    assert [u["username"] for u in admin.get("/api/v1/users", name="GRA")["users"]] == ["grace"]


def test_web_settings_are_stored_and_reset(user: Caller) -> None:
    setting = {"key": "theme", "storagePath": "ui", "value": '"dark"'}
    user.post("/api/v1/users/setting", {"settings": [setting]})
    assert user.get("/api/v1/users/setting")["settings"] == [setting]
    user.post("/api/v1/users/setting/reset")
    assert user.get("/api/v1/users/setting")["settings"] == []


def test_web_settings_have_a_size_limit(user: Caller) -> None:
    def kept(key: str) -> ApiResponse:
        setting = {"key": key, "storagePath": "big", "value": '"' + "x" * 600_000 + '"'}
        return user.ask("POST", "/api/v1/users/setting", {"settings": [setting]})

    assert kept("first").status == 200
    response = kept("second")
    assert (response.status, "1 MiB at most" in response.error) == (413, True)
    assert [s["key"] for s in user.get("/api/v1/users/setting")["settings"]] == ["first"]


def test_last_viewed_projects_come_first(user: Caller) -> None:
    workspace = user.post("/api/v1/workspaces", {"name": "pets"})["workspace"]["id"]
    path = f"/api/v1/workspaces/{workspace}/projects"
    new_project_id = user.post(path, {"name": "cats"})["project"]["id"]
    for project_id in (1, new_project_id):
        user.post("/api/v1/users/activity", {"entityId": project_id})
    projects = user.get("/api/v1/user/projects/activity")["projects"]
    assert [p["id"] for p in projects] == [new_project_id, 1]


def test_groups_can_be_created_edited_and_deleted(admin: Caller) -> None:
    group = admin.post("/api/v1/groups", {"name": "vision", "addUsers": [2]})["group"]
    assert [u["username"] for u in group["users"]] == ["determined"]
    path = f"/api/v1/groups/{group['groupId']}"
    group_after = admin.done("PUT", path, {"addUsers": [1], "removeUsers": [2], "name": "sight"})[
        "group"
    ]
    assert (group_after["name"], [u["id"] for u in group_after["users"]]) == ("sight", [1])
    groups = admin.post("/api/v1/groups/search", {"limit": 10, "userId": 1})["groups"]
    assert groups == [{"group": {"groupId": group["groupId"], "name": "sight"}, "numMembers": 1}]
    assert admin.ask("PUT", path, {"addUsers": [99]}).status == 404
    admin.done("DELETE", path)
    assert admin.ask("GET", path).status == 404


def test_a_token_works_until_it_is_revoked(api: Api, user: Caller) -> None:
    response = user.post("/api/v1/tokens", {"userId": 2, "description": "nightly"})
    holder = api.with_token(response["token"])
    assert holder.get("/api/v1/me")["user"]["username"] == "determined"
    path = f"/api/v1/tokens/{response['tokenId']}"
    info = user.done("PATCH", path, {"setRevoked": True})["tokenInfo"]
    assert info["revoked"] is True
    assert holder.ask("GET", "/api/v1/me").status == 401
    assert user.get("/api/v1/tokens")["tokenInfo"] == []
    assert len(user.get("/api/v1/tokens", showInactive="true")["tokenInfo"]) == 1


@pytest.mark.parametrize("lifespan", ["721h", "soon", "-5h", "0s"])
def test_a_token_lives_for_thirty_days_at_most(user: Caller, lifespan: str) -> None:
    response = user.ask("POST", "/api/v1/tokens", {"userId": 2, "lifespan": lifespan})
    assert response.status == 400
    assert lifespan in response.error


def test_users_cannot_create_or_see_tokens_of_others(admin: Caller, user: Caller) -> None:
    assert user.ask("POST", "/api/v1/tokens", {"userId": 1}).status == 403
    token_id = admin.post("/api/v1/tokens", {"userId": 1})["tokenId"]
    assert user.get("/api/v1/tokens")["tokenInfo"] == []
    assert user.ask("PATCH", f"/api/v1/tokens/{token_id}", {"setRevoked": True}).status == 403


def test_task_token_has_no_administrator_rights(api: Api, admin: Caller) -> None:
    with api.ctx.db.begin() as tx:
        token = "token of a task"
        sessions.create_for_task(tx, 1, "t.1", token_hash(token), api.ctx.now(), None, narrow=False)
    task = api.with_token(token)
    assert task.ask("POST", "/api/v1/users", {"user": {"username": "mole"}}).status == 403
    assert task.ask("PATCH", "/api/v1/users/1", {"password": "x"}).status == 403
    assert task.ask("POST", "/api/v1/tokens", {"userId": 1}).status == 403


def test_a_new_password_ends_access_tokens_and_restricts_tasks_if_asked(
    api: Api, user: Caller
) -> None:
    token = user.post("/api/v1/tokens", {"userId": 2, "lifespan": "24h"})["token"]
    pipeline = api.with_token(token)
    task, _ = task_of(api, user)
    change = {"password": STRONG, "isHashed": False}
    user.done("PATCH", "/api/v1/users/2", change)
    assert pipeline.ask("GET", "/api/v1/me").status == 401
    assert user.ask("GET", "/api/v1/me").status == 200
    assert task.ask("GET", "/api/v1/experiments").status == 200
    user.done("PATCH", "/api/v1/users/2", {**change, "endTokens": True})
    assert task.ask("GET", "/api/v1/experiments").status == 403


def test_browser_needs_the_current_password_for_a_new_one(api: Api, user: Caller) -> None:
    browser = {"cookie": f"auth={user.token}"}
    change = {"password": STRONG, "isHashed": False}
    path = "/api/v1/users/2"

    def asked(body: object, path: str = path, method: str = "PATCH") -> int:
        return api.anonymous().ask(method, path, body, headers=browser).status

    assert asked(change) == 403
    assert asked({**change, "currentPassword": "wrong"}) == 403
    assert asked(client_hash(STRONG), f"{path}/password", "POST") == 403
    assert asked({"displayName": "D."}) == 200
    api.signed_in("determined")
    assert asked({**change, "currentPassword": PASSWORD}) == 200
    passwords = {"password": client_hash(PASSWORD), "currentPassword": client_hash(STRONG)}
    assert asked({**passwords, "isHashed": True}) == 200
    api.signed_in("determined")


def test_current_password_sent_by_a_program_is_checked(
    api: Api, admin: Caller, user: Caller
) -> None:
    change = {"password": STRONG, "isHashed": False}
    response = user.ask("PATCH", "/api/v1/users/2", {**change, "currentPassword": "wrong"})
    assert (response.status, "the current password is missing or wrong" in response.error) == (
        403,
        True,
    )
    user.done("PATCH", "/api/v1/users/2", {**change, "currentPassword": PASSWORD})
    as_browser = {"cookie": f"auth={admin.token}"}
    other = api.anonymous().ask("PATCH", "/api/v1/users/2", change, headers=as_browser)
    assert other.status == 200, "an administrator does not know the password of another user"


def test_guesses_of_the_current_password_are_limited_like_sign_ins(api: Api, user: Caller) -> None:
    guess = {"password": STRONG, "isHashed": False, "currentPassword": "wrong"}
    errors = [user.ask("PATCH", "/api/v1/users/2", guess).error for _ in range(FREE_ATTEMPTS + 1)]
    assert "too many failed sign-ins" in errors[-1]
    assert "too many" not in errors[-2]


def test_account_without_a_password_can_set_one_in_a_browser(api: Api, admin: Caller) -> None:
    new = admin.post("/api/v1/users", {"user": {"username": "grace", "active": True}})["user"]["id"]
    browser = {"cookie": f"auth={api.signed_in('grace', '').token}"}
    change = {"password": STRONG, "isHashed": False}
    assert (
        api.anonymous().ask("PATCH", f"/api/v1/users/{new}", change, headers=browser).status == 200
    )


def test_tasks_of_a_deactivated_user_can_only_report(api: Api, admin: Caller, user: Caller) -> None:
    task, experiment = task_of(api, user)
    trial = trial_of(admin, experiment)["id"]
    metrics = report_metrics(task, trial, "validation", 1, {"loss": 0.0}, run=1)
    assert metrics.status == 200
    assert task.ask("POST", "/api/v1/models", {"name": "before"}).status == 200
    admin.done("PATCH", "/api/v1/users/2", {"active": False})
    assert report_metrics(task, trial, "validation", 2, {"loss": 0.0}, run=1).status == 200
    responses = [
        task.ask("POST", "/api/v1/models", {"name": "after"}),
        task.ask("POST", "/api/v1/experiments", {"config": config_of(), "activate": False}),
        task.ask("POST", f"/api/v1/experiments/{experiment}/kill"),
        task.ask("GET", "/api/v1/experiments"),
        task.ask("GET", "/api/v1/users"),
    ]
    assert [response.status for response in responses] == [403] * len(responses)


def test_deactivation_lists_pauses_and_ends_tasks(admin: Caller, user: Caller) -> None:
    entrypoint = {"entrypoint": ["sleep", "9"]}
    generic = {"config": "entrypoint: [sleep, '9']", "contextDirectory": []}
    shell = user.post("/api/v1/shells", {"config": {}})["shell"]["id"]
    pausable = user.post("/api/v1/generic-tasks", generic)["taskId"]
    steady = user.post("/api/v1/generic-tasks", {**generic, "noPause": True})["taskId"]
    admin.post("/api/v1/commands", {"config": entrypoint})
    response = admin.done("PATCH", "/api/v1/users/2", {"active": False})
    assert [(t["kind"], t["taskId"]) for t in response["runningTasks"]] == [
        ("shell", shell), ("generic", pausable), ("generic", steady),
    ]  # fmt: skip
    response = admin.done("PATCH", "/api/v1/users/2", {"active": False, "pauseWork": True})
    assert [t["taskId"] for t in response["pausedTasks"]] == [pausable]
    assert [t["taskId"] for t in response["endedTasks"]] == [shell, steady]
    assert admin.get(f"/api/v1/shells/{shell}")["shell"]["state"] == "STATE_TERMINATED"
    states = {t["id"]: t["state"] for t in admin.get("/api/v1/generic-tasks")["tasks"]}
    assert states == {pausable: "STATE_PAUSED", steady: "STATE_CANCELED"}


def test_deactivation_lists_and_pauses_experiments(api: Api, admin: Caller, user: Caller) -> None:
    runs, rests = create(user, activate=True), create(user)
    others = create(admin, activate=True)
    response = admin.done("PATCH", "/api/v1/users/2", {"active": False})
    assert (response["runningExperiments"], response["pausedExperiments"]) == ([runs], [])
    response = admin.done("PATCH", "/api/v1/users/2", {"active": False, "pauseWork": True})
    assert (response["runningExperiments"], response["pausedExperiments"]) == ([], [runs])
    states = {
        i: admin.get(f"/api/v1/experiments/{i}")["experiment"]["state"] for i in (runs, others)
    }
    assert states[runs] == "STATE_PAUSED"
    assert states[others] != "STATE_PAUSED"
    assert rests != runs
