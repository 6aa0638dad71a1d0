"""`det auth login` at the real API, with a simulated identity provider and browser."""

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
    """Simulate a browser in which the person is already signed in at the provider."""
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


def test_browser_sign_in(api: Api, det: Det, browser: None) -> None:
    result = det("auth", "login")
    assert (result.code, "as ada@example.com, until" in result.err) == (0, True), result.err
    assert "Sign in at Example in the browser that opens" in result.err
    assert "'ada@example.com'" in det("user", "whoami").out


def test_reports_a_refusal_by_the_provider(
    api: Api, det: Det, browser: None, provider: SignInServer
) -> None:
    provider.person = None
    result = det("auth", "login")
    assert (result.code, "refused the sign-in: not you" in result.err) == (1, True)


def test_headless_sign_in_with_a_device_code(
    api: Api, det: Det, provider: SignInServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            provider.type_codes()

    monkeypatch.setattr(auth, "sleep", sleep)
    provider.slow_down = 1
    result = det("auth", "login", "--headless")
    assert result.code == 0, result.err
    expected = f"Open {provider.url}/activate on any device and enter the code ABCD-EFGH"
    assert expected in result.err
    assert pauses == [0, 5, 5]
    assert "'ada@example.com'" in det("user", "whoami").out


def test_lists_providers_and_rejects_unknown_ones(api: Api, det: Det) -> None:
    assert "Example" in det("auth", "list-providers").out
    result = det("auth", "login", "-p", "another")
    assert (result.code, "there is no provider 'another'" in result.err) == (2, True)


def test_reports_a_cluster_without_an_identity_provider(api: Api, det: Det) -> None:
    api.ctx.config = replace(api.ctx.config, oidc=None)
    result = det("auth", "login")
    assert (result.code, "has no identity provider" in result.err) == (1, True)


def test_rejects_a_redirect_with_another_state() -> None:
    with BrowserReturn(0, "mine") as redirect:
        assert not redirect._accept("/callback?code=stolen&state=other")
        assert not redirect._accept("/callback?code=stolen")
        assert not redirect._accept("/elsewhere?code=c&state=mine")
        assert redirect._accept("/callback?code=c&state=mine")
        assert redirect.code(0) == "c"


def test_reports_a_timeout_without_a_redirect() -> None:
    with BrowserReturn(0, "mine") as redirect, pytest.raises(CommandError, match="no browser"):
        redirect.code(0)
