"""Users of an imported cluster sign in with their passwords."""

import bcrypt
import pytest
from det_controlplane.core.importing.people import BCRYPT
from det_controlplane.db.people import users
from det_controlplane.services.identity.passwords import client_hash

from tests.support.api import Api


@pytest.fixture
def imported_user(api: Api) -> int:
    """A user with a hash as Determined stores it."""
    sent = client_hash("Grüße, 123").encode()[:72]
    hashed = bcrypt.hashpw(sent, bcrypt.gensalt(4)).decode()
    with api.ctx.db.begin() as tx:
        return users.create(tx, username="ada", password_hash=BCRYPT + hashed)


def stored(api: Api) -> str:
    with api.ctx.db.begin() as tx:
        return str(
            tx.exec_driver_sql("SELECT password_hash FROM users WHERE username = 'ada'").scalar()
        )


def test_first_sign_in_replaces_the_hash(api: Api, imported_user: int) -> None:
    for _ in range(2):
        body = {"username": "ada", "password": client_hash("Grüße, 123"), "isHashed": True}
        assert api.anonymous().post("/api/v1/auth/login", body)["token"]
        assert stored(api).startswith("scrypt$")


def test_wrong_password_is_refused_and_changes_nothing(api: Api, imported_user: int) -> None:
    body = {"username": "ada", "password": client_hash("another"), "isHashed": True}
    assert api.anonymous().ask("POST", "/api/v1/auth/login", body).status == 401
    assert stored(api).startswith(BCRYPT)
