"""Usage reports contain costs, and the costs add up to the costs of the machines."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from det_controlplane.db.money import costs
from det_controlplane.services.cluster import usage
from det_controlplane.services.maintenance import gauges
from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import Api, Caller, create
from tests.support.rented import START, RentedCluster

STOCK_RAW = (
    "experiment_id", "kind", "username", "labels", "slots", "start_time", "end_time", "seconds",
)  # fmt: skip
STOCK_AGGREGATED = ("aggregation_type", "aggregation_key", "date", "seconds")
EVER = {"timestampAfter": ["2025-01-01T00:00:00Z"], "timestampBefore": ["2027-01-01T00:00:00Z"]}
JANUARY = {"startDate": ["2026-01-01"], "endDate": ["2026-01-31"]}


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def play(cluster: RentedCluster, user: Caller, rng: Random, jobs: int) -> None:
    """Let some experiments of random lengths run on machines that come and go."""
    for _ in range(jobs):
        create(user, activate=True, labels=["night"])
        cluster.settle(2)
        agent = cluster.boot(cluster.cloud.rented[-1])
        cluster.settle(1)
        agent.work()
        for _ in range(rng.randint(1, 4)):
            cluster.pass_time(seconds=rng.uniform(5, 24))
            agent.poll()
        agent.finish()
        cluster.pass_time(seconds=rng.uniform(1, 20))
        cluster.cloud.reclaim(cluster.cloud.rented[-1].cloud_id)
        for _ in range(4):
            cluster.pass_time(seconds=45)
            cluster.settle(1)


def rows(user: Caller, report: str, query: Mapping[str, list[str]]) -> list[dict[str, str]]:
    response = user.ask("GET", f"/resources/allocation/{report}", query=query)
    assert response.status == 200, response.error
    return list(csv.DictReader(io.StringIO(response.body.decode())))


def machines(cluster: RentedCluster) -> float:
    return sum(float(i["costUsd"]) for i in cluster.instances(all="true"))


def test_raw_entries_equal_the_cost_of_the_machines(cluster: RentedCluster, user: Caller) -> None:
    play(cluster, user, Random(1), 2)
    matching_entries = rows(user, "raw", EVER)
    assert tuple(matching_entries[0])[: len(STOCK_RAW)] == STOCK_RAW
    assert {row["kind"] for row in matching_entries} == {"training", "instance"}
    assert sum(float(row["cost_usd"]) for row in matching_entries) == pytest.approx(
        machines(cluster), abs=1e-4
    )
    work = [row for row in matching_entries if row["kind"] == "training"]
    assert all(float(row["cost_usd"]) > 0 and float(row["slot_hours"]) > 0 for row in work)
    entries = user.done("GET", "/api/v1/resources/allocation/raw", query=EVER)["resourceEntries"]
    assert sum(e["costUsd"] for e in entries) == pytest.approx(machines(cluster), abs=1e-4)


def test_report_contains_deleted_work_with_cost_and_user(
    cluster: RentedCluster, user: Caller
) -> None:
    play(cluster, user, Random(4), 2)
    before = rows(user, "raw", EVER)
    cluster.delete(user, 1)
    after = rows(user, "raw", EVER)
    columns = ("experiment_id", "kind", "username", "cost_usd")
    assert {tuple(r[k] for k in columns) for r in before} <= {
        tuple(r[k] for k in columns) for r in after
    }
    assert sum(float(r["cost_usd"]) for r in after) == pytest.approx(machines(cluster), abs=1e-4)
    night = [
        row["cost_usd"]
        for row in rows(user, "aggregated", JANUARY)
        if row["aggregation_key"] == "night"
    ]
    paid = sum(float(row["cost_usd"]) for row in before if row["kind"] == "training")
    assert [float(n) for n in night] == [pytest.approx(paid, abs=1e-5)]
    assert user.get("/api/v1/costs/pools")["costs"][0]["workingUsd"] == pytest.approx(paid)


def test_report_contains_cost_of_work_that_never_ran(cluster: RentedCluster, user: Caller) -> None:
    create(user, activate=True)
    cluster.settle(2)
    cluster.boot(cluster.cloud.rented[-1])
    cluster.settle(1)
    cluster.pass_time(minutes=5)  # its image is pulled
    (work,) = [row for row in rows(user, "raw", EVER) if row["kind"] == "training"]
    assert (work["username"], work["slots"], work["seconds"]) == ("determined", "1", "0.0")
    assert float(work["cost_usd"]) == pytest.approx(0.40 / 12, abs=1e-4)
    assert sum(float(r["cost_usd"]) for r in rows(user, "raw", EVER)) == pytest.approx(
        machines(cluster), abs=1e-4
    )


def test_daily_and_monthly_reports_have_equal_costs(cluster: RentedCluster, user: Caller) -> None:
    cluster.time = START + timedelta(hours=23, minutes=58)  # the work runs across midnight
    play(cluster, user, Random(2), 2)
    days = rows(user, "aggregated", JANUARY)
    assert tuple(days[0])[: len(STOCK_AGGREGATED)] == STOCK_AGGREGATED
    totals = [row for row in days if row["aggregation_type"] == "total"]
    assert [row["date"] for row in totals] == ["2026-01-01", "2026-01-02"]
    assert sum(float(t["cost_usd"]) for t in totals) == pytest.approx(machines(cluster), abs=1e-4)
    (month,) = [
        row
        for row in rows(user, "aggregated", {**JANUARY, "period": ["MONTHLY"]})
        if row["aggregation_type"] == "total"
    ]
    assert float(month["cost_usd"]) == pytest.approx(machines(cluster), abs=1e-4)
    night = [row for row in days if row["aggregation_key"] == "night"]
    assert sum(float(row["cost_usd"]) for row in night) > 0


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_any_period_equal_its_total(
    cluster: RentedCluster, user: Caller, seed: int
) -> None:
    rng = Random(seed)
    play(cluster, user, rng, 3)
    length = (cluster.time - START).total_seconds()
    with cluster.api.ctx.db.begin() as tx:
        for _ in range(12):
            cuts = [START + timedelta(seconds=rng.uniform(0, length)) for _ in range(2)]
            after, before = min(cuts), max(cuts)
            span = costs.Span(after, before, cluster.time)
            bill = sum(
                (_between(m, after, before) for m in cluster.instances(all="true")), Decimal(0)
            )
            entries = json.loads(usage.raw(cluster.api.ctx, after, before))
            idle = _sum(e for e in entries if e["kind"] == "instance")
            work = _sum(e for e in entries if e["kind"] != "instance")
            pools = sum((p.usd for p in costs.by_pool(tx, span)), Decimal(0))
            users = sum((c.usd for c in costs.by_user(tx, span)), Decimal(0))
            assert abs(work + idle - bill) < Decimal("0.005")
            assert abs(pools - bill) < Decimal("0.005")
            assert abs(users - work) < Decimal("0.005")


def _sum(entries: Iterable[dict[str, Any]]) -> Decimal:
    return sum((Decimal(str(entry["costUsd"])) for entry in entries), Decimal(0))


def _between(machine: dict[str, Any], after: Any, before: Any) -> Decimal:
    from datetime import datetime

    if machine["launchedAt"] is None:
        return Decimal(0)
    start = datetime.fromisoformat(machine["launchedAt"].replace("Z", "+00:00"))
    end = datetime.fromisoformat((machine["endedAt"] or before.isoformat()).replace("Z", "+00:00"))
    seconds = max(0.0, (min(end, before) - max(start, after)).total_seconds())
    return Decimal(str(machine["priceUsdHour"])) * Decimal(seconds) / 3600


def test_prometheus_metrics_have_machines_costs_and_labels(
    cluster: RentedCluster, user: Caller
) -> None:
    experiment_id = create(user, activate=True, labels=['so-called "night"'])
    _, agent = cluster.employ()
    cluster.pass_time(minutes=10)
    response = user.ask("GET", "/prom/det-state-metrics")
    assert response.media_type.startswith("text/plain")
    families = {f.name: f for f in text_string_to_metric_families(response.body.decode())}
    samples = {name: [(s.labels, s.value) for s in f.samples] for name, f in families.items()}
    (order,) = agent.running.values()
    assert samples["det_container_id_allocation_id"] == [
        ({"container_id": order["id"], "allocation_id": order["allocation_id"]}, 1.0)
    ]
    assert samples["det_experiment_id_label"] == [
        ({"experiment_id": str(experiment_id), "label": 'so-called "night"'}, 1.0)
    ]
    ((labels, count),) = samples["det_instances"]
    assert (labels["state"], labels["capacity"], count) == ("REGISTERED", "spot", 1.0)
    assert samples["det_instances_usd_per_hour"][0][1] == 0.4
    assert samples["det_pool_cost_usd"][0][1] == pytest.approx(0.4 / 6, abs=0.001)
    assert gauges.rented(cluster.api.ctx) == gauges.Rented(1, 0.4, (f"aws {labels['region']}",))
    assert samples["determined_healthy"] == [({}, 1.0)]
    assert cluster.api.anonymous().ask("GET", "/prom/det-state-metrics").status == 401


def test_prometheus_metrics_have_resource_use_of_the_process(reader: Caller) -> None:
    response = reader.ask("GET", "/debug/prom/metrics")
    values = dict(line.split() for line in response.body.decode().splitlines() if line[0] != "#")
    assert response.media_type.startswith("text/plain")
    assert float(values["process_cpu_seconds_total"]) > 0
    assert b"# TYPE process_cpu_seconds_total counter\n" in response.body
    assert float(values["process_resident_memory_max_bytes"]) > 10 * 1024**2


def test_service_discovery_lists_exporters_of_each_agent(
    cluster: RentedCluster, user: Caller
) -> None:
    create(user, activate=True)
    cluster.settle()
    agent = cluster.boot(cluster.cloud.alive()[-1])
    (matching_target,) = user.get("/prom/det-http-sd-config")
    assert [target.rpartition(":")[2] for target in matching_target["targets"]] == ["8080", "9400"]
    assert matching_target["labels"] == {
        "det_agent_id": agent.agent_id,
        "det_resource_pool": "default",
    }
