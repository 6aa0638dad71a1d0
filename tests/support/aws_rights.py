"""Calls of AWS as they arrive at moto, held against the policies of the roles that make them."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, unquote

from moto.ec2 import ec2_backends

_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/")
_PRESIGNED = re.compile(r"X-Amz-Credential=([^&]+)")
_TAGGED = re.compile(r"TagSpecification\.(\d+)\.(ResourceType|Tag\.(\d+)\.(Key|Value))")
_ROLES = re.compile(r"arn:aws:iam::\d+:role/[\w/+=,.@-]+")
_PASSED_TO = ("lambda", "scheduler")  # the services that take a role; others only mention some
_S3 = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
_ACCOUNT = "123456789012"
# Needs of a launch besides the machine: AWS asks for a right on each.
_USED = ("subnet", "image", "network-interface", "security-group")


@dataclass(frozen=True)
class Call:
    """A right that a call needs: an action on a resource, in its circumstances."""

    caller: str
    action: str
    resource: str
    circumstances: Mapping[str, str] = field(default_factory=dict, hash=False)


class Recorder:
    """A WSGI application in front of moto's that notes the calls of callers with a role, and of the operator in IAM."""

    def __init__(self, roles: Iterable[str], operator: str = "") -> None:
        self.roles = frozenset(roles)
        self.operator = operator
        self.calls: list[Call] = []
        self.calls_of_operator: list[Call] = []

    def around(self, application: Callable[..., Any]) -> Callable[..., Any]:
        def carry(environ: dict[str, Any], start_response: Any) -> Any:
            length = int(environ.get("CONTENT_LENGTH") or 0)
            body = environ["wsgi.input"].read(length) if length else b""
            if length:
                environ["wsgi.input"] = BytesIO(body)
            self._note(environ, body)
            return application(environ, start_response)

        return carry

    def of(self, caller: str) -> list[Call]:
        return [call for call in self.calls if call.caller == caller]

    def _note(self, environ: Mapping[str, Any], body: bytes) -> None:
        match = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
        if match is None:
            presigned = _PRESIGNED.search(environ.get("QUERY_STRING", ""))
            if presigned is None:
                return
            caller, _, region, service, _ = unquote(presigned[1]).split("/")
        else:
            caller, region, service = match.groups()
        if caller in self.roles:
            # Lambda says of each call which function's code makes it; here roles have the names of their functions.
            source = {
                "lambda:SourceFunctionArn": f"arn:aws:lambda:{region}:{_ACCOUNT}:function:{caller}"
            }
            self.calls += (
                replace(call, circumstances={**call.circumstances, **source})
                for call in _needed(caller, service, region, environ, body)
            )
        elif self.operator and caller == self.operator:
            self.calls_of_operator += _of_operator(caller, service, body)


def _of_operator(caller: str, service: str, body: bytes) -> Iterator[Call]:
    """Tell the rights in IAM that a call needs: on the thing that it names, and on each role that it passes on."""
    if service == "iam":
        form = dict(parse_qsl(body.decode()))
        names = [
            f"{kind}/{form[field]}"
            for kind, field in (("role", "RoleName"), ("instance-profile", "InstanceProfileName"))
            if field in form
        ]
        for name in names or [""]:
            yield Call(caller, f"iam:{form['Action']}", f"arn:aws:iam::{_ACCOUNT}:{name}")
    elif service in _PASSED_TO:
        roles = _ROLES.findall(unquote(body.decode("utf-8", "replace")))
        yield from (Call(caller, "iam:PassRole", role) for role in roles)


def _needed(
    caller: str, service: str, region: str, environ: Mapping[str, Any], body: bytes
) -> Iterator[Call]:
    path = unquote(environ["PATH_INFO"])
    method = environ["REQUEST_METHOD"]
    if service == "ec2":
        parameters = dict(parse_qsl(body.decode()))
        yield from _of_ec2(caller, region, parameters)
    elif service == "s3":
        bucket, _, key = path.lstrip("/").partition("/")
        action = _S3.get(method, "PutObject") if key else "ListBucket"
        yield Call(caller, f"s3:{action}", f"arn:aws:s3:::{bucket}" + (f"/{key}" if key else ""))
    elif service == "lambda":
        name = path.split("/")[3]
        arn = f"arn:aws:lambda:{region}:{_ACCOUNT}:function:{name}"
        yield Call(caller, "lambda:InvokeFunction", arn)
    elif service == "scheduler":
        action = {"GET": "GetSchedule", "PUT": "UpdateSchedule"}.get(method, method)
        arn = f"arn:aws:scheduler:{region}:{_ACCOUNT}:schedule/default/{path.rpartition('/')[2]}"
        yield Call(caller, f"scheduler:{action}", arn)
        if action == "UpdateSchedule":
            yield Call(caller, "iam:PassRole", json.loads(body)["Target"]["RoleArn"])
    elif service == "ssm":
        action = environ["HTTP_X_AMZ_TARGET"].rpartition(".")[2]
        for name in json.loads(body)["Names"]:
            yield Call(caller, f"ssm:{action}", f"arn:aws:ssm:{region}::parameter{name}")
    else:
        yield Call(caller, f"{service}:{method}", path)


