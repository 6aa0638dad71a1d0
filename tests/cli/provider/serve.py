# mypy: disable-error-code="misc,untyped-decorator"
"""An identity provider based on Authlib: authorization codes with PKCE, device codes, tokens and keys.

`python serve.py` prints its address and serves until its standard input ends. This module implements the parts
that Authlib needs from its host: sign-in pages, clients and stored codes. It runs with scripts/peer-venv."""

import secrets
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import (
    DeviceAuthorizationEndpoint,
    DeviceCodeGrant,
    DeviceCredentialDict,
)
from authlib.oidc.core import AuthorizationCodeMixin, UserInfo
from authlib.oidc.core.grants.code import OpenIDCode, OpenIDToken
from flask import Flask, request
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

KEY = RSAKey.generate_key(2048, {"kid": "key-1", "use": "sig", "alg": "RS256"})
SCOPES = ["openid", "profile", "email"]


@dataclass(frozen=True)
class Person:
    id: str
    name: str
    password: str

    def get_user_id(self) -> str:
        return self.id


ADA = Person("ada-1", "Ada L.", "lovelace")


@dataclass(frozen=True)
class Client(ClientMixin):
    client_id: str = "determined"
    secret: str = "the client's planted secret"

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return " ".join(s for s in scope.split() if s in SCOPES)

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.startswith("http://127.0.0.1:")  # any port (RFC 8252)

    def check_client_secret(self, client_secret: str) -> bool:
        return secrets.compare_digest(client_secret, self.secret)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in (AuthorizationCodeGrant.GRANT_TYPE, DeviceCodeGrant.GRANT_TYPE)


CLIENT = Client()


@dataclass(frozen=True)
class Code(AuthorizationCodeMixin):
    code: str
    redirect_uri: str
    scope: str
    nonce: str
    code_challenge: str
    code_challenge_method: str
    auth_time: int = field(default_factory=lambda: int(time.time()))

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str:
        return self.nonce

    def get_auth_time(self) -> int:
        return self.auth_time


CODES: dict[str, Code] = {}
DEVICES: dict[str, DeviceCredentialDict] = {}
TYPED: dict[str, bool] = {}  # user code -> True if the person allowed the sign-in


class Codes(AuthorizationCodeGrant):
    def save_authorization_code(self, code: str, request: Any) -> None:
        data = request.payload.data
        CODES[code] = Code(
            code, request.payload.redirect_uri, request.payload.scope, data.get("nonce"), data.get("code_challenge"),
            data.get("code_challenge_method"),
        )  # fmt: skip

    def query_authorization_code(self, code: str, client: Client) -> Code | None:
        return CODES.get(code)

    def delete_authorization_code(self, authorization_code: Code) -> None:
        del CODES[authorization_code.code]

    def authenticate_user(self, authorization_code: Code) -> Person:
        return ADA


class Devices(DeviceCodeGrant):
    def query_device_credential(self, device_code: str) -> DeviceCredentialDict | None:
        return DEVICES.get(device_code)

    def query_user_grant(self, user_code: str) -> tuple[Person, bool] | None:
        return (ADA, TYPED[user_code]) if user_code in TYPED else None

    def should_slow_down(self, credential: DeviceCredentialDict) -> bool:
        return False


class DeviceCodes(DeviceAuthorizationEndpoint):
    INTERVAL = 1

    def get_verification_uri(self) -> str:
        return f"{request.host_url}activate"

    def save_device_credential(self, client_id: str, scope: str, data: dict[str, Any]) -> None:
        DEVICES[data["device_code"]] = DeviceCredentialDict(
            client_id=client_id, scope=scope, expires_at=time.time() + data["expires_in"], **data
        )


class Identity(OpenIDToken):
    """Creates the ID tokens."""

    def resolve_client_private_key(self, client: Client) -> RSAKey:
        return KEY

    def get_encode_header(self, client: Client) -> dict[str, str]:
        return {"alg": "RS256", "kid": "key-1"}

    def get_client_claims(self, client: Client) -> dict[str, Any]:
        return {"iss": request.host_url.rstrip("/"), "aud": [client.get_client_id()]}

    def generate_user_info(self, user: Person, scope: str) -> UserInfo:
        return UserInfo(sub=user.id, name=user.name, email="ada@example.com", email_verified=True)


class IdentityOfCode(Identity, OpenIDCode):
    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return any(code.nonce == nonce for code in CODES.values())


app = Flask(__name__)
app.config["OAUTH2_SCOPES_SUPPORTED"] = SCOPES
server = AuthorizationServer(
    app, lambda id: CLIENT if id == CLIENT.client_id else None, lambda token, request: None
)
server.register_grant(Codes, [IdentityOfCode(require_nonce=True), CodeChallenge(required=True)])
server.register_grant(Devices, [Identity()])
server.register_endpoint(DeviceCodes)


@app.get("/.well-known/openid-configuration")
def describe() -> dict[str, Any]:
    base = request.host_url
    return {
        "issuer": base.rstrip("/"), "authorization_endpoint": f"{base}authorize", "token_endpoint": f"{base}token",
        "device_authorization_endpoint": f"{base}device", "jwks_uri": f"{base}keys",
        "response_types_supported": ["code"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }  # fmt: skip


@app.get("/keys")
def keys() -> dict[str, Any]:
    return {"keys": [KEY.as_dict(private=False)]}


def signed_in() -> Person | None:
    form = request.form
    return ADA if (form.get("name"), form.get("password")) == ("ada", ADA.password) else None


@app.route("/authorize", methods=["GET", "POST"])
def authorize() -> Any:
    person = signed_in()
    try:
        grant = server.get_consent_grant(end_user=person)
    except OAuth2Error as e:
        return e.error, 400
    if request.method == "GET":
        return "<form method=post><input name=name><input name=password type=password></form>"
    allowed = person if "deny" not in request.form else None
    return server.create_authorization_response(grant_user=allowed, grant=grant)


@app.post("/token")
def token() -> Any:
    return server.create_token_response()


@app.post("/device")
def device() -> Any:
    return server.create_endpoint_response(DeviceCodes.ENDPOINT_NAME)


@app.post("/activate")
def activate() -> Any:
    if signed_in() is None:
        return "wrong name or password", 403
    TYPED[request.form["user_code"]] = "deny" not in request.form
    return "done"


def main() -> None:
    http_server = make_server("127.0.0.1", 0, app, threaded=True)
    print(f"http://127.0.0.1:{http_server.server_port}", flush=True)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
