"""The packaged zip under Lambda's own runtime client: HTTP events, and the schedule."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from det_controlplane.db.cluster import cluster
from det_controlplane.db.engine.database import Database

from tests.support.determined_source import SourceCluster
from tests.support.lambda_calls import call, create_experiment, join_agent, poll, sign_in
from tests.support.lambda_events import Http, answered, http_api_event, rest_event
from tests.support.lambda_runtime import FunctionFailed, LambdaRuntime
from tests.support.lambda_service import lambda_service
from tests.support.oidc_server import oidc_server

pytestmark = pytest.mark.slow


@pytest.fixture
def api(task_root: Path, environment: Mapping[str, str]) -> Iterator[LambdaRuntime]:
    with LambdaRuntime(task_root, "app.app", environment) as runtime:
        yield runtime


def test_zip_contains_bytecode_but_no_test_code(task_root: Path) -> None:
    sources = [p for p in task_root.rglob("*.py") if "chalice" not in p.parts]
    bare = [p for p in sources if not list((p.parent / "__pycache__").glob(f"{p.stem}.*.pyc"))]
    assert bare == []
    assert not (task_root / "det_controlplane/testing").exists()
    assert not (task_root / "boto3").exists()


def test_zip_of_the_keys_function_has_no_configuration(deployment_zip: Path) -> None:
    names = {}
    for name in ("deployment", "keys"):
        with zipfile.ZipFile(deployment_zip.with_name(f"{name}.zip")) as archive:
            names[name] = set(archive.namelist())
    more = names["deployment"] - names["keys"]
    assert {name for name in more if not name.endswith(".whl")} == {"cluster.yaml"}
    assert len(more) == 2, "the wheel of the agents is in the zip, too"
    assert "app.py" in names["keys"]


def test_both_gateways_reach_the_app(api: LambdaRuntime) -> None:
    for event in (rest_event(Http("GET", "/info")), http_api_event(Http("GET", "/info/"))):
        status, _, raw = answered(api.invoke(event))
        assert (status, json.loads(raw)["version"]) == (200, "0.38.1")


def test_browser_gets_the_pages_and_their_files(api: LambdaRuntime) -> None:
    gzip = (("accept-encoding", "gzip"),)
    status, headers, raw = answered(api.invoke(http_api_event(Http("GET", "/det/experiments"))))
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script-src 'self'" in headers["content-security-policy"]
    files = re.findall(r'"(/det/-/[^"]+\.(?:js|css))"', raw.decode())
    assert any(name.endswith("/app.js") for name in files)
    for name in files:
        status, headers, raw = answered(api.invoke(http_api_event(Http("GET", name, headers=gzip))))
        assert (status, headers["content-encoding"]) == (200, "gzip")
        assert "immutable" in headers["cache-control"]
    status, headers, _ = answered(api.invoke(http_api_event(Http("GET", "/"))))
    assert (status, headers["location"]) == (301, "/det/")


def test_request_starts_the_tick_function_and_an_agent_receives_the_trial(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    variables = {
        **environment,
        "DET_TICK_FUNCTION": "det-tick",
        "DET_PROVISION_FUNCTION": "det-provision",
    }
    functions = {"det-api": "app.app", "det-tick": "app.tick"}
    with lambda_service(task_root, variables, functions) as service:
        api = service.runtime("det-api")
        token = sign_in(api)
        agent = join_agent(api)
        assert poll(api, agent)["containers"] == []
        experiment_id = create_experiment(api, token)
        service.settle()
        assert "det-tick" in service.started
        experiment = call(api, "GET", f"/api/v1/experiments/{experiment_id}", token)["experiment"]
        assert experiment["name"] == "on-lambda"
        (container,) = poll(api, agent)["containers"]
        assert container["spec"]["env"]["DET_EXPERIMENT_ID"] == str(experiment_id)


def test_next_request_starts_the_tick_for_pending_work(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    """An API that died after its commit started no function, and the schedules of an idle cluster are off."""
    database = Database(environment["DET_DB_URL"], pool_size=1)
    with database.begin() as tx:
        cluster.set_ticking(tx, on=False)
    database.dispose()
    with LambdaRuntime(task_root, "app.app", environment) as dead:
        token = sign_in(dead)
        experiment_id = create_experiment(dead, token)
    variables = {**environment, "DET_TICK_FUNCTION": "det-tick"}
    functions = {"det-api": "app.app", "det-tick": "app.tick"}
    with lambda_service(task_root, variables, functions) as service:
        api = service.runtime("det-api")
        assert call(api, "GET", "/info")["version"]
        assert service.started == [], "the first request of clients must not wake the database"
        call(api, "GET", f"/api/v1/experiments/{experiment_id}", token)
        service.settle()
        assert service.started == ["det-tick"]


def test_repeated_experiment_request_starts_the_tick(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    with LambdaRuntime(task_root, "app.app", environment) as dead:
        token = sign_in(dead)
        experiment_id = create_experiment(dead, token, once="once")
    variables = {**environment, "DET_TICK_FUNCTION": "det-tick"}
    functions = {"det-api": "app.app", "det-tick": "app.tick"}
    with lambda_service(task_root, variables, functions) as service:
        api = service.runtime("det-api")
        call(api, "GET", "/api/v1/me", token)  # it looks, and not again for a while
        service.settle()
        service.started.clear()
        assert create_experiment(api, token, once="once") == experiment_id
        assert service.started == ["det-tick"]


def test_scheduled_event_runs_the_tick(
    api: LambdaRuntime, task_root: Path, environment: Mapping[str, str]
) -> None:
    agent = join_agent(api)
    with LambdaRuntime(task_root, "app.tick", environment) as tick:
        due_s = tick.invoke({})["next_due_s"]
    assert 0 < due_s <= 60, "the agent's lease is due next"
    assert poll(api, agent)["containers"] == []


@pytest.mark.parametrize("handler", ["app.app", "app.tick", "app.provision", "app.migrate"])
def test_sign_of_life_event_needs_no_database(
    task_root: Path, environment: Mapping[str, str], handler: str
) -> None:
    variables = {**environment, "DET_DB_URL": "postgresql://u:p@127.0.0.1:1/none"}
    with LambdaRuntime(task_root, handler, variables) as function:
        assert function.invoke({"source": "sign-of-life"}) is None


def test_migrate_function_imports_another_cluster(
    task_root: Path, environment: Mapping[str, str], empty_database_url: str
) -> None:
    old = SourceCluster(empty_database_url)
    old.experiment(17)
    old.close()
    with LambdaRuntime(task_root, "app.migrate", environment) as function:
        answer = function.invoke({"import": {"source": old.url}})
        assert answer["status"] == 0, answer
        assert "imported 1 experiments" in answer["output"]
        dump = function.invoke({"import": {"source": "/etc/passwd"}})
    assert dump["status"] == 1
    assert "file is no database of Determined" in dump["output"]


def test_cluster_id_comes_from_the_deployment(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    with LambdaRuntime(task_root, "app.app", {**environment, "DET_CLUSTER_ID": "box"}) as api:
        assert call(api, "GET", "/info")["cluster_id"] == "box"


def test_pipeline_signs_in_with_keys_fetched_by_another_function(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    functions = {"det-api": "app.app", "det-keys": "app.keys"}
    with oidc_server() as issuer:
        entry = {"issuer": issuer.url, "user": "admin", "claims": {"repository": "me/mine"}}
        config = {**json.loads(environment["DET_CLUSTER_CONFIG"]), "pipelines": [entry]}
        variables = {
            **environment, "DET_KEYS_FUNCTION": "det-keys", "DET_CLUSTER_ID": "box",
            "DET_CLUSTER_CONFIG": json.dumps(config),
        }  # fmt: skip
        with lambda_service(task_root, variables, functions) as service:
            api = service.runtime("det-api")
            body = {"token": issuer.token("determined:box")}
            session = call(api, "POST", "/api/v1/auth/pipeline", body=body)
            assert call(api, "GET", "/api/v1/me", session["token"])["user"]["username"] == "admin"
            assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_direct_invocation_requires_a_token(api: LambdaRuntime) -> None:
    """Any AWS account may invoke a function with a public URL, with any event."""
    for event in (http_api_event(Http("GET", "/api/v1/me")), rest_event(Http("GET", "/api/v1/me"))):
        context = event["requestContext"]
        context["authorizer"] = {"iam": {"userArn": "arn:aws:iam::123456789012:root"}}
        context["domainName"] = "cluster.example"
        assert answered(api.invoke(event))[0] == 401


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"source": "schedule"},
        {"det": "migrate"},
        {"requestContext": {"resourcePath": "/{proxy+}", "httpMethod": "GET"}},
    ],
)
def test_event_that_is_not_a_request_has_no_effect(
    api: LambdaRuntime, event: dict[str, object]
) -> None:
    try:
        response = api.invoke(event)
    except FunctionFailed:
        return
    assert response["statusCode"] >= 400, response


def test_webhook_addresses_are_checked_by_another_function(
    task_root: Path, environment: Mapping[str, str]
) -> None:
    functions = {"det-api": "app.app", "det-keys": "app.keys"}
    variables = {**environment, "DET_KEYS_FUNCTION": "det-keys"}
    with lambda_service(task_root, variables, functions) as service:
        api = service.runtime("det-api")
        new = {
            "name": "chat", "url": "http://169.254.169.254/", "webhookType": "WEBHOOK_TYPE_DEFAULT",
            "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": 1,
            "triggers": [{"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "tea"}}],
        }  # fmt: skip
        headers = (("Authorization", f"Bearer {sign_in(api)}"),)
        event = Http("POST", "/api/v1/webhooks", json.dumps(new).encode(), headers)
        status, _, raw = answered(api.invoke(rest_event(event)))
    assert status == 400
    assert b"169.254.169.254 is an address of a private network" in raw
