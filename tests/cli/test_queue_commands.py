"""Agents, slots, pools, tasks, the queue and `det why`."""

# ruff: noqa: E501 – the lines of the expected tables are long

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import START, FakeCluster, page

TASK = "0a1b2c3d-0000-4000-8000-000000000001"
AGENTS = """\
 Agent ID   | Version   | Registered Time          |   Slots |   Containers | Resource Pool   | Enabled   | Draining   | Addresses          | Product Version
------------+-----------+--------------------------+---------+--------------+-----------------+-----------+------------+--------------------+-------------------
 gpu-1      | 0.38.1    | 2026-11-20 10:00:00+0000 |       2 |            1 | default         | yes       | no         | 10.0.0.7, 10.0.0.8 | 0.1.0
"""
JOBS = """\
   # | ID    | Type       | Job Name   |   Priority | Submitted                | Slots (acquired/needed)   | State   | User
-----+-------+------------+------------+------------+--------------------------+---------------------------+---------+--------
   1 | job-1 | experiment | mnist (1)  |         42 | 2026-11-20 10:00:00+0000 | 0/2                       | QUEUED  | ada
"""


def slot(id: str, brand: str, kind: str, **more: Any) -> dict[str, Any]:
    device = {"id": int(id), "brand": brand, "uuid": "", "type": kind}
    return {"id": id, "device": device, "enabled": True, "draining": False, **more}


def agent() -> dict[str, Any]:
    container = {"id": "c-1", "state": "STATE_RUNNING", "devices": []}
    slots = {
        "1": slot("1", "RTX", "TYPE_CUDA", container=None, enabled=False),
        "0": slot("0", "Artificial", "TYPE_CPU", container=container),
    }
    names = {
        "id": "gpu-1",
        "version": "0.38.1",
        "productVersion": "0.1.0",
        "addresses": ["10.0.0.7", "10.0.0.8"],
    }
    state = {"enabled": True, "draining": False, "registeredTime": START}
    return {
        **names,
        **state,
        "resourcePools": ["default"],
        "slots": slots,
        "containers": {"c-1": 1},
    }


def pool(name: str, scheduler: str, *, default: bool) -> dict[str, Any]:
    counts = {"numAgents": 1, "slotsAvailable": 2, "slotsUsed": 1, "maxAgents": 4}
    kinds = {"slotType": "TYPE_CUDA", "type": "RESOURCE_POOL_TYPE_STATIC"}
    defaults = {"defaultComputePool": default, "defaultAuxPool": default}
    return {
        "name": name,
        "schedulerType": f"SCHEDULER_TYPE_{scheduler}",
        **counts,
        **kinds,
        **defaults,
    }


def job() -> dict[str, Any]:
    identity = {"jobId": "job-1", "type": "TYPE_EXPERIMENT", "name": "mnist", "entityId": "1"}
    need = {"allocatedSlots": 0, "requestedSlots": 2, "priority": 42, "weight": 1.5}
    summary = {"state": "STATE_QUEUED", "jobsAhead": 0}
    return {**identity, **need, "submissionTime": START, "username": "ada", "summary": summary}


@pytest.fixture
def busy(cluster: FakeCluster) -> FakeCluster:
    task = {
        "taskId": "1.t", "allocationId": "1.t.1", "name": "Trial 10", "registeredTime": START,
        "resourcePool": "default", "slotsNeeded": 1, "schedulerType": "priority", "priority": 42,
        "resources": [{"containerId": "c-1", "agentDevices": {"gpu-1": {}}}], "proxyPorts": [],
    }  # fmt: skip
    pools = [pool("default", "PRIORITY", default=True), pool("fair", "FAIR_SHARE", default=False)]
    cluster.on("GET", "/api/v1/agents", {"agents": [agent()]})
    cluster.on("GET", "/api/v1/tasks", {"allocationIdToSummary": {"1.t.1": task}})
    cluster.on("GET", "/api/v1/generic-tasks", {"tasks": [], "pagination": {"total": 0}})
    cluster.on("GET", "/api/v1/resource-pools", lambda a: page("resourcePools", pools, a))
    cluster.on("GET", "/api/v1/job-queues-v2", lambda a: page("jobs", [{"full": job()}], a))
    cluster.on("POST", "/api/v1/job-queues", {})
    cluster.on("POST", r"/api/v1/agents/([^/]+)/(enable|disable)", {"agent": agent()})
    cluster.on("POST", r"/api/v1/agents/([^/]+)/slots/(\d+)/(enable|disable)", {})
    return cluster


