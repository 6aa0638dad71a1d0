"""AWS in a box: moto with fixed gaps, and Lambda functions that run the deployed code.

Functions run under Lambda's own runtime client, with the code, environment and role in moto.
"""

import io
import json
import re
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from det_provisioner_aws.settings import DEFAULT_IMAGE
from moto.awslambda.models import FunctionUrlConfig, LambdaFunction, lambda_backends
from moto.ec2 import ec2_backends
from moto.ec2.models.subnets import Subnet
from moto.s3.models import FakeDeleteMarker
from moto.server import DomainDispatcherApplication
from moto.ssm import ssm_backends
from moto.ssm.models import Parameter

from tests.support.aws_rights import Recorder
from tests.support.lambda_events import Http, answered, function_url_event
from tests.support.lambda_front import function_url
from tests.support.lambda_runtime import FunctionFailed, LambdaRuntime
from tests.support.moto import moto_server
from tests.support.moto_groups import descriptions_of_rules
from tests.support.moto_permissions import FORBIDDEN, answers_url, policies_of_aliases
from tests.support.moto_roles import roles_of_services

REGION = "us-west-2"
ACCOUNT = "123456789012"
# The box differs from AWS: one address serves all services.
_NOT_HERE = ("AWS_USE_DUALSTACK_ENDPOINT", "DET_AWS_IPV6_ONLY")
_LOOPS = re.compile(r"/2024-08-31/functions/([^/]+)/recursion-config")


