"""The cost of submitted experiments: the estimate of `--dry-run`, and `--max-cost`."""

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Det
from tests.support.fake_api import RecordedRequest, Refusal
from tests.support.fake_cluster import FakeCluster


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("searcher: {name: single, metric: loss, max_length: {batches: 10}}\n")
    return path


POOL = {
    "name": "gpu",
    "offers": [
        {"provider": "aws", "region": "r", "zone": "r-a", "machineType": "g5.12xlarge",
         "capacity": "spot", "slots": 4, "priceUsdHour": 2.0, "priceFrom": "cloud",
         "priceReadAt": "2026-11-20T10:00:00Z", "isOffered": True},
        {"provider": "gcp", "region": "s", "zone": "", "machineType": "g2-standard-4",
         "capacity": "on-demand", "slots": 1, "priceUsdHour": 0.8, "priceFrom": "list", "priceReadAt": None,
         "isOffered": True},
        {"provider": "gcp", "region": "t", "zone": "", "machineType": "g2-standard-4",
         "capacity": "spot", "slots": 1, "priceUsdHour": 0.1, "priceFrom": "list", "priceReadAt": None,
         "isOffered": False},
    ],
    "priceListOf": "June 2025",
}  # fmt: skip


def test_dry_run_estimates_hourly_cost_of_the_search(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    resolved_config = {"resources": {"slots_per_trial": 2, "resource_pool": "gpu"}, "searcher": {}}
    cluster.on("POST", "/api/v1/experiments", {"config": resolved_config, "experiment": {"id": 0}})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [POOL]})
    cluster.on(
        "POST", "/api/v1/preview-hp-search", {"summary": {"trials": [{"count": 3}, {"count": 5}]}}
    )
    result = det("e", "create", config, "--dry-run")
    assert result.code == 0
    assert "trials  8 (" in result.out
    assert "slots   2 per trial, 16 at the same time, in pool gpu" in result.out
    assert result.out.index("$1.00  aws r-a g5.12xlarge spot") < result.out.index(
        "$1.60  gcp s g2-standard-4"
    )
    assert "costs $8.00 to $12.80" in result.out
    assert "spot (cloud price of 2026-11-20 10:00:00+0000)" in result.out
    assert "on-demand (list price of June 2025)" in result.out


def batches(*groups: tuple[int, int]) -> dict[str, Any]:
    units = [{"count": n, "unit": {"name": "batches", "value": length}} for n, length in groups]
    return {"summary": {"trials": units}}


def test_dry_run_shows_trials_slots_hours_and_money_first(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    """Experiment 7 trained 1,000 batches in two hours, so 1,500 batches take three."""
    searcher = {"name": "adaptive_asha", "max_concurrent_trials": 4}
    resolved_config = {
        "name": "mine", "searcher": searcher, "resources": {"slots_per_trial": 2, "resource_pool": "gpu"},
    }  # fmt: skip
    before = {"id": 7, "config": {"name": "mine", "searcher": {"name": "single", "max_length": 9}}}
    cluster.on("POST", "/api/v1/experiments", {"config": resolved_config, "experiment": {"id": 0}})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [POOL]})
    cluster.on("POST", "/api/v1/experiments-search", {"experiments": [{"experiment": {"id": 7}}]})
    cluster.on("GET", "/api/v1/experiments/7", {"experiment": before})
    cluster.on("GET", "/api/v1/experiments/7/trials", {"trials": [{"wallClockTime": 7200.0}]})

    def preview(request: RecordedRequest) -> dict[str, Any]:
        is_earlier = request.body["config"]["searcher"]["name"] == "single"
        return batches((1, 1000)) if is_earlier else batches((6, 100), (3, 300))

    cluster.on("POST", "/api/v1/preview-hp-search", preview)
    result = det("e", "create", config, "--dry-run")
    assert result.out.splitlines()[:4] == [
        "trials  9 (adaptive_asha): 6 for 100 batches, 3 for 300 batches",
        "slots   2 per trial, 8 at the same time, in pool gpu",
        "hours   6 slot hours, if it trains as fast as experiment 7",
        "money   $3.00 to $4.80 for all trials; --max-cost limits it",
    ]


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["create", "dry-run"])
def test_max_cost_says_that_a_pool_costs_nothing(
    cluster: FakeCluster, det: Det, config: Path, more: list[str]
) -> None:
    pools = [{"name": "default", "defaultComputePool": True}]
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [POOL]})
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": pools})
    cluster.on("PUT", "/api/v1/budgets", {"budget": {"id": 1, "limitUsd": 5, "spentUsd": 0}})
    result = det("e", "create", config, "--max-cost", "5", *more)
    assert result.code == 0
    assert "Pool default rents no machines: its jobs cost $0.00, so --max-cost has no" in result.err
    assert ("money   $0.00: pool default rents no machines" in result.out) == bool(more)


