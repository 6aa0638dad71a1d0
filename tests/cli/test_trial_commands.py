"""`det trial describe` and `kill`."""

import csv
import io
import json

from tests.cli.conftest import Det
from tests.support.fake_cluster import CKPT, NO_MODULE, FakeCluster


def test_trial_describe_prints_a_summary(mine: FakeCluster, det: Det) -> None:
    points = [{"batches": b, "values": {"val_loss": v}} for b, v in ((100, 0.5), (200, 0.25))]
    curve = {"trial": {"id": 10}, "metrics": [{"name": "val_loss", "data": points}]}
    mine.on("GET", "/api/v1/trials/time-series", {"trials": [curve]})
    mine.on("GET", "/api/v1/costs/trials", {"costs": [{"id": 10, "costUsd": 1.5, "slotHours": 3}]})
    mine.on("GET", "/api/v1/why/trial/10", {"reasons": [{**NO_MODULE, "failedTrialId": 10}]})
    mine.experiments[1]["config"] = {"searcher": {"name": "random", "metric": "val_loss"}}
    lines = det("t", "describe", 10).out.splitlines()
    assert lines[0].startswith("Trial 10  COMPLETED  of experiment 1")
    assert any(line.startswith("trained     200 batches") for line in lines)
    assert "best        val_loss 0.25 (smaller is better)" in lines
    assert any(line.startswith("curve       0.5 ") and line.endswith(" 0.25") for line in lines)
    assert "cost        $1.50 for 3.00 slot hours" in lines
    assert "why         No module named 'numppy'" in lines
    assert any("det trial describe 10 --json" in line for line in lines)
    assert "{" not in "".join(lines)
    assert json.loads(det("t", "describe", 10, "--json").out)["trial"]["id"] == 10
    assert "Workloads:" in det("t", "describe", 10, "--table").out


def test_trial_describe_lists_workloads(mine: FakeCluster, det: Det) -> None:
    rows = list(csv.DictReader(io.StringIO(det("t", "describe", 10, "--workloads", "--csv").out)))
    assert [(r["Workload"], r["Result"]) for r in rows] == [
        ("training", "loss=0.75"),
        ("training", "loss=0.5"),
        ("validation", "val_loss=0.25"),
        ("checkpoint", CKPT),
    ]


def test_trial_describe_metrics_has_one_column_per_metric(mine: FakeCluster, det: Det) -> None:
    out = det("t", "describe", 10, "--metrics", "--csv").out
    rows = list(csv.DictReader(io.StringIO(out.split("Workloads:\n")[1])))
    assert [r["Training Metric: loss"] for r in rows if r["Training Metric: loss"]] == [
        "0.75",
        "0.5",
    ]
    assert [r["Validation Metric: val_loss"] for r in rows][-2:].count("0.25") == 1
    assert "avgMetrics" not in det("t", "describe", 10, "--metrics").out


def test_workloads_of_one_step_are_listed_separately(mine: FakeCluster, det: Det) -> None:
    metrics = {"metrics": {"avgMetrics": {"loss": 0.1 + 0.2}}}
    shared = {
        "checkpoint": {"totalBatches": 5, "state": "STATE_COMPLETED", "uuid": CKPT},
        "training": {"totalBatches": 5, **metrics},
        "validation": {"totalBatches": 5, **metrics},
    }
    mine.on("GET", "/api/v1/trials/10/workloads", {"workloads": [shared]})
    rows = list(csv.DictReader(io.StringIO(det("t", "describe", 10, "--workloads", "--csv").out)))
    assert [r["Workload"] for r in rows] == ["training", "validation", "checkpoint"]
    assert rows[0]["Result"] == "loss=0.3"


def test_trial_kill_is_confirmed(mine: FakeCluster, det: Det) -> None:
    mine.trials[10]["state"] = "STATE_RUNNING"
    assert det("trial", "kill", 10).out == "Killed trial 10\n"
