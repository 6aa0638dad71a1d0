"""Verify the machine of an agent with a request to STS that the machine's role signed for this join.

EC2 uses the machine's id as the session name of the machine's role. The response of STS therefore proves account and
id, provided that only `ec2.amazonaws.com` may assume the role. Only the signature, date and session come from the
agent. Host, body and nonce are set here, and the signature is valid only for them.
"""

import functools
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.agent_protocol import (
    STS_BODY,
    STS_NONCE_HEADER,
    sts_headers,
    sts_host,
)
from det_controlplane.ports.compute import Unreachable
from det_controlplane.ports.identity import MachineIdentity, NotProven, Proof

from det_provisioner_aws.settings import PROVIDER

KIND = "aws_sts"
_TIMEOUT_S = 10.0
_MOST_BYTES = 64 * 1024
_FIELDS = ("region", "date", "session_token", "authorization", "document")
_MUST_BE_SIGNED = {"host", "x-amz-date", STS_NONCE_HEADER.lower()}
_BUSY = (429, "Throttling", "ThrottlingException", "RequestLimitExceeded")
_DATE = re.compile(r"\d{8}T\d{6}Z")
_SESSION_TOKEN = re.compile(r"[A-Za-z0-9+/=]{1,8192}")
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[A-Z0-9]{16,128}/\d{8}/(?P<region>[a-z0-9-]+)/sts/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=[0-9a-f]{64}"
)
_MACHINE = re.compile(
    r"arn:aws[a-z-]*:sts::(?P<account>\d{12}):assumed-role/(?P<role>[\w+=,.@-]+)/(?P<id>i-[0-9a-f]{8,17})"
)

_PROFILE = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}):instance-profile/.+")


@dataclass(frozen=True, slots=True)
class Trusted:
    """Trusted accounts, regions and, if any are named, roles."""

    accounts: Callable[[], Collection[str]]
    regions: Collection[str]
    roles: Collection[str] = ()


def sts_url(region: str) -> str:
    return f"https://{sts_host(region)}/"


class AwsIdentityVerifier:
    """Implements `ports.identity.IdentityVerifier` for machines on EC2."""

    provider = PROVIDER
    kind = KIND

    def __init__(self, trusted: Trusted, url_of: Callable[[str], str] = sts_url) -> None:
        self._trusted = trusted
        self._url_of = url_of

    def claimed(self, proof: Proof) -> str | None:
        """Return the machine id in the identity document. `verify` compares it with the response of STS."""
        document = _json(_check_fields(proof.fields)["document"].encode())
        machine = document.get("instanceId")
        if not isinstance(machine, str):
            raise NotProven("the machine's identity document names no machine")
        return machine

    def verify(self, proof: Proof) -> MachineIdentity:
        """Return the identity of the machine after STS verified its role's signature for this join."""
        fields = _check_fields(proof.fields)
        region = fields["region"]
        if region not in self._trusted.regions:
            raise NotProven(f"the machine is in {region!r}, where this cluster has no pool")
        caller = self._ask(fields, proof.nonce)
        machine = _MACHINE.fullmatch(str(caller.get("Arn", "")))
        if machine is None:
            raise NotProven(
                f"{caller.get('Arn')!r} is not the role of a machine: give it an instance profile"
            )
        self._check_trusted(machine["account"], machine["role"])
        _check_document(fields["document"], region, machine)
        signed = fields["authorization"]  # its format is fixed, and the signature covers the rest
        return MachineIdentity(PROVIDER, machine["account"], region, machine["id"], signed)

    def _check_trusted(self, account: str, role: str) -> None:
        if account not in self._trusted.accounts():
            raise NotProven(f"the machine is of account {account}, which has no pool here")
        if self._trusted.roles and role not in self._trusted.roles:
            raise NotProven(
                f"the machine has the role {role}, which no pool here gives to machines"
            )

    def _ask(self, fields: Mapping[str, str], nonce: str) -> Mapping[str, Any]:
        """Send the signed request to a host that is derived from a trusted region."""
        headers = {
            **sts_headers(fields["region"], nonce),
            "X-Amz-Date": fields["date"],
            "X-Amz-Security-Token": fields["session_token"],
            "Authorization": fields["authorization"],
            "Accept": "application/json",
        }
        url = self._url_of(fields["region"])
        request = urllib.request.Request(url, STS_BODY.encode(), headers, method="POST")
        try:
            with _opener.open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as e:
            with e:
                raise _refusal_error(e.code, e.read(_MOST_BYTES)) from None
        except OSError as e:
            raise Unreachable(f"{sts_host(fields['region'])} did not answer: {e}") from e
        return _result(content)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that does not follow redirects, because a signed request must only go to its host."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _check_fields(fields: Mapping[str, str]) -> Mapping[str, str]:
    """Raise NotProven for a malformed proof, before any request is sent."""
    missing = [name for name in _FIELDS if not isinstance(fields.get(name), str)]
    if missing:
        raise NotProven(f"the proof lacks {', '.join(missing)}")
    if not _DATE.fullmatch(fields["date"]) or not _SESSION_TOKEN.fullmatch(fields["session_token"]):
        raise NotProven("the date or the session of the proof is malformed")
    authorization = _AUTHORIZATION.fullmatch(fields["authorization"])
    if authorization is None or authorization["region"] != fields["region"]:
        raise NotProven("the signature of the proof is malformed, or of another region")
    unsigned = _MUST_BE_SIGNED - set(authorization["signed"].split(";"))
    if unsigned:
        raise NotProven(f"the proof does not sign {', '.join(sorted(unsigned))}")
    return fields


