"""The uploads of one user within a day are limited, so that code does not fill the object store and the database."""

import base64
import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from det_controlplane.core.config.cluster import load_cluster

from tests.support.api import Api, ApiResponse, Caller, config_of, create_ended
from tests.support.played_agent import PlayedAgent

KIB = 1024
E = "/api/v1/experiments"


@pytest.fixture(autouse=True)
def bounded(api: Api) -> None:
    limit = load_cluster({"security": {"max_uploads_per_day": "1m"}}).max_uploads_per_day
    api.ctx.config = replace(api.ctx.config, max_uploads_per_day=limit)


def announced(caller: Caller, kib: int) -> ApiResponse:
    return caller.ask("POST", "/api/v1/contexts", {"size": kib * KIB, "sha256": "0" * 64})


def code(kib: int) -> list[dict[str, Any]]:
    """Return a file that no archive makes smaller."""
    content = base64.b64encode(os.urandom(kib * KIB)).decode()
    return [{"path": "train.py", "type": 48, "content": content, "mtime": "1", "mode": 420}]


def submitted(caller: Caller, kib: int) -> ApiResponse:
    body = {"config": config_of(), "activate": False, "modelDefinition": code(kib)}
    return caller.ask("POST", E, body)


def test_rejects_announced_uploads_above_the_daily_limit(
    api: Api, user: Caller, reader: Caller
) -> None:
    assert [announced(user, 600).status, announced(user, 400).status] == [200, 200]
    response = announced(user, 100)
    assert response.status == 413
    for word in ("1 MiB", "24 hours", ".detignore", "security.max_uploads_per_day"):
        assert word in response.error
    assert announced(reader, 600).status == 200


def test_code_in_the_request_counts_too(api: Api, user: Caller) -> None:
    first = submitted(user, 600)
    assert first.status == 200
    assert submitted(user, 600).status == 413
    experiments = user.get(E)["experiments"]
    assert [e["id"] for e in experiments] == [first.json()["experiment"]["id"]]
    command = {"config": {"entrypoint": ["true"]}, "files": code(600)}
    assert user.ask("POST", "/api/v1/commands", command).status == 413


def test_uploads_of_a_task_count_for_its_owner(api: Api, user: Caller) -> None:
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    user.post(E, {"config": config_of(), "activate": True})
    api.tick()
    (order,) = agent.poll()
    assert announced(user, 900).status == 200
    assert announced(api.with_token(order["spec"]["session_token"]), 200).status == 413


def test_uploads_count_for_one_day(api: Api, user: Caller) -> None:
    experiment = submitted(user, 900).json()["experiment"]["id"]
    assert submitted(user, 900).status == 413
    later = api.ctx.now() + timedelta(hours=25)
    api.ctx.now = lambda: later
    caller = api.signed_in("determined")
    assert submitted(caller, 900).status == 200
    assert caller.get(f"{E}/{experiment}")["experiment"]["id"] == experiment


def test_deleted_uploads_do_not_count(api: Api, user: Caller) -> None:
    agent = PlayedAgent(api, "agent-1")
    agent.join()
    first = submitted(user, 900).json()["experiment"]["id"]
    assert submitted(user, 900).status == 413
    user.post(f"{E}/{first}/kill")
    user.done("DELETE", f"{E}/{first}")
    while user.ask("GET", f"{E}/{first}").status == 200:
        api.tick()
        agent.poll()
        agent.poll("terminated", exit_code=0)
    assert submitted(user, 900).status == 200
    assert announced(user, 900).status == 413


def test_small_uploads_are_not_limited(api: Api, user: Caller) -> None:
    assert announced(user, 1000).status == 200
    assert submitted(user, 100).status == 413
    assert submitted(user, 4).status == 200
    create_ended(user)


def test_default_limit_is_20_gib() -> None:
    assert load_cluster({}).max_uploads_per_day == 20 * KIB**3
