"""Deadlines in lists, descriptions and settings of experiments."""

import csv
import io

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster

DEADLINE = {
    "time": "2026-11-21T10:00:00Z", "state": "IN_DANGER", "choice": "ON_DEMAND", "probability": 0.41,
    "predictedEnd": "2026-11-21T11:00:00Z", "reason": "deadline Sat: it may be late", "decidedAt": None,
}  # fmt: skip


def test_list_shows_deadlines_only_if_an_experiment_has_one(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1, username="determined")
    assert "Deadline" not in det("e", "list", "--csv").out
    cluster.add(2, username="determined", deadline=DEADLINE)
    without, row = csv.DictReader(io.StringIO(det("e", "list", "--csv").out))
    assert (without["Deadline"], without["In Time"], without["Machines"]) == ("", "", "")
    assert row["Deadline"] == "2026-11-21 10:00:00+0000"
    assert row["Predicted End"] == "2026-11-21 11:00:00+0000"
    assert (row["In Time"], row["Machines"]) == ("41%, in danger", "on demand")


def test_describe_shows_the_deadline_with_its_reason_once(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1, deadline=DEADLINE)
    lines = det("e", "describe", "1").out.splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith("deadline"))
    assert lines[index : index + 2] == [
        "deadline    2026-11-21 10:00:00+0000; 41%, in danger; predicted end 2026-11-21 11:00:00+0000;"
        " now: on demand",
        "            deadline Sat: it may be late",
    ]
    cluster.add(2, state="STATE_QUEUED", deadline=DEADLINE)
    reason = {"state": "QUEUED", "sentence": f"waits; {DEADLINE['reason']}", "trialId": None}
    cluster.on("GET", "/api/v1/why/experiment/2", {"reasons": [reason]})
    assert det("e", "describe", "2").out.count("it may be late") == 1


def test_describe_table_has_the_columns_of_deadlines(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1, deadline=DEADLINE)
    assert "41%, in danger" in det("e", "describe", "1", "--format", "csv").out


def test_set_deadline_prints_the_time_of_a_duration(mine: FakeCluster, det: Det) -> None:
    mine.experiments[1]["deadline"] = {"time": "2026-11-20T13:00:00Z"}
    out = det("e", "set", "deadline", 1, "3h").out
    assert out == "Set `deadline` of experiment 1 to 2026-11-20 13:00:00+0000\n"
    (request,) = mine.sent("PATCH", "/api/v1/experiments/1")
    assert request.body == {"id": 1, "resources": {"deadline": "3h"}}
