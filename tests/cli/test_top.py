"""`det top`: pools, the queue with reasons, machines, costs, and missing permissions."""

import json
from typing import Any

import pytest
from det_cli.live import cluster_screen as screen
from det_cli.live.cluster import Cluster, Money, Pool, job_of, machines_of, pool_of
from det_cli.live.readers import ClusterReader
from det_cli.live.text import plain, size_of
from determined.common.http import Session
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import START, FakeCluster, page

NOW = 1_795_168_800.0 + 3600


def agent(id: str, used: int = 0, slots: int = 2, **more: Any) -> dict[str, Any]:
    containers = {str(n): {"container": {"id": "c"} if n < used else None} for n in range(slots)}
    base = {
        "id": id,
        "slots": containers,
        "resourcePools": ["gpu"],
        "enabled": True,
        "draining": False,
    }
    return {**base, "outOfService": "", **more}


def instance(state: str, agent_id: "str | None" = None, **more: Any) -> dict[str, Any]:
    place = {"zone": "us-east-1b", "machineType": "g6.xlarge", "capacity": "spot"}
    base = {"id": f"i-{state}", "pool": "gpu", "state": state, "slots": 2, "priceUsdHour": 0.4}
    return {**base, **place, "agentId": agent_id, "cloudId": "", "reason": None, **more}


def allocation(name: str, *agents: str) -> dict[str, Any]:
    return {"name": name, "resources": [{"agentDevices": {a: {"devices": []}}} for a in agents]}


def job(
    id: str, state: str, allocated: int, slots: int, ahead: int = 3, **more: Any
) -> dict[str, Any]:
    summary = {"state": f"STATE_{state}", "jobsAhead": ahead}
    return {
        "jobId": f"job-{id}", "type": "TYPE_EXPERIMENT", "entityId": id, "name": f"mnist-{id}", "username": "ada",
        "priority": 42, "weight": 1, "allocatedSlots": allocated, "requestedSlots": slots, "summary": summary,
        "submissionTime": START, "progress": 0.5, **more,
    }  # fmt: skip


POOL: dict[str, Any] = {
    "name": "gpu", "schedulerType": "SCHEDULER_TYPE_PRIORITY", "slotsAvailable": 4, "slotsUsed": 2, "numAgents": 2,
}  # fmt: skip
RENTED = {"name": "gpu", "maxInstances": 8, "hold": None}


def rendered(cluster: Cluster, room: int = 100) -> list[str]:
    return [plain(one) for one in screen.lines(cluster, room, NOW)]


def cluster_of(**more: Any) -> Cluster:
    pool = pool_of(POOL, RENTED)
    jobs = [
        job_of(job("1", "SCHEDULED", 2, 2, ahead=0), pool, ""),
        job_of(job("2", "QUEUED", 0, 8, ahead=-1), pool, "needs 8 slots"),
        job_of(job("3", "QUEUED", 0, 1), pool, ""),
    ]
    machines = machines_of(
        [agent("a", used=2), agent("b")],
        [instance("REGISTERED", "a"), instance("LAUNCHED")],
        [allocation("Trial 7 (Experiment 1)", "a"), allocation("Trial 9 (Experiment 1)", "a")],
    )
    fields = {"money": Money(1.5, 20.0), **more}
    return Cluster("c", "ada", (pool,), tuple(jobs), tuple(machines), **fields)


def test_queue_shows_reason_and_position_of_each_job() -> None:
    text = rendered(cluster_of())
    rows = text[text.index(next(row for row in text if row.startswith("#"))) + 1 :]
    assert rows[0].split()[:3] == ["1", "experiment", "1"]
    assert rows[1].split()[:2] == ["experiment", "2"], "this job has no position"
    assert rows[2] == "    needs 8 slots"
    assert rows[3].split()[:3] == ["4", "experiment", "3"]
    assert rows[4] == "    3 jobs ahead"


def test_machines_show_state_price_and_work() -> None:
    rows = rendered(cluster_of(), 140)[-3:]
    assert rows[0].split()[:4] == ["a", "BUSY", "2/2", "0.400"]
    assert "g6.xlarge spot us-east-1b" in rows[0]
    assert rows[0].endswith("experiment 1: trials 7, 9")
    assert rows[1].split() == ["b", "IDLE", "0/2"]
    assert rows[2].split()[:4] == ["i-LAUNCHED", "BOOTING", "0/2", "0.400"]


