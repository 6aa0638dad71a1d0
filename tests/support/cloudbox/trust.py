"""Credentials that each cloud gives to identities of the other after its checks: AWS a role, Google an account."""

import json
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from google.auth import exceptions, jwt

from tests.support.cloudbox.internet import Answer, Request
from tests.support.cloudbox.roles import Sts
from tests.support.google_machines import Google

ACCOUNT = "123456789012"
PROVIDER = (
    "//iam.googleapis.com/projects/42/locations/global/workloadIdentityPools/det-box/providers/aws"
)
_EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
    "subject_token_type": "urn:ietf:params:aws:token-type:aws4_request",
}


@dataclass
class RoleForGoogle:
    """A role of AWS that trusts an account of Google, as `examples/aws-bucket-for-gcp` creates it."""

    google: Google
    sts: Sts
    name: str = "det-box-from-gcp"
    subject: str = "100000000000000000001"
    audience: str = "determined-serverless-machine"

    @property
    def arn(self) -> str:
        return f"arn:aws:iam::{ACCOUNT}:role/{self.name}"

    def answer(self, request: Request) -> Answer | None:
        """Answer AssumeRoleWithWebIdentity; return None for other requests."""
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if form.get("Action") != "AssumeRoleWithWebIdentity":
            return None
        problem = self._problem(form)
        if problem:
            message = (
                f"<Error><Code>AccessDenied</Code><Message>{escape(problem)}</Message></Error>"
            )
            return _xml(403, f"<ErrorResponse>{message}</ErrorResponse>")
        role = self.sts.assume(ACCOUNT, self.name, form["RoleSessionName"])
        until = datetime.now(timezone.utc) + timedelta(seconds=int(form["DurationSeconds"]))
        keys = (
            f"<AccessKeyId>{role.access_key}</AccessKeyId><SecretAccessKey>{role.secret_key}</SecretAccessKey>"
            f"<SessionToken>{role.token}</SessionToken><Expiration>{until:%Y-%m-%dT%H:%M:%SZ}</Expiration>"
        )
        result = f"<AssumeRoleWithWebIdentityResult><Credentials>{keys}</Credentials></AssumeRoleWithWebIdentityResult>"
        return _xml(
            200,
            f"<AssumeRoleWithWebIdentityResponse>{result}</AssumeRoleWithWebIdentityResponse>",
        )

    def _problem(self, form: dict[str, str]) -> str:
        try:
            claims = jwt.decode(form["WebIdentityToken"], dict(self.google.certificates().by_key))
        except (exceptions.GoogleAuthError, ValueError) as e:
            return f"InvalidIdentityToken: {e}"
        trusted = {"sub": self.subject, "aud": self.audience}  # the policy names aud as oaud
        is_trusted = form["RoleArn"] == self.arn and trusted.items() <= claims.items()
        return "" if is_trusted else "Not authorized to perform sts:AssumeRoleWithWebIdentity"


@dataclass
class AccountForAws:
    """An account of Google that trusts a role of AWS, as `examples/gcp-bucket-for-aws` makes it."""

    sts: Sts
    role: str = "agent"
    email: str = "det-box-s3@acme.iam.gserviceaccount.com"
    tokens: set[str] = field(default_factory=set)  # of the account
    _federated: set[str] = field(default_factory=set)

    @property
    def config(self) -> dict[str, Any]:
        """Return the output of the example."""
        impersonated = (
            f"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{self.email}"
        )
        verified = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
        return {
            "type": "external_account",
            "audience": PROVIDER,
            "subject_token_type": _EXCHANGE["subject_token_type"],
            "token_url": "https://sts.googleapis.com/v1/token",
            "service_account_impersonation_url": f"{impersonated}:generateAccessToken",
            "credential_source": {
                "environment_id": "aws1",
                "regional_cred_verification_url": verified,
            },
        }

    def answer(self, request: Request) -> Answer | None:
        """Answer for the two hosts that are asked; None for others."""
        if request.host == "sts.googleapis.com":
            return self._exchange(request)
        if request.host == "iamcredentials.googleapis.com":
            return self._impersonate(request)
        return None

    def _exchange(self, request: Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if not _EXCHANGE.items() <= form.items() or form["audience"] != PROVIDER:
            return _json(400, {"error": "invalid_request"})
        problem = self._problem(json.loads(unquote(form["subject_token"])))
        if problem:
            return _json(400, {"error": "invalid_grant", "error_description": problem})
        token = secrets.token_hex(20)
        self._federated.add(token)
        kind = _EXCHANGE["requested_token_type"]
        body = {"access_token": token, "issued_token_type": kind, "token_type": "Bearer"}
        return _json(200, {**body, "expires_in": 3600})

    def _problem(self, signed_request: dict[str, Any]) -> str:
        """Send the signed request to AWS, as Google does, and look which role that knows."""
        headers = {header["key"].lower(): header["value"] for header in signed_request["headers"]}
        url = urlsplit(signed_request["url"])
        if not url.hostname or not url.hostname.endswith(".amazonaws.com"):
            return f"{url.hostname} is no host of AWS"
        if headers.get("x-goog-cloud-target-resource") != PROVIDER:
            return "the request was signed for another provider"
        request_headers = {**headers, "accept": "application/json"}
        answer = self.sts.answer(
            Request("POST", url.hostname, f"/?{url.query}", request_headers, b"")
        )
        if answer is None or answer.status != 200:
            return f"AWS refuses the request: {answer}"
        arn = json.loads(answer.body)["GetCallerIdentityResponse"]["GetCallerIdentityResult"]["Arn"]
        trusted = f"arn:aws:sts::{ACCOUNT}:assumed-role/{self.role}/"
        return "" if arn.startswith(trusted) else f"{arn} does not meet the attribute condition"

    def _impersonate(self, request: Request) -> Answer:
        headers = {name.lower(): value for name, value in request.headers.items()}
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if bearer not in self._federated or f"/{self.email}:" not in request.path:
            return _json(403, {"error": {"status": "PERMISSION_DENIED"}})
        token = f"ya29.{secrets.token_hex(20)}"
        self.tokens.add(token)
        until = datetime.now(timezone.utc) + timedelta(hours=1)
        return _json(200, {"accessToken": token, "expireTime": f"{until:%Y-%m-%dT%H:%M:%SZ}"})


def _json(status: int, body: object) -> Answer:
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _xml(status: int, text: str) -> Answer:
    return Answer(status, text.encode(), {"Content-Type": "text/xml"})
