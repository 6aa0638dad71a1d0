"""`det dev`, and what of `det master` nothing else asks for."""

import json

import pytest
from det_controlplane.api import routes
from det_controlplane.api.openapi import description

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster


def test_curl_tells_the_command_without_the_token(cluster: FakeCluster, det: Det) -> None:
    cluster.on("POST", "/api/v1/things", {"made": True})
    ran = det("dev", "curl", "-x", "/api/v1/things", "-d", '{"name": "a b"}')
    assert ran.out == '{"made": true}\n'
    assert ran.err == (
        f'curl -X POST -d \'{{"name": "a b"}}\' {cluster.url}/api/v1/things'
        f' -H "Authorization: Bearer $(det -m {cluster.url} dev auth-token)"\n'
    )
    assert "curl" not in det("dev", "curl", "/api/v1/me").err


def test_the_cluster_message_is_cleared_with_and_without_the_option(
    cluster: FakeCluster, det: Det
) -> None:
    cluster.on("DELETE", "/api/v1/master/cluster_message", {})
    for options in ([], ["-c"], ["--clear"]):
        ran = det("master", "cluster-message", "clear", *options)
        assert (ran.code, ran.out) == (0, "Cleared the cluster message\n")
    assert len(cluster.sent("DELETE", "/api/v1/master/cluster_message")) == 3


@pytest.fixture
def described(cluster: FakeCluster) -> FakeCluster:
    told = description(routes.every())
    cluster.on("GET", "/api/v1/api.swagger.json", lambda _: told)
    return cluster


def test_every_route_is_a_call_with_a_name_of_its_own(described: FakeCluster, det: Det) -> None:
    listed = json.loads(det("dev", "bindings", "list", "--show-unusable", "--json").out)
    names = {row["name"] for row in listed}
    public = {(r.method, r.path) for r in routes.every() if r.path.startswith("/api/v1/")}
    assert len(names) == len(public)
    (experiment,) = [r for r in listed if r["name"] == "get_experiments_experimentId"]
    assert experiment["takes"].split()[0] == "experimentId"


def test_a_call_fills_address_query_and_body(described: FakeCluster, det: Det) -> None:
    described.on("GET", "/api/v1/tasks/t1/logs", {"read": True})
    described.on("PATCH", "/api/v1/webhooks/7", {"changed": True})
    ran = det("dev", "b", "c", "get_tasks_taskId_logs", "t1", "levels=x", "levels=y", "limit=2")
    assert json.loads(ran.out) == {"read": True}
    (read,) = described.sent("GET", "/api/v1/tasks/.*/logs")
    assert read.query == {"levels": ["x", "y"], "limit": ["2"]}
    words = ["7", "name=chat", 'triggers=[{"a": 1}]']
    assert det("dev", "bindings", "call", "patch_webhooks_id", "-y", *words).code == 0
    (changed,) = described.sent("PATCH", "/api/v1/webhooks/7")
    assert changed.body == {"name": "chat", "triggers": [{"a": 1}]}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["patch_webhooks_id", "7", "name=x"], 2, "asks for confirmation"),
        (["patch_webhooks_id", "-y"], 2, "takes id name="),
        (["patch_webhooks_id", "-y", "7", "colour=red"], 2, "not 'colour=red'"),
        (["patch_webhook_id", "-y", "7"], 3, "did you mean patch_webhooks_id"),
    ],
)
def test_calls_that_cannot_be_sent_are_explained(
    described: FakeCluster, det: Det, words: list[str], code: int, said: str
) -> None:
    ran = det("dev", "bindings", "call", *words)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert not described.sent("PATCH", ".*")
