"""Where people are signed in, and ending that."""

from typing import Any

import pytest
from det_controlplane.api.http import Request

from tests.support.api import PASSWORD, Api, Caller, told
from tests.support.house import id_of

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def signed_in(api: Api, username: str = "determined", program: str = FIREFOX) -> Caller:
    login = {"username": username, "password": PASSWORD, "isHashed": False}
    headers = {"user-agent": program}
    body = api.anonymous().ask("POST", "/api/v1/auth/login", login, headers=headers).json()
    return api.with_token(body["token"])


def path(caller: Caller) -> str:
    return f"/api/v1/users/{id_of(caller)}/sessions"


def listed(caller: Caller) -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = caller.get(path(caller))["sessions"]
    return sessions


def test_user_sees_origins_of_own_sessions(api: Api) -> None:
    body = b'{"username": "determined", "password": "%s"}' % PASSWORD.encode()
    login = Request(
        "POST", "/api/v1/auth/login", query={}, headers={"user-agent": FIREFOX}, body=body,
        client="192.0.2.7",
    )  # fmt: skip
    there = api.with_token(told(api.app, api.app.handle(login)).json()["token"])
    here = signed_in(api, program="x" * 1000)
    newest, other, *_ = listed(here)
    assert (newest["current"], newest["address"], len(newest["program"])) == (True, "", 300)
    program = other["current"], other["address"], other["program"]
    assert program == (False, "192.0.2.7", FIREFOX)
    assert other["createdAt"] < other["expiresAt"]
    assert [s["current"] for s in listed(there)][:2] == [False, True]


def test_user_ends_a_session_from_another(api: Api) -> None:
    here, there = signed_in(api), signed_in(api)
    session_id = next(s["id"] for s in listed(there) if s["current"])
    here.done("DELETE", f"{path(here)}/{session_id}")
    assert there.ask("GET", "/api/v1/me").status == 401
    assert session_id not in [s["id"] for s in listed(here)]
    response = here.ask("DELETE", f"{path(here)}/{session_id}")
    assert (response.status, "det user list-sessions" in response.error) == (404, True)


def test_ending_other_sessions_does_not_end_access_tokens(api: Api) -> None:
    here, there, third = (signed_in(api) for _ in range(3))
    others = len(listed(here)) - 1
    token = api.with_token(here.post("/api/v1/tokens", {})["token"])
    assert here.done("DELETE", path(here)) == {"ended": others}
    assert [s["current"] for s in listed(here)] == [True]
    assert {c.ask("GET", "/api/v1/me").status for c in (there, third)} == {401}
    assert token.ask("GET", "/api/v1/me").status == 200
    assert listed(token)[0]["current"] is False


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_only_the_user_and_administrators_see_sessions(
    api: Api, admin: Caller, method: str
) -> None:
    user = signed_in(api)
    of_admin = path(admin)
    assert user.ask(method, of_admin).status == 403
    assert user.ask("DELETE", f"{of_admin}/1").status == 403
    assert admin.ask(method, "/api/v1/users/999/sessions").status == 404
    assert admin.ask(method, path(user)).status == 200
    assert user.ask("GET", "/api/v1/me").status == (200 if method == "GET" else 401)


def test_ending_a_session_is_audited(api: Api, admin: Caller) -> None:
    user = signed_in(api)
    user_id, session_id = id_of(user), listed(user)[0]["id"]
    admin.done("DELETE", f"{path(user)}/{session_id}")
    row = admin.get("/api/v1/audit", orderBy="ORDER_BY_DESC")["entries"][0]
    assert row["username"] == "admin"
    assert (row["action"], row["object"]) == (
        "user.sessions.delete",
        f"user {user_id} session {session_id}",
    )
