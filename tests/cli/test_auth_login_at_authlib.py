"""`det auth login` at the real API with an independent identity provider, which is based on Authlib."""

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
    """Start the identity provider and return its address."""
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


def submit_form(url: str, **form: str) -> None:
    """Submit the form of a page, as a person in a browser does."""
    with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode(), timeout=60) as page:
        page.read()


@pytest.fixture
def browse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that sets the form which a person submits in the opened browser."""
    opened: list[threading.Thread] = []

    def browses(**form: str) -> None:
        def open_browser(url: str) -> bool:
            opened.append(threading.Thread(target=submit_form, args=(url,), kwargs=form))
            opened[-1].start()
            return True

        monkeypatch.setattr(auth, "open_browser", open_browser)

    yield browses
    for visit in opened:
        visit.join()


def test_browser_sign_in(api: Api, det: Det, browse: Callable[..., None]) -> None:
    browse(**ADA)
    result = det("auth", "login")
    assert (result.code, "as ada@example.com, until" in result.err) == (0, True), result.err
    me = det("user", "whoami").out
    assert "'ada@example.com'" in me
    browse(**ADA)
    assert det("auth", "login").code == 0, "the second sign-in uses the same user"
    admin = api.signed_in("admin")
    assert [u["username"] for u in admin.get("/api/v1/users")["users"]].count(
        "ada@example.com"
    ) == 1


def test_reports_a_denied_sign_in(api: Api, det: Det, browse: Callable[..., None]) -> None:
    browse(**ADA, deny="yes")
    result = det("auth", "login")
    assert (result.code, "refused the sign-in" in result.err) == (1, True), result.err


@pytest.mark.parametrize("secret", ["another secret"])
def test_reports_a_wrong_client_secret(api: Api, det: Det, browse: Callable[..., None]) -> None:
    browse(**ADA)
    result = det("auth", "login")
    assert (result.code, "The client cannot authenticate" in result.err) == (4, True), result.err


def type_code(
    monkeypatch: pytest.MonkeyPatch, provider: str, after: int, **form: str
) -> list[float]:
    """Enter the printed code on another device after this number of waits. Return the list of waits."""
    waits: list[float] = []
    lines: list[str] = []

    def record(line: str) -> None:
        lines.append(line)
        say(line)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == after:
            code = lines[0].rsplit(" ", 1)[1]
            submit_form(f"{provider}/activate", user_code=code, **form)

    monkeypatch.setattr(auth, "say", record)
    monkeypatch.setattr(auth, "sleep", sleep)
    return waits


def test_headless_sign_in_with_a_device_code(
    api: Api, det: Det, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = type_code(monkeypatch, provider, 3, **ADA)
    result = det("auth", "login", "--headless")
    assert (result.code, f"Open {provider}/activate on any device" in result.err) == (0, True), (
        result.err
    )
    assert "?user_code=" in result.err
    assert waits == [1, 1, 1]
    assert "'ada@example.com'" in det("user", "whoami").out


def test_reports_a_denied_device_code(
    api: Api, det: Det, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_code(monkeypatch, provider, 1, **ADA, deny="yes")
    result = det("auth", "login", "--headless")
    assert (result.code, "refuses the sign-in" in result.err) == (4, True), result.err
