"""The box: both clouds, the network of their machines, and the start and end of machines on request of the clouds."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import BotoCoreError
from moto.ec2 import ec2_backends

from tests.support import debian, skips
from tests.support.cloudbox import ec2, gce
from tests.support.cloudbox.internet import Answer, Request, internet
from tests.support.cloudbox.machine import Image, Machine, power_on
from tests.support.cloudbox.metadata import Service, serve_metadata
from tests.support.cloudbox.network import GATEWAY, METADATA, Network, network
from tests.support.cloudbox.relay import relay
from tests.support.cloudbox.roles import Sts
from tests.support.cloudbox.trust import AccountForAws, RoleForGoogle
from tests.support.fake_ec2 import Wire
from tests.support.fake_gce.http import serving
from tests.support.moto import moto_server

LOOK_S = 0.2  # delay of a machine after its cloud, and interval of tests' checks
_PACKAGE_OF = {"ip": "iproute2", "iptables": "iptables"}
_HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "host", "accept-encoding")


class Instance(Protocol):
    """A machine as its cloud has it."""

    @property
    def cloud_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def image(self) -> str: ...
    @property
    def user_data(self) -> str: ...
    @property
    def is_on(self) -> bool: ...
    def metadata(self) -> Service: ...
    def announce(self) -> None: ...
    def take(self) -> None: ...
    def powered_off(self) -> None: ...
    def show_console(self, text: str) -> None: ...


@dataclass
class Box:
    """Both clouds. `images` are by the name under which pools name them; others are as they should be."""

    folder: Path
    port: int  # where the cluster listens on this machine
    network: Network
    sts: Sts = field(default_factory=Sts)
    wire: Wire = field(default_factory=Wire)
    google: gce.Gce = field(default_factory=gce.Gce)
    images: dict[str, Image] = field(default_factory=dict)
    before_boot: Callable[[Instance], None] = lambda instance: None
    aws_url: str = ""
    gce_url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_of_machines: Mapping[str, str] = field(default_factory=dict)
    booted: dict[str, Machine] = field(default_factory=dict)  # every machine that ever was
    _instances: dict[str, Instance] = field(default_factory=dict)
    _by_address: dict[str, Service] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.amazon = ec2.Ec2(self.sts, ("us-west-2",), self.wire.consoles)
        self.wire.answers["DescribeSpotPriceHistory"] = ec2.SPOT_PRICES.encode()
        self.role = RoleForGoogle(self.google.google, self.sts)
        self.account = AccountForAws(self.sts)

    @property
    def aws_url_of_machines(self) -> str:
        """Return where machines reach what `aws_url` is on this machine."""
        return f"http://{GATEWAY}:{urlsplit(self.aws_url).port}"

    @property
    def master_url(self) -> str:
        return f"http://{GATEWAY}:{self.port}"

    def on(self) -> list[Instance]:
        """Return the instances that run now, in either cloud, the oldest first."""
        return [i for i in self._listed() if i.is_on]

    def machine(self, cloud_id: str) -> Machine:
        return self.booted[cloud_id]

    def instance(self, cloud_id: str) -> Instance:
        return self._instances[cloud_id]

    def image_id(self, number: int = 0) -> str:
        """Return the id of an image of EC2."""
        return str(list(ec2_backends[ec2.ACCOUNT]["us-west-2"].describe_images())[number].id)

    def follow(self) -> None:
        """Boot new machines of the clouds, and stop ended ones, until the box is closed."""
        while not self._stopping.wait(LOOK_S):
            for instance in self._listed():
                machine = self.booted.get(instance.cloud_id)
                if machine is None and instance.is_on:
                    self._boot(instance)
                elif machine is not None:
                    instance.show_console(machine.printed())
                    if not instance.is_on and machine.process.poll() is None:
                        machine.kill()

    def close(self) -> None:
        self._stopping.set()
        for machine in list(self.booted.values()):
            machine.close()

    def why(self) -> str:
        """Return the end of every console, for a failing test."""
        return "".join(f"\n--- {id}\n{m.printed()[-1500:]}" for id, m in self.booted.items())

    def service_of(self, address: str) -> Service | None:
        return self._by_address.get(address)

    def route(self, request: Request) -> Answer | None:
        """Answer as the hosts of AWS and Google do."""
        if (answer := self.account.answer(request)) is not None:
            return answer
        if request.host.startswith("sts."):
            signature_answer = self.sts.answer(request) or self.role.answer(request)
            return signature_answer or self._to_moto(request)
        if ".pricing." in f".{request.host}":
            return Answer(400, b'{"__type": "AccessDeniedException"}')
        if request.host.endswith((".api.aws", ".amazonaws.com")):
            return self._to_moto(request)
        if request.host in ("compute.googleapis.com", "cloudbilling.googleapis.com"):
            return forwarded(self.gce_url, request)
        if (request.host, request.path) == ("www.googleapis.com", "/oauth2/v1/certs"):
            certificates = self.google.google.certificates()
            headers = {"Cache-Control": f"max-age={certificates.max_age_s:.0f}"}
            return Answer(200, json.dumps(dict(certificates.by_key)).encode(), headers)
        return Answer(502, f"the box has no {request.host}".encode())

    def _listed(self) -> list[Instance]:
        machines: list[Instance] = [*self.amazon.instances(), *self.google.instances()]
        self._instances.update({i.cloud_id: i for i in machines})
        return machines

    def _boot(self, instance: Instance) -> None:
        self.before_boot(instance)

        def plugged(machine: Machine) -> None:
            self._by_address[machine.address] = instance.metadata()

        folder = self.folder / instance.cloud_id.replace("/", "_")
        image = self.images.get(instance.image, Image())
        self.booted[instance.cloud_id] = power_on(
            self.network, folder, instance.cloud_id, instance.name, instance.user_data, image,
            plugged, lambda _: instance.powered_off() if instance.is_on else None,
            self.environment_of_machines,
        )  # fmt: skip

    def _to_moto(self, request: Request) -> Answer | None:
        def send(_: Any, prepared_request: AWSPreparedRequest) -> AWSResponse:
            body = prepared_request.body if isinstance(prepared_request.body, bytes) else b""
            relayed_request = Request(
                request.method, "", request.path, dict(prepared_request.headers), body
            )
            relayed_answer = forwarded(self.aws_url, relayed_request)
            return AWSResponse(
                prepared_request.url,
                relayed_answer.status,
                dict(relayed_answer.headers or {}),
                _Raw(relayed_answer.body),
            )

        url = f"https://{request.host}{request.path}"
        headers = {**request.headers}
        given_prepared = AWSPreparedRequest(request.method, url, headers, request.body, False)
        try:
            answer = self.wire.forward(send, given_prepared)
        except BotoCoreError:
            return None  # the wire lost it
        return Answer(answer.status_code, answer.content, {"Content-Type": "text/xml"})


@dataclass
class _Raw:
    content: bytes

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.content


def forwarded(url: str, request: Request) -> Answer:
    """Have a server of this machine answer a request."""
    there = HTTPConnection(str(urlsplit(url).hostname), urlsplit(url).port, timeout=60)
    headers = {n: v for n, v in request.headers.items() if n.lower() not in _HOP_BY_HOP}
    try:
        there.request(request.method, request.path, request.body, headers)
        response = there.getresponse()
        content = response.read()
    finally:
        there.close()
    kept_headers = {n: v for n, v in response.getheaders() if n.lower() not in _HOP_BY_HOP}
    return Answer(response.status, content, kept_headers)


@contextmanager
def cloud_in_a_box(folder: Path, port: int) -> Iterator[Box]:
    """Serve both clouds, and boot their machines, which find the cluster of a port of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        box = Box(folder, port, stack.enter_context(network()))
        stack.enter_context(relay(box.network.listen(GATEWAY, port), port))
        box.aws_url = stack.enter_context(moto_server())
        stack.enter_context(ec2.account())
        box.gce_url = stack.enter_context(serving(box.google.fake))
        matching_network = stack.enter_context(internet(folder, box.route))
        proxy = urlsplit(matching_network["HTTPS_PROXY"]).port or 0
        stack.enter_context(relay(box.network.listen(GATEWAY, proxy), proxy))
        box.environment_of_machines = {
            **matching_network,
            "HTTPS_PROXY": f"http://{GATEWAY}:{proxy}",
        }
        box.environment = {
            **matching_network, "GOOGLE_APPLICATION_CREDENTIALS": str(_service_account(folder, box)),
            "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        }  # fmt: skip
        _follow(box, stack)
        yield box


@contextmanager
def machines_of(folder: Path, port: int, aws_url: str) -> Iterator[Box]:
    """Boot the machines of an AWS that this process serves elsewhere, and answer their requests to its hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        box = Box(folder, port, stack.enter_context(network()), aws_url=aws_url)
        for port_number in (port, urlsplit(aws_url).port or 80):
            stack.enter_context(relay(box.network.listen(GATEWAY, port_number), port_number))
        box.environment = stack.enter_context(internet(folder, box.route))
        _follow(box, stack)
        yield box


def _follow(box: Box, stack: ExitStack) -> None:
    """Serve metadata and boot machines until the block ends."""
    metadata = serve_metadata(box.network.listen(METADATA, 80), box.service_of)
    for run in (lambda: metadata.serve_forever(0.05), box.follow):
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        stack.callback(thread.join)
    stack.callback(metadata.server_close)
    stack.callback(metadata.shutdown)
    stack.callback(box.close)


def _service_account(folder: Path, box: Box) -> Path:
    """Write the key of an account by which the control plane calls Google."""
    from cryptography.hazmat.primitives import serialization

    key = box.google.google.keys["stranger"].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account", "project_id": gce.PROJECT, "private_key_id": "1",
        "private_key": key.decode(), "client_id": "1", "token_uri": "https://oauth2.googleapis.com/token",
        "client_email": f"cluster@{gce.PROJECT}.iam.gserviceaccount.com",
    }  # fmt: skip
    path = folder / "account.json"
    path.write_text(json.dumps(account))
    return path


def until(condition: Callable[[], Any], description: str, timeout_s: float = 120) -> Any:
    """Wait for something that happens in other processes."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"never happened: {description}"
        time.sleep(LOOK_S)
    return value


def require_machines() -> None:
    """Skip where no namespaces with networks between them are allowed."""
    if missing := [name for name in ("ip", "iptables") if shutil.which(name) is None]:
        debian.install(*(_PACKAGE_OF[name] for name in missing))
    if not _can_make_machines():
        skips.skip("namespaces are for root only", skips.AS_ROOT)


def _can_make_machines() -> bool:
    attempt = "ip link add name b type bridge && iptables -N DOCKER-USER"
    command = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "bash", "-c", attempt]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
