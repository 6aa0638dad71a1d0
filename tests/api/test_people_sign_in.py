"""People sign in at an identity provider that a server on this machine plays, with signed tokens and rotating keys."""

import base64
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from det_controlplane.adapters import issuers
from det_controlplane.adapters.issuer_answers import CachedIssuers
from det_controlplane.adapters.issuer_tokens import IssuerTokens
from det_controlplane.adapters.issuers import describe, fetch_keys, post_form
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.entry.aws.events import respond
from det_controlplane.ports.compute import Unreachable
from det_controlplane.services.identity import sign_in

from tests.support.api import Api, ApiResponse, Caller
from tests.support.lambda_events import Http, answered, function_url_event
from tests.support.oidc_server import served
from tests.support.sign_in_server import CLIENT, SECRET, SignInServer

FREE = sign_in.FREE_ATTEMPTS
BACK = "http://127.0.0.1:9/callback"
OIDC = "/api/v1/auth/oidc"


@pytest.fixture
def provider() -> Iterator[SignInServer]:
    with served(SignInServer()) as server:
        yield server


@dataclass
class Door:
    """A cluster with an identity provider, and a person before a browser."""

    api: Api
    provider: SignInServer

    def configure(self, **more: Any) -> None:
        settings = {"issuer": self.provider.url, "client_id": CLIENT, "client_secret": SECRET}
        found = load_cluster({"security": {"oidc": {**settings, **more}}}).oidc
        self.api.ctx.config = replace(self.api.ctx.config, oidc=found)

    def ask(self, path: str, **body: Any) -> ApiResponse:
        return self.api.anonymous().ask("POST", f"{OIDC}/{path}", body)

    def begun(self, verifier: str, **more: Any) -> str:
        digest = sha256(verifier.encode()).digest()
        body = {"redirectUri": BACK, "codeChallenge": encoded(digest), "state": "s" * 43, **more}
        response = self.ask("begin", **body)
        assert response.status == 200, response.error
        return str(response.json()["authorizationUrl"])

    def browse(self, url: str) -> dict[str, str]:
        """Sign in at the provider, and return the query by which it sends the browser back."""
        opener = urllib.request.build_opener(_Stay())
        with pytest.raises(urllib.error.HTTPError) as error:
            opener.open(url)
        error.value.close()
        back = urlsplit(error.value.headers["Location"])
        assert f"{back.scheme}://{back.netloc}{back.path}" == BACK
        return {name: values[0] for name, values in parse_qs(back.query).items()}

    def sign_in(self) -> ApiResponse:
        verifier = secrets.token_urlsafe(48)
        code = self.browse(self.begun(verifier))["code"]
        return self.ask("finish", code=code, codeVerifier=verifier, redirectUri=BACK)

    def entered(self) -> Caller:
        response = self.sign_in()
        assert response.status == 200, response.error
        return self.api.with_token(response.json()["token"])


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@pytest.fixture
def door(api: Api, provider: SignInServer) -> Door:
    api.ctx.verifiers.tokens, api.ctx.verifiers.issuers = (
        IssuerTokens(fetch_keys),
        CachedIssuers(describe, post_form),
    )
    new_door = Door(api, provider)
    new_door.configure(auto_provision_users=True)
    return new_door


def test_first_sign_in_creates_the_user(door: Door) -> None:
    me = door.entered().get("/api/v1/me")["user"]
    assert (me["username"], me["displayName"], me["remote"], me["admin"]) == (
        "ada@example.com", "Ada L.", True, False,
    )  # fmt: skip


def test_changed_address_belongs_to_the_same_user(door: Door) -> None:
    first = door.entered().get("/api/v1/me")["user"]
    assert door.provider.person is not None
    door.provider.person["email"] = "ada.king@example.com"
    assert door.entered().get("/api/v1/me")["user"]["id"] == first["id"]


def test_rejects_address_reassigned_to_another_person(door: Door) -> None:
    door.entered()
    assert door.provider.person is not None
    door.provider.person["sub"] = "another-2"
    response = door.sign_in()
    assert (response.status, "belongs to another account" in response.error) == (403, True)