def offered(slots: int, price: float, **more: object) -> dict[str, object]:
    return {
        "provider": "aws", "region": "r", "zone": "", "machineType": f"m{slots}", "capacity": "spot",
        "slots": slots, "priceUsdHour": price, "priceFrom": "list", **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "pool", "message"),
    [
        ({"slots_per_trial": 3}, {}, "costs $3.00 to $12.00"),
        ({"slots_per_trial": 3}, {"allowHeterogeneousFits": True}, "costs $3.00 to $16.00"),
        ({"slots_per_trial": 3, "is_single_node": True}, {}, "costs $12.00;"),
        (
            {"slots_per_trial": 9, "is_single_node": True},
            {},
            "No offer of pool gpu within its price caps fits a trial with 9 slots",
        ),
    ],
)
def test_dry_run_estimate_uses_only_suitable_offers(
    resources: dict[str, object], pool: dict[str, object], message: str,
    cluster: FakeCluster, det: Det, config: Path,
) -> None:  # fmt: skip
    offers = [
        offered(1, 1.0), offered(2, 8.0), offered(4, 16.0, maxPriceUsdHour=16.0), offered(4, 40.0, maxPriceUsdHour=20),
    ]  # fmt: skip
    resolved_config = {"resources": {"resource_pool": "gpu", **resources}, "searcher": {}}
    cluster.on("POST", "/api/v1/experiments", {"config": resolved_config, "experiment": {"id": 0}})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [{**POOL, "offers": offers, **pool}]})
    cluster.on("POST", "/api/v1/preview-hp-search", {"summary": {"trials": [{"count": 1}]}})
    assert message in det("e", "create", config, "--dry-run").out


def test_dry_run_without_pool_uses_default_pool(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    resolved_config = {"resources": {"slots_per_trial": 1, "resource_pool": ""}, "searcher": {}}
    pools = [
        {"name": "aux", "defaultComputePool": False},
        {"name": "gpu", "defaultComputePool": True},
    ]
    cluster.on("POST", "/api/v1/experiments", {"config": resolved_config, "experiment": {"id": 0}})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [POOL]})
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": pools})
    cluster.on("POST", "/api/v1/preview-hp-search", {"summary": {"trials": [{"count": 1}]}})
    result = det("e", "create", config, "--dry-run")
    assert "slots   1 per trial, in pool gpu\n" in result.out
    assert "Hourly price of one trial in pool gpu" in result.out


def test_max_cost_is_set_before_activation(cluster: FakeCluster, det: Det, config: Path) -> None:
    budget = {"id": 1, "limitUsd": 12.5, "spentUsd": 0}
    cluster.on("PUT", "/api/v1/budgets", {"budget": budget})
    assert det("e", "create", config, "--max-cost", "12.50").code == 0
    (created_request,) = cluster.sent("POST", "/api/v1/experiments")
    assert created_request.body["activate"] is False
    (request,) = cluster.sent("PUT", "/api/v1/budgets")
    assert (request.body["limitUsd"], request.body["of"]) == ("12.50", "1")
    paths = [a.path for a in cluster.asked]
    assert paths.index("/api/v1/budgets") < paths.index("/api/v1/experiments/1/activate")