@dataclass
class _Sandboxes:
    """The processes of a function: answering ones, and frozen ones that wait for the next event."""

    at_once: int
    alive: list[LambdaRuntime] = field(default_factory=list)
    frozen: list[LambdaRuntime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = threading.BoundedSemaphore(self.at_once)


@dataclass
class Box:
    """An account at AWS with one cluster of functions."""

    folder: Path
    database_url: str
    database_urls: dict[str, str] = field(default_factory=dict)  # of functions that have another
    aws_url: str = ""
    front_url: str = ""
    recorder: Recorder = field(default_factory=lambda: Recorder(()))
    described: dict[str, dict[str, str]] = field(default_factory=dict)  # environments, by function
    failed: list[str] = field(default_factory=list)
    loops: dict[str, str] = field(default_factory=dict)  # whether functions may call each other
    retries: int = 0  # of a failed asynchronous call; AWS makes two
    sandboxes: int = 1  # of a function at most, however much concurrency it reserves
    proxies: Mapping[str, str] = field(
        default_factory=dict
    )  # how functions reach hosts that moto is not
    _sandboxes: dict[str, _Sandboxes] = field(default_factory=dict)
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _open: ExitStack = field(default_factory=ExitStack)

    def invoke(self, function: LambdaFunction, event: Any) -> Any:
        """Run a function within its concurrency, in a process for this call only."""
        name = function.function_name
        if function.reserved_concurrency == "0":
            raise FunctionFailed(f"{name} may not run: its concurrency is 0")
        with self._starting:
            own = self._sandboxes.setdefault(name, _Sandboxes(self._at_once(function)))
        with own.room:
            with self._starting:
                runtime = own.frozen.pop() if own.frozen else self._start(function)
                own.alive.append(runtime)
            try:
                return runtime.invoke(event)
            finally:
                with self._starting:
                    if runtime in own.alive:  # not killed
                        own.alive.remove(runtime)
                        own.frozen.append(runtime)

    def _at_once(self, function: LambdaFunction) -> int:
        reserved = int(function.reserved_concurrency or self.sandboxes)
        return max(1, min(reserved, self.sandboxes))

    def start(self, function: LambdaFunction, event: Any) -> None:
        """Run a function, and do not wait for it; again, as often as the account retries."""

        def run() -> None:
            for retries_left in reversed(range(self.retries + 1)):
                try:
                    self.invoke(function, event)
                    return
                except FunctionFailed as e:
                    if not retries_left:
                        self.failed.append(f"{function.function_name}: {e}")

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def kill(self, name: str) -> None:
        """Kill a function's processes during their work. Its next call starts a new one."""
        with self._starting:
            own = self._sandboxes[name]
            dying = [*own.alive, *own.frozen]
            own.alive.clear()
            own.frozen.clear()
        for runtime in dying:
            assert runtime.process is not None
            runtime.process.kill()
            runtime.process.wait()
            runtime.fail_start(b"it was killed")

    def forget_functions(self) -> None:
        """End the processes of functions that are deleted."""
        for name in list(self._sandboxes):
            self.kill(name)
        self.described.clear()

    def settle(self) -> None:
        """Wait until all started functions have ended, including the ones that they started."""
        while self._threads:
            self._threads.pop().join(60)

    def request(self, http: Http) -> tuple[int, dict[str, str], bytes]:
        """Answer a request to the function URL if the function's policy allows all callers."""
        backend, name = lambda_backends[ACCOUNT][REGION], self._api().function_name
        if not answers_url(backend, name, "live"):
            return 403, {"content-type": "application/json"}, json.dumps(FORBIDDEN).encode()
        return answered(self.invoke(self._api(), function_url_event(http)))

    def _database_of(self, function: LambdaFunction) -> str:
        return self.database_urls.get(function.function_name, self.database_url)

    def _api(self) -> LambdaFunction:
        functions = lambda_backends[ACCOUNT][REGION].list_functions()
        return next(f for f in functions if f.url_config is not None)

    def _start(self, function: LambdaFunction) -> LambdaRuntime:
        name = function.function_name
        task = self.folder / name
        if not task.exists():
            with zipfile.ZipFile(io.BytesIO(function.code_bytes)) as archive:
                archive.extractall(task)
        self.described[name] = dict(function.environment_vars)
        runtime = LambdaRuntime(task, function.handler, self._environment(function, task))
        return self._open.enter_context(runtime)

    def _environment(self, function: LambdaFunction, task: Path) -> dict[str, str]:
        """Return a described function with addresses of the box instead of AWS's."""
        role = function.role.rpartition("/")[2]
        own = {
            name: value.replace("/var/task", str(task))
            for name, value in function.environment_vars.items()
            if name not in _NOT_HERE
        }
        described_url, here = urlsplit(own["DET_DB_URL"]), self._database_of(function)
        assert described_url.hostname, "the described database has no host"
        own["DET_DB_URL"] = here
        return {
            **own, **self.proxies, "AWS_ENDPOINT_URL": self.aws_url, "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": role, "AWS_SECRET_ACCESS_KEY": "x",
        }  # fmt: skip


@contextmanager
def aws_box(
    folder: Path, database_url: str, roles: tuple[str, ...], operator: str = ""
) -> Iterator[Box]:
    """Serve AWS, and a front end for the Function URL."""
    box = Box(folder, database_url, recorder=Recorder(roles, operator))
    with pytest.MonkeyPatch.context() as patch, box._open as opened:
        box.front_url = opened.enter_context(function_url(box.request))
        _mend(patch, box)
        with moto_server() as box.aws_url:
            _publish_image()
            yield box
            box.settle()


def _mend(patch: pytest.MonkeyPatch, box: Box) -> None:
    """Make moto do what AWS does where Terraform and the functions depend on it."""
    carry = DomainDispatcherApplication.__call__

    def recorded(self: Any, environ: dict[str, Any], start_response: Any) -> Any:
        if loops := _LOOPS.fullmatch(unquote(environ["PATH_INFO"])):
            return _loops_of(box, loops[1], environ, start_response)
        inner = box.recorder.around(lambda e, s: carry(self, e, s))
        return inner(environ, start_response)

    original = FunctionUrlConfig.__init__

    def at_the_front(self: Any, function: Any, config: dict[str, Any]) -> None:
        original(self, function, config)
        self.url = f"{box.front_url}/"

    patch.setattr(DomainDispatcherApplication, "__call__", recorded)
    patch.setattr(FunctionUrlConfig, "__init__", at_the_front)
    patch.setattr(LambdaFunction, "invoke", lambda f, *given: _invoked(box, f, *given))
    _keep_logging(patch)
    policies_of_aliases(patch)
    roles_of_services(patch)
    descriptions_of_rules(patch)
    # Moto cannot delete earlier deletions from a bucket with suspended versioning.
    patch.setattr(FakeDeleteMarker, "dispose", lambda marker: None, raising=False)
    patch.setattr(Subnet, "ipv6_cidr_block_association_set", property(_ipv6_associations))


def _loops_of(
    box: Box, function: str, environ: Mapping[str, Any], start_response: Any
) -> list[bytes]:
    """Store the setting for recursive loops of a function, which moto does not know."""
    if environ["REQUEST_METHOD"] == "PUT":
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        box.loops[function] = json.loads(body)["RecursiveLoop"]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"RecursiveLoop": box.loops.get(function, "Terminate")}).encode()]