def test_session_ends_at_the_configured_time(door: Door) -> None:
    door.configure(auto_provision_users=True, session="2h")
    response = door.sign_in().json()
    now = door.api.ctx.now()
    caller = door.api.with_token(response["token"])
    assert caller.ask("GET", "/api/v1/me").status == 200
    door.api.ctx.now = lambda: now + timedelta(hours=2, seconds=5)
    assert caller.ask("GET", "/api/v1/me").status == 401


def test_administrator_creates_users_if_provisioning_is_off(door: Door, admin: Caller) -> None:
    door.configure()
    response = door.sign_in()
    assert (response.status, "det user create ada@example.com --remote" in response.error) == (
        403,
        True,
    )
    admin.post("/api/v1/users", {"user": {"username": "ada@example.com", "remote": True}})
    assert door.entered().get("/api/v1/me")["user"]["username"] == "ada@example.com"


def test_rejects_sign_in_for_a_user_with_a_password(door: Door) -> None:
    door.configure(authentication_claim="preferred_username")
    door.provider.said = {"preferred_username": "admin"}
    response = door.sign_in()
    assert (response.status, "signs in by password" in response.error) == (403, True)


def test_rejects_deactivated_user(door: Door, admin: Caller) -> None:
    me = door.entered().get("/api/v1/me")["user"]
    admin.done("PATCH", f"/api/v1/users/{me['id']}", {"active": False})
    assert (door.sign_in().status, "is not active" in door.sign_in().error) == (403, True)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"email_verified": False}, "has not verified the address"),
        ({"email_verified": None}, "has not verified the address"),
        ({"email": "ada@elsewhere.com"}, "is of none of the domains"),
        ({"email": "ada@example.com.elsewhere.com"}, "is of none of the domains"),
        ({"email": None}, "tells no usable 'email'"),
    ],
)
def test_rejects_unverified_and_foreign_addresses(
    door: Door, said: dict[str, Any], cause: str
) -> None:
    door.configure(auto_provision_users=True, domains=["example.com"])
    door.provider.said = said
    response = door.sign_in()
    assert (response.status, cause in response.error) == (403, True), response.error


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({"aud": "another"}, "Audience"),
        ({"nonce": "another"}, "another sign-in"),
        ({"nonce": None}, "another sign-in"),
        ({"exp": 1}, "expired"),
        ({"azp": "another"}, "another client"),
        ({"iss": "https://elsewhere.example"}, "trusts no tokens"),
    ],
)
def test_rejects_invalid_identity_tokens(door: Door, said: dict[str, Any], cause: str) -> None:
    door.provider.said = said
    response = door.sign_in()
    assert (response.status, cause in response.error) == (401, True), response.error


def test_code_is_valid_once_and_only_for_its_initiator(door: Door) -> None:
    verifier = secrets.token_urlsafe(48)
    code = door.browse(door.begun(verifier))["code"]
    other = secrets.token_urlsafe(48)
    stolen = door.ask("finish", code=code, codeVerifier=other, redirectUri=BACK)
    response = door.ask("finish", code=code, codeVerifier=verifier, redirectUri=BACK)
    assert [stolen.status, response.status] == [401, 401]
    assert "no such code" in response.error


@pytest.mark.parametrize(
    "uri", ["https://elsewhere.example/callback", "http://elsewhere.example:80/", "x", "",
            "http://127.0.0.1/callback", "http://127.0.0.1:1@elsewhere.example/", "http://[::1"],
)  # fmt: skip
def test_rejects_redirects_to_other_machines(door: Door, uri: str) -> None:
    response = door.ask("begin", redirectUri=uri, codeChallenge="c" * 43, state="s" * 43)
    assert (response.status, "redirectUri must be" in response.error) == (400, True)


@pytest.mark.parametrize(
    ("host", "status"), [("abc.lambda-url.us-west-2.on.aws", 200), ("elsewhere.example", 400)]
)
def test_redirect_to_the_own_page_of_a_function_is_accepted(
    door: Door, host: str, status: int
) -> None:
    """A function cannot have its own address in its settings, and refused browsers."""
    body = {
        "redirectUri": f"https://{host}/det/sign-in", "codeChallenge": "c" * 43, "state": "s" * 43
    }  # fmt: skip
    event = function_url_event(Http("POST", f"{OIDC}/begin", json.dumps(body).encode()))
    assert door.api.ctx.host.public_url == ""
    response = answered(respond(door.api.app, event))
    assert response[0] == status, response