@pytest.mark.parametrize("amount", ["0", "-1", "0.001", "nan", "ten"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["create", "dry-run"])
def test_invalid_max_cost_is_rejected_before_creation(
    cluster: FakeCluster, det: Det, config: Path, amount: str, more: list[str]
) -> None:
    result = det("e", "create", config, f"--max-cost={amount}", *more)
    assert (result.code, f"not '{amount}'" in result.err) == (2, True)
    assert cluster.sent("POST", "/api/v1/experiments") == []


def test_failed_budget_names_the_paused_experiment(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    def refuse(request: RecordedRequest) -> Any:
        raise Refusal(403, "no right to budgets")

    cluster.on("PUT", "/api/v1/budgets", refuse)
    result = det("e", "create", config, "--max-cost", "5")
    message = "experiment 1 was created but stays paused, because its budget could not be set: no"
    assert (result.code, message in result.err) == (1, True)
    assert "det budget set 5 --experiment 1" in result.err
    assert cluster.sent("POST", "/api/v1/experiments/1/activate") == []


HISTORY = {
    "isAvailable": True, "ageHours": 0.0,
    "losses": 0.0, "expectedLosses": 0.0, "returns": 0.0, "expectedReturns": 0.0,
}  # fmt: skip
ONE_SLOT = {
    "name": "gpu",
    "startupHours": 0.2,
    "offers": [
        {"provider": "aws", "region": "r", "zone": "r-a", "machineType": "g6.xlarge", "capacity": "spot",
         "slots": 1, "priceUsdHour": 0.4, "isOffered": True, "spotHistory": HISTORY},
        {"provider": "aws", "region": "r", "zone": "r-a", "machineType": "g6.xlarge", "capacity": "on-demand",
         "slots": 1, "priceUsdHour": 1.0, "isOffered": True},
    ],
}  # fmt: skip


def dry_run_with_deadline(
    cluster: FakeCluster, det: Det, config: Path, hours: float, start: str = "by ", **resources: Any
) -> str:
    deadline = datetime.now(timezone.utc) + timedelta(hours=hours)
    resolved_config = {
        "resources": {
            "slots_per_trial": 1, "resource_pool": "gpu", "deadline": deadline.isoformat(), **resources,
        },
        "searcher": {},
    }  # fmt: skip
    cluster.on("POST", "/api/v1/experiments", {"config": resolved_config, "experiment": {"id": 0}})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [ONE_SLOT]})
    cluster.on("POST", "/api/v1/preview-hp-search", {"summary": {"trials": [{"count": 1}]}})
    output = det("e", "create", config, "--dry-run").out
    return next(line for line in output.splitlines() if line.startswith(start))


def test_dry_run_shows_the_range_of_costs_with_a_deadline(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    line = dry_run_with_deadline(cluster, det, config, 15, expected_hours=10)
    match = re.search(
        r"in time in (\d+) of (\d+) simulated runs; 95 % of them cost \$([\d.]+) to \$([\d.]+);"
        r" on demand alone \$10\.20$",
        line,
    )
    assert match, line
    assert match[1] == match[2], "no run is late"
    assert 3.2 <= float(match[3]) < float(match[4]) < 12


def test_dry_run_says_that_a_deadline_cannot_be_met(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    line = dry_run_with_deadline(cluster, det, config, 5, expected_hours=10)
    assert "cannot be met; the earliest possible time is" in line


def test_dry_run_of_a_new_experiment_uses_its_expected_hours(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    line = dry_run_with_deadline(cluster, det, config, 15, "hours", expected_hours=10)
    assert line == "hours   10 slot hours, from resources.expected_hours"
    money = dry_run_with_deadline(cluster, det, config, 15, "money", expected_hours=10)
    assert "$4.00 to $10.00 for all trials" in money


def test_dry_run_without_an_estimate_asks_for_one(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    line = dry_run_with_deadline(cluster, det, config, 5)
    assert "unknown; set resources.expected_hours" in line
