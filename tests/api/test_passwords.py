"""Guessing passwords is slow, does not lock out owners, and reveals no names. Weak passwords are refused if other
machines can connect.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from det_controlplane.api.http import Request, Response
from det_controlplane.services.identity import passwords
from det_controlplane.services.identity import sign_in as signing_in
from det_controlplane.services.identity.passwords import client_hash
from sqlalchemy import text

from tests.support.api import PASSWORD, Api, Caller
from tests.support.statements import statements

FREE = signing_in.FREE_ATTEMPTS


def sign_in(api: Api, username: str, password: str, address: str = "10.0.0.1") -> int:
    body = f'{{"username": "{username}", "password": "{password}"}}'.encode()
    request = Request("POST", "/api/v1/auth/login", body=body, client=address)
    answer = api.app.handle(request)
    assert isinstance(answer, Response)
    return answer.status


@pytest.fixture
def pass_time(api: Api) -> Callable[[float], None]:
    start, passed = api.ctx.now().replace(minute=30), [0.0]
    api.ctx.now = lambda: start + timedelta(seconds=passed[0])

    def add(seconds: float) -> None:
        passed[0] += seconds

    return add


def test_wait_grows_with_each_failed_attempt(api: Api, pass_time: Callable[[float], None]) -> None:
    assert [sign_in(api, "admin", "wrong") for _ in range(FREE)] == [401] * FREE
    for wait_s in (1, 2, 4, 8):
        assert sign_in(api, "admin", PASSWORD) == 403
        pass_time(wait_s)
        assert sign_in(api, "admin", "wrong") == 401


def test_successful_sign_in_after_the_wait_resets_the_count(
    api: Api, pass_time: Callable[[float], None]
) -> None:
    for _ in range(FREE):
        sign_in(api, "admin", "wrong")
    pass_time(1)
    assert sign_in(api, "admin", PASSWORD) == 200
    assert [sign_in(api, "admin", "wrong") for _ in range(FREE)] == [401] * FREE


def test_empty_passwords_do_not_count_as_attempts(api: Api) -> None:
    assert [sign_in(api, "determined", "") for _ in range(3 * FREE)] == [401] * (3 * FREE)
    assert sign_in(api, "determined", PASSWORD) == 200


def test_an_attacker_does_not_lock_the_owner_out(api: Api) -> None:
    for _ in range(3 * FREE):
        sign_in(api, "admin", "wrong", address="203.0.113.9")
    assert sign_in(api, "admin", PASSWORD) == 200


def test_unknown_names_get_the_same_response_as_known_ones(api: Api) -> None:
    requests = []
    for name in ("admin", "nobody-of-that-name"):
        with statements(api.ctx.db) as queries:
            responses = [sign_in(api, name, "wrong") for _ in range(FREE + 2)]
        requests.append((responses, queries))
    assert requests[0] == requests[1]


def test_unknown_name_costs_the_same_key_derivation(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the time of the answer does not reveal names either."""
    derive, costs = passwords._derive, []

    def counted(client_hashed: str, salt: bytes) -> bytes:
        costs.append((client_hashed, len(salt)))
        return derive(client_hashed, salt)

    monkeypatch.setattr(passwords, "_derive", counted)
    for name in ("admin", "nobody-of-that-name"):
        for password in ("wrong", ""):
            assert sign_in(api, name, password) == 401
    assert len(costs) == 4
    assert costs[:2] == costs[2:]