def test_device_signs_in_after_the_code_was_typed(door: Door) -> None:
    answer = door.ask("device/begin").json()
    assert answer["userCode"] == "ABCD-EFGH"
    assert answer["verificationUri"].endswith("/activate")
    body = {"deviceCode": answer["deviceCode"]}
    assert door.ask("device/finish", **body).json() == {"pending": "authorization_pending"}
    door.provider.type_codes()
    token = door.ask("device/finish", **body).json()["token"]
    assert door.api.with_token(token).get("/api/v1/me")["user"]["username"] == "ada@example.com"
    response = door.ask("device/finish", **body)
    assert (response.status, "expired_token" in response.error) == (401, True)


def test_secret_is_sent_in_the_form_if_the_provider_requires_it(door: Door) -> None:
    door.provider.auth_methods = ["client_secret_post"]
    door.entered()


def test_groups_are_read_from_the_provider(door: Door, admin: Caller) -> None:
    door.configure(auto_provision_users=True, groups_attribute_name="groups")
    for name in ("vision", "speech", "robots"):
        admin.post("/api/v1/groups", {"name": name})
    claims = ((["vision", "robots", "unknown"], ["vision", "robots"]), ("speech", ["speech"]))
    for reported_groups, belongs in claims:
        door.provider.said = {"groups": reported_groups}
        me = door.entered().get("/api/v1/me")["user"]["id"]
        groups = admin.post("/api/v1/groups/search", {"userId": me, "limit": 10})["groups"]
        assert [g["group"]["name"] for g in groups] == belongs


def test_keys_and_discovery_are_cached_and_new_keys_fetched(
    api: Api, provider: SignInServer
) -> None:
    clock = [0.0]
    api.ctx.verifiers.tokens = IssuerTokens(fetch_keys, lambda: clock[0])
    api.ctx.verifiers.issuers = CachedIssuers(describe, post_form, lambda: clock[0])
    door = Door(api, provider)
    door.configure(auto_provision_users=True)
    for _ in range(3):
        door.entered()
    assert provider.asked.count("/keys") == 1
    provider.rotate("key-2")
    clock[0] += 61
    door.entered()
    assert provider.asked.count("/keys") == 2


def test_provider_with_one_key_can_omit_its_id(door: Door) -> None:
    door.provider.names_its_key = False
    door.entered()


def test_unavailable_provider_is_reported_with_the_cause(door: Door) -> None:
    door.provider.down = True
    response = door.ask("begin", redirectUri=BACK, codeChallenge="c" * 43, state="s" * 43)
    assert (response.status, "OIDC does not answer as it should" in response.error) == (504, True)


def test_rejects_private_addresses_of_an_issuer(provider: SignInServer) -> None:
    port = urlsplit(provider.url).port
    with pytest.raises(Unreachable, match=r"has the private address 127\.0\.0\.1"):
        post_form("https://public.example", f"http://127.0.0.1:{port}/token", {}, None)
    with pytest.raises(Unreachable, match="no https address"):
        post_form("https://public.example", "http://public.example/token", {}, None)


def test_redirects_of_an_issuer_are_not_followed(provider: SignInServer) -> None:
    provider.answer = lambda target: (302, {"location": f"{provider.url}/keys"})  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="it answers 302"):
        describe(provider.url)


def test_invalid_codes_do_not_block_others_of_the_same_address(
    door: Door,
) -> None:
    for _ in range(2 * FREE):
        response = door.ask("finish", code="x", codeVerifier="v" * 43, redirectUri=BACK)
        assert response.status == 401
        door.ask("device/begin")
        door.ask("device/finish", deviceCode="x")
    door.entered()


def test_device_codes_are_limited_without_blocking_others(door: Door) -> None:
    assert [door.ask("device/begin").status for _ in range(FREE + 1)] == [200] * FREE + [403]
    assert door.ask("device/finish", deviceCode="x").status == 401