def test_agent_list_has_determined_columns_and_product_version(busy: FakeCluster, det: Det) -> None:
    assert det("agent", "list").out == AGENTS


def test_agent_list_json_has_determined_keys(busy: FakeCluster, det: Det) -> None:
    (row,) = json.loads(det("a", "ls", "--json").out)
    assert (row["num_slots"], row["num_containers"]) == (2, 1)
    assert row["addresses"] == "10.0.0.7, 10.0.0.8"


def test_slot_list_shows_allocations(busy: FakeCluster, det: Det) -> None:
    rows = list(csv.DictReader(io.StringIO(det("slot", "list", "--csv").out)))
    assert [(r["Slot ID"], r["Allocation ID"], r["Type"], r["Enabled"]) for r in rows] == [
        ("0", "1.t.1", "cpu", "True"),
        ("1", "FREE", "cuda", "False"),
    ]


def test_slot_of_unknown_task_is_occupied(busy: FakeCluster, det: Det) -> None:
    busy.on("GET", "/api/v1/tasks", {"allocationIdToSummary": {}})
    rows = list(csv.DictReader(io.StringIO(det("s", "ls", "--csv").out)))
    assert [r["Task Name"] for r in rows] == ["OCCUPIED", "FREE"]


def linked_agent() -> dict[str, Any]:
    def slot(n: int) -> dict[str, Any]:
        device = {"id": n, "brand": "A40", "uuid": f"GPU-{n}", "type": "TYPE_CUDA"}
        return {"id": str(n), "enabled": n != 2, "numaNode": n // 2, "device": device}

    links = [
        [0, 1, "NV4"],
        [0, 2, "SYS"],
        [0, 3, "SYS"],
        [1, 2, "SYS"],
        [1, 3, "SYS"],
        [2, 3, "NV4"],
    ]
    return {"id": "gpu-1", "slots": {str(n): slot(n) for n in (3, 0, 1, 2)}, "links": links}


def test_agent_describe_shows_the_links_between_slots(cluster: FakeCluster, det: Det) -> None:
    cluster.on("GET", "/api/v1/agents/gpu-1", {"agent": linked_agent()})
    rows = list(csv.DictReader(io.StringIO(det("agent", "describe", "gpu-1", "--csv").out)))
    assert [[row[f"To {n}"] for n in range(4)] for row in rows] == [
        ["X", "NV4", "SYS", "SYS"],
        ["NV4", "X", "SYS", "SYS"],
        ["SYS", "SYS", "X", "NV4"],
        ["SYS", "SYS", "NV4", "X"],
    ]
    assert [row["State"] for row in rows] == ["free", "free", "disabled", "free"]
    assert [row["NUMA Node"] for row in rows] == ["0", "0", "1", "1"]


def test_agent_describe_says_that_links_are_not_known(cluster: FakeCluster, det: Det) -> None:
    cluster.on("GET", "/api/v1/agents/gpu-1", {"agent": {**linked_agent(), "links": []}})
    result = det("agent", "describe", "gpu-1")
    assert "nvidia-smi" in result.err
    assert "To 0" not in result.out


def test_task_list_shows_priority_under_the_priority_scheduler(busy: FakeCluster, det: Det) -> None:
    output = det("task", "list", "--csv").out
    # The first columns are the columns of Determined's client.
    assert output.startswith(
        "Task ID,Allocation ID,Name,Slots Needed,Registered Time,Agent,Priority,"
    )
    (row,) = csv.DictReader(io.StringIO(output))
    assert (row["Task ID"], row["Agent"], row["Priority"]) == ("1.t", "gpu-1", "42")


def test_disable_drains_one_agent(busy: FakeCluster, det: Det) -> None:
    assert det("agent", "disable", "gpu-1", "--drain").code == 0
    (request,) = busy.sent("POST", "/api/v1/agents/gpu-1/disable")
    assert request.body == {"agentId": "gpu-1", "drain": True}


def test_enable_all_enables_every_agent(busy: FakeCluster, det: Det) -> None:
    assert det("agent", "enable", "--all").code == 0
    assert len(busy.sent("POST", "/api/v1/agents/gpu-1/enable")) == 1


@pytest.mark.parametrize("words", [[], ["gpu-1", "--all"]])
def test_enable_requires_one_agent_or_all(busy: FakeCluster, det: Det, words: list[str]) -> None:
    assert det("agent", "enable", *words).code == 2


def test_slots_are_disabled_and_enabled(busy: FakeCluster, det: Det) -> None:
    assert det("slot", "disable", "gpu-1", "0").code == 0
    assert det("slot", "enable", "gpu-1", "0").code == 0
    assert len(busy.sent("POST", "/api/v1/agents/gpu-1/slots/0/disable")) == 1
    assert len(busy.sent("POST", "/api/v1/agents/gpu-1/slots/0/enable")) == 1


def test_job_list_reads_the_default_pool(busy: FakeCluster, det: Det) -> None:
    assert det("job", "list").out == JOBS
    (request,) = busy.sent("GET", "/api/v1/job-queues-v2")
    assert request.first("resourcePool") == "default"


def test_job_list_reports_jobs_of_deleted_pool(busy: FakeCluster, det: Det) -> None:
    deleted_pool_job = {
        **job(),
        "resourcePool": "old",
        "why": "needs resource pool 'old', which no longer exists",
    }
    here = {**job(), "jobId": "job-2", "resourcePool": "default", "why": "needs 2 slots"}
    rows = [{"full": here}, {"full": deleted_pool_job}]
    busy.on("GET", "/api/v1/job-queues-v2", lambda a: page("jobs", rows, a))
    assert det("job", "list").err == "mnist: needs resource pool 'old', which no longer exists\n"


@pytest.mark.parametrize("flag", ["-p", "-rp", "--resource-pool"])
def test_job_list_of_fair_share_pool_shows_weights(busy: FakeCluster, det: Det, flag: str) -> None:
    (row,) = csv.DictReader(io.StringIO(det("job", "ls", flag, "fair", "--csv").out))
    assert row["Weight"] == "1.5"
    assert "Priority" not in row


def test_unknown_pool_error_lists_existing_pools(busy: FakeCluster, det: Det) -> None:
    result = det("job", "list", "-p", "gold")
    assert result.code == 3
    assert "default, fair" in result.err


@pytest.mark.parametrize(
    ("flags", "change"),
    [
        (["-p", 3], {"priority": 3}),
        (["--priority", 3], {"priority": 3}),
        (["-w", 2.5], {"weight": 2.5}),
        (["--resource-pool", "fair"], {"resourcePool": "fair"}),
        (["--ahead-of", "job-2"], {"aheadOf": "job-2"}),
        (["--behind-of", "job-2"], {"behindOf": "job-2"}),
    ],
)
def test_job_update_sends_one_change(
    busy: FakeCluster, det: Det, flags: list[object], change: dict[str, object]
) -> None:
    assert det("job", "update", "job-1", *flags).code == 0
    (request,) = busy.sent("POST", "/api/v1/job-queues")
    assert request.body == {"updates": [{"jobId": "job-1", **change}]}


def test_job_commands_accept_numbers_of_experiments(busy: FakeCluster, det: Det) -> None:
    for number in (3, 4):
        answer = {"experiment": {"id": number, "jobId": f"job-{number}"}}
        busy.on("GET", f"/api/v1/experiments/{number}", answer)
    assert det("job", "update", 3, "--ahead-of", 4).err == "Updated job 3.\n"
    assert det("job", "update-batch", "4.priority=1", "x.behind-of=3").code == 0
    assert [a.body["updates"][0] for a in busy.sent("POST", "/api/v1/job-queues")] == [
        {"jobId": "job-3", "aheadOf": "job-4"},
        {"jobId": "job-4", "priority": 1},
        {"jobId": "x", "behindOf": "job-3"},
    ]
    det("why", "job", 3)
    assert len(busy.sent("GET", "/api/v1/why/experiment/3")) == 1


def test_update_of_a_missing_experiment_changes_no_job(busy: FakeCluster, det: Det) -> None:
    def missing(_: RecordedRequest) -> dict[str, Any]:
        raise Refusal(404, "experiment '9' not found")

    busy.on("GET", "/api/v1/experiments/9", missing)
    assert det("job", "update-batch", "a.priority=1", "9.priority=1").code == 3
    assert busy.sent("POST", "/api/v1/job-queues") == []


def test_job_update_accepts_the_prefix_of_a_job_id(busy: FakeCluster, det: Det) -> None:
    ids = {"default": ["2f92a1b0-x", "2f00a1b0-x"], "fair": ["7e55a1b0-x"]}

    def queue(request: RecordedRequest) -> Any:
        names = ids[request.query["resourcePool"][0]]
        return page("jobs", [{"full": {**job(), "jobId": id}} for id in names], request)

    busy.on("GET", "/api/v1/job-queues-v2", queue)
    assert det("job", "update", "2f92", "--behind-of", "7E").code == 0
    (request,) = busy.sent("POST", "/api/v1/job-queues")
    assert request.body == {"updates": [{"jobId": "2f92a1b0-x", "behindOf": "7e55a1b0-x"}]}
    result = det("job", "update", "2f", "--priority", 1)
    assert result.code == 2
    assert "2 jobs have ids that begin with '2f'" in result.err


def test_job_update_requires_exactly_one_change(busy: FakeCluster, det: Det) -> None:
    assert det("job", "update", "job-1", "-p", 1, "--ahead-of", "job-2").code == 2
    assert det("job", "update", "job-1").code == 2
    assert busy.sent("POST", ".*job-queues") == []


def test_update_batch_sends_updates_in_order(busy: FakeCluster, det: Det) -> None:
    items = ["a.priority=1", "b.resource-pool=fair", "c.ahead-of=a", "d.weight=2"]
    assert det("job", "update-batch", *items).code == 0
    assert [a.body["updates"][0] for a in busy.sent("POST", "/api/v1/job-queues")] == [
        {"jobId": "a", "priority": 1},
        {"jobId": "b", "resourcePool": "fair"},
        {"jobId": "c", "aheadOf": "a"},
        {"jobId": "d", "weight": 2.0},
    ]


def test_failed_update_stops_the_batch(busy: FakeCluster, det: Det) -> None:
    def change(request: RecordedRequest) -> dict[str, Any]:
        if request.body["updates"][0]["jobId"] == "b":
            raise Refusal(404, "job 'b' not found")
        return {}

    busy.on("POST", "/api/v1/job-queues", change)
    result = det("job", "update-batch", "a.priority=1", "b.weight=2", "c.weight=3", "d.ahead-of=a")
    assert result.code == 3
    assert "Updated job a." in result.err
    assert "job 'b' not found" in result.err
    assert "Not sent because an earlier update failed: c.weight=3 d.ahead-of=a" in result.err
    assert len(busy.sent("POST", "/api/v1/job-queues")) == 2


@pytest.mark.parametrize("bad", ["a", "a.priority", "a.priority=", "a.color=red", "a.priority=x"])
def test_invalid_update_sends_no_request(busy: FakeCluster, det: Det, bad: str) -> None:
    assert det("job", "update-batch", "b.priority=1", bad).code == 2
    assert busy.sent("POST", "/api/v1/job-queues") == []


def test_resource_pool_list_shows_usage(busy: FakeCluster, det: Det) -> None:
    rows = list(csv.DictReader(io.StringIO(det("resource-pool", "list", "--csv").out)))
    assert [(r["Name"], r["Scheduler"], r["Slots (used/available)"]) for r in rows] == [
        ("default", "priority", "1/2"),
        ("fair", "fair_share", "1/2"),
    ]


def reason(trial: int, sentence: str) -> dict[str, Any]:
    ids = {"allocationId": f"1.{trial}.1", "trialId": trial, "since": START}
    return {**ids, "state": "QUEUED", "code": "NO_SLOTS", "sentence": sentence}


def test_why_groups_equal_reasons(busy: FakeCluster, det: Det) -> None:
    reasons = [reason(10, "needs 2 slots; 1 is free."), reason(11, "needs 2 slots; 1 is free.")]
    busy.on("GET", "/api/v1/why/experiment/1", {"reasons": reasons})
    assert det("why", 1).out == (
        "trials 10, 11: QUEUED since 2026-11-20 10:00:00+0000\n  needs 2 slots; 1 is free.\n"
    )


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["trial", 10], "trial/10"),
        (["t", 10], "trial/10"),
        (["experiment", 4], "experiment/4"),
        (["job-9"], "job/job-9"),
        (["job", "job-9"], "job/job-9"),
        (["1.abc"], "task/1.abc"),
    ],
)
def test_why_resolves_kind_and_id(
    busy: FakeCluster, det: Det, words: list[object], path: str
) -> None:
    busy.on("GET", f"/api/v1/why/{path}", {"reasons": []})
    assert det("why", *words).code == 0
    assert len(busy.sent("GET", f"/api/v1/why/{path}")) == 1


