"""Strangers learn no data from any route."""

from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.router import Access, Route
from det_controlplane.db.engine.errors import QueryFailed
from det_controlplane.services.experiments import listing
from sqlalchemy import text

from tests.support.api import Api, Caller
from tests.support.statements import statements

CONFIG = """
name: seen
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
"""
FOR_PEOPLE = [
    route
    for route in routes.every()
    if route.method == "GET" and route.access in (Access.USER, Access.ADMIN)
]


def filled(route: Route, value: str) -> str:
    return "/".join(value if part.startswith("{") else part for part in route.path.split("/"))


@pytest.mark.parametrize("value", ["1", "x"])
@pytest.mark.parametrize("token", ["", "nobody's", "agent-nobody's"])
def test_rejects_unauthenticated_requests_before_any_other_check(
    shared_api: Api, token: str, value: str
) -> None:
    stranger = shared_api.with_token(token)
    query = {"limit": ["x"], "states": ["x"], "offset": ["-1"]}
    for route in FOR_PEOPLE:
        response = stranger.ask("GET", filled(route, value), query=query)
        assert response.status == 401, f"{route.path}: {response.status} {response.body!r}"


def test_rejects_ended_token(api: Api, user: Caller) -> None:
    user.get("/api/v1/experiments")
    user.post("/api/v1/auth/logout")
    for path in ("/api/v1/experiments", "/api/v1/experiments/1", "/api/v1/me"):
        assert user.ask("GET", path).status == 401


def test_rejects_agent_token_on_user_routes(api: Api, user: Caller) -> None:
    body = {
        "agent_id": "a", "agent_key": "k", "incarnation": "00000000-0000-0000-0000-000000000001", "pool": "default",
        "version": "0.38.1", "hostname": "h", "addresses": ["127.0.0.1"], "runtime": "process", "slots": [],
        "proof": {"kind": "bootstrap_token", "token": api.ctx.bootstrap_token},
    }  # fmt: skip
    agent = api.with_token(api.anonymous().post("/agents/v1/join", body)["agent_token"])
    response = agent.ask("GET", "/api/v1/experiments")
    assert (response.status, response.error) == (401, "this path is for users; sign in first")


def test_unauthenticated_request_costs_one_session_lookup(api: Api, user: Caller) -> None:
    user.get("/api/v1/experiments")
    with statements(api.ctx.db) as queries:
        assert api.with_token("nobody's").ask("GET", "/api/v1/experiments").status == 401
    (only,) = queries
    assert "FROM sessions" in only


def test_failed_read_is_reported_only_to_users(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = text("SELECT 1 / length(:nothing) AS one")

    def experiment(ctx: Any, id: int) -> Any:
        return ctx.db.read(fails, {"nothing": "" if id == 2 else "x"})

    monkeypatch.setattr(listing, "experiment", experiment)
    for _ in range(2):  # prepared, and not yet; seen before, and not yet
        with pytest.raises(QueryFailed):
            experiment(api.ctx, 2)
        assert api.with_token("nobody's").ask("GET", "/api/v1/experiments/2").status == 401
        assert user.ask("GET", "/api/v1/experiments/2").status == 500
        experiment(api.ctx, 1)
    assert user.get("/api/v1/me")["user"]["username"] == "determined"
