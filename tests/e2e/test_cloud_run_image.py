"""The image of the control plane in a real Docker engine: its services as on Cloud Run, over fakes."""

import base64
import json
import os
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError

import pytest
from det_controlplane.db.engine.database import Database
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from sqlalchemy import text

from tests.support import compose, fake_gce, fake_gcs
from tests.support.control_image import CONTROL_PLANE, control_image
from tests.support.docker import docker_engine
from tests.support.fake_gce import FakeGce
from tests.support.fake_gcs import FakeGCS
from tests.support.google_metadata import FakeMetadata, metadata_server
from tests.support.ports import free_port
from tests.support.processes import eventually

pytestmark = [pytest.mark.docker, pytest.mark.heavy("builds an image of some hundred megabytes")]

BUCKET = "det-lab-acme"
POOLS = [
    {
        "pool_name": "default",
        "provider": {
            "type": "gcp",
            "zones": ["us-central1-a", "us-central1-b"],
            "instance_type": {
                "machine_type": "n1-standard-8", "gpu_type": "nvidia-tesla-t4", "gpu_num": 1,
            },
        },
    }
]  # fmt: skip
EXPERIMENT = """
name: in-containers
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
resources: {slots_per_trial: 1}
"""


@dataclass
class Cluster:
    """Containers of the roles on this machine's network, and the fakes behind them."""

    engine: Any
    gce: FakeGce
    metadata: FakeMetadata
    objects: Any
    containers: dict[str, Any] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def url(self, role: str) -> str:
        return f"http://127.0.0.1:{self.ports[role]}"

    def start(self, role: str, environment: dict[str, str]) -> None:
        self.containers[role] = self.engine.containers.run(
            CONTROL_PLANE,
            detach=True,
            environment={**environment, "DET_ROLE": role, "PORT": str(self.ports[role])},
            network_mode="host",
            read_only=True,
            tmpfs={"/tmp": ""},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
        )

    def call(self, method: str, path: str, token: str = "", body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url("api") + path, data, method=method)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def answers(self) -> bool:
        try:
            self.call("GET", "/info")
        except OSError:
            return False
        return True

    def log(self) -> str:
        logs = {role: c.logs().decode()[-2000:] for role, c in self.containers.items()}
        return "\n".join(f"== {role}\n{text}" for role, text in logs.items())


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """A Docker engine that has the image, as it is built from these sources."""
    client = docker_engine()
    control_image(client)
    yield client
    client.close()


@pytest.fixture
def cluster(
    engine: Any, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    with ExitStack() as stack:
        gce = FakeGce()
        endpoint = stack.enter_context(fake_gce.serving(gce))
        emulator = stack.enter_context(fake_gcs.serving(FakeGCS()))
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator)
        client = storage.Client(project="acme", credentials=AnonymousCredentials())
        stack.callback(client.close)
        objects = client.create_bucket(BUCKET)
        metadata = stack.enter_context(metadata_server())
        new_cluster = Cluster(engine, gce, metadata, objects)
        database_url = over_tcp(empty_database_url)
        new_cluster.ports = {role: free_port() for role in ("tick", "provision", "relay", "api")}
        for role in new_cluster.ports:
            new_cluster.start(role, _environment(new_cluster, database_url, endpoint, emulator))
            stack.callback(new_cluster.containers[role].remove, force=True)
        assert eventually(new_cluster.answers, 60), new_cluster.log()
        yield new_cluster


def over_tcp(database_url: str) -> str:
    """Return the address by which containers reach a database with a socket for this user only."""
    database = Database(database_url)
    with database.autocommit() as connection:
        connection.execute(text("ALTER ROLE postgres PASSWORD 'Password1'"))
    database.dispose()
    match = re.search(r"@localhost/(\w+)\?unix_sock=.*\.(\d+)$", database_url)
    assert match, database_url
    return f"postgresql://postgres:Password1@127.0.0.1:{match[2]}/{match[1]}"


def _environment(
    new_cluster: Cluster, database: str, endpoint: str, emulator: str
) -> dict[str, str]:
    """Return the stack's variables for its services, with addresses of the fakes."""
    defaults = {"project": "acme", "service_account": {"email": "vm@acme", "scopes": ["s"]}}
    storage_section = {"type": "gcs", "bucket": BUCKET}
    config = {"checkpoint_storage": storage_section, "resource_pools": POOLS}
    return {
        "DET_DB_URL": database,
        "DET_CLUSTER_ID": "lab",
        "DET_CLUSTER_CONFIG": json.dumps(config),
        "DET_OBJECTS": f"gs://{BUCKET}/contexts",
        "DET_GCP_DEFAULTS": json.dumps(defaults),
        "DET_INITIAL_USER_PASSWORD": "Password1",
        "DET_SECRETS_KEY": "0123456789abcdef0123456789abcdef",
        "DET_PUBLIC_URL": new_cluster.url("api"),
        "DET_TICK_URL": new_cluster.url("tick"),
        "DET_PROVISION_URL": new_cluster.url("provision"),
        "DET_RELAY_URL": new_cluster.url("relay"),
        "DET_GCE_ENDPOINT": endpoint,
        "STORAGE_EMULATOR_HOST": emulator,
        "GOOGLE_CLOUD_PROJECT": "acme",
        "HOST": "127.0.0.1",
        **new_cluster.metadata.environment,
    }