def test_why_falls_back_from_job_to_task(busy: FakeCluster, det: Det) -> None:
    busy.on("GET", f"/api/v1/why/task/{TASK}", {"reasons": [reason(1, "waits")]})
    assert "waits" in det("why", TASK).out
    assert det("why", "job", "ab-12").code == 3


def test_why_rejects_unknown_kind(busy: FakeCluster, det: Det) -> None:
    assert det("why", "cloud", 3).code == 2


def test_preview_search_prints_trials_by_length(busy: FakeCluster, det: Det, tmp_path: Any) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("searcher: {name: adaptive_asha, divisor: 1e1}\n")
    units = [{"name": "batches", "value": 100, "maxLength": False}, {"maxLength": True}]
    trials = [{"count": n, "unit": u} for n, u in zip((6, 1), units, strict=True)]
    summary = {"config": {"name": "adaptive_asha"}, "trials": trials}
    busy.on("POST", "/api/v1/preview-hp-search", {"summary": summary})
    rows = list(csv.DictReader(io.StringIO(det("preview-search", config, "--csv").out)))
    assert [tuple(r.values()) for r in rows] == [
        ("6", "train for 100 batches"),
        ("1", "train to completion"),
    ]
    (request,) = busy.sent("POST", "/api/v1/preview-hp-search")
    assert request.body["config"]["searcher"]["divisor"] == 10.0