def test_address_that_guesses_many_names_has_to_wait(
    api: Api, pass_time: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts without a password count, too; other addresses are not held up."""
    patience = replace(signing_in._PATIENCE_WITH_ADDRESS, free=4)
    monkeypatch.setattr(signing_in, "_PATIENCE_WITH_ADDRESS", patience)
    guesses = [(f"name-{n}", "wrong" if n % 2 else "") for n in range(5)]
    assert [sign_in(api, *guess) for guess in guesses] == [401] * 4 + [403]
    assert sign_in(api, "admin", PASSWORD, "10.0.0.2") == 200
    assert sign_in(api, "admin", PASSWORD) == 403
    pass_time(patience.longest_s)
    assert sign_in(api, "admin", PASSWORD) == 200
    assert sign_in(api, "name-0", "wrong") == 403
    pass_time(3600)
    assert sign_in(api, "name-0", "wrong") == 401


def test_own_sign_in_does_not_reset_the_count_of_an_address(
    api: Api, pass_time: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A success counts as no guess, and takes none back."""
    patience = replace(signing_in._PATIENCE_WITH_ADDRESS, free=4)
    monkeypatch.setattr(signing_in, "_PATIENCE_WITH_ADDRESS", patience)
    responses = []
    for n in range(5):
        responses.append(sign_in(api, f"name-{n}", "wrong"))
        sign_in(api, "admin", PASSWORD)
    assert responses == [401] * 4 + [403]


def test_attacker_does_not_delay_known_users_of_the_same_address(
    api: Api, pass_time: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one failed attempt, the user waits like the stranger, as accounts without a password do."""
    patience = replace(signing_in._PATIENCE_WITH_ADDRESS, free=4)
    monkeypatch.setattr(signing_in, "_PATIENCE_WITH_ADDRESS", patience)
    assert sign_in(api, "admin", PASSWORD) == 200
    for n in range(9):
        sign_in(api, f"name-{n}", "wrong")
    assert [sign_in(api, "admin", PASSWORD) for _ in range(3)] == [200] * 3
    assert sign_in(api, "admin", "") == 403
    assert sign_in(api, "determined", PASSWORD) == 403
    assert sign_in(api, "admin", "wrong") == 401
    assert sign_in(api, "admin", PASSWORD) == 403


def hashed(password: str) -> dict[str, object]:
    return {"password": client_hash(password), "isHashed": True}


@pytest.mark.parametrize("weak", [{"password": "short"}, {"password": "x"}, hashed("x")])
def test_rejects_weak_passwords_on_a_public_cluster(
    api: Api, admin: Caller, weak: dict[str, object]
) -> None:
    new = {"user": {"username": "grace", "active": True}, **weak}
    api.ctx.host.public = True
    assert admin.ask("POST", "/api/v1/users", new).status == 400
    api.ctx.host.public = False
    assert admin.ask("POST", "/api/v1/users", new).status == 200


def test_account_without_a_password_is_closed_on_a_public_cluster(api: Api, admin: Caller) -> None:
    api.ctx.host.public = True
    response = admin.post("/api/v1/users", {"user": {"username": "grace", "active": True}})
    assert sign_in(api, "grace", "") == 401
    path = f"/api/v1/users/{response['user']['id']}"
    admin.done("PATCH", path, {"password": "a long password", "isHashed": False})
    assert sign_in(api, "grace", "a long password") == 200


def test_only_administrators_create_tokens_without_expiry(admin: Caller, user: Caller) -> None:
    own = user.get("/api/v1/me")["user"]["id"]
    assert user.ask("POST", "/api/v1/tokens", {"userId": own, "lifespan": "-1"}).status == 403
    assert user.ask("POST", "/api/v1/tokens", {"userId": own, "lifespan": "24h"}).status == 200
    assert admin.ask("POST", "/api/v1/tokens", {"userId": own, "lifespan": "-1"}).status == 200


def test_deactivating_a_user_ends_all_tokens(api: Api, admin: Caller, user: Caller) -> None:
    own = user.get("/api/v1/me")["user"]["id"]
    response = user.post("/api/v1/tokens", {"userId": own, "lifespan": "24h"})
    token = api.with_token(response["token"])
    token.get("/api/v1/me")
    admin.done("PATCH", f"/api/v1/users/{own}", {"active": False})
    assert token.ask("GET", "/api/v1/me").status == 401
    admin.done("PATCH", f"/api/v1/users/{own}", {"active": True})
    assert token.ask("GET", "/api/v1/me").status == 401
    assert user.ask("GET", "/api/v1/me").status == 401


def test_making_a_user_remote_deletes_password_and_sessions(
    api: Api, user: Caller, admin: Caller
) -> None:
    me = user.get("/api/v1/me")["user"]["id"]
    admin.done("PATCH", f"/api/v1/users/{me}", {"remote": True})
    assert user.ask("GET", "/api/v1/me").status == 401
    password_hash = api.ctx.db.read(text(f"SELECT password_hash FROM users WHERE id = {me}"))
    assert password_hash[0][0] is None
    admin.done("PATCH", f"/api/v1/users/{me}", {"remote": False})
    assert sign_in(api, "determined", PASSWORD) == 401
    admin.done("PATCH", f"/api/v1/users/{me}", {"password": "another one"})
    assert sign_in(api, "determined", "another one") == 200


def test_remote_user_cannot_sign_in_by_password(api: Api, admin: Caller) -> None:
    with api.ctx.db.begin() as tx:  # as earlier versions left it
        tx.execute(text("UPDATE users SET remote = true WHERE username = 'determined'"))
    assert sign_in(api, "determined", PASSWORD) == 401
