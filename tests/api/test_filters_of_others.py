"""A filter reveals no rows and no counts of workspaces that its caller cannot see."""

import json
import re
from typing import Any

import pytest
from det_controlplane.api import routes
from det_controlplane.api.openapi import description
from det_controlplane.core.people.permissions import NeedScope

from tests.api.test_route_rights import GUARDED, Things, rule_of, things
from tests.support.api import ApiResponse, Caller, report_checkpoint, report_metrics, trial_of
from tests.support.house import House, id_of

# Missing objects. Answers about them must equal answers about invisible objects.
ABSENT = {
    "id": "987654", "uuid": "00000000-0000-0000-0000-000000000001", "name": "absent",
    "task": "1.00000000-0000-0000-0000-000000000001",
}  # fmt: skip
LISTINGS = [
    r
    for r in routes.every()
    if r in GUARDED and any(n.of is NeedScope.LISTED for n in rule_of(r).needs)
]


def filters(path: str) -> list[dict[str, Any]]:
    (operations,) = (o for p, o in description(routes.every())["paths"].items() if p == path)
    return [
        parameter for parameter in operations["get"]["parameters"] if parameter["in"] == "query"
    ]


def names_of(parameter: str, there: Things, owner: int) -> tuple[str, str] | None:
    """Return names from the other workspace for filters, and names that exist nowhere."""
    if parameter.rpartition(".")[2] in ("lt", "lte", "gt", "gte", "notIn"):
        return None  # and of visible objects
    word = re.sub(r"[^a-z]", "", parameter.lower())
    known = {
        "workspace": ("workspaceId", "id"), "project": ("projectId", "id"), "experiment": ("experimentId", "id"),
        "trial": ("trialId", "id"), "task": ("taskId", "task"), "checkpoint": ("checkpointUuid", "uuid"),
        "model": ("modelName", "name"), "job": ("jobId", "uuid"), "key": ("key", "name"),
    }  # fmt: skip
    if word in ("name", "workspace", "workspaces", "workspacenames", "labels", "description"):
        return there.names["modelName"], ABSENT["name"]
    if word.startswith("user"):
        return None  # everybody sees all users
    for kind, (name, absent) in known.items():
        if kind in word:
            return there.names[name], ABSENT[absent]
    return None


def asked(caller: Caller, path: str, parameter: str, value: str) -> tuple[int, Any]:
    response: ApiResponse = caller.ask("GET", path, query={parameter: [value]})
    text = response.body.decode().replace(value, "VALUE")
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text


def test_filters_do_not_reveal_invisible_objects(house: House) -> None:
    there = things(house, "blue", house.blue, house.blue_project)
    things(house, "red", house.red, house.red_project)
    viewer = house.person("viewer", "Viewer", house.red)
    attempts, problems = 0, []
    for route in LISTINGS:
        if route.method != "GET" or "{" in route.path:
            continue
        for parameter in filters(route.path):
            name_pair = names_of(parameter["name"], there, id_of(house.admin))
            if name_pair is None:
                continue
            unseen, absent = (asked(viewer, route.path, parameter["name"], n) for n in name_pair)
            attempts += 1
            if unseen != absent:
                problems.append(f"{route.path}?{parameter['name']}: {unseen} {absent}")
    assert problems == []
    assert attempts > 15


@pytest.mark.parametrize("path", ["runs", "experiments-search"])
@pytest.mark.parametrize(
    ("column", "value"),
    [("id", 1), ("projectId", 1), ("experimentName", "counting"), ("user", "admin")],
)
def test_search_does_not_count_invisible_rows(
    house: House, path: str, column: str, value: Any
) -> None:
    """This includes rows with guessed column values."""
    there = things(house, "blue", house.blue, house.blue_project)
    viewer = house.person("viewer", "Viewer", house.red)
    columns = {"id": "experimentId", "projectId": "projectId"}
    number = int(there.names[columns[column]]) if column in columns else value
    field = {"kind": "field", "columnName": column, "operator": "=", "value": number}
    group = {"kind": "group", "conjunction": "and", "children": [field]}
    for project in (0, -1):
        for limit in (-2, 10):
            body = {
                "projectId": project,
                "limit": limit,
                "filter": json.dumps({"filterGroup": group}),
            }
            response = viewer.ask("POST", f"/api/v1/{path}", body)
            assert b"blue" not in response.body
            if response.status == 200:
                assert response.json()["pagination"]["total"] == 0, response.json()
    of_blue = {"projectId": house.blue_project, "limit": -2}
    answer = viewer.ask("POST", f"/api/v1/{path}", of_blue)
    assert answer.status == 404 or answer.json()["pagination"]["total"] == 0


def test_metrics_of_a_checkpoint_include_only_visible_trials(house: House) -> None:
    admin, viewer = house.admin, house.person("viewer", "Viewer", house.red)
    red, blue = (house.experiment(admin, p) for p in (house.red_project, house.blue_project))
    checkpoint = report_checkpoint(admin, red)
    admin.post("/api/v1/models", {"name": "m", "workspaceId": house.red})
    version = admin.post("/api/v1/models/m/versions", {"checkpointUuid": checkpoint})
    for experiment in (red, blue):
        trial = trial_of(admin, experiment)["id"]
        source = {
            "trialId": trial, "checkpointUuid": checkpoint, "modelId": version["modelVersion"]["model"]["id"],
            "modelVersion": 1, "trialSourceInfoType": "TRIAL_SOURCE_INFO_TYPE_INFERENCE",
        }  # fmt: skip
        admin.post("/api/v1/trial-source-info", {"trialSourceInfo": source})
        report_metrics(admin, trial, "inference", 1, {"f1": experiment})
    for path in (
        f"/api/v1/checkpoints/{checkpoint}/metrics",
        "/api/v1/models/m/versions/1/metrics",
    ):
        scores = [r["metrics"]["avg_metrics"]["f1"] for r in viewer.get(path)["metrics"]]
        all_scores = [r["metrics"]["avg_metrics"]["f1"] for r in admin.get(path)["metrics"]]
        assert (scores, all_scores) == ([red], [red, blue])
