"""Lists and reports from a real streaming replica. Users see their own changes; a replica that is down is left out."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.api import routes
from det_controlplane.api.router import Route
from det_controlplane.db.engine import replica
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.replica import Replica
from det_controlplane.entry.settings import from_environment

from tests.support.api import Api, Caller, api_over
from tests.support.streaming import Replicated, streaming_replica

_W = "/api/v1/workspaces"
_DAYS = {"startDate": "2026-01-01", "endDate": "2026-01-02"}
_TIMES = {"timestampAfter": "2026-01-01T00:00:00Z", "timestampBefore": "2026-01-02T00:00:00Z"}
_MONTH = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-02-01T00:00:00Z"}
_DAILY = "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"
_QUERIES = {
    "/api/v1/resources/allocation/raw": _TIMES,
    "/api/v1/resources/allocation/aggregated": {**_DAYS, "period": _DAILY},
    "/resources/allocation/raw": {
        "timestamp_after": "2026-01-01T00:00:00Z",
        "timestamp_before": "2026-01-02T00:00:00Z",
    },
    "/resources/allocation/allocations-csv": {
        "timestamp_after": "2026-01-01T00:00:00Z",
        "timestamp_before": "2026-01-02T00:00:00Z",
    },
    "/resources/allocation/aggregated": {
        "start_date": "2026-01-01",
        "end_date": "2026-01-02",
        "period": _DAILY,
    },
    "/api/v1/costs/users": _MONTH,
    "/api/v1/costs/pools": _MONTH,
    "/api/v1/costs/experiments": {"ids": "1"},
    "/api/v1/costs/trials": {"ids": "1"},
}
_FROM_REPLICA = [route for route in routes.every() if route.from_replica]


@pytest.fixture(scope="module")
def replicated() -> Iterator[Replicated]:
    with streaming_replica() as new_replica:
        yield new_replica


@pytest.fixture
def api(replicated: Replicated, tmp_path: Path) -> Iterator[Api]:
    replicated.follow()
    with api_over(replicated.primary, tmp_path) as new_api:
        new_api.ctx.replica = Replica(replicated.copy)
        yield new_api
    replicated.follow()


@pytest.fixture
def admin(api: Api) -> Caller:
    return api.signed_in("admin")


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


def names(caller: Caller) -> set[str]:
    return {w["name"] for w in caller.get(_W)["workspaces"]}


def test_users_see_their_own_changes_and_others_read_the_replica(
    replicated: Replicated, admin: Caller, user: Caller
) -> None:
    replicated.pause()
    admin.done("POST", _W, {"name": "new"})
    assert "new" in names(admin)
    assert "new" not in names(user)
    replicated.follow()
    assert "new" in names(user)
    assert "new" in names(admin)


def test_user_reads_the_replica_again_after_it_received_the_change(
    replicated: Replicated, admin: Caller, user: Caller
) -> None:
    admin.done("POST", _W, {"name": "first"})
    replicated.pause()
    user.done("POST", "/api/v1/workspaces", {"name": "second"})
    assert {"first"} <= names(admin)
    assert "second" not in names(admin)


def test_users_see_their_own_changes_in_other_processes(
    replicated: Replicated, admin: Caller, api: Api, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with api_over(replicated.primary, folder) as second:
        second.ctx.replica = Replica(replicated.copy)
        other_caller = Caller(second.app, admin.token)
        assert names(other_caller)
        replicated.pause()
        admin.done("POST", _W, {"name": "of another process"})
        assert "of another process" in names(other_caller)


def test_lagging_replica_is_not_read(
    replicated: Replicated, admin: Caller, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated.pause()
    admin.done("POST", _W, {"name": "unknown there"})
    assert "unknown there" not in names(user)
    monkeypatch.setattr(replica, "MOST_BEHIND_S", -1.0)
    monkeypatch.setattr(replica, "_CHECKED_EVERY_S", 0.0)
    assert "unknown there" in names(user)


@pytest.mark.parametrize("route", _FROM_REPLICA, ids=lambda r: f"{r.method} {r.path}")
def test_marked_routes_only_read(
    route: Route, admin: Caller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    monkeypatch.setattr(Replica, "failed", lambda self, error: failures.append(error))
    shown: list[bool] = []
    shows = Replica.shows

    def noted(self: Replica, user_id: int, writes: int) -> bool:
        shown.append(shows(self, user_id, writes))
        return shown[-1]

    monkeypatch.setattr(Replica, "shows", noted)
    path = re.sub(r"{[^}]*}", "1", route.path)
    query = {name: [value] for name, value in _QUERIES.get(route.path, {}).items()}
    body: dict[str, str] | None = {} if route.method == "POST" else None
    answer = admin.ask(route.method, path, body, query)
    assert answer.status == 200, answer.body
    assert (failures, shown) == ([], [True])


def test_lists_and_reports_are_marked() -> None:
    paths = {route.path for route in _FROM_REPLICA}
    assert {
        "/api/v1/experiments",
        "/api/v1/experiments-search",
        "/api/v1/runs",
        "/api/v1/audit",
    } <= paths
    assert "/api/v1/job-queues-v2" not in paths


def test_reads_use_the_primary_if_the_replica_fails(
    api: Api, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreachable = Database("postgresql://det@127.0.0.1:9/det")
    api.ctx.replica = Replica(unreachable)
    admin.done("POST", _W, {"name": "without a replica"})
    assert "without a replica" in names(admin)
    monkeypatch.setattr(unreachable, "read", lambda *a: pytest.fail("was asked again at once"))
    assert "without a replica" in names(admin)


def test_reads_continue_after_the_replica_stops(
    replicated: Replicated, api: Api, user: Caller
) -> None:
    assert names(user)
    replicated.server_of_copy.stop()
    try:
        assert names(user)
    finally:
        replicated.server_of_copy.start()


def test_replica_url_is_read_from_the_settings() -> None:
    url = "postgresql://det@replica/det"
    settings = from_environment({"DET_DB_URL": "postgresql://det@a/det", "DET_DB_READ_URL": url})
    assert settings.database_read_url == url