def _of_ec2(caller: str, region: str, parameters: Mapping[str, str]) -> Iterator[Call]:
    action = parameters["Action"]
    tags = _request_tags(parameters)
    # A launch by the template passes its role, which has the name of the profile.
    profile = parameters.get("LaunchTemplateData.IamInstanceProfile.Arn", "")
    if profile:
        role = profile.replace(":instance-profile/", ":role/")
        service = {"iam:PassedToService": "ec2.amazonaws.com"}
        yield Call(caller, "iam:PassRole", role, service)
    here = f"arn:aws:ec2:{region}:{_ACCOUNT}"
    for kind, given_tags in tags.items():
        conditions = {f"aws:RequestTag/{key}": value for key, value in given_tags.items()}
        yield Call(caller, f"ec2:{action}", f"{here}:{kind}/*", conditions)
        making = {**conditions, "ec2:CreateAction": action}
        yield Call(caller, "ec2:CreateTags", f"{here}:{kind}/*", making)
    if action in ("RunInstances", "CreateFleet"):
        for kind in _USED:
            owner = "" if kind == "image" else _ACCOUNT
            yield Call(caller, f"ec2:{action}", f"arn:aws:ec2:{region}:{owner}:{kind}/x-1")
        if action == "RunInstances" and "instance" not in tags:
            yield Call(caller, "ec2:RunInstances", f"{here}:instance/*")
    elif not tags:
        machine = parameters.get("InstanceId.1") or parameters.get("InstanceId")
        resource = f"{here}:instance/{machine}" if machine else "*"
        conditions = _tags_of(region, machine) if machine else {}
        yield Call(caller, f"ec2:{action}", resource, conditions)


def _tags_of(region: str, machine: str) -> dict[str, str]:
    """Return the tags of a machine, in the words of conditions."""
    instance = ec2_backends[_ACCOUNT][region].get_instance_by_id(machine)
    tags = instance.get_tags() if instance else []
    return {f"{by}:ResourceTag/{tag['key']}": tag["value"] for tag in tags for by in ("aws", "ec2")}


def _request_tags(parameters: Mapping[str, str]) -> dict[str, dict[str, str]]:
    kinds: dict[str, str] = {}
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for name, value in parameters.items():
        match = _TAGGED.fullmatch(name)
        if match is None:
            continue
        if match[2] == "ResourceType":
            kinds[match[1]] = value
        else:
            pairs.setdefault((match[1], match[3]), {})[match[4]] = value
    return {
        kind: {p["Key"]: p["Value"] for (of, _), p in pairs.items() if of == number}
        for number, kind in kinds.items()
    }


_MATCHES: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": str.__eq__,
    "ArnLike": fnmatchcase,
}


@dataclass(frozen=True)
class Policy:
    """A role's policy document. A Deny overrides an Allow."""

    document: Mapping[str, Any]

    def allows(self, call: Call) -> bool:
        effects = {s["Effect"] for s in self.statements if _concerns(s, call)}
        return effects == {"Allow"}

    @property
    def statements(self) -> Sequence[Mapping[str, Any]]:
        return _listed(self.document["Statement"])

    def actions(self) -> set[str]:
        return {action for s in self.statements for action in _listed(s["Action"])}


def _concerns(statement: Mapping[str, Any], call: Call) -> bool:
    return (
        any(fnmatchcase(call.action.lower(), a.lower()) for a in _listed(statement["Action"]))
        and any(fnmatchcase(call.resource, r) for r in _listed(statement["Resource"]))
        and all(
            _holds(test, variables, call.circumstances)
            for test, variables in statement.get("Condition", {}).items()
        )
    )


def _holds(test: str, variables: Mapping[str, Any], circumstances: Mapping[str, str]) -> bool:
    assert test in _MATCHES, f"conditions with {test} are not understood here"
    return all(
        any(_MATCHES[test](circumstances.get(name, ""), pattern) for pattern in _listed(value))
        for name, value in variables.items()
    )


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
