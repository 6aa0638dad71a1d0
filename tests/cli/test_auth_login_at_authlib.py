"""`det auth login` at the real API and an identity provider that is not ours: Authlib decides what it answers."""

import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from det_cli.actions import auth
from det_cli.render import say

from tests.cli.conftest import Det
from tests.support.api import Api
from tests.support.peers import peer_python
from tests.support.sign_in_server import trust_provider

SERVE = Path(__file__).parent / "provider" / "serve.py"
ADA = {"name": "ada", "password": "lovelace"}
SECRET = "the client's planted secret"


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """Serve the identity provider; return its address."""
    with subprocess.Popen(
        [peer_python(), str(SERVE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        yield serving.stdout.readline().strip()
        serving.stdin.close()


@pytest.fixture
def secret() -> str:
    return SECRET


@pytest.fixture
def api(served_api: Api, provider: str, secret: str) -> Api:
    oidc = {
        "issuer": provider, "client_id": "determined", "client_secret": secret, "auto_provision_users": True,
        "domains": ["example.com"],
    }  # fmt: skip
    trust_provider(served_api, oidc)
    return served_api


def filled_in(url: str, **form: str) -> None:
    """Send the form of a page, as a person in a browser does."""
    with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode(), timeout=60) as page:
        page.read()


@pytest.fixture
def browse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return what makes a person sign in, in the browser that the command opens."""
    opened: list[threading.Thread] = []

    def browses(**form: str) -> None:
        def open_browser(url: str) -> bool:
            opened.append(threading.Thread(target=filled_in, args=(url,), kwargs=form))
            opened[-1].start()
            return True

        monkeypatch.setattr(auth, "open_browser", open_browser)

    yield browses
    for visit in opened:
        visit.join()


def test_a_person_signs_in_by_a_browser(api: Api, det: Det, browse: Callable[..., None]) -> None:
    browse(**ADA)
    ran = det("auth", "login")
    assert (ran.code, "as ada@example.com, until" in ran.err) == (0, True), ran.err
    me = det("user", "whoami").out
    assert "'ada@example.com'" in me
    browse(**ADA)
    assert det("auth", "login").code == 0, "again, as the same user"
    admin = api.signed_in("admin")
    assert [u["username"] for u in admin.get("/api/v1/users")["users"]].count(
        "ada@example.com"
    ) == 1


def test_who_is_not_allowed_in_is_told(api: Api, det: Det, browse: Callable[..., None]) -> None:
    browse(**ADA, deny="yes")
    ran = det("auth", "login")
    assert (ran.code, "refused the sign-in" in ran.err) == (1, True), ran.err


@pytest.mark.parametrize("secret", ["another secret"])
def test_a_wrong_secret_of_the_cluster_is_told(
    api: Api, det: Det, browse: Callable[..., None]
) -> None:
    browse(**ADA)
    ran = det("auth", "login")
    assert (ran.code, "The client cannot authenticate" in ran.err) == (4, True), ran.err


def type_code(
    monkeypatch: pytest.MonkeyPatch, provider: str, after: int, **form: str
) -> list[float]:
    """Have the code that the command shows typed elsewhere once it has waited so many times; return its waits."""
    waits: list[float] = []
    shown: list[str] = []

    def saying(line: str) -> None:
        shown.append(line)
        say(line)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == after:
            code = shown[0].rsplit(" ", 1)[1]
            filled_in(f"{provider}/activate", user_code=code, **form)

    monkeypatch.setattr(auth, "say", saying)
    monkeypatch.setattr(auth, "sleep", sleep)
    return waits


def test_a_device_without_a_browser_shows_a_code(
    api: Api, det: Det, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = type_code(monkeypatch, provider, 3, **ADA)
    ran = det("auth", "login", "--headless")
    assert (ran.code, f"Open {provider}/activate on any device" in ran.err) == (0, True), ran.err
    assert "?user_code=" in ran.err
    assert waits == [1, 1, 1]
    assert "'ada@example.com'" in det("user", "whoami").out


def test_a_device_that_is_refused_is_told(
    api: Api, det: Det, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_code(monkeypatch, provider, 1, **ADA, deny="yes")
    ran = det("auth", "login", "--headless")
    assert (ran.code, "refuses the sign-in" in ran.err) == (4, True), ran.err
