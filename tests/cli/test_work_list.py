"""`det job list --all`: running and finished work of all types."""

# ruff: noqa: E501 – the lines of the expected tables are long

import csv
import io
import json
from typing import Any

import pytest

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest
from tests.support.fake_cluster import END, START, FakeCluster

WORK = "/api/v1/work"
TABLE = """\
 ID     | Type       | Name   | State     | Owner   | Workspace   | Pool    |   Priority | Progress   |   Slots | Submitted                | Ended
--------+------------+--------+-----------+---------+-------------+---------+------------+------------+---------+--------------------------+--------------------------
 7      | experiment | mnist  | RUNNING   | ada     | red         | default |         42 | 50.0%      |       8 | 2026-11-20 10:00:00+0000 |
 task-1 | notebook   | digits | COMPLETED | ada     | red         | default |         42 |            |       0 | 2026-11-20 10:00:00+0000 | 2026-11-20 11:30:00+0000
"""


def row(id: str, kind: str, **more: Any) -> dict[str, Any]:
    base = {
        "jobId": f"job-{id}", "entityId": id, "type": f"TYPE_{kind}", "name": "digits", "state": "STATE_COMPLETED",
        "username": "ada", "workspaceName": "red", "resourcePool": "default", "priority": 42, "progress": None,
        "allocatedSlots": 0, "submissionTime": START, "endTime": END, "cursor": f"1.{id}",
    }  # fmt: skip
    return {**base, **more}


ROWS = [
    row("7", "EXPERIMENT", name="mnist", state="STATE_RUNNING", progress=0.5, allocatedSlots=8, endTime=None),
    row("task-1", "NOTEBOOK"),
]  # fmt: skip


@pytest.fixture
def worked(cluster: FakeCluster) -> FakeCluster:
    serve(cluster, ROWS)
    return cluster


def serve(cluster: FakeCluster, rows: list[dict[str, Any]], usd: float = 0.0) -> None:
    """Serve pages as the cluster does: after the row with a cursor, or from an offset."""

    def pages(request: RecordedRequest) -> Any:
        limit, after = int(request.first("limit")), request.first("after")
        start = int(request.first("offset", "0"))
        if after:
            start = next(i for i, r in enumerate(rows) if r["cursor"] == after) + 1
        page = rows[start : start + limit]
        total = {"startIndex": start, "endIndex": start + len(page), "total": len(rows)}
        return {"work": page, "pagination": total}

    def costs(request: RecordedRequest) -> Any:
        ids = request.query["ids"]
        is_number = request.path.endswith("experiments")
        return {
            "costs": [
                {"id": int(id) if is_number else id, "costUsd": usd, "slotHours": 2 * usd}
                for id in ids
            ]
        }

    cluster.on("GET", WORK, pages)
    cluster.on("GET", "/api/v1/costs/(experiments|tasks)", costs)


def test_table_has_work_of_all_types(worked: FakeCluster, det: Det) -> None:
    assert det("job", "list", "--all").out == TABLE
    (request,) = worked.sent("GET", WORK)
    assert request.first("sortBy") == "SORT_BY_SUBMISSION_TIME"
    assert request.first("orderBy") == "ORDER_BY_DESC"


def test_costs_are_shown_if_work_used_rented_machines(cluster: FakeCluster, det: Det) -> None:
    serve(cluster, ROWS, usd=1.25)
    rows = list(csv.DictReader(io.StringIO(det("job", "list", "--all", "--csv").out)))
    assert [(r["ID"], r["Cost $"], r["Slot Hours"]) for r in rows] == [
        ("7", "1.25", "2.50"), ("task-1", "1.25", "2.50"),
    ]  # fmt: skip


def test_types_in_csv_are_the_values_of_the_option(worked: FakeCluster, det: Det) -> None:
    rows = list(csv.DictReader(io.StringIO(det("job", "list", "--all", "--csv").out)))
    assert "experiment" in [row["Type"] for row in rows]
    assert not [row for row in rows if row["Type"].startswith("TYPE_")]


