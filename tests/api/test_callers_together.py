"""One statement finds the callers of requests that arrive together; each request keeps its own caller."""

import threading
from functools import partial

import pytest
from det_controlplane.db.engine.errors import DatabaseDown

from tests.support.api import Api, Caller
from tests.support.batches import all_at_once, batcher_at
from tests.support.statements import statements

ME = "/api/v1/me"


def told_together(callers: list[Caller]) -> list[str]:
    """Return the name or the status of the refusal for each caller."""
    answers = [""] * len(callers)

    def ask(place: int) -> None:
        response = callers[place].ask("GET", ME)
        answers[place] = (
            response.json()["user"]["username"] if response.status == 200 else str(response.status)
        )

    ctx, turn = callers[0].app.ctx, threading.Lock()
    ctx.memory.holders = batcher_at(turn)
    all_at_once(ctx.memory.holders, 0, turn, [partial(ask, n) for n in range(len(callers))])
    return answers


def test_concurrent_requests_have_their_own_callers(api: Api, user: Caller, admin: Caller) -> None:
    caller = api.signed_in("determined")
    caller.post("/api/v1/auth/logout")
    callers = [user, admin, caller, Caller(user.app, "made up"), admin, user]
    expected = ["determined", "admin", "401", "401", "admin", "determined"]
    assert told_together(callers) == expected
    assert told_together(callers[::-1]) == expected[::-1]


def test_concurrent_callers_are_read_by_one_statement(user: Caller, admin: Caller) -> None:
    with statements(user.app.ctx.db) as queries:
        told_together([user, admin, user])
    assert len([sql for sql in queries if "token_hash" in sql]) == 1


def test_all_concurrent_requests_fail_if_the_database_is_down(
    user: Caller, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseDown("the database does not answer")

    monkeypatch.setattr("det_controlplane.db.people.sessions.holders", fail)
    assert told_together([user, admin]) == ["503", "503"]
