"""Generated requests of every kind of caller: none may cause a 5xx, hang, fill memory or reveal a secret.

HOSTILE_REQUESTS is their number (2,500). Each 1,250 have their own cluster, and every second cluster uses roles.
"""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.openapi import description

from tests.support.api import ApiResponse
from tests.support.hostile import Findings, judge
from tests.support.planted_secrets import MARK
from tests.support.postgres import DatabaseServer

ROUND = 1250
ROUNDS = max(2, int(os.environ.get("HOSTILE_REQUESTS", "2500")) // ROUND)
MEMORY_MIB = 400


@pytest.mark.parametrize("seed", range(1, ROUNDS + 1))
def test_generated_requests_cause_no_server_errors(
    postgres_server: DatabaseServer, seed: int
) -> None:
    roles = ["--rbac"] if seed % 2 == 0 else []
    with postgres_server.database() as url:
        command = [sys.executable, "-m", "tests.support.hostile", url]
        result = subprocess.run(
            [*command, "--requests", str(ROUND), "--seed", str(seed), *roles],
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert result.stdout, result.stderr
    document = json.loads(result.stdout)
    for kind in ("wrong", "slow", "told_secrets", "undeclared"):
        assert document[kind] == [], f"{kind}: {document[kind]}\n{result.stderr[-5000:]}"
    assert document["peak_mib"] < MEMORY_MIB
    # So that the requests are not all refused at the door.
    assert document["asked"] == ROUND
    assert document["statuses"]["200"] > ROUND / 10
    assert document["answered"] > 80


def findings_of(response: ApiResponse, cpu_s: float = 0.0, role: str = "user") -> Findings:
    findings = Findings()
    judge(findings, routes.every()[0], role, response, "a request", cpu_s)
    return findings


def test_run_fails_for_errors_delays_and_secrets() -> None:
    assert findings_of(ApiResponse(200, b"{}")).clean
    assert findings_of(ApiResponse(501, b"{}")).clean
    assert findings_of(ApiResponse(500, b"{}")).wrong
    assert findings_of(ApiResponse(200, b"{}"), cpu_s=60).slow
    assert findings_of(ApiResponse(400, f"not {MARK}".encode())).told_secrets


def operation(method: str, path: str) -> dict[str, Any]:
    operation_document: dict[str, Any] = description(routes.every())["paths"][path][method]
    return {parameter["name"]: parameter for parameter in operation_document["parameters"]}


def test_every_route_declares_path_query_and_body() -> None:
    endpoint = operation("get", "/api/v1/experiments/{experimentId}/trials")
    assert (endpoint["experimentId"]["in"], endpoint["experimentId"]["type"]) == ("path", "integer")
    assert {"limit", "offset", "sortBy", "orderBy", "states"} <= set(endpoint)
    schema = operation("post", "/api/v1/experiments")["body"]["schema"]
    assert schema["required"] == ["config"]
    files = schema["properties"]["modelDefinition"]["items"]
    assert set(files["properties"]) == {"path", "type", "content", "mtime", "mode"}
    inner = operation("post", "/api/v1/trials/{trialId}/metrics")["body"]["schema"]["properties"]
    assert inner["metrics"]["properties"]["stepsCompleted"]["format"] == "int64"


def test_all_filters_of_a_listing_are_declared() -> None:
    endpoint = operation("get", "/api/v1/experiments")
    assert {f"experimentIdFilter.{k}" for k in ("lt", "lte", "gt", "gte", "incl")} <= set(endpoint)
    assert endpoint["archived"]["type"] == "boolean"
    assert endpoint["userIds"]["type"] == "array"
