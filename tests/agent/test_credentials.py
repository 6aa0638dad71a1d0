"""Containers that cannot reach the metadata service use the role of their machine, by way of their agent."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from det_agent import credentials
from det_agent.credentials import MachineCredentials
from det_agent.gateway import Gateway, GatewayDependencies
from det_agent.log_limits import LogLimits
from det_agent.metadata import AwsMetadata
from det_agent.report_delivery import ReportDelivery
from det_agent.runtime import ContainerSessions
from det_agent.spool import Spool
from det_agent.trial_reports import TrialReports
from determined.common.connections import Connections
from determined.exec._credentials import add_credentials

from tests.agent.conftest import StartAgent
from tests.agent.test_entry_through_agent import answer_as_a_cluster, entry_spec
from tests.support.fake_controlplane import FakeControlPlane
from tests.support.fake_sts import FakeAws, fake_aws
from tests.support.gateway import KEY, TOKEN, Caller

GOOGLE = {
    "access_token": "ya29.short-lived", "expires_in": 3000, "token_type": "Bearer", "project": "research",
    "email": "machine@research.iam.gserviceaccount.com", "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
}  # fmt: skip
PATH = "/det-agent/credentials/gcp"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAws]:
    with fake_aws() as fake:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", fake.url)
        yield fake


AMAZON = {
    "AccessKeyId": "ASIA", "SecretAccessKey": "s", "Token": "t", "Expiration": "2100-01-01T00:00:00Z",
}  # fmt: skip


@contextmanager
def lending(url: str, folder: Path, *credentials_of_clouds: MachineCredentials) -> Iterator[Caller]:
    """Serve the gateway of an agent that runs one container."""
    by_cloud = {credentials.kind: credentials for credentials in credentials_of_clouds}
    for name in ("logs", "reports"):
        (folder / name).mkdir()
    sessions, spool, upstream = ContainerSessions(), Spool(folder / "logs"), Connections(url)
    sessions.open(KEY)
    reports = TrialReports(
        folder / "reports", ReportDelivery(upstream, lambda: ""), lambda key, text: None
    )
    logs = LogLimits(spool, "agent-1", 0, 0)
    parts = GatewayDependencies("agent-1", sessions, logs, reports, upstream, credentials=by_cloud)
    gateway = Gateway(parts, "127.0.0.1", 0)
    gateway.start()
    yield Caller(gateway, sessions, spool)
    gateway.stop()
    spool.close()


@pytest.fixture
def google(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Caller]:
    with lending(plane.url, tmp_path, MachineCredentials("gcp", lambda: GOOGLE)) as caller:
        yield caller


@pytest.fixture
def amazon(plane: FakeControlPlane, tmp_path: Path) -> Iterator[Caller]:
    with lending(plane.url, tmp_path, MachineCredentials("aws", lambda: AMAZON)) as caller:
        yield caller


def container_of(caller: Caller, kind: str) -> dict[str, str]:
    return {
        "DET_MASTER": f"http://127.0.0.1:{caller.gateway.port}",
        "DET_SESSION_TOKEN": KEY.session_token,
        "DET_MACHINE_CREDENTIALS": kind,
    }


def run(script: str, env: Mapping[str, str]) -> list[str]:
    command = [sys.executable, "-c", script]
    result = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_only_known_containers_get_the_machine_credentials(google: Caller) -> None:
    status, token, _ = google.ask("GET", PATH, headers=TOKEN)
    assert (status, token["access_token"], token["kind"]) == (200, "ya29.short-lived", "gcp")
    for headers in ({}, {"Authorization": "Bearer secret-of-nobody"}):
        status, message, _ = google.ask("GET", PATH, headers=headers)
        assert status == 401
        assert "ya29" not in str(message)
    google.sessions.close(KEY.id)
    assert google.ask("GET", PATH, headers=TOKEN)[0] == 401, "the container has ended"


def test_disabled_credentials_return_404(plane: FakeControlPlane, tmp_path: Path) -> None:
    with lending(plane.url, tmp_path) as caller:
        assert caller.ask("GET", PATH, headers=TOKEN)[0] == 404


def test_google_libraries_use_the_machines_account(google: Caller) -> None:
    script = """
import google.auth, google.auth.transport.requests
found, project = google.auth.default()
found.refresh(google.auth.transport.requests.Request())
print(found.token, project, found.service_account_email)
"""
    environment = {**container_of(google, "gcp"), "http_proxy": "http://127.0.0.1:1"}
    assert run(script, add_credentials(environment)) == [
        "ya29.short-lived",
        "research",
        GOOGLE["email"],
    ]


def test_container_gets_roles_of_both_clouds(plane: FakeControlPlane, tmp_path: Path) -> None:
    script = """
