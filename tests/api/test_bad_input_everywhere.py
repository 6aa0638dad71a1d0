"""Every route refuses bad input with 4xx and a reason. The input is generated from the declarations of routes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.openapi import description
from det_controlplane.api.router import Access

from tests.support.api import Api, ApiResponse, Caller, create_ended, report_checkpoint, trial_of

NOBODY = "00000000-0000-0000-0000-000000000001"
# Values of path parameters other than the id 1.
UNKNOWN = {"checkpointUuid": NOBODY, "batchId": NOBODY}
# Routes that search for any text and may find no object.
LIBERAL = {"levels", "stdtypes", "sources", "metricType", "type"}
ENUMS = {"orderBy", "sortBy", "states", "period", "trialSourceInfoType"}
TIMES = {"timestampBefore", "timestampAfter", "since", "until", "startDate", "endDate"}
Operation = tuple[str, str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def admin(shared_api: Api) -> Caller:
    return shared_api.signed_in("admin")


@pytest.fixture(scope="module")
def places(shared_api: Api, admin: Caller) -> dict[str, str]:
    """Return the names of existing things by the parameters of paths."""
    experiment_id = create_ended(admin)
    trial = trial_of(admin, experiment_id)
    admin.post("/api/v1/models", {"name": "resnet"})
    admin.post("/api/v1/workspaces", {"name": "zoo"})
    uuid = report_checkpoint(admin, experiment_id)
    return {
        "taskId": str(trial["taskId"]), "checkpointUuid": uuid, "modelName": "resnet", "kind": "experiment",
        "workloadType": "experiment", "username": "determined", "key": "default",
    }  # fmt: skip


def operations(*methods: str) -> Iterator[Operation]:
    """Yield method, path and inputs of each route that needs a user."""
    users = {(r.method, r.path) for r in routes.every() if r.access in (Access.USER, Access.ADMIN)}
    for path, described_methods in description(routes.every())["paths"].items():
        for method, operation in described_methods.items():
            if method.upper() in methods and (method.upper(), path) in users:
                yield method.upper(), path, operation.get("parameters", [])


# Their order is asked by `orderBy` alone.
BY_ARRIVAL = ("/logs", "/job-queues", "/job-queues-v2")


def filled(path: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: names.get(m[1], "1"), path)


def bad_values(inputs: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for parameter in inputs:
        name = parameter["name"]
        if parameter["in"] != "query" or name in LIBERAL:
            continue
        kind = parameter.get("items", parameter).get("type")
        if kind == "integer":
            yield name, "many"
            yield name, "²"
        elif name in ENUMS:
            yield name, "SORT_BY_COLOR"
        elif name in TIMES:
            yield name, "yesterday"


def required(path: str) -> dict[str, list[str]]:
    """Return a query without which a path is refused anyway."""
    body = {
        "metricName": ["loss"], "group": ["validation"], "ids": ["1"], "trialIds": ["1"],
        "timestampAfter": ["2026-01-01T00:00:00Z"], "timestampBefore": ["2026-02-01T00:00:00Z"],
        "startDate": ["2026-01-01"], "endDate": ["2026-01-02"],
        "period": ["RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"],
    }  # fmt: skip
    listed = ("metrics-stream", "time-series", "resources/allocation", "metrics/")
    return body if any(part in path for part in listed) else {}


def test_error_names_the_wrong_query_parameter_on_every_route(
    admin: Caller, places: dict[str, str]
) -> None:
    problems, rejected_count = [], 0
    for method, path, inputs in operations("GET"):
        base, url = required(path), filled(path, places)
        if admin.ask(method, url, query=base).status != 200:
            continue
        for name, value in bad_values(inputs):
            if name == "sortBy" and path.endswith(BY_ARRIVAL):
                continue
            response = admin.ask(method, url, query={**base, name: [value]})
            rejected_count += 1
            if response.status != 400 or spelled(name) not in spelled(response.error):
                problems.append(
                    f"{method} {path}?{name}={value}: {response.status} {response.body[:120]!r}"
                )
    assert problems == []
    assert rejected_count > 100


def spelled(name: str) -> str:
    return name.replace("_", "").lower()


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"a": \xff}'], ids=["cut", "list", "bytes"])
def test_every_route_rejects_unreadable_bodies(
    admin: Caller, places: dict[str, str], body: bytes
) -> None:
    problems, rejected_count = [], 0
    for method, path, inputs in operations("POST", "PUT", "PATCH", "DELETE"):
        if not any(response["in"] == "body" for response in inputs):
            continue
        response = admin.ask(method, filled(path, places), body)
        rejected_count += response.status == 400
        if response.status not in (400, 404, 501) or not cause_of(response):
            problems.append(f"{method} {path}: {response.status} {response.body[:120]!r}")
    assert problems == []
    assert rejected_count > 60


def test_every_route_rejects_body_fields_of_the_wrong_type(
    admin: Caller, places: dict[str, str]
) -> None:
    problems, named_count = [], 0
    for method, path, inputs in operations("POST", "PUT", "PATCH", "DELETE"):
        schemas = [response["schema"] for response in inputs if response["in"] == "body"]
        for name, kind in ((n, k) for s in schemas for n, k in s.get("properties", {}).items()):
            body = (
                {"a": 1}
                if kind.get("type") in ("string", "integer", "array", "boolean")
                else "text"
            )
            response = admin.ask(method, filled(path, {**places, **UNKNOWN}), {name: body})
            if response.status >= 500 and response.status != 501:
                problems.append(
                    f"{method} {path} {name}: {response.status} {response.body[:120]!r}"
                )
            named_count += response.status == 400 and spelled(name) in spelled(cause_of(response))
    assert problems == []
    assert named_count > 100


@pytest.mark.parametrize("id", ["999", "abc", "-1", "99999999999999999999", "²", "%00"])
def test_missing_objects_never_cause_a_server_error(admin: Caller, id: str) -> None:
    problems, missed_count = [], 0
    for method, path, _ in operations("GET", "POST", "PUT", "PATCH", "DELETE"):
        if "{" not in path:
            continue
        url = re.sub(r"\{\w+\}", id, path)
        response = admin.ask(method, url, {} if method != "GET" else None, query=required(path))
        missed_count += response.status in (400, 404)
        if response.status >= 500 and response.status != 501:
            problems.append(f"{method} {url}: {response.status} {response.body[:120]!r}")
        elif response.status >= 400 and not cause_of(response):
            problems.append(f"{method} {url}: {response.status} without a cause")
    assert problems == []
    assert missed_count > 100


def cause_of(response: ApiResponse) -> str:
    try:
        return str(json.loads(response.body)["error"]["error"])
    except (ValueError, KeyError, TypeError):
        return ""
