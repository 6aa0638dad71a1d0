"""`det task resources`, and the latest use in `det task describe`."""

import csv
import io
import json
from typing import Any

import pytest

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import START, FakeCluster

TASK = "0a1b2c3d-0000-4000-8000-000000000001"
PATH = f"/api/v1/tasks/{TASK}/resources"
LATER = "2026-11-20T10:01:00Z"
TABLE = """\
 Agent   | Resource          | Now       | Mean       | Peak      | Limit   | Over time
---------+-------------------+-----------+------------+-----------+---------+-------------
 gpu-1   | CPU               | 0.5 cores | 1.25 cores | 2 cores   | 8 cores | █▁
 gpu-1   | memory            | 2 GiB     | 2 GiB      | 2 GiB     | 64 GiB  | ▄▄
 gpu-1   | disk read         | 1.5 MiB/s | 1.5 MiB/s  | 1.5 MiB/s |         | ▄▄
 gpu-1   | GPU 3 utilization | 40%       | 40%        | 40%       | 100%    | ▄▄
"""


def series(name: str, unit: str, values: list[float], **more: Any) -> dict[str, Any]:
    base = {"agentId": "gpu-1", "slotId": None, "limit": None, "timestamps": [START, LATER]}
    return {**base, "name": name, "unit": unit, "seconds": [10, 10], "values": values, **more}


SERIES = [
    series("cpu", "cores", [2, 0.5], limit=8),
    series("memory", "bytes", [2 << 30, 2 << 30], limit=64 << 30),
    series("disk_read", "bytes/s", [3 << 19, 3 << 19]),
    series("gpu_util", "percent", [40, 40], slotId=3, limit=100),
]


@pytest.fixture
def measured(cluster: FakeCluster) -> FakeCluster:
    cluster.on("GET", PATH, {"series": SERIES})
    return cluster


def test_table_has_the_latest_mean_and_largest_values(measured: FakeCluster, det: Det) -> None:
    assert det("task", "resources", TASK).out == TABLE


def test_csv_has_a_row_for_each_point(measured: FakeCluster, det: Det) -> None:
    rows = list(csv.DictReader(io.StringIO(det("task", "resources", TASK, "--csv").out)))
    assert len(rows) == 8
    assert rows[1] == {
        "agentId": "gpu-1", "slotId": "", "name": "cpu", "unit": "cores", "time": LATER,
        "seconds": "10", "value": "0.5", "limit": "8",
    }  # fmt: skip


def test_json_is_the_answer_of_the_cluster(measured: FakeCluster, det: Det) -> None:
    assert json.loads(det("task", "resources", TASK, "--json").out) == {"series": SERIES}


def test_last_limits_the_time(measured: FakeCluster, det: Det, monkeypatch: Any) -> None:
    monkeypatch.setattr("time.time", lambda: 10_000_000.0)
    assert det("task", "resources", TASK, "--last", "2h").code == 0
    (request,) = measured.sent("GET", PATH)
    assert request.first("startTime") == "1970-04-26T15:46:40+00:00"


@pytest.mark.parametrize("text", ["2", "h", "0h", "-1h", "2w", "1.5h"])
def test_wrong_time_is_refused(measured: FakeCluster, det: Det, text: str) -> None:
    result = det("task", "resources", TASK, f"--last={text}")
    assert result.code == 2
    assert "write a number and s, m, h or d: 2h" in result.err


def test_task_without_measurements_is_explained(cluster: FakeCluster, det: Det) -> None:
    cluster.on("GET", PATH, {"series": []})
    assert "no measurement yet" in det("task", "resources", TASK).err


def describe(cluster: FakeCluster, ended: str | None) -> None:
    """Serve the answers that describe a task."""
    allocation = {
        "allocationId": "a.1",
        "state": "STATE_RUNNING",
        "agentIds": ["gpu-1"],
        "slots": 1,
    }
    task = {
        "taskId": TASK, "taskType": "TASK_TYPE_COMMAND", "startTime": START, "endTime": ended, "name": "prepare",
        "username": "ada", "resourcePool": "default", "exitStatus": "ended", "allocations": [allocation],
    }  # fmt: skip
    cluster.on("GET", f"/api/v1/tasks/{TASK}", {"task": task})
    cluster.on("GET", f"/api/v1/why/task/{TASK}", {"reasons": []})
    cost = {"id": TASK, "costUsd": 0, "slotHours": 0}
    cluster.on("GET", "/api/v1/costs/tasks", {"costs": [cost]})


@pytest.mark.parametrize("ended", [None, LATER])
def test_description_of_a_running_task_shows_what_it_uses(
    measured: FakeCluster, det: Det, ended: str | None
) -> None:
    describe(measured, ended)
    out = det("task", "describe", TASK).out
    uses = "Uses:      CPU 0.5 of 8 cores, memory 2 of 64 GiB, GPU 3 utilization 40%\n"
    assert (uses in out) == (ended is None)


def test_older_cluster_without_the_route_describes_tasks(cluster: FakeCluster, det: Det) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(404, "no such route")

    describe(cluster, None)
    cluster.on("GET", PATH, refuse)
    result = det("task", "describe", TASK)
    assert (result.code, "Uses:" in result.out) == (0, False)