def test_template_set_creates_missing_template(busy: FakeCluster, det: Det, tmp_path: Any) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(404, "template 't' not found")

    (tmp_path / "t.yaml").write_text("max_restarts: 0\n")
    busy.on("PATCH", "/api/v1/templates/t", refuse)
    busy.on("POST", "/api/v1/templates/t", {})
    assert det("template", "set", "t", tmp_path / "t.yaml").code == 0
    (request,) = busy.sent("POST", "/api/v1/templates/t")
    assert request.body["config"] == {"max_restarts": 0}


def test_master_logs_print_time_and_level(busy: FakeCluster, det: Det) -> None:
    entry = {"id": 1, "message": "hello", "timestamp": START, "level": "LOG_LEVEL_INFO"}
    busy.on("GET", "/api/v1/master/logs", lambda _: iter([{"result": {"logEntry": entry}}]))
    assert det("master", "logs").out == f"{START} [INFO]: hello\n"


def keep_master_log(busy: FakeCluster, lines: int) -> None:
    """Serve a log as the cluster does: limit 0 means no limit, and a negative offset counts from the end."""
    entries = [
        {"id": n, "message": f"line {n}", "timestamp": START, "level": "LOG_LEVEL_INFO"}
        for n in range(1, lines + 1)
    ]

    def answer(request: RecordedRequest) -> Iterator[Any]:
        offset, limit = int(request.first("offset", "0")), int(request.first("limit", "0"))
        tail = entries[offset:] if offset < 0 else entries
        return iter([{"result": {"logEntry": e}} for e in (tail[:limit] if limit else tail)])

    busy.on("GET", "/api/v1/master/logs", answer)


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.parametrize(("tail", "shown"), [(0, []), (2, ["line 4", "line 5"]), (9, None)])
def test_master_logs_tail_prints_requested_number_of_lines(
    busy: FakeCluster, det: Det, tail: int, shown: list[str] | None, follow: tuple[str, ...]
) -> None:
    keep_master_log(busy, 5)
    result = det("master", "logs", "--tail", tail, *follow)
    expected = [f"line {n}" for n in range(1, 6)] if shown is None else shown
    assert [line.rpartition(": ")[2] for line in result.out.splitlines()] == expected
