"""`det experiment`: listing, describing and changing experiments."""

import csv
import io
import json
from typing import Any

import pytest
import yaml
from det_cli import connection

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import CKPT, NO_MODULE, FakeCluster

LIST = """\
   ID | Owner      | Name    |   Parent ID | State   | Progress   | Started                  | Ended   | Resource Pool
------+------------+---------+-------------+---------+------------+--------------------------+---------+-----------------
    3 | determined | mnist-3 |           1 | RUNNING | 42.0%      | 2026-11-20 10:00:00+0000 |         | default
"""
TRIALS = """\
   Trial ID | State     | H-Params      | Started                  | Ended                    |   # of Batches
------------+-----------+---------------+--------------------------+--------------------------+----------------
         10 | COMPLETED | {             | 2026-11-20 10:00:00+0000 | 2026-11-20 11:30:00+0000 |            200
            |           |     "lr": 0.1 |                          |                          |
            |           | }             |                          |                          |
"""


def test_list_shows_own_experiments_that_are_not_archived(mine: FakeCluster, det: Det) -> None:
    result = det("experiment", "list")
    assert (result.code, result.out, result.err) == (0, LIST, "")


@pytest.mark.parametrize("words", [["e"], ["e", "ls"], ["experiments", "list"], ["experiment"]])
def test_aliases_and_group_without_verb_list_experiments(
    mine: FakeCluster, det: Det, words: list[str]
) -> None:
    assert det(*words).out == LIST


def test_list_all_shows_all_users_and_archived_column(mine: FakeCluster, det: Det) -> None:
    rows = list(csv.DictReader(io.StringIO(det("e", "list", "--all", "--csv").out)))
    assert [(r["ID"], r["Owner"], r["Archived"]) for r in rows] == [
        ("1", "ada", "False"),
        ("2", "determined", "True"),
        ("3", "determined", "False"),
    ]


def test_show_project_adds_workspace_and_project(mine: FakeCluster, det: Det) -> None:
    header, row = csv.reader(io.StringIO(det("e", "ls", "--show_project", "--csv").out))
    assert header[:3] == ["Workspace", "Project", "ID"]
    assert row[:3] == ["Uncategorized", "Uncategorized", "3"]


