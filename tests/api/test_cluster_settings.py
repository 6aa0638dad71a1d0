"""Settings of operators: message, configuration, log, usage, and unsupported ones."""

import asyncio
import logging
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from det_controlplane.api import openapi, routes
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.services.logs.master_log import StoredLog

from tests.support.api import Api, Caller

NOW = datetime.now(timezone.utc)
MESSAGE = "/api/v1/master/cluster_message"


def test_cluster_message_is_shown_from_its_start_to_its_end(admin: Caller, user: Caller) -> None:
    later = {
        "message": "closed",
        "startTime": (NOW + timedelta(days=1)).isoformat(),
        "duration": "2h",
    }
    assert user.ask("PUT", MESSAGE, later).status == 403
    admin.done("PUT", MESSAGE, later)
    assert user.get("/api/v1/master")["clusterMessage"] is None
    assert user.ask("GET", MESSAGE).status == 403
    cluster_message = admin.get(MESSAGE)["clusterMessage"]
    assert cluster_message["message"] == "closed"
    assert all(
        cluster_message[key].endswith("Z") for key in ("startTime", "endTime", "createdTime")
    )
    admin.done(
        "PUT", MESSAGE, {"message": "open", "startTime": (NOW - timedelta(days=1)).isoformat()}
    )
    assert user.get("/api/v1/master")["clusterMessage"]["message"] == "open"
    admin.done("DELETE", MESSAGE)
    assert admin.get(MESSAGE)["clusterMessage"] is None
    assert user.ask("DELETE", MESSAGE).status == 403


def test_message_times_of_whole_seconds_have_no_fraction(admin: Caller) -> None:
    begin = datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    times = {"startTime": begin.isoformat(), "endTime": "2099-01-01T00:00:00.250Z"}
    admin.done("PUT", MESSAGE, {"message": "open", **times})
    cluster_message = admin.get("/api/v1/master")["clusterMessage"]
    assert cluster_message["startTime"] == "2020-01-02T03:04:05Z"
    assert cluster_message["endTime"] == "2099-01-01T00:00:00.250000Z"


def test_master_info_has_product_and_interface_versions(user: Caller) -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    own = project.partition('\nversion = "')[2].partition('"')[0]
    responses = user.get("/api/v1/master"), user.get("/info")
    assert [each["version"] for each in responses] == ["0.38.1", "0.38.1"]
    assert (responses[0]["productVersion"], responses[1]["product_version"]) == (own, own)


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": ""},
        {"message": "x" * 251},
        {"message": "m", "duration": "soon"},
        {"message": "m", "endTime": (NOW - timedelta(days=1)).isoformat()},
        {"message": "m", "endTime": "yesterday"},
    ],
)
def test_rejects_invalid_cluster_messages(admin: Caller, wrong: dict[str, str]) -> None:
    assert admin.ask("PUT", MESSAGE, wrong).status == 400


def test_only_administrators_read_the_configuration_without_secrets(
    api: Api, admin: Caller, user: Caller
) -> None:
    assert user.ask("GET", "/api/v1/master/config").status == 403
    config = admin.get("/api/v1/master/config")["config"]
    assert [p["pool_name"] for p in config["resource_pools"]] == ["default", "reserved"]
    assert config["resource_manager"]["type"] == "agent"
    assert config["feature_switches"] == config["reserved_ports"] == []


def test_feature_switches_of_the_configuration_are_reported(api: Api, admin: Caller) -> None:
    switches = load_cluster("feature_switches: [streaming_updates]").feature_switches
    api.ctx.config = replace(api.ctx.config, feature_switches=switches)
    assert admin.get("/api/v1/master")["featureSwitches"] == ["streaming_updates"]
    config = admin.get("/api/v1/master/config")["config"]
    assert config["feature_switches"] == ["streaming_updates"]


def test_only_log_settings_can_be_changed_at_runtime(admin: Caller) -> None:
    path = "/api/v1/master/config"
    body = {"config": {"log": {"level": "LOG_LEVEL_DEBUG"}}, "fieldMask": {"paths": ["log.level"]}}
    admin.done("PATCH", path, body)
    assert admin.get(path)["config"]["log"]["level"] == "debug"
    response = admin.ask("PATCH", path, {"config": {}, "fieldMask": {"paths": ["port"]}})
    assert response.status == 400
    assert "port" in response.error


def test_control_plane_warnings_are_returned_by_the_api(
    api: Api, admin: Caller, user: Caller
) -> None:
    log = logging.getLogger("a control plane")
    handler = StoredLog(api.ctx.db)
    log.addHandler(handler)
    try:
        log.warning("agent %s was lost", "a1")
        log.info("nothing worth keeping")
    finally:
        log.removeHandler(handler)
    (entry,) = user.lines("/api/v1/master/logs")
    assert entry["logEntry"]["message"] == "agent a1 was lost"
    assert entry["logEntry"]["level"] == "LOG_LEVEL_WARNING"


def test_last_lines_of_the_log_can_be_requested(api: Api, admin: Caller) -> None:
    handler = StoredLog(api.ctx.db)
    for n in range(5):
        handler.emit(logging.LogRecord("det", logging.ERROR, "", 0, f"line {n}", (), None))
    lines = admin.lines("/api/v1/master/logs", {"offset": ["-2"]})
    assert [x["logEntry"]["message"] for x in lines] == ["line 3", "line 4"]


def test_log_lines_of_an_event_loop_do_not_block_it(api: Api, admin: Caller) -> None:
    """The database of this test answers only after the event loop has continued."""
    went_on, stored = threading.Event(), threading.Event()

    class Slow(StoredLog):
        def _store(self, record: logging.LogRecord) -> None:
            if went_on.wait(20):
                super()._store(record)
                stored.set()

    handler = Slow(api.ctx.db)

    async def serve() -> None:
        handler.emit(logging.LogRecord("det.relay", logging.ERROR, "", 0, "lost", (), None))
        assert not stored.is_set()
        went_on.set()

    asyncio.run(serve())
    assert stored.wait(20)
    (entry,) = admin.lines("/api/v1/master/logs")
    assert entry["logEntry"]["message"] == "lost"


def test_usage_report_rejects_invalid_periods(user: Caller) -> None:
    span = {"timestampAfter": ["2026-01-02T00:00:00Z"], "timestampBefore": ["2026-01-01T00:00:00Z"]}
    assert user.ask("GET", "/resources/allocation/raw", query=span).status == 400
    days = {"startDate": ["2026-01-01"], "endDate": ["2026-01-31"]}
    assert user.done("GET", "/api/v1/resources/allocation/aggregated", query=days) == {
        "resourceEntries": []
    }
    response = user.ask("GET", "/resources/allocation/aggregated", query=days)
    assert response.body == b"aggregation_type,aggregation_key,date,seconds,slot_hours,cost_usd\n"
    assert user.ask("GET", "/resources/allocation/aggregated").status == 400


def test_openapi_description_has_every_route(api: Api) -> None:
    document = api.anonymous().get("/api/v1/api.swagger.json")
    operations = {(m.upper(), p) for p, ms in document["paths"].items() for m in ms}
    assert operations == {(r.method, r.path.replace("...", "")) for r in routes.every()}
    login = document["paths"]["/api/v1/auth/login"]["post"]
    assert login["security"] == []


def test_operation_ids_are_unique() -> None:
    document = openapi.description(routes.every())
    operations = [o for methods in document["paths"].values() for o in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert "get_experiments_experimentId" in names
