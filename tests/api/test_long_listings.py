"""Every listing without a limit is sent in parts that make the same answer."""

from typing import Any

import pytest
from det_controlplane.db.engine import pages

from tests.support.api import Caller, create

LISTINGS = {
    "/api/v1/experiments": "experiments",
    "/api/v1/experiments/1/trials": "trials",
    "/api/v1/users": "users",
    "/api/v1/workspaces": "workspaces",
    "/api/v1/workspaces/1/projects": "projects",
    "/api/v1/models": "models",
    "/api/v1/models/m-1/versions": "modelVersions",
    "/api/v1/templates": "templates",
    "/api/v1/tokens": "tokenInfo",
    "/api/v1/trials/1/workloads": "workloads",
}


@pytest.fixture
def filled(admin: Caller) -> Caller:
    for n in range(1, 4):
        create(admin)
        admin.post("/api/v1/users", {"user": {"username": f"u-{n}"}, "password": "secret-1"})
        admin.post("/api/v1/models", {"name": f"m-{n}"})
        body = {"name": f"t-{n}", "config": {"max_restarts": n}}
        admin.post(f"/api/v1/templates/t-{n}", body)
    return admin


def all_of(caller: Caller, path: str) -> Any:
    answer = caller.get(path, limit=-1)
    for experiment in answer.get("experiments", ()):
        del experiment["duration"]
    return answer


@pytest.mark.parametrize("path", LISTINGS)
def test_parts_combine_to_the_complete_listing(
    filled: Caller, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    whole = all_of(filled, path)
    assert LISTINGS[path] in whole
    monkeypatch.setattr(pages, "PART", 1)
    assert all_of(filled, path) == whole
