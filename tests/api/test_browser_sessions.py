"""The cookie of a browser works for our pages and for no page of another site."""

import json

import pytest
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.entry.relay.headers import cookie_to_keep
from det_controlplane.entry.server.asgi import AsgiApp

from tests.support.api import PASSWORD, Api, ApiResponse, Caller
from tests.support.asgi import request

LOGIN = {"username": "determined", "password": PASSWORD}


def cookie_of(response: ApiResponse) -> tuple[str, list[str]]:
    name_and_value, *attributes = response.headers["set-cookie"].split("; ")
    return name_and_value, attributes


def signed_in(api: Api) -> str:
    cookie, _ = cookie_of(api.anonymous().ask("POST", "/api/v1/auth/login", LOGIN))
    return cookie


def changing(api: Api, cookie: str, **headers: str) -> ApiResponse:
    body = {"cookie": cookie, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return api.anonymous().ask("POST", "/api/v1/auth/logout", {}, headers=body)


def test_session_cookie_is_http_only_and_same_site(api: Api) -> None:
    _, attributes = cookie_of(api.anonymous().ask("POST", "/api/v1/auth/login", LOGIN))
    assert {"Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=604800"} == set(attributes)


def test_cookie_is_secure_behind_an_https_proxy(api: Api) -> None:
    response = api.anonymous().ask(
        "POST", "/api/v1/auth/login", LOGIN, headers={"x-forwarded-proto": "https"}
    )
    assert "Secure" in cookie_of(response)[1]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cookie_is_secure_if_the_server_uses_tls(api: Api, scheme: str) -> None:
    app = AsgiApp(api.app, LocalNotifier())
    response = request(
        app, "POST", "/api/v1/auth/login", body=json.dumps(LOGIN).encode(), scheme=scheme
    )
    assert ("; Secure" in response.headers["set-cookie"]) == (scheme == "https")


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example", "host": "det.example"},
        {"origin": "null", "host": "det.example"},
    ],
)
def test_rejects_changes_by_pages_of_other_sites(api: Api, headers: dict[str, str]) -> None:
    cookie = signed_in(api)
    response = changing(api, cookie, **headers)
    assert (response.status, response.error) == (
        403,
        "a page of another site cannot act for you here",
    )
    assert api.anonymous().ask("GET", "/api/v1/me", headers={"cookie": cookie}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "null", "host": "det.example"},
        {"origin": "null"},
        {"origin": "https://evil.example", "host": "det.example"},
    ],
)
@pytest.mark.parametrize("path", ["login", "pipeline", "oidc/finish", "oidc/device/finish"])
def test_rejects_sign_in_by_pages_of_other_sites(
    api: Api, path: str, headers: dict[str, str]
) -> None:
    response = api.anonymous().ask("POST", f"/api/v1/auth/{path}", LOGIN, headers=headers)
    assert (response.status, response.error) == (
        403,
        "a page of another site cannot act for you here",
    )
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin"},
        {"origin": "https://det.example", "host": "det.example"},
        {},
    ],
)
def test_own_pages_and_programs_can_sign_in(api: Api, headers: dict[str, str]) -> None:
    response = api.anonymous().ask("POST", "/api/v1/auth/login", LOGIN, headers=headers)
    assert (response.status, "set-cookie" in response.headers) == (200, True)


def test_links_of_other_sites_can_open_public_pages(api: Api) -> None:
    response = api.anonymous().ask("GET", "/info", headers={"sec-fetch-site": "cross-site"})
    assert response.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "same-origin"},
        {"origin": "http://det.example:8080", "host": "det.example:8080"},
        {},  # programs that keep cookies
    ],
)
def test_own_pages_can_change_data(api: Api, headers: dict[str, str]) -> None:
    assert changing(api, signed_in(api), **headers).status == 200


def test_token_in_a_header_is_accepted_from_any_site(api: Api, user: Caller) -> None:
    response = user.ask("POST", "/api/v1/auth/logout", {}, headers={"sec-fetch-site": "cross-site"})
    assert response.status == 200


def test_signing_out_clears_the_cookie(api: Api) -> None:
    cookie = signed_in(api)
    response = changing(api, cookie)
    assert cookie_of(response)[0] == "auth="
    assert "Max-Age=0" in cookie_of(response)[1]
    assert api.anonymous().ask("GET", "/api/v1/me", headers={"cookie": cookie}).status == 401


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cookie_of_a_task_is_secure_behind_https(scheme: str) -> None:
    _, cookie = cookie_to_keep("t", "a:1", [(b"x-forwarded-proto", scheme.encode())])
    assert (b"; Secure" in cookie) == (scheme == "https")


@pytest.mark.parametrize(
    ("host", "is_let_in"),
    [
        ("localhost:8080", True),
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("[::1", False),
    ],
)
def test_rejects_passwordless_sign_in_for_foreign_host_names(
    api: Api, admin: Caller, host: str, is_let_in: bool
) -> None:
    """A page of its name would be of the same site as the API on its visitor's machine."""
    admin.post("/api/v1/users", {"user": {"username": "grace", "active": True}})
    headers = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    grace = {"username": "grace", "password": ""}
    response = api.anonymous().ask("POST", "/api/v1/auth/login", grace, headers=headers)
    assert response.status == (200 if is_let_in else 401)
    response = api.anonymous().ask("POST", "/api/v1/auth/login", LOGIN, headers=headers)
    assert response.status == 200
