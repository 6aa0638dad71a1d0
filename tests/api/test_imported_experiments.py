"""Every route that shows an experiment or a trial works for imported ones."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from det_controlplane.api import routes
from det_controlplane.core.importing.options import Options
from det_controlplane.db.engine.database import Database
from det_controlplane.db.importing import source, target
from det_controlplane.services.importing import importing

from tests.support.api import Api, Caller, api_over
from tests.support.determined_source import ASHA, SourceCluster, config_of, populate

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
ENDED, OLD, SEARCHING = 10, 11, 15
CONFIG = """
name: forked
entrypoint: python3 train.py
searcher: {name: single, metric: loss, max_length: {batches: 4}}
"""
_OBJECTS = {
    "{experimentId}": "experiment",
    "{trialId}": "trial",
    "{runId}": "trial",
    "{id}": "experiment",
}


@pytest.fixture
def admin(database: Database, empty_database_url: str, tmp_path: Path) -> Iterator[Caller]:
    old = SourceCluster(empty_database_url)
    populate(old)
    old.experiment(SEARCHING, state="PAUSED", config=config_of(searcher=ASHA), end_time=None)
    old.validation(30, 4, {"loss": 0.5})
    old.trial(30, SEARCHING, state="PAUSED", end_time=None)
    with source.opened(old.url) as snapshot, target.opened(database.url) as cluster:
        importing.run(snapshot, cluster, Options(), lambda: NOW, lambda report: None)
    old.close()
    with api_over(database, tmp_path) as api:
        yield signed_in(api)


def signed_in(api: Api) -> Caller:
    return api.signed_in("admin")


@pytest.mark.parametrize(("experiment", "trial"), [(ENDED, 20), (OLD, 21), (SEARCHING, 30)])
def test_every_page_of_an_imported_experiment_is_answered(
    admin: Caller, experiment: int, trial: int
) -> None:
    ids = {"experiment": str(experiment), "trial": str(trial)}
    asked = 0
    for route in routes.every():
        path = route.path
        for name, kind in _OBJECTS.items():
            if name == "{id}" and not path.startswith("/api/v1/experiments/"):
                continue
            path = path.replace(name, ids[kind])
        if route.method != "GET" or path == route.path or "{" in path:
            continue
        answer = admin.ask("GET", path)
        assert answer.status in (200, 400, 404), f"{path}: {answer.status} {answer.body!r}"
        asked += answer.status == 200
    assert asked >= 10


def test_imported_experiments_are_listed(admin: Caller) -> None:
    for path in (
        "/api/v1/experiments",
        "/api/v1/models",
        "/api/v1/workspaces",
        "/api/v1/job-queues-v2",
    ):
        assert admin.ask("GET", path).status == 200
    listed = admin.get("/api/v1/experiments", limit=-1)["experiments"]
    assert {ENDED, OLD, SEARCHING} <= {each["id"] for each in listed}


def test_imported_experiment_can_be_forked_and_continued(admin: Caller) -> None:
    admin.post(f"/api/v1/experiments/{SEARCHING}/activate")
    assert admin.get(f"/api/v1/experiments/{SEARCHING}")["experiment"]["state"] in (
        "STATE_ACTIVE", "STATE_QUEUED",
    )  # fmt: skip
    body = {"config": CONFIG, "parentId": ENDED}
    assert admin.post("/api/v1/experiments", body)["experiment"]["forkedFrom"] == ENDED
    continued = admin.post("/api/v1/experiments/continue", {"id": ENDED, "overrideConfig": ""})
    assert continued["experiment"]["state"] in ("STATE_ACTIVE", "STATE_QUEUED")
