"""`det workspace` and `det project`: creating, editing, listing and deleting."""

import json

import pytest

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster, page

VISION = {"id": 7, "name": "vision", "numProjects": 1}
CATS = {"id": 5, "name": "cats", "workspaceId": 7, "numExperiments": 0, "numActiveExperiments": 0}


@pytest.fixture
def vision(cluster: FakeCluster) -> FakeCluster:
    cluster.on("GET", "/api/v1/workspaces", lambda a: page("workspaces", [VISION], a))
    cluster.on("GET", "/api/v1/workspaces/7/projects", lambda a: page("projects", [CATS], a))
    cluster.on("POST", "/api/v1/workspaces", {"workspace": VISION})
    cluster.on("PATCH", "/api/v1/workspaces/7", {"workspace": {**VISION, "name": "sight"}})
    cluster.on("POST", "/api/v1/workspaces/7/projects", {"project": CATS})
    cluster.on("PATCH", "/api/v1/projects/5", {"project": {**CATS, "name": "dogs"}})
    return cluster


def test_create_prints_name_and_id(vision: FakeCluster, det: Det) -> None:
    assert det("workspace", "create", "vision").out == "Created workspace 'vision' with id 7\n"
    assert det("project", "create", "vision", "cats").out == "Created project 'cats' with id 5\n"
    (request,) = vision.sent("POST", "/api/v1/workspaces/7/projects")
    assert request.body["name"] == "cats"


def test_edit_prints_the_new_name(vision: FakeCluster, det: Det) -> None:
    result = det("workspace", "edit", "vision", "--name", "sight")
    assert result.out == "Changed workspace 'sight' with id 7\n"
    result = det("project", "edit", "vision", "cats", "--new_name", "dogs", "--json")
    assert json.loads(result.out) == {**CATS, "name": "dogs"}
    (request,) = vision.sent("PATCH", "/api/v1/projects/5")
    assert request.body == {"name": "dogs"}


@pytest.mark.parametrize(
    "command",
    [
        ("workspace", "edit", "vision"),
        ("project", "edit", "vision", "cats"),
        ("user", "edit", "ada"),
        ("job", "update", "job-1"),
    ],
    ids=" ".join,
)
def test_edit_without_changes_is_rejected(
    vision: FakeCluster, det: Det, command: tuple[str, ...]
) -> None:
    result = det(*command)
    assert result.code == 2
    assert "nothing to change" in result.err
    assert not vision.sent("PATCH", ".*")


def test_describe_reports_failed_deletion(vision: FakeCluster, det: Det) -> None:
    reason = "experiment 3: its checkpoints could not be deleted: see 'det task logs abc'"
    space, project = {**VISION, "errorMessage": reason}, {**CATS, "errorMessage": reason}
    vision.on("GET", "/api/v1/workspaces", lambda a: page("workspaces", [space], a))
    vision.on("GET", "/api/v1/workspaces/7/projects", lambda a: page("projects", [project], a))
    vision.on("GET", "/api/v1/experiments", lambda a: page("experiments", [], a))
    assert reason in det("workspace", "describe", "vision").err
    assert reason in det("project", "describe", "vision", "cats").err


def test_project_experiments_are_sorted_and_paged(vision: FakeCluster, det: Det) -> None:
    for id in (1, 2, 3):
        vision.add(id)
    words = ["--sort-by", "name", "--order-by", "desc", "--offset", "1", "--limit", "2"]
    result = det("project", "list-experiments", "vision", "cats", *words, "--csv")
    assert [line.split(",")[0] for line in result.out.splitlines()[1:]] == ["2", "1"]
    query = vision.sent("GET", "/api/v1/experiments")[0].query
    parameters = {"sortBy": ["SORT_BY_NAME"], "orderBy": ["ORDER_BY_DESC"], "limit": ["2"]}
    assert query.items() >= {**parameters, "projectId": ["5"], "archived": ["false"]}.items()
