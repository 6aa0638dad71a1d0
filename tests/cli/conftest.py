"""Fixtures that run the det command in this process against a fake cluster."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from det_cli.main import main

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform, fake_terraform

if TYPE_CHECKING:
    from det_controlplane.db.engine.database import Database

    from tests.support.api import Api
    from tests.support.aws_account import Account
    from tests.support.fake_google import FakeGoogle
    from tests.support.google_project import Project
    from tests.support.moto_buckets import Ownership

VARIABLES = (
    "DET_MASTER_ADDR", "DET_USER", "DET_PASS", "DET_USER_TOKEN", "DET_SESSION_TOKEN", "DET_DEBUG",
    "DET_MASTER_CERT_FILE", "DET_MASTER_CERT_NAME", "DET_DEBUG_CONFIG_PATH", "XDG_CONFIG_HOME",
)  # fmt: skip


@dataclass
class CommandResult:
    code: int
    out: str
    err: str


Det = Callable[..., CommandResult]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory, with UTC as time zone and without the variables that the client reads."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "200")
    time.tzset()
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    with FakeCluster() as fake:
        monkeypatch.setenv("DET_MASTER", fake.url)
        yield fake


@pytest.fixture
def served_api(
    database: "Database", home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["Api"]:
    """Return the real API, which commands use without a sign-in."""
    from tests.support.api import api_over
    from tests.support.served_api import served

    with api_over(database, tmp_path) as api, served(api) as url:
        monkeypatch.setenv("DET_MASTER", url)
        yield api


@pytest.fixture
def api(served_api: "Api", monkeypatch: pytest.MonkeyPatch) -> "Api":
    """Return the real API, at which commands sign in as `determined`."""
    from tests.support.api import PASSWORD

    monkeypatch.setenv("DET_USER", "determined")
    monkeypatch.setenv("DET_PASS", PASSWORD)
    return served_api


@pytest.fixture(scope="session")
def _docker_hub_url() -> Iterator[str]:
    """Return a registry with the default images and the control plane's base image, as a mirror of Docker Hub."""
    from det_cli.deployment.registry import ImageName
    from det_controlplane.core.config.environment import CPU_IMAGE, CUDA_IMAGE, ROCM_IMAGE

    from tests.support.fake_registry import fake_registry

    with fake_registry() as hub:
        hub.add("library/python:3.12-slim")
        for image in map(ImageName.parse, (CPU_IMAGE, CUDA_IMAGE, ROCM_IMAGE)):
            hub.add(f"{image.repository}:{image.tag}", image.digest)
        yield hub.url


@pytest.fixture
def docker_hub(_docker_hub_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent `det deploy` from sending requests to registries on the internet."""
    monkeypatch.setenv("DET_DOCKER_HUB", _docker_hub_url)


@pytest.fixture
def det(capsys: pytest.CaptureFixture[str]) -> Det:
    def run(*words: object) -> CommandResult:
        try:
            code = main([str(w) for w in words])
        except SystemExit as e:
            code = int(e.code or 0)
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run


@pytest.fixture
def terraform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTerraform:
    return fake_terraform(tmp_path / "terraform", monkeypatch)


@pytest.fixture(scope="module")
def aws_url() -> Iterator[str]:
    from tests.support.moto import moto_server  # this import takes a second, and few tests need it

    with moto_server() as url:
        yield url


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> "Ownership":
    """Add S3's checks of bucket owners to moto."""
    from tests.support.moto_buckets import owners_of_buckets

    return owners_of_buckets(monkeypatch)


@pytest.fixture
def account(
    aws_url: str,
    home: Path,
    docker_hub: None,
    buckets: "Ownership",
    monkeypatch: pytest.MonkeyPatch,
) -> "Account":
    """Return an empty AWS account."""
    import boto3
    from det_controlplane.entry.aws import packaging

    from tests.support.aws_account import Account
    from tests.support.moto_permissions import policies_of_aliases
    from tests.support.moto_roles import roles_of_services

    policies_of_aliases(monkeypatch)
    roles_of_services(monkeypatch)
    monkeypatch.setattr("det_cli.deployment.aws_service_roles.SETTLE_S", 0.0)
    urlopen(Request(f"{aws_url}/moto-api/reset", method="POST")).close()
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    zipped = home / "deployment.zip"
    zipped.write_bytes(b"zip")
    monkeypatch.setattr(packaging, "build", lambda out, files, **more: zipped)
    monkeypatch.setattr("det_cli.deployment.aws._LISTED_S", -1.0)
    return Account(aws_url)


@pytest.fixture
def mine(cluster: FakeCluster) -> FakeCluster:
    """Return a cluster with three experiments, two of which belong to the signed-in user."""
    cluster.add(1)
    cluster.add(2, archived=True, username="determined")
    running = {"state": "STATE_RUNNING", "progress": 0.42, "endTime": None, "forkedFrom": 1}
    cluster.add(3, username="determined", **running)
    return cluster


@pytest.fixture
def google() -> Iterator["FakeGoogle"]:
    from tests.support.google_server import google_cloud

    with google_cloud() as fake:
        yield fake


@pytest.fixture
def project(
    det: Det, google: "FakeGoogle", home: Path, docker_hub: None, monkeypatch: pytest.MonkeyPatch
) -> "Project":
    from tests.support.google_project import Project

    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_REGION"):
        monkeypatch.delenv(name, raising=False)
    # Disable the search for a metadata server in the network.
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr("det_cli.deployment.image.time.sleep", lambda s: None)
    return Project(det, google, home)