def _refusal_error(status: int, content: bytes) -> Exception:
    error = _json(content).get("Error", {})
    code = error.get("Code", status) if isinstance(error, dict) else status
    if status >= 500 or code in _BUSY:
        return Unreachable(f"STS failed with {code}")
    return NotProven(
        f"STS refused the proof ({code}): it is of another agent, cluster or time;"
        " is the machine's clock right?"
    )


def _result(content: bytes) -> Mapping[str, Any]:
    response = _json(content).get("GetCallerIdentityResponse")
    result = response.get("GetCallerIdentityResult") if isinstance(response, dict) else None
    if not isinstance(result, dict):
        raise Unreachable("STS gave an answer that names no caller")
    return result


def _json(content: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _check_document(document: str, region: str, machine: re.Match[str]) -> None:
    """Reject the document of another machine. The document alone proves nothing, because any program can copy it."""
    claims = _json(document.encode())
    expected = {"region": region, "accountId": machine["account"], "instanceId": machine["id"]}
    for name, value in expected.items():
        if claims.get(name) != value:
            raise NotProven(
                f"the machine's identity document names {name} {claims.get(name)!r}, and STS {value!r}"
            )


def trusted_by(sections: Sequence[Mapping[str, Any]]) -> Trusted:
    """Read the pools' sections. An instance profile's ARN names its account; other profiles are in our own account."""
    profiles = [str(s.get("iam_instance_profile_arn") or "") for s in sections]
    named_accounts = {match[1] for match in map(_PROFILE.fullmatch, profiles) if match}
    regions = frozenset(region for section in sections for region in _regions(section))
    if all(_PROFILE.fullmatch(profile) for profile in profiles):
        return Trusted(lambda: named_accounts, regions)
    own_account = functools.cache(lambda: _own_account(min(regions, default="us-east-1")))
    return Trusted(lambda: {*named_accounts, own_account()}, regions)


def _regions(section: Mapping[str, Any]) -> set[str]:
    regions = [*_texts(section, "regions"), *_texts(section, "region")]
    zones = [*_texts(section, "zones"), *_texts(section, "zone")]
    return {*regions, *(zone.rstrip("abcdefghijklmnopqrstuvwxyz") for zone in zones)}


def _texts(section: Mapping[str, Any], key: str) -> list[str]:
    value = section.get(key) or ()
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _own_account(region: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError

    from det_provisioner_aws.clients import Clients

    try:
        return str(Clients().reading("sts", region).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as e:
        raise Unreachable(f"STS does not say which account this cluster runs in: {e}") from e