def test_list_reads_all_pages(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PAGE", 3)
    for id in range(1, 8):
        cluster.add(id)
    experiments = json.loads(det("e", "list", "--all", "--json").out)
    assert [e["id"] for e in experiments] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("limit", [0, 1, 3, 5, 9])
def test_limit_is_the_number_of_the_newest_rows(
    cluster: FakeCluster, det: Det, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(connection, "_PAGE", 3)
    for id in range(1, 8):
        cluster.add(id)
    result = det("e", "list", "--all", "--limit", limit, "--offset", 1, "--json")
    expected = sorted([6, 5, 4, 3, 2, 1][:limit])
    assert [e["id"] for e in json.loads(result.out)] == expected
    requested = [int(r.first("limit")) for r in cluster.sent("GET", "/api/v1/experiments")]
    assert all(1 <= size <= 3 for size in requested)


def test_single_page_has_the_newest_rows_after_the_offset(cluster: FakeCluster, det: Det) -> None:
    for id in range(1, 8):
        cluster.add(id)
    result = det("e", "list", "-a", "--limit", 3, "--offset", 2, "--pages", "1", "--json")
    assert [e["id"] for e in json.loads(result.out)] == [3, 4, 5]
    result = det("e", "list", "-a", "--limit", 2, "--pages", "1", "--json")
    assert [e["id"] for e in json.loads(result.out)] == [6, 7]


def test_whole_list_skips_the_oldest_rows(cluster: FakeCluster, det: Det) -> None:
    for id in range(1, 5):
        cluster.add(id)
    result = det("e", "list", "-a", "--offset", 1, "--json")
    assert [e["id"] for e in json.loads(result.out)] == [2, 3, 4]


def test_all_output_formats_hold_the_same_experiments(mine: FakeCluster, det: Det) -> None:
    as_json = json.loads(det("e", "ls", "--all", "-o", "json").out)
    as_yaml = yaml.safe_load(det("e", "ls", "--all", "--output", "yaml").out)
    assert as_json == as_yaml
    assert [e["id"] for e in as_json] == [1, 2, 3]


def test_list_trials_prints_hyperparameters_over_several_lines(mine: FakeCluster, det: Det) -> None:
    assert det("e", "list-trials", 1).out == TRIALS


@pytest.mark.parametrize("words", [["e", "list-trials", 1], ["trial", "describe", 10]])
def test_tables_show_trials_that_the_searcher_stopped(
    mine: FakeCluster, det: Det, words: list[str]
) -> None:
    mine.trials[10]["stoppedEarly"] = True
    out = det(*words).out
    assert "STOPPED EARLY" in out
    assert "| COMPLETED |" not in out.split("Workloads")[0]


def test_list_checkpoints_prints_total_size(mine: FakeCluster, det: Det) -> None:
    (row,) = csv.DictReader(io.StringIO(det("e", "lc", 1, "--csv").out))
    assert (row["UUID"], row["Size"], row["# of Batches"]) == (CKPT, "2.9KB", "200")
    assert row["Resources"].splitlines() == ["code/", "code/train.py", "model.pt"]


def test_list_best_checkpoints_sorts_by_metric_direction(cluster: FakeCluster, det: Det) -> None:
    cluster.add(1, config={"searcher": {"smaller_is_better": False}})
    det("e", "list-checkpoints", 1, "--best", 2)
    (request,) = cluster.sent("GET", r"/api/v1/experiments/1/checkpoints")
    assert request.first("sortByAttr") == "SORT_BY_SEARCHER_METRIC"
    assert (request.first("orderBy"), request.first("limit")) == ("ORDER_BY_DESC", "2")


@pytest.mark.parametrize(
    ("word", "verb", "message"),
    [
        ("pause", "pause", "Paused"),
        ("activate", "activate", "Activated"),
        ("unpause", "activate", "Activated"),
        ("cancel", "cancel", "Canceled"),
        ("kill", "kill", "Killed"),
        ("archive", "archive", "Archived"),
        ("unarchive", "unarchive", "Unarchived"),
    ],
)
def test_state_changes_are_sent_and_confirmed(
    mine: FakeCluster, det: Det, word: str, verb: str, message: str
) -> None:
    result = det("experiment", word, 3)
    assert (result.code, result.out) == (0, f"{message} experiment 3\n")
    assert len(mine.sent("POST", f"/api/v1/experiments/3/{verb}")) == 1


def test_forbidden_state_change_fails_with_server_message(mine: FakeCluster, det: Det) -> None:
    result = det("e", "pause", 1)
    assert (result.code, result.out) == (1, "")
    assert "it cannot pause" in result.err


def test_config_prints_yaml(mine: FakeCluster, det: Det) -> None:
    assert det("e", "config", 1).out == "name: mnist-1\n"


SUMMARY = """\
Experiment 1  COMPLETED  mnist-1
digits

owner       ada, in Uncategorized / Uncategorized
labels      a, nightly
ran         2026-11-20 10:00:00+0000, for 1h 29m, in pool default
search      single, 1 trial: 1 completed
best        val_loss 0.25 (smaller is better), trial 10
            lr=0.1

next
  det experiment describe 1 --format table  list trials and workloads
"""


def test_describe_prints_summary(mine: FakeCluster, det: Det) -> None:
    mine.experiments[1]["config"]["searcher"] = {"name": "single", "metric": "val_loss"}
    assert det("e", "describe", 1).out == SUMMARY
    assert det("e", "describe", "1,1").out == f"{SUMMARY}\n{SUMMARY}"


def test_describe_prints_curve_checkpoint_and_cost(mine: FakeCluster, det: Det) -> None:
    mine.experiments[1]["config"]["searcher"] = {"name": "single", "metric": "val_loss"}
    mine.trials[10]["bestCheckpoint"] = {"uuid": CKPT}
    data = [{"batches": 100 * n, "values": {"val_loss": 1.0 / n}} for n in range(1, 5)]
    curve = {"trial": {"id": 10}, "metrics": [{"group": "validation", "data": data}]}
    mine.on("GET", "/api/v1/trials/time-series", {"trials": [curve]})
    cost = {"id": 1, "costUsd": 1.5, "slotHours": 3.0}
    mine.on("GET", "/api/v1/costs/experiments", {"costs": [cost]})
    rows = det("e", "describe", 1).out.splitlines()
    assert "curve       1 █▃▂▁ 0.25" in rows
    assert f"checkpoint  {CKPT}" in rows
    assert "cost        $1.50 for 3.00 slot hours" in rows
    assert "  det experiment download 1                 download its best checkpoint" in rows


@pytest.mark.parametrize(
    ("state", "why", "step"),
    [
        ("STATE_ERROR", "exited with code 3", "continue"),
        ("STATE_PAUSED", "is STATE_PAUSED", "activate"),
        ("STATE_QUEUED", "is STATE_QUEUED", "watch"),
        ("STATE_RUNNING", None, "watch"),
        ("STATE_CANCELED", "is STATE_CANCELED", "continue"),
    ],
)
def test_describe_prints_reason_and_next_steps(
    mine: FakeCluster, det: Det, state: str, why: "str | None", step: str
) -> None:
    mine.add(4, state=state, config={"searcher": {"name": "random", "metric": "val_loss"}})
    out = det("e", "describe", 4).out
    assert ("why " in out) == (why is not None)
    assert (why or "") in out
    assert f"det experiment {step} 4" in out
    assert ("det trial logs 40" in out) == (state == "STATE_ERROR")


NO_METRIC = {
    "state": "ERROR", "code": "ERROR", "sentence": "has failed: trial 42: metric 'los' was not reported",
    "cause": "trial 42: metric 'los' was not reported", "details": "", "failedTrialId": 42,
    "needsNewCode": False, "nextStep": "fix searcher.metric and create it again",
}  # fmt: skip


def test_describe_suggests_new_code_and_the_logs_of_the_named_trial(
    mine: FakeCluster, det: Det
) -> None:
    mine.add(4, state="STATE_ERROR", config={"searcher": {"name": "random", "metric": "val_loss"}})
    mine.on("GET", "/api/v1/why/experiment/4", {"reasons": [NO_MODULE]})
    out = det("e", "describe", 4).out
    assert "why         No module named 'numppy'\ndetails     trial 42: exit code: 1\n" in out
    assert "fix the code and create it again" in out
    assert "det trial logs 42 " in out
    assert "det experiment continue" not in out


def test_failed_search_suggests_to_fix_the_metric_and_names_the_trial_of_the_cause(
    mine: FakeCluster, det: Det
) -> None:
    mine.add(4, state="STATE_ERROR", config={"searcher": {"name": "random", "metric": "los"}})
    mine.on("GET", "/api/v1/why/experiment/4", {"reasons": [NO_METRIC]})
    for out in (det("e", "describe", 4).out, det("why", 4).out, det("e", "wait", 4).err):
        assert "fix searcher.metric and create it again" in out
        assert "det trial logs 42" in out
        assert "det trial logs 40" not in out
        assert "experiment continue" not in out


def test_why_prints_the_cause_first_and_then_the_details(mine: FakeCluster, det: Det) -> None:
    mine.on("GET", "/api/v1/why/experiment/4", {"reasons": [NO_MODULE]})
    assert det("why", 4).out.splitlines() == [
        "ERROR",
        "  No module named 'numppy'",
        "  details: trial 42: exit code: 1",
        "  next: fix the code and create it again",
        "  logs: `det trial logs 42`",
    ]


def test_describe_omits_continue_for_searches_that_cannot_continue(
    mine: FakeCluster, det: Det
) -> None:
    searcher = {"name": "adaptive_asha", "metric": "val_loss"}
    mine.add(4, state="STATE_ERROR", config={"searcher": searcher})
    out = det("e", "describe", 4).out
    assert "det experiment continue" not in out
    assert "det experiment config 4" in out


def test_describe_reports_missing_searcher_metric(mine: FakeCluster, det: Det) -> None:
    mine.experiments[1]["config"]["searcher"] = {"name": "single", "metric": "val_los"}
    mine.trials[10] |= {"bestValidation": None, "latestValidation": None}
    mine.trials[10]["searcherMetricValue"] = None
    out = det("e", "describe", 1).out
    assert "best        unknown: no validation reported val_los (searcher.metric)" in out


def test_describe_reports_searcher_metric_that_is_not_a_number(mine: FakeCluster, det: Det) -> None:
    mine.experiments[1]["config"]["searcher"] = {"name": "single", "metric": "val_loss"}
    report = {"totalBatches": 200, "metrics": {"avgMetrics": {"val_loss": "NaN"}}}
    mine.trials[10] |= {"bestValidation": None, "latestValidation": report}
    mine.trials[10]["searcherMetricValue"] = None
    out = " ".join(det("e", "describe", 1).out.split())
    assert "best unknown: validations reported NaN for val_loss (searcher.metric)" in out


@pytest.mark.parametrize(
    "words", [["--table"], ["--format", "table"], ["-o", "table"], ["--metrics"]]
)
def test_describe_prints_experiment_trials_and_workloads(
    mine: FakeCluster, det: Det, words: list[str]
) -> None:
    out = det("e", "describe", 1, *words).out
    titles = [line for line in out.splitlines() if line.endswith(":")]
    assert titles == ["Experiment:", "Trials:", "Workloads:"]
    assert "| a, nightly" in out


def test_describe_merges_workloads_with_equal_batches(mine: FakeCluster, det: Det) -> None:
    out = det("e", "describe", 1, "--csv").out
    rows = list(csv.DictReader(io.StringIO(out.split("Workloads:\n")[1])))
    assert [(r["# of Batches"], r["Validation State"]) for r in rows] == [
        ("100", ""),
        ("200", "COMPLETED"),
    ]


def test_describe_metrics_adds_a_column_per_metric(mine: FakeCluster, det: Det) -> None:
    out = det("e", "describe", 1, "--csv", "--metrics").out
    rows = list(csv.DictReader(io.StringIO(out.split("Workloads:\n")[1])))
    assert [r["Training Metric: loss"] for r in rows] == ["0.75", "0.5"]
    assert [r["Validation Metric: val_loss"] for r in rows] == ["", "0.25"]


def test_describe_accepts_several_experiments(mine: FakeCluster, det: Det) -> None:
    experiments = json.loads(det("e", "describe", "1,3", "--json").out)
    assert [answer["experiment"]["id"] for answer in experiments] == [1, 3]


def test_several_experiments_are_paused_by_one_command(mine: FakeCluster, det: Det) -> None:
    mine.add(5, state="STATE_RUNNING")
    mine.add(6, state="STATE_RUNNING")
    result = det("e", "pause", "3,5", 6)
    assert result.code == 0
    assert result.out.splitlines() == [f"Paused experiment {id}" for id in (3, 5, 6)]


def test_a_missing_experiment_does_not_stop_changes_of_the_others(
    mine: FakeCluster, det: Det
) -> None:
    result = det("e", "archive", 1, 99, 3)
    assert result.code == 1
    assert result.out.splitlines() == ["Archived experiment 1", "Archived experiment 3"]
    assert "experiment 99: experiment '99' not found" in result.err
    assert "1 of 3 experiments were not changed" in result.err


def test_errors_of_several_experiments_name_each_experiment_once(
    mine: FakeCluster, det: Det
) -> None:
    def refuse(request: RecordedRequest) -> Any:
        id = request.found[0]
        words = {
            "8": "experiment 8: cannot pause in state COMPLETED",
            "9": "experiment 9 not found",
        }
        raise Refusal(409, words.get(id, "the cluster is busy"))

    mine.on("POST", r"/api/v1/experiments/(\d+)/pause", refuse)
    assert det("e", "pause", 8, 9, 10).err.splitlines()[:3] == [
        "experiment 8: cannot pause in state COMPLETED",
        "experiment 9 not found",
        "experiment 10: the cluster is busy",
    ]


def test_delete_asks_once_for_several_experiments(mine: FakeCluster, det: Det) -> None:
    result = det("e", "delete", 1, 3, "--yes")
    assert result.out.splitlines() == [
        "Deletion of experiment 1 is in progress",
        "Deletion of experiment 3 is in progress",
    ]


def test_describe_writes_tables_into_a_directory(
    mine: FakeCluster, det: Det, tmp_path: object
) -> None:
    det("e", "describe", 1, "--outdir", f"{tmp_path}/out")
    with open(f"{tmp_path}/out/trials.csv") as f:
        assert [r["Trial ID"] for r in csv.DictReader(f)] == ["10"]


def test_delete_requires_yes_without_a_terminal(mine: FakeCluster, det: Det) -> None:
    result = det("e", "delete", 1)
    assert result.code == 2
    assert "--yes" in result.err
    assert mine.sent("DELETE", ".*") == []
    assert det("e", "delete", 1, "--yes").code == 0
    assert len(mine.sent("DELETE", "/api/v1/experiments/1")) == 1


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["name", 1, "new"], {"name": "new"}),
        (["description", 1, "text"], {"description": "text"}),
        (["max-slots", 1, "4"], {"resources": {"maxSlots": 4}}),
        (["max-slots", 1, "none"], {"resources": {"maxSlots": None}}),
        (["priority", 1, "7"], {"resources": {"priority": 7}}),
        (["weight", 1, "2.5"], {"resources": {"weight": 2.5}}),
    ],
)
def test_each_setting_sends_one_patch_request(
    mine: FakeCluster, det: Det, words: list[object], sent: dict[str, object]
) -> None:
    assert det("e", "set", *words).code == 0
    (request,) = mine.sent("PATCH", "/api/v1/experiments/1")
    assert request.body == {"id": 1, **sent}


