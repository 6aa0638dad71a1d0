"""EC2 by moto with fixed gaps: tokens, refusals, errors of fleets, consoles, placement groups and lost answers.

Placement groups are simulated here, because moto has none. The fake leaves out that a group
stays in the zone of its first machine, and that machines of other clients keep a group in use.
"""

import base64
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.sax.saxutils import escape

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from botocore.httpsession import URLLib3Session
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity
from moto.ec2 import ec2_backends

ACCOUNT = "123456789012"
DENIAL = (
    "You are not authorized to perform this operation. User: arn:aws:sts::123456789012:assumed-role/"
    "provision/provision is not authorized to perform: ec2:RunInstances on resource:"
    " arn:aws:ec2:us-west-2:123456789012:instance/* because no identity-based policy allows the"
    " ec2:RunInstances action. Encoded authorization failure message: Zm9v"
)
NO_CAPACITY = (
    "We currently do not have sufficient g5.xlarge capacity in the Availability Zone you requested"
    " (us-west-2a). Our system will be working on provisioning additional capacity. You can currently"
    " get g5.xlarge capacity by not specifying an Availability Zone in your request or choosing"
    " us-west-2b, us-west-2c."
)

Parameters = Mapping[str, str]


@dataclass(frozen=True)
class Failure:
    """An error of EC2: its code, message and HTTP status."""

    code: str
    message: str = "said by the test"
    status: int = 400
    whole_call: bool = False  # a fleet's call fails as well, instead of one override


FAILURES = {
    RefusalKind.NO_CAPACITY: Failure("InsufficientInstanceCapacity", NO_CAPACITY, 500),
    RefusalKind.QUOTA: Failure(
        "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 0 allows"
    ),
    RefusalKind.DENIED: Failure("UnauthorizedOperation", DENIAL, 403, whole_call=True),
    RefusalKind.INVALID: Failure(
        "InvalidParameterCombination", "The parameter groupName cannot be used with the parameter subnet"
    ),
    RefusalKind.RETRYABLE: Failure("RequestLimitExceeded", "Request limit exceeded.", 503, whole_call=True),
}  # fmt: skip


@dataclass
class _Raw:
    content: bytes

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.content


