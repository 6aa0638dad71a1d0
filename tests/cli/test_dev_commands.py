"""`det dev` and `det master cluster-message clear`."""

import json

import pytest
from det_controlplane.api import routes
from det_controlplane.api.openapi import description

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster


def test_curl_prints_the_command_without_the_token(cluster: FakeCluster, det: Det) -> None:
    cluster.on("POST", "/api/v1/things", {"made": True})
    result = det("dev", "curl", "-x", "/api/v1/things", "-d", '{"name": "a b"}')
    assert result.out == '{"made": true}\n'
    assert result.err == (
        f'curl -X POST -d \'{{"name": "a b"}}\' {cluster.url}/api/v1/things'
        f' -H "Authorization: Bearer $(det -m {cluster.url} dev auth-token)"\n'
    )
    assert "curl" not in det("dev", "curl", "/api/v1/me").err


def test_clears_the_cluster_message_with_and_without_the_option(
    cluster: FakeCluster, det: Det
) -> None:
    cluster.on("DELETE", "/api/v1/master/cluster_message", {})
    for options in ([], ["-c"], ["--clear"]):
        result = det("master", "cluster-message", "clear", *options)
        assert (result.code, result.out) == (0, "Cleared the cluster message\n")
    assert len(cluster.sent("DELETE", "/api/v1/master/cluster_message")) == 3


@pytest.fixture
def described(cluster: FakeCluster) -> FakeCluster:
    api_description = description(routes.every())
    cluster.on("GET", "/api/v1/api.swagger.json", lambda _: api_description)
    return cluster


def test_every_route_has_a_unique_binding_name(described: FakeCluster, det: Det) -> None:
    rows = json.loads(det("dev", "bindings", "list", "--show-unusable", "--json").out)
    names = {row["name"] for row in rows}
    public = {(r.method, r.path) for r in routes.every() if r.path.startswith("/api/v1/")}
    assert len(names) == len(public)
    (experiment,) = [r for r in rows if r["name"] == "get_experiments_experimentId"]
    assert experiment["takes"].split()[0] == "experimentId"


def test_a_call_fills_path_query_and_body(described: FakeCluster, det: Det) -> None:
    described.on("GET", "/api/v1/tasks/t1/logs", {"read": True})
    described.on("PATCH", "/api/v1/webhooks/7", {"changed": True})
    result = det("dev", "b", "c", "get_tasks_taskId_logs", "t1", "levels=x", "levels=y", "limit=2")
    assert json.loads(result.out) == {"read": True}
    (request,) = described.sent("GET", "/api/v1/tasks/.*/logs")
    assert request.query == {"levels": ["x", "y"], "limit": ["2"]}
    words = ["7", "name=chat", 'triggers=[{"a": 1}]']
    assert det("dev", "bindings", "call", "patch_webhooks_id", "-y", *words).code == 0
    (patch,) = described.sent("PATCH", "/api/v1/webhooks/7")
    assert patch.body == {"name": "chat", "triggers": [{"a": 1}]}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["patch_webhooks_id", "7", "name=x"], 2, "asks for confirmation"),
        (["patch_webhooks_id", "-y"], 2, "takes id enabled= name="),
        (["patch_webhooks_id", "-y", "7", "colour=red"], 2, "not 'colour=red'"),
        (["patch_webhook_id", "-y", "7"], 3, "did you mean patch_webhooks_id"),
    ],
)
def test_explains_calls_that_cannot_be_sent(
    described: FakeCluster, det: Det, words: list[str], code: int, message: str
) -> None:
    result = det("dev", "bindings", "call", *words)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not described.sent("PATCH", ".*")