def test_invalid_device_codes_are_limited_before_reaching_the_provider(
    door: Door,
) -> None:
    addresses: list[str] = []

    def post(issuer: str, url: str, *form: Any) -> Any:
        addresses.append(url)
        return post_form(issuer, url, *form)

    door.api.ctx.verifiers.issuers = CachedIssuers(describe, post)
    tries = [door.ask("device/finish", deviceCode="x").status for _ in range(FREE + 3)]
    assert tries == [401] * FREE + [403] * 3
    assert len(addresses) == FREE


def test_too_many_provider_requests_return_503_immediately(door: Door) -> None:
    body = {"redirectUri": BACK, "codeChallenge": "c" * 43, "state": "s" * 43}
    with ExitStack() as stack:
        for _ in range(issuers._AT_ONCE):
            stack.enter_context(issuers._turns)
        response = door.ask("begin", **body)
        assert (response.status, response.headers["Retry-After"]) == (503, "1"), response.error
        assert "being asked by others" in response.error
    assert door.ask("begin", **body).status == 200


def test_unavailable_provider_is_retried_after_seconds(door: Door) -> None:
    clock = [0.0]
    door.api.ctx.verifiers.issuers = CachedIssuers(describe, post_form, lambda: clock[0])
    body = {"redirectUri": BACK, "codeChallenge": "c" * 43, "state": "s" * 43}
    door.provider.down = True
    assert [door.ask("begin", **body).status for _ in range(3)] == [504] * 3
    assert len(door.provider.asked) == 1
    door.provider.down, clock[0] = False, 6
    assert door.ask("begin", **body).status == 200


def test_slow_issuer_does_not_delay_others() -> None:
    inside: list[Any] = []

    def slow(issuer: str) -> dict[str, Any]:
        if issuer == "slow":
            another = threading.Thread(
                target=lambda: inside.append(kept_issuers.described("quick"))
            )
            another.start()
            another.join(timeout=5)
        return {"issuer": issuer}

    kept_issuers = CachedIssuers(slow, post_form)
    kept_issuers.described("slow")
    assert inside == [{"issuer": "quick"}]


def test_cluster_without_oidc_lists_no_providers(api: Api) -> None:
    assert api.anonymous().get(f"{OIDC}/providers") == {"providers": []}
    response = api.anonymous().ask("POST", f"{OIDC}/device/begin", {})
    assert (response.status, "knows no identity provider" in response.error) == (400, True)


def test_client_secret_is_never_shown(door: Door, admin: Caller) -> None:
    assert json.dumps(SECRET) not in json.dumps(admin.get("/api/v1/master/config"))
    assert SECRET not in repr(door.api.ctx.config)
    assert door.api.anonymous().get(f"{OIDC}/providers")["providers"] == [{"name": "OIDC", "type": "OIDC"}]  # fmt: skip


def test_accepts_the_oidc_section_of_determined() -> None:
    section = {
        "enabled": True, "provider": "Okta", "idp_sso_url": "https://id.example", "client_id": "det",
        "idp_recipient_url": "https://det.example", "always_redirect": True,
    }  # fmt: skip
    config = load_cluster({"oidc": section})
    assert config.oidc is not None
    assert (config.oidc.provider, config.oidc.issuer) == ("Okta", "https://id.example")
    assert sorted(config.ignored) == ["oidc.always_redirect", "oidc.idp_recipient_url"]
    assert load_cluster({"oidc": {**section, "enabled": False}}).oidc is None


def test_rejects_provider_configured_twice() -> None:
    section = {"issuer": "https://id.example", "client_id": "det"}
    with pytest.raises(InvalidConfig, match=r"oidc: is given as security\.oidc, too"):
        load_cluster({"oidc": section, "security": {"oidc": section}})


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"issuer": "http://id.example"}, "issuer: must be the https address"),
        ({"client_id": ""}, "client_id: is required"),
        ({"session": "31d"}, "session: must be 30 days at most"),
        ({"domains": ["a.b"], "authentication_claim": "sub"}, "domains: needs"),
        ({"clientid": "x"}, "clientid"),
    ],
)
def test_rejects_invalid_oidc_section(entry: dict[str, Any], problem: str) -> None:
    good = {"issuer": "https://id.example", "client_id": "det"}
    with pytest.raises(InvalidConfig, match=problem):
        load_cluster({"security": {"oidc": {**good, **entry}}})
