"""The image's program by its roles: processes that share a database and start each other."""

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.entry.container.worker import READY_PATH

from tests.support.cloud_run import CLOSED, front_end, posting_to
from tests.support.google_metadata import FakeMetadata, metadata_server
from tests.support.ports import free_port
from tests.support.processes import eventually

pytestmark = pytest.mark.slow

CONFIG = """
name: in-containers
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
max_restarts: 0
"""
INCARNATION = "00000000-0000-0000-0000-000000000001"


@dataclass
class Role:
    """A process that plays a role."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def call(self, method: str, path: str, token: str = "", body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def answers(self, path: str) -> bool:
        try:
            self.call("GET", path)
        except (urllib.error.URLError, OSError):
            return False
        return True

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def playing(
    role: str, folder: Path, environment: Mapping[str, str], port: int | None = None
) -> Iterator[Role]:
    port = port or free_port()
    log = folder / f"{role or 'all'}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "det_controlplane.entry.container.main"],
            env={**os.environ, **environment, "DET_ROLE": role, "PORT": str(port)},
            stdout=output,
            stderr=output,
        )
    new_role = Role(f"http://127.0.0.1:{port}", process, log)
    try:
        ready = "/" if role in ("tick", "provision") else "/info"
        assert eventually(lambda: new_role.answers(ready)), log.read_text()
        yield new_role
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {
        "DET_DB_URL": database_url,
        "DET_OBJECTS": str(tmp_path / "objects"),
        "DET_OBJECTS_SECRET": "secret",
        "DET_BOOTSTRAP_TOKEN": "bootstrap",
        "DET_INITIAL_USER_PASSWORD": "Password1",
        "DET_MAY_WAIT_S": "30",
        "DET_CLUSTER_CONFIG": json.dumps(
            {"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}
        ),
        "HOST": "127.0.0.1",
    }


@dataclass
class Services:
    api: Role
    tick: Role
    provision: Role
    metadata: FakeMetadata


@pytest.fixture
def services(environment: dict[str, str], tmp_path: Path) -> Iterator[Services]:
    """Three services as on Cloud Run, which ask the metadata server whom to be."""
    ports = {name: free_port() for name in ("tick", "provision")}
    with ExitStack() as stack:
        metadata = stack.enter_context(metadata_server())
        urls = {f"DET_{name.upper()}_URL": f"http://127.0.0.1:{p}" for name, p in ports.items()}
        shared = {**environment, **urls, **metadata.environment}
        roles = {
            name: stack.enter_context(playing(name, tmp_path, shared, ports.get(name)))
            for name in ("tick", "provision", "api")
        }
        yield Services(roles["api"], roles["tick"], roles["provision"], metadata)


def join_agent(api: Role) -> str:
    slot = {"id": 0, "type": "cpu", "uuid": "u", "brand": "Artificial"}
    joining = {
        "agent_id": "a1", "agent_key": "key", "incarnation": INCARNATION, "pool": "default",
        "version": "0.38.1", "hostname": "h", "addresses": ["10.0.0.1"], "runtime": "process",
        "slots": [slot], "proof": {"kind": "bootstrap_token", "token": "bootstrap"},
    }  # fmt: skip
    return str(api.call("POST", "/agents/v1/join", body=joining)["agent_token"])


def poll(api: Role, token: str) -> Any:
    body = {"incarnation": INCARNATION, "containers": [], "wait_s": 20}
    return api.call("POST", "/agents/v1/poll", token, body)["containers"]


def create_experiment(api: Role) -> None:
    login = {"username": "determined", "password": "Password1"}
    token = str(api.call("POST", "/api/v1/auth/login", body=login)["token"])
    file = {"path": "train.py", "type": 48, "content": "", "mode": 0o644}
    body = {"config": CONFIG, "modelDefinition": [file], "activate": True}
    api.call("POST", "/api/v1/experiments", token, body)


def test_api_calls_the_tick_service_and_an_agent_receives_the_trial(
    services: Services,
) -> None:
    agent = join_agent(services.api)
    create_experiment(services.api)
    assert eventually(lambda: poll(services.api, agent)), services.tick.log.read_text()
    assert services.tick.url in services.metadata.audiences


def test_experiment_starts_although_the_first_tick_calls_fail(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        metadata = stack.enter_context(metadata_server())
        tick = stack.enter_context(playing("tick", tmp_path, environment))
        front = stack.enter_context(front_end(posting_to(tick.url)))
        shared = {**environment, **metadata.environment, "DET_TICK_URL": front.url}
        api = stack.enter_context(playing("api", tmp_path, shared))
        agent = join_agent(api)
        front.refusals = [429, 500, CLOSED]
        create_experiment(api)
        assert eventually(lambda: poll(api, agent)), api.log.read_text()


@pytest.mark.parametrize("role", ["tick", "provision"])
def test_service_is_ready_only_when_it_reaches_the_database(
    role: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Cloud Run sends no request to an instance before it is ready: its network may take a minute to start."""
    with playing(role, tmp_path, environment) as process:
        assert process.answers(READY_PATH)
    unreachable = f"postgresql://determined@127.0.0.1:{free_port()}/determined"
    with playing(role, tmp_path, {**environment, "DET_DB_URL": unreachable}) as waiting:
        with pytest.raises(urllib.error.HTTPError, match="503") as error:
            waiting.call("GET", READY_PATH)
        assert "the database does not answer" in error.value.read().decode()
        error.value.close()