def test_experiment_of_the_api_rents_a_machine_through_the_other_services(cluster: Cluster) -> None:
    login = {"username": "determined", "password": "Password1"}
    token = str(cluster.call("POST", "/api/v1/auth/login", body=login)["token"])
    # Too large for a row of the database: the API keeps it in the bucket.
    content = base64.b64encode(os.urandom(9 * 1024**2)).decode()
    file = {"path": "weights.bin", "type": 48, "content": content, "mode": 0o644}
    body = {"config": EXPERIMENT, "modelDefinition": [file], "activate": True}
    cluster.call("POST", "/api/v1/experiments", token, body)

    assert eventually(lambda: cluster.gce.listed("acme"), 60), cluster.log()
    (machine,) = cluster.gce.listed("acme")
    assert machine.body["labels"]["det-cluster"] == "lab"
    assert machine.body["serviceAccounts"][0]["email"] == "vm@acme"
    assert {cluster.url("tick"), cluster.url("provision")} <= set(cluster.metadata.audiences)
    assert [blob.name for blob in cluster.objects.list_blobs(prefix="contexts/")] != []

    with pytest.raises(HTTPError, match="401") as error:
        cluster.call("GET", "/proxy/some-task/")
    assert "sign in to reach tasks" in error.value.read().decode(), cluster.log()
    error.value.close()

    for role, container in cluster.containers.items():
        check_walls(container)
        container.stop(timeout=20)
        assert container.wait()["StatusCode"] == 0, f"{role}: {cluster.log()}"
    assert "Traceback" not in cluster.log()


def check_walls(container: Any) -> None:
    """Check a service from inside: it runs without root rights and cannot write files."""
    look = "import os; print(os.getuid()); open('/venv/x', 'w')"
    code, output = container.exec_run(["python3", "-c", look])
    assert code == 1
    assert "65532" in output.decode().splitlines()
    assert "Read-only file system" in output.decode()


def test_started_service_answers_soon(cluster: Cluster) -> None:
    """Scale to zero and back, and measure the wait of the first user after an hour."""
    cluster.containers["api"].stop(timeout=20)
    start_time = time.monotonic()
    cluster.containers["api"].start()
    assert eventually(cluster.answers, 60), cluster.log()
    print(f"container to first answer: {time.monotonic() - start_time:.2f} s")


@pytest.fixture
def composed(engine: Any, empty_database_url: str) -> Iterator[tuple[Any, int]]:
    """Run the services of the compose file as it says, over a database of the test's own."""
    port = free_port()
    variables = {
        "DET_IMAGE": CONTROL_PLANE, "DET_DB_URL": over_tcp(empty_database_url), "DET_OBJECTS_SECRET": "secret",
        "DET_BOOTSTRAP_TOKEN": "bootstrap", "DET_INITIAL_USER_PASSWORD": "Password1",
        "DET_CLUSTER_CONFIG": json.dumps({"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}),
    }  # fmt: skip
    services = compose.services(variables)
    with ExitStack() as stack:
        volumes = {}
        for name in ("objects", "socket"):
            volume = engine.volumes.create()
            stack.callback(volume.remove, force=True)
            volumes[name] = volume.name
        for service in services.values():
            service["volumes"] = {
                volumes.get(n, n): mount for n, mount in service["volumes"].items()
            }
        engine.containers.run(**services["folders"], remove=True)
        service = services["controlplane"]
        service["environment"] |= {"HOST": "127.0.0.1", "PORT": str(port)}
        container = engine.containers.run(**service, detach=True, network_mode="host")
        stack.callback(container.remove, force=True)
        yield container, port


def test_compose_file_creates_a_working_cluster(composed: tuple[Any, int]) -> None:
    container, port = composed
    one = Cluster(None, FakeGce(), None, None, {"api": container}, {"api": port})  # type: ignore[arg-type]
    assert eventually(one.answers, 60), one.log()
    login = {"username": "determined", "password": "Password1"}
    token = one.call("POST", "/api/v1/auth/login", body=login)["token"]
    file = {"path": "train.py", "type": 48, "content": "", "mode": 0o644}
    body = {"config": EXPERIMENT, "modelDefinition": [file], "activate": False}
    experiment = one.call("POST", "/api/v1/experiments", token, body)["experiment"]
    assert experiment["name"] == "in-containers", one.log()
    code = one.call("GET", f"/api/v1/experiments/{experiment['id']}/model_def", token)
    assert code["b64Tgz"], "the code in the volume can be read again"
    check_walls(container)
