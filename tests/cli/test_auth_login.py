"""`det auth login` at the real API, with an identity provider and a browser that this test plays."""

import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from det_cli.actions import auth
from det_cli.browser_return import BrowserReturn
from det_cli.errors import CommandError

from tests.cli.conftest import Det
from tests.support import oidc_server
from tests.support.api import Api
from tests.support.sign_in_server import CLIENT, SECRET, SignInServer, trust_provider


@pytest.fixture
def provider() -> Iterator[SignInServer]:
    with oidc_server.served(SignInServer()) as server:
        yield server


@pytest.fixture
def api(served_api: Api, provider: SignInServer) -> Api:
    settings = {"issuer": provider.url, "client_id": CLIENT, "client_secret": SECRET}
    oidc = {**settings, "auto_provision_users": True, "provider": "Example"}
    trust_provider(served_api, oidc)
    return served_api


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A browser in which the person is signed in at the provider already."""
    opened: list[threading.Thread] = []

    def open_browser(url: str) -> bool:
        opened.append(threading.Thread(target=_visit, args=(url,)))
        opened[-1].start()
        return True

    monkeypatch.setattr(auth, "open_browser", open_browser)
    yield
    for visit in opened:
        visit.join()


def _visit(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as page:
        page.read()


def test_a_person_signs_in_by_a_browser(api: Api, det: Det, browser: None) -> None:
    ran = det("auth", "login")
    assert (ran.code, "as ada@example.com, until" in ran.err) == (0, True), ran.err
    assert "Sign in at Example in the browser that opens" in ran.err
    assert "'ada@example.com'" in det("user", "whoami").out


def test_a_refusal_of_the_provider_is_told(
    api: Api, det: Det, browser: None, provider: SignInServer
) -> None:
    provider.person = None
    ran = det("auth", "login")
    assert (ran.code, "refused the sign-in: not you" in ran.err) == (1, True)


def test_a_device_without_a_browser_shows_a_code(
    api: Api, det: Det, provider: SignInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            provider.type_codes()

    monkeypatch.setattr(auth, "sleep", sleep)
    provider.slow_down = 1
    ran = det("auth", "login", "--headless")
    assert ran.code == 0, ran.err
    assert f"Open {provider.url}/activate on any device, and type ABCD-EFGH" in ran.err
    assert pauses == [0, 5, 5]
    assert "'ada@example.com'" in det("user", "whoami").out


def test_providers_are_listed_and_unknown_ones_refused(api: Api, det: Det) -> None:
    assert "Example" in det("auth", "list-providers").out
    ran = det("auth", "login", "-p", "another")
    assert (ran.code, "there is no provider 'another'" in ran.err) == (2, True)


def test_a_cluster_without_a_provider_says_so(api: Api, det: Det) -> None:
    api.ctx.config = replace(api.ctx.config, oidc=None)
    ran = det("auth", "login")
    assert (ran.code, "knows no identity provider" in ran.err) == (1, True)


def test_a_browser_with_another_state_is_not_listened_to() -> None:
    with BrowserReturn(0, "mine") as returning:
        assert not returning._take("/callback?code=stolen&state=other")
        assert not returning._take("/callback?code=stolen")
        assert not returning._take("/elsewhere?code=c&state=mine")
        assert returning._take("/callback?code=c&state=mine")
        assert returning.code(0) == "c"


def test_no_browser_in_time_is_told() -> None:
    with BrowserReturn(0, "mine") as returning, pytest.raises(CommandError, match="no browser"):
        returning.code(0)