@dataclass
class Wire:
    """A layer between boto3 and moto that answers like EC2 if moto does not."""

    connected: bool = True
    region: str = "us-west-2"
    loses_launch: bool = False
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)  # by type and capacity
    full_zones: dict[str, Failure] = field(default_factory=dict)  # zones of subnets
    failing_actions: dict[str, Failure] = field(default_factory=dict)
    answers: dict[str, bytes] = field(default_factory=dict)  # by action, given in place of moto's
    consoles: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, Parameters]] = field(default_factory=list)
    _ended: set[str] = field(default_factory=set)
    groups: dict[str, str] = field(default_factory=dict)  # placement groups with their clusters
    most_in_group: int = 1000  # the machines for which a group has room
    most_groups: int = 500  # the quota of the account in a region
    _members: dict[str, str] = field(default_factory=dict)  # machines with their groups
    _launching: threading.Lock = field(default_factory=threading.Lock)
    _by_token: dict[str, tuple[Parameters, bytes]] = field(default_factory=dict)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = URLLib3Session.send
        monkeypatch.setattr(
            URLLib3Session, "send", lambda session, request: self._carry(session, send, request)
        )

    def forward(self, send: Callable[..., AWSResponse], request: AWSPreparedRequest) -> AWSResponse:
        """Carry a request of another process. `send` gets None and a request, as `URLLib3Session.send` does."""
        return self._carry(None, send, request)

    def sent(self, action: str) -> list[Parameters]:
        """Return the parameters of every request of an action."""
        return [parameters for name, parameters in self.requests if name == action]

    def _carry(
        self, session: Any, send: Callable[..., AWSResponse], request: AWSPreparedRequest
    ) -> AWSResponse:
        if not self.connected:
            raise EndpointConnectionError(endpoint_url=request.url)
        body = request.body if isinstance(request.body, bytes) else str(request.body or "").encode()
        if not body.startswith(b"Action="):
            return self._carry_json(request, body) or send(session, request)
        parameters = dict(parse_qsl(body.decode()))
        action = parameters["Action"]
        self.requests.append((action, parameters))
        if action in self.failing_actions:
            return _failed(self.failing_actions[action])
        if action in self.answers:
            return _answer(200, self.answers[action])

        def on(changes: Parameters) -> AWSResponse:
            request.body = urlencode(changes).encode()
            request.headers["Content-Length"] = str(len(request.body))
            return send(session, request)

        if action.endswith(("PlacementGroup", "PlacementGroups")):
            return self._change_groups(action, parameters)
        if action in ("RunInstances", "CreateFleet"):
            return self._launch(action, parameters, on)
        if action == "TerminateInstances":
            return self._terminate(parameters, on)
        answer = on(parameters)
        if action == "GetConsoleOutput" and answer.status_code == 200:
            return self._console(parameters["InstanceId"])
        if action == "DescribeInstances" and self._members:
            return _answer(answer.status_code, self._with_groups(answer.content))
        return answer

    def _with_groups(self, content: bytes) -> bytes:
        """Add the placement groups of machines to a description."""
        before, *parts = content.split(b"<instanceId>")
        for number, part in enumerate(parts):
            group = self._members.get(part.partition(b"<")[0].decode())
            if group:
                before_placement, _, after = part.partition(b"<placement>")
                after = re.sub(rb"<groupName */>|<groupName></groupName>", b"", after, count=1)
                tag = f"<placement><groupName>{group}</groupName>".encode()
                parts[number] = before_placement + tag + after
        return b"<instanceId>".join([before, *parts])

    def _change_groups(self, action: str, parameters: Parameters) -> AWSResponse:
        """Answer calls about placement groups, which moto does not know."""
        name = parameters.get("GroupName", "")
        content = "<return>true</return>"
        if action == "CreatePlacementGroup":
            if name in self.groups:
                return _failed(Failure("InvalidPlacementGroup.Duplicate", f"{name} already exists"))
            if len(self.groups) >= self.most_groups:
                message = "You have reached the maximum number of Placement Groups"
                return _failed(Failure("PlacementGroupLimitExceeded", message))
            self.groups[name] = _tags(parameters).get("determined-cluster", "")
        elif action == "DeletePlacementGroup":
            if name not in self.groups:
                return _failed(Failure("InvalidPlacementGroup.Unknown", f"{name} is unknown"))
            if any(i not in self._ended for i, group in self._members.items() if group == name):
                return _failed(Failure("InvalidPlacementGroup.InUse", f"{name} is in use"))
            del self.groups[name]
        else:
            cluster = parameters["Filter.1.Value.1"]
            names = [n for n, owner in self.groups.items() if owner == cluster]
            items = "".join(f"<item><groupName>{n}</groupName></item>" for n in names)
            content = f"<placementGroupSet>{items}</placementGroupSet>"
        return _answer(200, f"<{action}Response>{content}</{action}Response>".encode())

    def _zone(self, parameters: Parameters) -> str:
        """Return the zone of the subnet in which a machine is launched."""
        subnet = parameters.get("NetworkInterface.1.SubnetId", "")
        backend = ec2_backends[ACCOUNT][self.region]
        return (
            next((s.availability_zone for s in backend.describe_subnets([subnet])), "")
            if subnet and self.full_zones
            else ""
        )

    def _group_failure(self, parameters: Parameters) -> Failure | None:
        """Return why EC2 launches no machine in a placement group of the cluster."""
        group = parameters.get("Placement.GroupName", "")
        machine_type = parameters.get("InstanceType", "")
        if not group.startswith("determined-"):
            return None
        if group not in self.groups:
            return Failure("InvalidPlacementGroup.Unknown", f"{group} is unknown")
        if machine_type.startswith(("t2.", "t3.", "t4g.")):
            message = (
                f"Cluster placement groups are not supported by the '{machine_type}' instance type."
            )
            return Failure("InvalidParameterCombination", message)
        running = [i for i, g in self._members.items() if g == group and i not in self._ended]
        if len(running) >= self.most_in_group:
            return Failure("InsufficientInstanceCapacity", "We have no capacity in the group", 500)
        return None

    def _carry_json(self, request: AWSPreparedRequest, body: bytes) -> AWSResponse | None:
        """Answer a service that speaks JSON, where the test says what."""
        target = request.headers.get("X-Amz-Target", b"")
        action = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        if action not in self.answers:
            return None
        self.requests.append((action, {"body": body.decode()}))
        return _answer(200, self.answers[action])

    def _launch(
        self, action: str, parameters: Parameters, on: Callable[[Parameters], AWSResponse]
    ) -> AWSResponse:
        answer = self._once(parameters, self._run if action == "RunInstances" else self._fleet, on)
        if self.loses_launch:
            self.loses_launch = False
            raise ReadTimeoutError(endpoint_url="http://ec2")
        return answer

    def _once(
        self,
        parameters: Parameters,
        launch: Callable[[Parameters, Callable[[Parameters], AWSResponse]], AWSResponse],
        on: Callable[[Parameters], AWSResponse],
    ) -> AWSResponse:
        """Answer a repeated token like the first time, also for a fleet without launches."""
        token = parameters["ClientToken"]
        with self._launching:
            if token in self._by_token:
                before, content = self._by_token[token]
                if before != parameters:
                    return _failed(Failure("IdempotentParameterMismatch"))
                return _answer(200, content)
            answer = launch(parameters, on)
            if answer.status_code == 200:
                self._by_token[token] = (parameters, answer.content)
            return answer

    def _run(self, parameters: Parameters, on: Callable[[Parameters], AWSResponse]) -> AWSResponse:
        spot = parameters.get("InstanceMarketOptions.MarketType") == "spot"
        capacity = Capacity.SPOT if spot else Capacity.ON_DEMAND
        failure = self.failures.get((parameters.get("InstanceType", ""), capacity.value))
        if len(base64.b64decode(parameters.get("UserData", ""))) > 16_384:
            message = "User data is limited to 16384 bytes"
            failure = Failure("InvalidParameterValue", message)
        failure = failure or self.full_zones.get(self._zone(parameters))
        failure = failure or self._group_failure(parameters)
        if failure:
            return _failed(failure)
        answer = on(parameters)
        started = re.search(rb"<instanceId>(i-\w+)</instanceId>", answer.content)
        if started and "Placement.GroupName" in parameters:
            self._members[started[1].decode()] = parameters["Placement.GroupName"]
        return answer

    def _fleet(
        self, parameters: Parameters, on: Callable[[Parameters], AWSResponse]
    ) -> AWSResponse:
        capacity = parameters["TargetCapacitySpecification.DefaultTargetCapacityType"]
        overrides = _overrides(parameters)
        failures = [
            (o, self.failures[o["InstanceType"], capacity])
            for o in overrides
            if (o["InstanceType"], capacity) in self.failures
        ]
        whole = next((f for _, f in failures if f.whole_call), None)
        if whole is not None:
            return _failed(whole)
        errors = "".join(_error_item(o, f) for o, f in failures)
        remaining = [o for o in overrides if o not in [refused for refused, _ in failures]]
        if not remaining:
            empty_answer = f"<fleetId>fleet-1</fleetId><errorSet>{errors}</errorSet>"
            return _answer(
                200, f"<CreateFleetResponse>{empty_answer}</CreateFleetResponse>".encode()
            )
        answer = on(_with_overrides(parameters, remaining))
        end = b"</CreateFleetResponse>"
        errors_xml = f"<errorSet>{errors}</errorSet>".encode() if errors else b""
        return _answer(answer.status_code, answer.content.replace(end, errors_xml + end))

    def _terminate(
        self, parameters: Parameters, on: Callable[[Parameters], AWSResponse]
    ) -> AWSResponse:
        """Terminate machines once: moto fails on network interfaces of terminated ones."""
        ids = [value for name, value in parameters.items() if name.startswith("InstanceId.")]
        remaining = [i for i in ids if i not in self._ended]
        if not remaining:
            return _answer(200, b"<TerminateInstancesResponse></TerminateInstancesResponse>")
        rest = {n: v for n, v in parameters.items() if not n.startswith("InstanceId.")}
        answer = on({**rest, **{f"InstanceId.{n}": i for n, i in enumerate(remaining, 1)}})
        if answer.status_code == 200:
            self._ended.update(remaining)
        return answer

    def _console(self, instance_id: str) -> AWSResponse:
        output = base64.b64encode(self.consoles.get(instance_id, "").encode()).decode()
        output_xml = f"<output>{output}</output>" if output else ""
        content = f"<instanceId>{instance_id}</instanceId>{output_xml}"
        tag = "GetConsoleOutputResponse"
        return _answer(200, f"<{tag}>{content}</{tag}>".encode())