def test_json_has_the_rows_with_their_costs(worked: FakeCluster, det: Det) -> None:
    rows = json.loads(det("job", "list", "--all", "--json").out)["work"]
    assert [(r["entityId"], r["costUsd"]) for r in rows] == [("7", 0.0), ("task-1", 0.0)]
    assert "id" not in rows[0]


def test_filters_are_sent(worked: FakeCluster, det: Det, monkeypatch: Any) -> None:
    monkeypatch.setattr("time.time", lambda: 10_000_000.0)
    filters = ["--type", "experiment", "--type", "shell", "--state", "running", "--owner", "ada"]
    more = ["-p", "reserved", "--name", "mnist", "--since", "2d", "--archived", "--sort", "ended=desc"]  # fmt: skip
    assert det("job", "list", "--all", *filters, *more).code == 0
    (request,) = worked.sent("GET", WORK)
    assert {name: value for name, value in request.query.items() if name not in ("limit", "offset")} == {
        "types": ["TYPE_EXPERIMENT", "TYPE_SHELL"], "states": ["STATE_RUNNING"], "users": ["ada"],
        "resourcePools": ["reserved"], "text": ["mnist"], "since": ["1970-04-24T17:46:40+00:00"],
        "archived": ["true"], "sortBy": ["SORT_BY_END_TIME"], "orderBy": ["ORDER_BY_DESC"],
    }  # fmt: skip


def test_reverse_lists_the_oldest_first(worked: FakeCluster, det: Det) -> None:
    det("job", "list", "--all", "--reverse")
    (request,) = worked.sent("GET", WORK)
    assert request.first("orderBy") == "ORDER_BY_ASC"


def many() -> list[dict[str, Any]]:
    return [row(f"t{n}", "COMMAND") for n in range(450)]


@pytest.mark.parametrize(
    ("options", "first", "count", "requests"),
    [
        ((), "t0", 450, 3),
        (("--limit", "250"), "t0", 250, 2),
        (("--offset", "449"), "t449", 1, 1),
        (("--pages", "1"), "t0", 200, 1),
        (("--sort", "name"), "t0", 450, 3),
        (("--limit", "3", "--sort", "name"), "t0", 3, 1),
    ],
)
def test_pages_are_read_as_far_as_wanted(
    cluster: FakeCluster, det: Det, options: tuple[str, ...], first: str, count: int, requests: int
) -> None:
    serve(cluster, many())
    rows = json.loads(det("job", "list", "--all", "--json", *options).out)["work"]
    assert (rows[0]["entityId"], len(rows)) == (first, count)
    assert len(cluster.sent("GET", WORK)) == requests


def test_limit_zero_asks_nothing(worked: FakeCluster, det: Det) -> None:
    assert json.loads(det("job", "list", "--all", "--limit", "0", "--json").out) == {"work": []}
    assert "--limit 0 prints no rows" in det("job", "list", "--all", "--limit", "0").err
    assert worked.sent("GET", WORK) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--type", "shell"), "--type needs --all"),
        (("--name", "x"), "--name needs --all"),
        (("--all", "--sort", "size"), "there is no such order"),
        (("--all", "--sort", "name=up"), "there is no such order"),
        (("--all", "--since", "yesterday"), "write 12h, 7d or"),
        (("--all", "--type", "trial"), "invalid choice"),
    ],
)
def test_wrong_options_are_refused(
    worked: FakeCluster, det: Det, options: tuple[str, ...], said: str
) -> None:
    result = det("job", "list", *options)
    assert result.code == 2
    assert said in result.err
    assert worked.sent("GET", WORK) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "there is no work yet"), (("--owner", "ada"), "no work that you may see matches")],
)
def test_empty_list_is_explained(
    cluster: FakeCluster, det: Det, options: tuple[str, ...], said: str
) -> None:
    serve(cluster, [])
    assert said in det("job", "list", "--all", *options).err