import boto3, google.auth, google.auth.transport.requests
found, _ = google.auth.default()
found.refresh(google.auth.transport.requests.Request())
print(found.token, boto3.Session().get_credentials().access_key)
"""
    both = (
        MachineCredentials("gcp", lambda: GOOGLE),
        MachineCredentials("aws", lambda: AMAZON),
    )
    with lending(plane.url, tmp_path, *both) as caller:
        output = run(script, add_credentials(container_of(caller, "gcp,aws")))
        own = {**container_of(caller, "gcp,aws"), "GCE_METADATA_HOST": "own"}
        mixed = add_credentials(own)
    assert output == ["ya29.short-lived", "ASIA"]
    assert mixed["GCE_METADATA_HOST"] == "own", "settings of the task have precedence"
    assert mixed["AWS_CONTAINER_CREDENTIALS_FULL_URI"]


def test_identity_tokens_of_the_machine_are_not_served(google: Caller) -> None:
    script = """
import os, urllib.error, urllib.request
url = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/instance/service-accounts/default/"
for path in ("identity?audience=x&format=full", "email"):
    request = urllib.request.Request(url + path, headers={"Metadata-Flavor": "Google"})
    try:
        print(urllib.request.urlopen(request).read().decode())
    except urllib.error.HTTPError as e:
        print(e.code)
"""
    assert run(script, add_credentials(container_of(google, "gcp"))) == ["404", GOOGLE["email"]]


def test_amazon_libraries_use_the_role_only_with_the_password(
    amazon: Caller,
) -> None:
    script = """
import os, urllib.error, urllib.request, botocore.session
found = botocore.session.Session().get_credentials()
print(found.method, found.access_key, found.token)
try:
    urllib.request.urlopen(os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"])
except urllib.error.HTTPError as e:
    print(e.code)
"""
    env = add_credentials(container_of(amazon, "aws"))
    assert run(script, env) == ["container-role", "ASIA", "t", "401"]


def test_error_of_the_metadata_service_reaches_the_calling_code(
    plane: FakeControlPlane, tmp_path: Path
) -> None:
    def fail() -> Mapping[str, Any]:
        raise OSError("the metadata service answers nothing")

    with lending(plane.url, tmp_path, MachineCredentials("aws", fail)) as caller:
        script = "import botocore.session; botocore.session.Session().get_credentials()"
        with pytest.raises(AssertionError, match="the metadata service answers nothing"):
            run(script, add_credentials(container_of(caller, "aws")))


@pytest.mark.docker
def test_code_in_a_container_has_the_role_of_its_machine_on_ec2(
    plane: FakeControlPlane, start_agent: StartAgent, aws: FakeAws, docker_client: Any
) -> None:
    plane.answer_to = answer_as_a_cluster
    start_agent(runtime="docker", identity="aws", **{"agent-id": "lender", "cluster-id": "ours"})
    plane.until(lambda: plane.polls)
    spec = entry_spec(
        "python3 -c 'import json, os, urllib.request as u;"
        ' url = os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"];'
        ' password = {"Authorization": os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"]};'
        " told = json.load(u.urlopen(u.Request(url, headers=password)));"
        ' print("role", told["AccessKeyId"], told["Token"])\''
    )
    plane.want(spec)
    plane.until_state(spec["container_id"], "terminated")
    plane.until(lambda: plane.texts("task"))
    machine = aws.machine
    assert f"role {machine.access_key} {machine.session}" in str(plane.texts("task"))


def test_machine_without_a_role_names_the_missing_setting(aws: FakeAws) -> None:
    aws.machine.has_role = False
    with pytest.raises(OSError, match="iam_instance_profile_arn"):
        credentials.role_credentials(AwsMetadata())


def test_metadata_responses_are_cached() -> None:
    request_times: list[float] = []
    time = 100.0

    def read() -> Mapping[str, str]:
        request_times.append(time)
        return {"AccessKeyId": f"key of {time}"}

    machine = MachineCredentials("aws", read, lambda: time)
    for _ in range(50):
        assert machine.current()["AccessKeyId"] == "key of 100.0"
    time += credentials.KEPT_S
    assert machine.current()["AccessKeyId"] == "key of 130.0"
    assert len(request_times) == 2


def test_credentials_of_the_task_have_precedence(amazon: Caller) -> None:
    own = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/own"}
    env = {**container_of(amazon, "aws"), **own}
    assert add_credentials(env) == env
    assert add_credentials({"PATH": "/bin"}) == {"PATH": "/bin"}, "the agent serves no credentials"
