"""An identity provider at which people sign in: authorization code with PKCE, and codes for devices."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from det_controlplane.adapters.issuer_answers import CachedIssuers
from det_controlplane.adapters.issuer_tokens import IssuerTokens
from det_controlplane.adapters.issuers import describe, fetch_keys, post_form
from det_controlplane.core.config.cluster import load_cluster

from tests.support.api import Api
from tests.support.oidc_server import OidcServer

CLIENT, SECRET = "determined", "the client's planted secret"


def trust_provider(api: Api, oidc: Mapping[str, Any]) -> None:
    """Let users of an API sign in at the provider of its section `security.oidc`."""
    provider = load_cluster({"security": {"oidc": oidc}}).oidc
    api.ctx.config = replace(api.ctx.config, oidc=provider)
    api.ctx.verifiers.tokens, api.ctx.verifiers.issuers = (
        IssuerTokens(fetch_keys),
        CachedIssuers(describe, post_form),
    )


@dataclass
class SignInAttempt:
    """A sign-in that an authorization endpoint has seen."""

    redirect_uri: str
    nonce: str
    challenge: str


class SignInServer(OidcServer):
    """`person` is who sits before every browser; None refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.person: dict[str, Any] | None = {
            "sub": "ada-1", "email": "ada@example.com", "email_verified": True, "name": "Ada L.",
        }  # fmt: skip
        self.auth_methods = ["client_secret_basic"]
        self.said: dict[str, Any] = {}  # claims that replace the usual ones
        self.began: dict[str, SignInAttempt] = {}
        self.devices: dict[str, bool] = {}  # whether the code was typed
        self.slow_down = 0

    def answer(self, target: str) -> tuple[int, Any]:
        path = urlsplit(target).path
        if path == "/authorize":
            return self._authorize({k: v[0] for k, v in parse_qs(urlsplit(target).query).items()})
        status, reported_answer = super().answer(target)
        if path == "/.well-known/openid-configuration" and status == 200:
            reported_answer |= {
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "device_authorization_endpoint": f"{self.url}/device",
                "token_endpoint_auth_methods_supported": self.auth_methods,
            }
        return status, reported_answer

    def posted(self, target: str, headers: dict[str, str], body: str) -> tuple[int, Any]:
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if not self._knows(headers, form):
            return 401, {"error": "invalid_client"}
        if urlsplit(target).path == "/device":
            return self._device()
        if form.get("grant_type") == "authorization_code":
            return self._exchange(form)
        return self._typed(form)

    def _authorize(self, query: dict[str, str]) -> tuple[int, Any]:
        assert query["client_id"] == CLIENT
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        back = {"state": query["state"]}
        if self.person is None:
            back |= {"error": "access_denied", "error_description": "not you"}
        else:
            back["code"] = secrets.token_urlsafe(16)
            code_challenge = SignInAttempt(
                query["redirect_uri"], query["nonce"], query["code_challenge"]
            )
            self.began[back["code"]] = code_challenge
        return 302, {"location": f"{query['redirect_uri']}?{urlencode(back)}"}

    def _exchange(self, form: dict[str, str]) -> tuple[int, Any]:
        sign_in = self.began.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_known = sign_in is not None and sign_in.challenge == challenge
        if sign_in is None or not is_known or sign_in.redirect_uri != form["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        return 200, {"id_token": self._identity(nonce=sign_in.nonce), "token_type": "Bearer"}

    def _device(self) -> tuple[int, Any]:
        code = secrets.token_urlsafe(16)
        self.devices[code] = False
        uri = {"verification_uri": f"{self.url}/activate", "user_code": "ABCD-EFGH"}
        return 200, {"device_code": code, **uri, "expires_in": 60, "interval": 0}

    def _typed(self, form: dict[str, str]) -> tuple[int, Any]:
        device_code = self.devices.get(form["device_code"])
        if device_code is None:
            return 400, {"error": "expired_token"}
        if self.slow_down:
            self.slow_down -= 1
            return 400, {"error": "slow_down"}
        if not device_code:
            return 400, {"error": "authorization_pending"}
        del self.devices[form["device_code"]]
        return 200, {"id_token": self._identity()}

    def type_codes(self) -> None:
        self.devices = dict.fromkeys(self.devices, True)

    def _identity(self, **more: Any) -> str:
        none = dict.fromkeys(("repository", "ref", "workflow"))
        return self.token(CLIENT, **none, **{**(self.person or {}), **more, **self.said})

    def _knows(self, headers: dict[str, str], form: dict[str, str]) -> bool:
        if "client_secret_basic" not in self.auth_methods:
            return (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
        credentials = base64.b64decode(
            headers.get("Authorization", "").removeprefix("Basic ")
        ).decode()
        return [unquote(part) for part in credentials.split(":")] == [CLIENT, SECRET]