def test_gc_policy_lists_checkpoints_to_delete_and_requires_yes(
    mine: FakeCluster, det: Det
) -> None:
    deletable = [{"TrialID": 10, "StepsCompleted": 5, "State": "COMPLETED", "UUID": "u-1"}]
    mine.on("GET", "/experiments/1/preview_gc", {"checkpoints": deletable, "metric_name": "loss"})
    keep = ["--save-experiment-best", 0, "--save-trial-best", 1, "--save-trial-latest", 1]
    result = det("e", "set", "gc-policy", 1, *keep)
    assert result.code == 2
    assert "u-1" in result.out
    assert det("e", "set", "gc-policy", 1, *keep, "--yes").code == 0
    (request,) = mine.sent("PATCH", "/api/v1/experiments/1")
    assert request.body["checkpointStorage"]["saveTrialBest"] == 1


def test_labels_with_special_characters_are_sent_unchanged(mine: FakeCluster, det: Det) -> None:
    mine.on("PUT", "/api/v1/experiments/1/labels/(.+)", {"labels": []})
    det("e", "label", "add", 1, "a/b c")
    (request,) = mine.sent("PUT", "/api/v1/experiments/1/labels/.*")
    assert request.found == ("a/b c",)


def test_label_remove_reports_missing_label(mine: FakeCluster, det: Det) -> None:
    mine.on("DELETE", "/api/v1/experiments/1/labels/(.+)", {"labels": []})
    result = det("e", "label", "remove", 1, "nothing")
    assert (result.code, "Removed" in result.out) == (0, False)
    assert "Experiment 1 has no label 'nothing'; its labels: " in result.out
    assert mine.sent("DELETE", "/api/v1/experiments/1/labels/.*") == []
    assert det("e", "label", "remove", 1, "nightly").out == (
        "Removed label 'nightly' from experiment 1\n"
    )