@pytest.mark.parametrize(
    ("agent_row", "rented", "expected"),
    [
        (agent("a", used=1), None, "BUSY"),
        (agent("a"), None, "IDLE"),
        (agent("a", enabled=False), None, "DISABLED"),
        (agent("a", draining=True, enabled=False), None, "DRAINING"),
        (agent("a", outOfService="3 failures"), None, "OUT OF SERVICE"),
        (agent("a", used=1), instance("DRAINING", "a"), "DRAINING"),
        (agent("a"), instance("TERMINATING", "a"), "TERMINATING"),
    ],
)
def test_machine_states(agent_row: dict[str, Any], rented: Any, expected: str) -> None:
    (machine,) = machines_of([agent_row], [rented] if rented else [], [])
    assert machine.state == expected


def test_costs_are_shown_for_priced_clusters() -> None:
    assert "cost   $0.80 per hour  $1.50 today  $20.00 this month" in rendered(cluster_of())
    unpriced = Cluster("c", "ada", (Pool("default", "priority", 4, 0, 1),), (), (), (), Money(0, 0))
    assert not [row for row in rendered(unpriced) if "cost" in row]


def test_warned_budgets_are_shown() -> None:
    text = rendered(cluster_of(money=Money(0, 9, ("pool gpu: $9.00 of $10.00 (warned)",))))
    assert "budget pool gpu: $9.00 of $10.00 (warned)" in text


def test_long_lists_name_the_command_for_the_rest() -> None:
    pool = pool_of(POOL, None)
    jobs = tuple(job_of(job(str(n), "QUEUED", 0, 1), pool, "") for n in range(50))
    machines = tuple(machines_of([agent(f"a{n}") for n in range(50)], [], []))
    text = rendered(Cluster("c", "ada", (pool,), jobs, machines))
    assert "… and 30 more jobs: `det job list`" in text
    assert "… and 10 more machines: `det agent list`" in text


def test_running_search_shows_missing_slots() -> None:
    pool = pool_of(POOL, None)
    jobs = (job_of(job("1", "SCHEDULED", 2, 6), pool, "needs 4 slots"),)
    text = rendered(Cluster("c", "ada", (pool,), jobs, ()))
    assert "4 more wanted" in text[0]
    assert "    needs 4 slots" in text


NASTY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(st.tuples(NASTY, st.integers(0, 99)), max_size=5), NASTY, st.integers(20, 220))
def test_lines_fit_the_terminal_and_have_no_control_characters(
    sizes: list[tuple[str, int]], odd: str, room: int
) -> None:
    pool = pool_of({**POOL, "name": odd}, {**RENTED, "hold": {"sentence": odd}})
    jobs = tuple(
        job_of(job(str(n), "QUEUED", 0, slots, name=name, username=odd), pool, name)
        for n, (name, slots) in enumerate(sizes)
    )
    names = [allocation(name, "a") for name, _ in sizes]
    machines = tuple(machines_of([agent("a", outOfService=odd)], [instance(odd)], names))
    state = Cluster(odd, odd, (pool,), jobs, machines, (odd,), Money(1, 2, (odd,)))
    lines = screen.lines(state, room, NOW)
    assert all(not set(plain(one)) & set("\x1b\n\r\t\x9b") for one in lines)
    assert all(size_of(one) <= room for one in lines)


@pytest.fixture
def busy(cluster: FakeCluster) -> FakeCluster:
    full = [
        {"full": job("1", "SCHEDULED", 2, 2)},
        {"full": job("2", "QUEUED", 0, 8, why="needs 8 slots")},
    ]
    costs = [{"pool": "gpu", "costUsd": 3.25}]
    cluster.on("GET", "/api/v1/master", {"clusterName": "lab"})
    cluster.on("GET", "/api/v1/resource-pools", lambda a: page("resourcePools", [POOL], a))
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [RENTED]})
    cluster.on("GET", "/api/v1/job-queues-v2", lambda a: page("jobs", full, a))
    cluster.on("GET", "/api/v1/agents", {"agents": [agent("a", used=2)]})
    cluster.on("GET", "/api/v1/instances", lambda a: page("instances", [instance("REGISTERED", "a")], a))  # fmt: skip
    cluster.on("GET", "/api/v1/tasks", {"allocationIdToSummary": {}})
    cluster.on("GET", "/api/v1/costs/pools", {"costs": costs})
    cluster.on("GET", "/api/v1/budgets", {"budgets": []})
    return cluster


