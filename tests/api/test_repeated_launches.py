"""A client that heard no answer sends its launch again: it makes no second task."""

from typing import Any

import pytest
from det_controlplane.db.tasks import tasks
from sqlalchemy import text

from tests.support.api import Api, ApiResponse, Caller, create

V = "/api/v1"
KINDS = ("command", "notebook", "shell", "tensorboard", "generic")
_COUNT = text("""
    SELECT count(*), count(DISTINCT j.id), count(DISTINCT a.id)
    FROM tasks k JOIN jobs j ON j.id = k.job_id LEFT JOIN allocations a ON a.task_id = k.id
    WHERE k.kind = upper(:kind)::task_kind
""")


def launch(caller: Caller, kind: str, key: str | None, **more: Any) -> ApiResponse:
    headers = {} if key is None else {"idempotency-key": key}
    if kind == "generic":
        body: dict[str, Any] = {"config": "entrypoint: [ls]\nresources: {slots: 0}\n", **more}
        return caller.ask("POST", f"{V}/generic-tasks", body, headers=headers)
    config = {"resources": {"slots": 0}, **({"entrypoint": ["ls"]} if kind == "command" else {})}
    return caller.ask("POST", f"{V}/{kind}s", {"config": config, **more}, headers=headers)


def id_of(answer: ApiResponse, kind: str) -> str:
    response = answer.json()
    return str(response["taskId"] if kind == "generic" else response[kind]["id"])


def made(api: Api, kind: str) -> tuple[int, ...]:
    with api.ctx.db.begin() as tx:
        return tuple(tx.execute(_COUNT, {"kind": kind}).one())


def needs(caller: Caller, kind: str) -> dict[str, Any]:
    return {"experimentIds": [create(caller)]} if kind == "tensorboard" else {}


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_launch_with_the_same_key_returns_the_task(
    api: Api, user: Caller, kind: str
) -> None:
    more = needs(user, kind)
    first, second_response = (launch(user, kind, "k", **more) for _ in range(2))
    assert id_of(first, kind) == id_of(second_response, kind)
    assert made(api, kind) == (1, 1, 1)
    if kind != "generic":
        assert second_response.json()["config"] == first.json()["config"]


@pytest.mark.parametrize("kind", KINDS)
def test_launch_without_a_key_or_with_another_creates_a_task(
    api: Api, user: Caller, admin: Caller, kind: str
) -> None:
    more = needs(user, kind)
    for caller, key in ((user, "k"), (user, "other"), (admin, "k"), (user, None), (user, None)):
        assert launch(caller, kind, key, **more).status == 200
    assert made(api, kind) == (5, 5, 5)


@pytest.mark.parametrize("kind", ["command", "generic"])
def test_second_of_two_concurrent_launches_returns_the_task(
    api: Api, user: Caller, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    first: list[str] = []
    look = tasks.by_idempotency_key

    def overtaken(*args: Any) -> str | None:
        monkeypatch.setattr(tasks, "by_idempotency_key", look)
        first.append(id_of(launch(user, kind, "k"), kind))
        return None

    monkeypatch.setattr(tasks, "by_idempotency_key", overtaken)
    assert [id_of(launch(user, kind, "k"), kind)] == first
    assert made(api, kind) == (1, 1, 1)