def test_download_model_def_writes_the_archive(
    mine: FakeCluster, det: Det, tmp_path: object
) -> None:
    result = det("e", "download-model-def", 1, "--output-dir", f"{tmp_path}/code")
    assert result.out == f"{tmp_path}/code/experiment_1_model_def.tgz\n"
    with open(result.out.strip(), "rb") as f:
        assert f.read(2) == b"\x1f\x8b"


def test_move_resolves_workspace_and_project_names(mine: FakeCluster, det: Det) -> None:
    mine.on("GET", "/api/v1/workspaces", {"workspaces": [{"id": 7, "name": "vision"}]})
    mine.on("GET", "/api/v1/workspaces/7/projects", {"projects": [{"id": 9, "name": "digits"}]})
    mine.on("POST", "/api/v1/experiments/1/move", {})
    assert det("e", "move", 1, "vision", "digits").code == 0
    (request,) = mine.sent("POST", "/api/v1/experiments/1/move")
    assert request.body == {"destinationProjectId": 9, "experimentId": 1}
    result = det("e", "move", 1, "vision", "letters")
    assert result.code == 3
    assert "no project 'letters'" in result.err


@pytest.mark.parametrize("verb", ["cancel", "kill"])
def test_ending_an_ended_experiment_reports_its_state(
    mine: FakeCluster, det: Det, verb: str
) -> None:
    mine.add(4, state="STATE_COMPLETED")
    result = det("e", verb, 4)
    assert (result.code, result.out) == (0, "Experiment 4 has already ended: it is COMPLETED\n")
    mine.on("GET", "/api/v1/trials/10", {"trial": {"id": 10, "state": "STATE_ERROR"}})
    assert det("t", "kill", 10).out == "Trial 10 has already ended: it is ERROR\n"
    assert mine.sent("POST", f".*/{verb}") == []
