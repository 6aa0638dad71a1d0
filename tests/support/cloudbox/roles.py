"""Credentials of machines' roles, and STS, which knows by them which machine signed a request."""

import json
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support.cloudbox.internet import Answer, Request

_VALID_S = 900.0  # for which STS takes a signature


@dataclass(frozen=True)
class Role:
    """A role as one machine has it."""

    account: str
    name: str
    session: str  # EC2 names it by the machine
    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(repr=False)

    @property
    def arn(self) -> str:
        return f"arn:aws:sts::{self.account}:assumed-role/{self.name}/{self.session}"

    def shown(self) -> str:
        """Return the document of the metadata service."""
        expires = datetime.now(timezone.utc) + timedelta(hours=6)
        document = {
            "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": self.access_key,
            "SecretAccessKey": self.secret_key, "Token": self.token,
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip
        return json.dumps(document)


@dataclass
class Sts:
    """The security token service, as far as roles ask it who they are. Its clock is ahead of ours by `ahead_s`."""

    ahead_s: float = 0.0
    asked: int = 0
    known: dict[str, Role] = field(default_factory=dict)

    def assume(self, account: str, name: str, session: str) -> Role:
        """Give credentials of a role to a session."""
        key = "ASIA" + secrets.token_hex(8).upper()
        role = Role(account, name, session, key, secrets.token_hex(20), secrets.token_hex(60))
        self.known[key] = role
        return role

    def answer(self, request: Request) -> Answer | None:
        """Answer a request that a role of ours signed; None for one of somebody else."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        authorization = headers.get("authorization", "")
        role = self.known.get(authorization.partition("Credential=")[2].partition("/")[0])
        if role is None:
            return None
        self.asked += 1
        problem = self._problem(role, request, headers, authorization)
        if problem:
            return _json(403, {"Error": {"Code": "SignatureDoesNotMatch", "Message": problem}})
        result = {"Arn": role.arn, "Account": role.account, "UserId": f"AROABOX:{role.session}"}
        return _json(200, {"GetCallerIdentityResponse": {"GetCallerIdentityResult": result}})

    def _problem(
        self, role: Role, request: Request, headers: dict[str, str], authorization: str
    ) -> str:
        signed_at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        now = datetime.now(timezone.utc) + timedelta(seconds=self.ahead_s)
        apart_s = (now - signed_at.replace(tzinfo=timezone.utc)).total_seconds()
        if abs(apart_s) > _VALID_S:
            return f"Signature {'expired' if apart_s > 0 else 'not yet current'}"
        if headers.get("x-amz-security-token") != role.token:
            return "The security token included in the request is invalid"
        names = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        second_request = AWSRequest(
            "POST", f"https://{headers['host']}{request.path}", data=request.body,
            headers={name: headers[name] for name in names if name in headers},
        )  # fmt: skip
        second_request.context["timestamp"] = headers["x-amz-date"]
        credentials = Credentials(role.access_key, role.secret_key, role.token)
        auth = SigV4Auth(credentials, "sts", authorization.split("/")[2])
        text = auth.string_to_sign(second_request, auth.canonical_request(second_request))
        is_right = authorization.endswith(f"Signature={auth.signature(text, second_request)}")
        return "" if is_right else "The request signature we calculated does not match"


def _json(status: int, body: object) -> Answer:
    return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})
