"""Access tokens: how long they last is the cluster's to say, and nothing that they give outlives them."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from det_controlplane.core.config.access_tokens import TokenLives
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.problems import InvalidConfig

from tests.support.api import Api, Caller
from tests.support.house import id_of


def days_of(caller: Caller, token_id: int) -> float | None:
    (shown,) = [t for t in caller.get("/api/v1/tokens")["tokenInfo"] if t["id"] == token_id]
    if not shown["expiry"]:
        return None
    lasts = datetime.fromisoformat(shown["expiry"]) - datetime.fromisoformat(shown["createdAt"])
    return lasts / timedelta(days=1)


def let_last(api: Api, **lives: int) -> None:
    token = load_cluster({"security": {"token": lives}}).token
    api.ctx.config = replace(api.ctx.config, token=token)


def test_a_cluster_says_how_long_tokens_last(api: Api, user: Caller) -> None:
    let_last(api, default_lifespan_days=2, max_lifespan_days=90)
    usual = user.post("/api/v1/tokens", {})["tokenId"]
    long = user.post("/api/v1/tokens", {"lifespan": "2160h"})["tokenId"]
    assert (days_of(user, usual), days_of(user, long)) == (2, 90)
    told = user.ask("POST", "/api/v1/tokens", {"lifespan": "2161h"})
    assert (told.status, "limit of 90 days" in told.error) == (400, True)
    assert user.ask("POST", "/api/v1/tokens", {"lifespan": "-1"}).status == 403


def test_a_cluster_may_let_everybody_s_tokens_last(api: Api, user: Caller) -> None:
    let_last(api, default_lifespan_days=-1, max_lifespan_days=-1)
    for body in ({}, {"lifespan": "-1"}):
        assert days_of(user, user.post("/api/v1/tokens", body)["tokenId"]) is None


def test_a_short_limit_shortens_the_usual_time() -> None:
    config = load_cluster({"security": {"token": {"max_lifespan_days": 7}}})
    assert config.token == TokenLives(7, 7)
    assert "security.token" not in config.ignored


@pytest.mark.parametrize(
    "token",
    [
        {"max_lifespan_days": 7, "default_lifespan_days": 8},
        {"default_lifespan_days": -1},
        {"max_lifespan_days": 0},
    ],
)
def test_lives_that_contradict_each_other_are_refused(token: dict[str, int]) -> None:
    with pytest.raises(InvalidConfig, match=r"security\.token"):
        load_cluster({"security": {"token": token}})


def test_an_access_token_makes_no_other_and_changes_no_password(api: Api, user: Caller) -> None:
    program = api.with_token(user.post("/api/v1/tokens", {})["token"])
    own = id_of(user)
    assert id_of(program) == own
    refused = [
        program.ask("POST", "/api/v1/tokens", {}),
        program.ask("POST", f"/api/v1/users/{own}/password", b'"a new one, hashed"'),
        program.ask("PATCH", f"/api/v1/users/{own}", {"password": "a new one"}),
    ]
    assert [told.status for told in refused] == [403, 403, 403]
    assert "sign in" in refused[0].error


def test_an_access_token_keeps_its_user_from_nothing(api: Api, admin: Caller, user: Caller) -> None:
    """Its user could not sign in, or not for long enough to revoke it."""
    program = api.with_token(user.post("/api/v1/tokens", {})["token"])
    path = f"/api/v1/users/{id_of(user)}"
    session = user.get(f"{path}/sessions")["sessions"][0]["id"]
    user.post("/api/v1/tokens", {})
    other = max(token["id"] for token in user.get("/api/v1/tokens")["tokenInfo"])
    refused = [
        program.ask("DELETE", f"{path}/sessions"),
        program.ask("DELETE", f"{path}/sessions/{session}"),
        program.ask("PATCH", path, {"endTokens": True}),
        program.ask("PATCH", path, {"username": "somebody"}),
        program.ask("PATCH", f"/api/v1/tokens/{other}", {"setRevoked": True}),
    ]
    assert [told.status for told in refused] == [403] * 5
    assert "sign in" in refused[0].error
    assert user.get("/api/v1/me")["user"]["username"] == "determined"
    program.done("PATCH", path, {"displayName": "D."})
    of_admin = api.with_token(admin.post("/api/v1/tokens", {})["token"])
    own = f"/api/v1/users/{id_of(admin)}"
    for change in ({"active": False}, {"remote": True}):
        assert of_admin.ask("PATCH", own, change).status == 403
    of_admin.done("DELETE", f"{path}/sessions")
    assert user.ask("GET", "/api/v1/me").status == 401
