"""Access tokens: the cluster limits their lifetime, and their effects do not outlive them."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from det_controlplane.api import routes
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.config.sign_in import AccessTokens
from det_controlplane.core.problems import InvalidConfig

from tests.support.api import Api, Caller
from tests.support.house import id_of


def days_of(caller: Caller, token_id: int) -> float | None:
    (token,) = [t for t in caller.get("/api/v1/tokens")["tokenInfo"] if t["id"] == token_id]
    if not token["expiry"]:
        return None
    lasts = datetime.fromisoformat(token["expiry"]) - datetime.fromisoformat(token["createdAt"])
    return lasts / timedelta(days=1)


def set_rules(api: Api, **rules: int | bool) -> None:
    token = load_cluster({"security": {"token": rules}}).token
    api.ctx.config = replace(api.ctx.config, token=token)


def test_tokens_never_begin_with_a_dash(user: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["-h", "-kept", "kept"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: next(drawn))
    assert user.post("/api/v1/tokens", {"userId": id_of(user)})["token"] == "kept"


def test_cluster_limits_the_lifetime_of_tokens(api: Api, user: Caller) -> None:
    set_rules(api, default_lifespan_days=2, max_lifespan_days=90)
    usual = user.post("/api/v1/tokens", {})["tokenId"]
    long = user.post("/api/v1/tokens", {"lifespan": "2160h"})["tokenId"]
    assert (days_of(user, usual), days_of(user, long)) == (2, 90)
    response = user.ask("POST", "/api/v1/tokens", {"lifespan": "2161h"})
    assert (response.status, "limit of 90 days: ask for less" in response.error) == (400, True)
    endless = user.ask("POST", "/api/v1/tokens", {"lifespan": "-1"})
    assert (endless.status, "up to '2160h'" in endless.error) == (403, True)
    for rejected_response in (response, endless):
        assert (
            "an administrator may let tokens last longer by security.token.max"
            in rejected_response.error
        )


def test_cluster_can_allow_tokens_without_expiry(api: Api, user: Caller) -> None:
    set_rules(api, default_lifespan_days=-1, max_lifespan_days=-1)
    for body in ({}, {"lifespan": "-1"}):
        assert days_of(user, user.post("/api/v1/tokens", body)["tokenId"]) is None


def test_a_short_limit_shortens_the_usual_time() -> None:
    config = load_cluster({"security": {"token": {"max_lifespan_days": 7}}})
    assert config.token == AccessTokens(7, 7)
    assert "security.token" not in config.ignored


@pytest.mark.parametrize(
    "token",
    [
        {"max_lifespan_days": 7, "default_lifespan_days": 8},
        {"default_lifespan_days": -1},
        {"max_lifespan_days": 0},
    ],
)
def test_rejects_contradictory_token_lifetimes(token: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig, match=r"security\.token"):
        load_cluster({"security": {"token": token}})


def test_access_token_cannot_create_tokens_or_change_the_password(api: Api, user: Caller) -> None:
    program = api.with_token(user.post("/api/v1/tokens", {})["token"])
    own = id_of(user)
    assert id_of(program) == own
    responses = [
        program.ask("POST", "/api/v1/tokens", {}),
        program.ask("POST", f"/api/v1/users/{own}/password", b'"a new one, hashed"'),
        program.ask("PATCH", f"/api/v1/users/{own}", {"password": "a new one"}),
    ]
    assert [response.status for response in responses] == [403, 403, 403]
    assert "sign in" in responses[0].error


def test_access_token_cannot_lock_out_its_user(api: Api, admin: Caller, user: Caller) -> None:
    """Its user could otherwise not sign in, or not for long enough to revoke it."""
    program = api.with_token(user.post("/api/v1/tokens", {})["token"])
    path = f"/api/v1/users/{id_of(user)}"
    session = user.get(f"{path}/sessions")["sessions"][0]["id"]
    user.post("/api/v1/tokens", {})
    other = max(token["id"] for token in user.get("/api/v1/tokens")["tokenInfo"])
    responses = [
        program.ask("DELETE", f"{path}/sessions"),
        program.ask("DELETE", f"{path}/sessions/{session}"),
        program.ask("PATCH", path, {"endTokens": True}),
        program.ask("PATCH", path, {"username": "somebody"}),
        program.ask("PATCH", f"/api/v1/tokens/{other}", {"setRevoked": True}),
    ]
    assert [response.status for response in responses] == [403] * 5
    assert "sign in" in responses[0].error
    assert user.get("/api/v1/me")["user"]["username"] == "determined"
    program.done("PATCH", path, {"displayName": "D."})
    of_admin = api.with_token(admin.post("/api/v1/tokens", {})["token"])
    own = f"/api/v1/users/{id_of(admin)}"
    api.signed_in("admin").post(
        "/api/v1/users", {"user": {"username": "second", "active": True, "admin": True}}
    )
    changes: list[dict[str, object]] = [
        {"active": False}, {"remote": True}, {"admin": False},
        {"agentUserGroup": {"agentUid": 0, "agentUser": "root", "agentGid": 0, "agentGroup": "root"}},
    ]  # fmt: skip
    for change in changes:
        assert of_admin.ask("PATCH", own, change).status == 403


def managing_people(user: int, session: int, token: int) -> list[tuple[str, str, object]]:
    """Return administrators' requests about other users, on routes that users call for themselves."""
    return [
        ("PATCH", f"/api/v1/users/{user}", {"displayName": "Somebody"}),
        ("PATCH", f"/api/v1/users/{user}", {"admin": True}),
        ("DELETE", f"/api/v1/users/{user}/sessions/{session}", None),
        ("PATCH", f"/api/v1/tokens/{token}", {"setRevoked": True}),
        ("POST", f"/api/v1/users/{user}/password", b'"of the thief, hashed"'),
        ("DELETE", f"/api/v1/users/{user}/sessions", None),
    ]