def _keep_logging(patch: pytest.MonkeyPatch) -> None:
    """Store the logging settings of functions. Moto forgets them, and each Terraform plan would set them again."""
    make, update, tell = (
        LambdaFunction.__init__,
        LambdaFunction.update_configuration,
        LambdaFunction.get_configuration,
    )

    def made(self: Any, account_id: str, spec: dict[str, Any], *more: Any, **options: Any) -> None:
        make(self, account_id, spec, *more, **options)
        self.logging = spec.get("LoggingConfig", {})

    def updated(self: Any, changes: dict[str, Any]) -> dict[str, Any]:
        self.logging = changes.get("LoggingConfig", self.logging)
        answer: dict[str, Any] = update(self, changes)
        return answer

    def told(self: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        group = {"LogFormat": "Text", "LogGroup": f"/aws/lambda/{self.function_name}"}
        return {**tell(self, *arguments, **options), "LoggingConfig": {**group, **self.logging}}

    patch.setattr(LambdaFunction, "__init__", made)
    patch.setattr(LambdaFunction, "update_configuration", updated)
    patch.setattr(LambdaFunction, "get_configuration", told)


def _publish_image() -> None:
    """Publish the image of rented machines where AWS does: moto has few of these parameters, and takes none."""
    name = DEFAULT_IMAGE.removeprefix("ssm:")
    value = next(iter(ec2_backends[ACCOUNT][REGION].describe_images())).id
    ssm_backends[ACCOUNT][REGION]._parameters[name].append(
        Parameter(
            account_id=ACCOUNT, name=name, value=value, parameter_type="String", description=None,
            allowed_pattern=None, keyid=None, last_modified_date=datetime.now(timezone.utc), version=1,
            data_type="text",
        )
    )  # fmt: skip


def _ipv6_associations(subnet: Any) -> list[dict[str, Any]]:
    """Return a subnet's IPv6 ranges in EC2's form; moto nests the state twice."""
    return [
        association
        for association in subnet.ipv6_cidr_block_associations.values()
        if association["ipv6CidrBlockState"]["State"] == "associated"
    ]


def _invoked(
    box: Box, function: Any, body: Any, headers: Mapping[str, str], answer: dict[str, str]
) -> bytes:
    event = json.loads(body or "{}")
    if headers.get("X-Amz-Invocation-Type") == "Event":
        box.start(function, event)
        return b""
    try:
        return json.dumps(box.invoke(function, event)).encode()
    except FunctionFailed as e:
        answer["x-amz-function-error"] = "Unhandled"
        return str(e).encode()


@contextmanager
def terraform_mirror(mirror: str) -> Iterator[str]:
    """Write a configuration of Terraform that takes providers from a folder; gives its path."""
    with tempfile.NamedTemporaryFile("w", suffix=".tfrc") as file:
        file.write(
            f'provider_installation {{\n  filesystem_mirror {{\n    path    = "{mirror}"\n'
            '    include = ["hashicorp/*"]\n  }\n}\n'
        )
        file.flush()
        yield file.name