def test_services_end_at_sigterm_without_an_error(services: Services) -> None:
    create_experiment(services.api)
    for role in (services.api, services.tick, services.provision):
        assert role.stop() == 0, role.log.read_text()
        assert "Traceback" not in role.log.read_text()


def test_process_without_a_role_runs_all_roles(environment: dict[str, str], tmp_path: Path) -> None:
    with playing("", tmp_path, environment) as alone:
        agent = join_agent(alone)
        create_experiment(alone)
        assert eventually(lambda: poll(alone, agent)), alone.log.read_text()
        assert alone.stop() == 0


def test_api_forwards_task_traffic_to_the_relay(
    environment: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    addresses = {
        "DET_PUBLIC_URL": "https://cluster.example",
        "DET_RELAY_URL": f"http://127.0.0.1:{port}",
    }
    both = {**environment, **addresses}
    with playing("relay", tmp_path, both, port) as relay, playing("api", tmp_path, both) as api:
        for way in (api, relay):
            with pytest.raises(urllib.error.HTTPError, match="401") as error:
                way.call("GET", "/proxy/some-task/")
            assert "sign in to reach tasks" in error.value.read().decode()
            error.value.close()
        with pytest.raises(urllib.error.HTTPError, match="404") as failure:
            relay.call("GET", "/api/v1/me")
        assert "https://cluster.example" in failure.value.read().decode()
        failure.value.close()
        assert relay.stop() == 0, relay.log.read_text()


def test_large_responses_on_cloud_run_are_chunked(
    environment: dict[str, str], tmp_path: Path
) -> None:
    code = base64.b64encode(os.urandom(25 * 2**20)).decode()
    file = {"path": "data.bin", "type": 48, "content": code, "mode": 0o644}
    login = {"username": "determined", "password": "Password1"}
    with playing("api", tmp_path, {**environment, "K_SERVICE": "det-lab-api"}) as api:
        token = str(api.call("POST", "/api/v1/auth/login", body=login)["token"])
        body = {"config": CONFIG, "modelDefinition": [file]}
        id = api.call("POST", "/api/v1/experiments", token, body)["experiment"]["id"]
        request = urllib.request.Request(f"{api.url}/api/v1/experiments/{id}/model_def")
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            framing = answer.headers["Content-Length"], answer.headers["Transfer-Encoding"]
            assert len(json.loads(answer.read())["b64Tgz"]) > 32 * 2**20
    assert framing == (None, "chunked")


def test_rejects_an_unknown_role(environment: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "det_controlplane.entry.container.main"],
        env={**os.environ, **environment, "DET_ROLE": "master"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 1
    assert "DET_ROLE is 'master': give api, relay, tick, provision" in result.stderr