def test_access_token_of_an_administrator_cannot_manage_users(
    api: Api, admin: Caller, user: Caller
) -> None:
    """Accounts, roles and tokens that it made would be there after it was revoked."""
    program = api.with_token(admin.post("/api/v1/tokens", {})["token"])
    token = user.post("/api/v1/tokens", {})["tokenId"]
    session = user.get(f"/api/v1/users/{id_of(user)}/sessions")["sessions"][0]["id"]
    requests: list[tuple[str, str, object]] = [
        (route.method, route.path.replace("{groupId}", "1").replace("{tokenId}", "1"), {})
        for route in routes.every()
        if route.rule is not None and route.rule.session
    ]
    assert {("POST", "/api/v1/users", "{}"), ("POST", "/api/v1/agent-tokens", "{}")} <= {
        (method, path, str(body)) for method, path, body in requests
    }
    for method, path, body in requests + managing_people(id_of(user), session, token):
        response = program.ask(method, path, body)
        remedy = "an administrator may allow it by security.token.administers"
        assert (response.status, remedy in response.error) == (403, True), path
    assert user.get("/api/v1/me")["user"]["displayName"] == ""
    # Daily work of administrators is still possible.
    program.get("/api/v1/master/config")
    program.post("/api/v1/workspaces", {"name": "of a program"})
    program.get(f"/api/v1/users/{id_of(user)}/sessions")


def test_cluster_can_allow_access_tokens_to_manage_users(
    api: Api, admin: Caller, user: Caller
) -> None:
    set_rules(api, administers=True)
    program = api.with_token(admin.post("/api/v1/tokens", {})["token"])
    token = user.post("/api/v1/tokens", {})["tokenId"]
    session = user.get(f"/api/v1/users/{id_of(user)}/sessions")["sessions"][0]["id"]
    program.post("/api/v1/users", {"user": {"username": "made-by-token", "active": True}})
    program.post("/api/v1/groups", {"name": "made by a token"})
    for method, path, body in managing_people(id_of(user), session, token):
        program.done(method, path, body)
    assert program.ask("POST", "/api/v1/tokens", {}).status == 403


def test_access_token_has_only_the_rights_of_its_user(api: Api, user: Caller) -> None:
    set_rules(api, administers=True)
    program = api.with_token(user.post("/api/v1/tokens", {})["token"])
    for path in ("/api/v1/users", "/api/v1/groups", "/api/v1/agent-tokens"):
        assert (
            program.ask("POST", path, {"user": {"username": "mine"}, "name": "mine"}).status == 403
        )
