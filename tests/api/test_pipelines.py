"""Pipelines sign in by the token that their CI service signed; a server on this machine plays the service."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.adapters.issuer_tokens import IssuerTokens
from det_controlplane.adapters.issuers import fetch_keys
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.services.identity import pipelines

from tests.support.api import Api, ApiResponse
from tests.support.oidc_server import (
    GITHUB,
    OidcServer,
    oidc_server,
    signed_by_public_key,
    unsigned,
)


@pytest.fixture
def issuer() -> Iterator[OidcServer]:
    with oidc_server() as server:
        yield server


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trusting(api: Api, issuer: OidcServer, clock: Clock) -> Api:
    """A cluster that trusts two branches of one repository."""
    entry = {
        "issuer": issuer.url, "user": "determined", "session": "2h",
        "claims": {"repository": "me/mine", "ref": ["refs/heads/main", "refs/tags/*"]},
    }  # fmt: skip
    trusted = load_cluster({"pipelines": [entry]}).pipelines
    api.ctx.config = replace(api.ctx.config, pipelines=trusted)
    api.ctx.verifiers.tokens = IssuerTokens(fetch_keys, clock)
    return api


def audience(api: Api) -> str:
    return f"determined:{api.ctx.cluster_id}"


def exchange(api: Api, token: str) -> ApiResponse:
    return api.anonymous().ask("POST", "/api/v1/auth/pipeline", {"token": token})


def test_pipeline_gets_a_session_of_the_configured_user(trusting: Api, issuer: OidcServer) -> None:
    response = exchange(trusting, issuer.token(audience(trusting)))
    assert response.status == 200, response.body
    answer = response.json()
    assert answer["user"]["username"] == "determined"
    caller = trusting.with_token(answer["token"])
    assert caller.get("/api/v1/me")["user"]["username"] == "determined"


def test_session_ends_at_the_configured_time(
    trusting: Api, issuer: OidcServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = exchange(trusting, issuer.token(audience(trusting))).json()["token"]
    _, _, expires_at = pipelines.sign_in(trusting.ctx, issuer.token(audience(trusting)))
    assert 7100 < (expires_at - trusting.ctx.now()).total_seconds() <= 7200
    trusting.ctx.now = lambda: expires_at
    assert trusting.with_token(token).ask("GET", "/api/v1/me").status == 401


@pytest.mark.parametrize(
    ("claims", "admitted"),
    [
        ({"ref": "refs/tags/v1.2"}, True),
        ({"ref": "refs/heads/mine"}, False),
        ({"repository": "me/mine-too"}, False),
        ({"repository": None}, False),
    ],
)
def test_every_claim_must_match(
    trusting: Api, issuer: OidcServer, claims: dict[str, Any], admitted: bool
) -> None:
    response = exchange(trusting, issuer.token(audience(trusting), **claims))
    assert response.status == (200 if admitted else 403)
    if not admitted:
        assert "no entry of `pipelines` in the cluster's configuration admits sub" in response.error


@pytest.mark.parametrize(
    ("claims", "cause"),
    [
        ({"aud": "determined:another"}, "Audience doesn't match"),
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"iat": int(time.time()) + 86_400}, "iat"),
        ({"exp": None}, "exp"),
        ({"sub": None}, "sub"),
        ({"iss": "https://elsewhere.example"}, "trusts no tokens of 'https://elsewhere.example'"),
    ],
)
def test_rejects_token_with_another_audience_or_time(
    trusting: Api, issuer: OidcServer, claims: dict[str, Any], cause: str
) -> None:
    response = exchange(trusting, issuer.token(audience(trusting), **claims))
    assert (response.status, cause in response.error) == (401, True), response.error


def test_rejects_forged_signatures(trusting: Api, issuer: OidcServer) -> None:
    good = issuer.token(audience(trusting))
    now = int(time.time())
    claims = {**GITHUB, "iss": issuer.url, "aud": audience(trusting), "iat": now, "exp": now + 60}
    with oidc_server("stranger") as stranger:
        stranger.url, own = issuer.url, stranger.url
        by_stranger = stranger.token(audience(trusting))
        stranger.url = own
    head, _, signature = good.split(".")
    other_claims = issuer.token(audience(trusting), sub="repo:me/yours").split(".")[1]
    forged = [
        by_stranger, unsigned(claims), signed_by_public_key(issuer, audience(trusting)),
        f"{head}.{other_claims}.{signature}", "a.b.c", "", "x" * 20_000,
    ]  # fmt: skip
    assert [exchange(trusting, token).status for token in forged] == [401] * len(forged)


def test_keys_are_cached_and_new_ones_fetched(
    trusting: Api, issuer: OidcServer, clock: Clock
) -> None:
    for _ in range(3):
        assert exchange(trusting, issuer.token(audience(trusting))).status == 200
    assert issuer.asked.count("/keys") == 1
    issuer.rotate("key-2")
    rotated = issuer.token(audience(trusting))
    assert exchange(trusting, rotated).status == 401, "unknown keys are looked for once a minute"
    clock.now += 61
    assert exchange(trusting, rotated).status == 200
    assert issuer.asked.count("/keys") == 2


def test_rejects_tokens_of_unavailable_or_other_issuers(
    trusting: Api, issuer: OidcServer, clock: Clock
) -> None:
    issuer.down = True
    response = exchange(trusting, issuer.token(audience(trusting)))
    assert (response.status, "keys of the token's issuer" in response.error) == (504, True)
    issuer.down, issuer.described_as = False, "https://elsewhere.example"
    clock.now += 6
    assert "describes another issuer" in exchange(trusting, issuer.token(audience(trusting))).error


def test_rejects_pipeline_of_an_inactive_user(trusting: Api, issuer: OidcServer) -> None:
    admin = trusting.signed_in("admin")
    users = admin.get("/api/v1/users")["users"]
    (user_id,) = [u["id"] for u in users if u["username"] == "determined"]
    admin.done("PATCH", f"/api/v1/users/{user_id}", {"active": False})
    response = exchange(trusting, issuer.token(audience(trusting)))
    assert (response.status, "does not exist or is not active" in response.error) == (403, True)


def test_cluster_without_pipelines_rejects_all_tokens(api: Api, issuer: OidcServer) -> None:
    response = exchange(api, issuer.token(audience(api)))
    assert (response.status, "admits no pipelines" in response.error) == (401, True)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"issuer": "http://ci.example"}, "issuer: must be the https address"),
        ({"claims": {}}, "claims: is required"),
        ({"claims": {"repository": "*"}}, "claims: is required"),
        ({"user": ""}, "user: is required"),
        ({"session": "2d"}, "session: must be a day at most"),
        ({"claim": {}}, "claim"),
    ],
)
def test_rejects_entry_that_trusts_too_much(entry: dict[str, Any], problem: str) -> None:
    good = {"issuer": "https://ci.example", "user": "ci", "claims": {"repository": "me/mine"}}
    with pytest.raises(InvalidConfig, match=problem):
        load_cluster({"pipelines": [{**good, **entry}]})