def _tags(parameters: Parameters) -> dict[str, str]:
    """Return the tags of the first tag specification."""
    prefix = "TagSpecification.1.Tag."
    keys = {n: v for n, v in parameters.items() if n.startswith(prefix) and n.endswith(".Key")}
    return {key: parameters[f"{name[:-4]}.Value"] for name, key in keys.items()}


_OVERRIDE = re.compile(r"LaunchTemplateConfigs\.1\.Overrides\.(\d+)\.(\w+)")


def _overrides(parameters: Parameters) -> list[dict[str, str]]:
    overrides: dict[int, dict[str, str]] = {}
    for name, value in parameters.items():
        matched = _OVERRIDE.fullmatch(name)
        if matched:
            overrides.setdefault(int(matched[1]), {})[matched[2]] = value
    return [overrides[n] for n in sorted(overrides)]


def _with_overrides(parameters: Parameters, overrides: list[dict[str, str]]) -> Parameters:
    plain_parameters = {n: v for n, v in parameters.items() if not _OVERRIDE.fullmatch(n)}
    for number, override in enumerate(overrides, 1):
        for name, value in override.items():
            plain_parameters[f"LaunchTemplateConfigs.1.Overrides.{number}.{name}"] = value
    return plain_parameters


def _error_item(override: dict[str, str], failure: Failure) -> str:
    about = "".join(
        f"<{tag}>{override[name]}</{tag}>"
        for name, tag in (("InstanceType", "instanceType"), ("SubnetId", "subnetId"))
    )
    return (
        f"<item><launchTemplateAndOverrides><overrides>{about}</overrides></launchTemplateAndOverrides>"
        f"<lifecycle>on-demand</lifecycle><errorCode>{failure.code}</errorCode>"
        f"<errorMessage>{escape(failure.message)}</errorMessage></item>"
    )


def _failed(failure: Failure) -> AWSResponse:
    content = (
        f"<Response><Errors><Error><Code>{failure.code}</Code><Message>{escape(failure.message)}</Message>"
        "</Error></Errors><RequestID>1</RequestID></Response>"
    )
    return _answer(failure.status, content.encode())


def _answer(status: int, content: bytes) -> AWSResponse:
    return AWSResponse("http://ec2", status, {"content-type": "text/xml"}, _Raw(content))
