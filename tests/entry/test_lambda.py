"""The packaged zip under Lambda's own runtime client: HTTP events, and the schedule."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.entry.aws import packaging

from tests.support.lambda_events import Http, answered, http_api_event, rest_event
from tests.support.lambda_runtime import LambdaRuntime
from tests.support.lambda_service import lambda_service

CONFIG = """
name: on-lambda
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 1}}
max_restarts: 0
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def task_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip as a deployment would upload it, unpacked as Lambda does."""
    folder = tmp_path_factory.mktemp("lambda")
    made = packaging.build(folder / "out")
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder / "task")
    return folder / "task"


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {
        "DET_DB_URL": database_url,
        "DET_OBJECTS": str(tmp_path / "objects"),
        "DET_OBJECTS_SECRET": "secret",
        "DET_CLUSTER_CONFIG": '{"checkpoint_storage": {"type": "s3", "bucket": "checkpoints"}}',
        "DET_BOOTSTRAP_TOKEN": "bootstrap",
        "DET_INITIAL_USER_PASSWORD": "Password1",
    }


@pytest.fixture
def api(task_root: Path, environment: Mapping[str, str]) -> Iterator[LambdaRuntime]:
    with LambdaRuntime(task_root, "app.app", environment) as runtime:
        yield runtime


def call(api: LambdaRuntime, method: str, path: str, token: str = "", body: Any = None) -> Any:
    headers = (("Authorization", f"Bearer {token}"),) if token else ()
    content = b"" if body is None else json.dumps(body).encode()
    status, _, raw = answered(api.invoke(rest_event(Http(method, path, content, headers))))
    assert status == 200, raw
    return json.loads(raw)


def sign_in(api: LambdaRuntime) -> str:
    login = {"username": "determined", "password": "Password1"}
    return str(call(api, "POST", "/api/v1/auth/login", body=login)["token"])


def create_experiment(api: LambdaRuntime, token: str) -> int:
    file = {"path": "train.py", "type": 48, "content": "", "mode": 0o644}
    body = {"config": CONFIG, "modelDefinition": [file], "activate": True}
    return int(call(api, "POST", "/api/v1/experiments", token, body)["experiment"]["id"])


def join_agent(api: LambdaRuntime) -> str:
    joining = {
        "agent_id": "a1",
        "agent_key": "key",
        "incarnation": "00000000-0000-0000-0000-000000000001",
        "pool": "default",
        "version": "0.38.1",
        "hostname": "h",
        "addresses": ["10.0.0.1"],
        "runtime": "process",
        "slots": [{"id": 0, "type": "cpu", "uuid": "u", "brand": "Artificial"}],
        "proof": {"kind": "bootstrap_token", "token": "bootstrap"},
    }
    return str(call(api, "POST", "/agents/v1/join", body=joining)["agent_token"])


def poll(api: LambdaRuntime, token: str) -> Any:
    body = {"incarnation": "00000000-0000-0000-0000-000000000001", "containers": [], "wait_s": 20}
    return call(api, "POST", "/agents/v1/poll", token, body)


def test_the_zip_carries_its_bytecode_and_no_test_code(task_root: Path) -> None:
    sources = [p for p in task_root.rglob("*.py") if "chalice" not in p.parts]
    bare = [p for p in sources if not list((p.parent / "__pycache__").glob(f"{p.stem}.*.pyc"))]
    assert bare == []
    assert not (task_root / "det_controlplane/testing").exists()
    assert not (task_root / "boto3").exists()


def test_both_gateways_reach_the_app(api: LambdaRuntime) -> None:
    for event in (rest_event(Http("GET", "/info")), http_api_event(Http("GET", "/info/"))):
        status, _, raw = answered(api.invoke(event))
        assert (status, json.loads(raw)["version"]) == (200, "0.38.1")


def test_a_request_starts_the_function_that_decides_and_an_agent_gets_the_trial(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    named = {
        **environment,
        "DET_TICK_FUNCTION": "det-tick",
        "DET_PROVISION_FUNCTION": "det-provision",
    }
    functions = {"det-api": "app.app", "det-tick": "app.tick"}
    with lambda_service(task_root, named, functions) as service:
        api = service.runtime("det-api")
        token = sign_in(api)
        agent = join_agent(api)
        assert poll(api, agent)["containers"] == []
        experiment_id = create_experiment(api, token)
        service.settle()
        assert "det-tick" in service.started
        shown = call(api, "GET", f"/api/v1/experiments/{experiment_id}", token)["experiment"]
        assert shown["name"] == "on-lambda"
        (container,) = poll(api, agent)["containers"]
        assert container["spec"]["env"]["DET_EXPERIMENT_ID"] == str(experiment_id)


def test_a_scheduled_event_runs_the_tick(
    api: LambdaRuntime, task_root: Path, environment: Mapping[str, str]
) -> None:
    agent = join_agent(api)
    with LambdaRuntime(task_root, "app.tick", environment) as tick:
        due_s = tick.invoke({})["next_due_s"]
    assert 0 < due_s <= 60, "the agent's lease is what comes due next"
    assert poll(api, agent)["containers"] == []


def test_the_cluster_is_identified_as_its_deployment_says(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    with LambdaRuntime(task_root, "app.app", {**environment, "DET_CLUSTER_ID": "box"}) as api:
        assert call(api, "GET", "/info")["cluster_id"] == "box"