def test_top_once_prints_the_view(busy: FakeCluster, det: Det) -> None:
    result = det("top", "--once")
    assert result.code == 0
    assert result.out.startswith("lab  2 of 4 slots used, 8 more wanted  1 running  1 waiting")
    assert "needs 8 slots" in result.out
    assert "$3.25 today" in result.out
    state = json.loads(det("top", "--once", "--json").out)
    assert (state["priceUsdHour"], state["monthUsd"]) == (0.4, 3.25)


def test_top_shows_jobs_of_deleted_pool(busy: FakeCluster, det: Det) -> None:
    deleted_pool_job = {"full": job("3", "QUEUED", 0, 1, resourcePool="old", why="needs 8 slots")}
    busy.on("GET", "/api/v1/job-queues-v2", lambda a: page("jobs", [deleted_pool_job], a))
    (state,) = json.loads(det("top", "--once", "--json").out)["jobs"]
    assert (state["pool"], state["reason"]) == ("old", "needs 8 slots")


def test_top_reports_missing_permissions(busy: FakeCluster, det: Det) -> None:
    def refused(_: RecordedRequest) -> Any:
        raise Refusal(403, "only administrators see machines")

    busy.on("GET", "/api/v1/agents", refused)
    result = det("top", "--once")
    assert result.code == 0
    assert "not shown: agents: only administrators see machines" in result.out
    assert "needs 8 slots" in result.out


def test_long_permission_error_is_truncated(busy: FakeCluster, det: Det) -> None:
    def refused(_: RecordedRequest) -> Any:
        raise Refusal(
            403, "user determined lacks VIEW_CLUSTER_USAGE: " + "a long explanation " * 20
        )

    busy.on("GET", "/api/v1/costs/pools", refused)
    lines = det("top", "--once").out.splitlines()
    (note,) = [line for line in lines if "costs" in line or "explanation" in line]
    assert note.startswith("not shown: costs of pools today: user determined lacks VIEW_CLUSTER_U")


def test_top_works_with_a_cluster_of_determined(busy: FakeCluster, det: Det) -> None:
    def absent(_: RecordedRequest) -> Any:
        raise Refusal(404, "Not Found")

    for path in ("rented-pools", "instances", "costs/pools", "budgets"):
        busy.on("GET", f"/api/v1/{path}", absent)
    without_reasons = {"full": job("2", "QUEUED", 0, 8)}
    busy.on("GET", "/api/v1/job-queues-v2", lambda a: page("jobs", [without_reasons], a))
    result = det("top", "--once")
    assert result.code == 0
    assert "3 jobs ahead" in result.out
    assert "cost" not in result.out
    assert "not shown" not in result.out


def test_reason_is_never_older_than_the_state_beside_it(busy: FakeCluster) -> None:
    queue = [{"full": job("2", "QUEUED", 0, 8, why="needs 8 slots")}]
    busy.on("GET", "/api/v1/job-queues-v2", lambda a: page("jobs", queue, a))
    session = Session(busy.url)
    reader = ClusterReader(session, "ada")
    assert [j.reason for j in reader.read().jobs] == ["needs 8 slots"]
    queue[0] = {"full": job("2", "QUEUED", 0, 8, why="priority 1 goes first")}
    assert [j.reason for j in reader.read().jobs] == ["priority 1 goes first"]
    session.close()


def test_jobs_of_others_are_shown_without_names(busy: FakeCluster, det: Det) -> None:
    secret = ("name", "username", "entityId")
    limited = {k: v for k, v in job("5", "QUEUED", 0, 4).items() if k not in secret}
    busy.on("GET", "/api/v1/job-queues-v2", {"jobs": [{"limited": limited}]})
    out = det("top", "--once").out
    assert "QUEUED" in out
    assert "mnist" not in out


def test_slow_changing_data_is_read_less_often(busy: FakeCluster) -> None:
    times = iter([float(second) for second in range(4000)])
    session = Session(busy.url)
    reader = ClusterReader(session, "ada", now=lambda: next(times) / 100)
    for _ in range(5):
        assert reader.read().money is not None
    session.close()
    assert len(busy.sent("GET", "/api/v1/agents")) == 5
    assert len(busy.sent("GET", "/api/v1/rented-pools")) == 1
    assert len(busy.sent("GET", "/api/v1/costs/pools")) == 2  # today, and this month
