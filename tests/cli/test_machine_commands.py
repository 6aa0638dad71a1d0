"""Rented machines, the pools that rent them, costs and budgets."""

# ruff: noqa: E501 – the lines of the expected tables are long

import csv
import io
import json
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.fake_api import Raw, RecordedRequest, Refusal
from tests.support.fake_cluster import START, FakeCluster, page

ID = "4e2af5f0-fcd5-4a72-9e48-f0e91fcee8b0"
INSTANCES = """\
 ID                                   | Pool   | State    | Offer                         |   Slots |   $/hour |   Cost $ | Cloud ID   | Agent ID   | Requested                | Reason
--------------------------------------+--------+----------+-------------------------------+---------+----------+----------+------------+------------+--------------------------+----------
 4e2af5f0-fcd5-4a72-9e48-f0e91fcee8b0 | gpu    | LAUNCHED | aws us-east-1b g6.xlarge spot |       1 |    0.362 |     1.20 | i-1        |            | 2026-11-20 10:00:00+0000 |
"""
BUDGETS = """\
   ID | For      |   Limit $ | Period   |   Spent $ |   Spent % | State
------+----------+-----------+----------+-----------+-----------+---------
    7 | pool gpu |     12.00 | month    |      9.80 |        82 | WARNED
"""


def offer(zone: str, price: float) -> dict[str, Any]:
    place = {"provider": "aws", "region": "us-east-1", "zone": zone}
    return {**place, "machineType": "g6.xlarge", "capacity": "spot", "slots": 1, "priceUsdHour": price}  # fmt: skip


def instance(**more: Any) -> dict[str, Any]:
    facts = {"id": ID, "pool": "gpu", "state": "LAUNCHED", "costUsd": 1.2, "cloudId": "i-1"}
    empty = {"agentId": None, "reason": None, "console": None, "requestedAt": START}
    return {**offer("us-east-1b", 0.3622), **facts, **empty, **more}


def pool(**more: Any) -> dict[str, Any]:
    limits = {"minInstances": 0, "maxInstances": 8, "warmInstances": 0, "maxHourlyCost": 40.0}
    counts = {"instances": 1, "priceUsdHour": 0.3622, "queued": 1, "queuedSlots": 2}
    offers = [offer("us-east-1a", 0.3622), offer("us-east-1b", 0.4)]
    lists = {"hold": None, "cooldowns": [], "waiting": [], "offers": offers}
    return {"name": "gpu", **limits, **counts, **lists, **more}


def cooldown(sentence: str, until: str | None) -> dict[str, Any]:
    scope = {"provider": "aws", "region": "", "zone": "us-east-1a", "machineType": "", "capacity": ""}  # fmt: skip
    return {**scope, "kind": "no_capacity", "sentence": sentence, "until": until}


@pytest.fixture
def rented(cluster: FakeCluster) -> FakeCluster:
    budget = {
        "id": 7, "scope": "pool", "scopeId": "gpu", "scopeName": "gpu", "limitUsd": 12.0, "period": "month",
        "spentUsd": 9.8, "state": "WARNED",
    }  # fmt: skip
    cluster.on("GET", "/api/v1/instances", lambda a: page("instances", [instance()], a))
    cluster.on("GET", f"/api/v1/instances/{ID}", {"instance": instance(console="last words")})
    cluster.on("POST", f"/api/v1/instances/{ID}/terminate", {"instance": instance()})
    cluster.on("GET", "/api/v1/rented-pools", {"pools": [pool()]})
    cluster.on("GET", "/api/v1/rented-pools/gpu", {"pool": pool()})
    cluster.on("POST", r"/api/v1/rented-pools/gpu/(hold|resume)", {"pool": pool()})
    cluster.on("GET", "/api/v1/budgets", {"budgets": [budget]})
    cluster.on("PUT", "/api/v1/budgets", {"budget": budget})
    cluster.on("DELETE", "/api/v1/budgets/7", {})
    return cluster


def test_instance_list_shows_offer_and_cost(rented: FakeCluster, det: Det) -> None:
    assert det("instance", "list").out == INSTANCES
    (request,) = rented.sent("GET", "/api/v1/instances")
    assert (request.first("all"), request.first("pool")) == ("", "")


def test_instance_list_sends_all_and_pool_filters(rented: FakeCluster, det: Det) -> None:
    (row,) = csv.DictReader(io.StringIO(det("i", "ls", "--all", "--pool", "gpu", "--csv").out))
    assert row["ID"] == ID
    (request,) = rented.sent("GET", "/api/v1/instances")
    assert (request.first("all"), request.first("pool")) == ("true", "gpu")


def test_instance_list_without_machines_is_empty(rented: FakeCluster, det: Det) -> None:
    rented.on("GET", "/api/v1/instances", lambda a: page("instances", [], a))
    assert json.loads(det("instance", "list", "--json").out) == []
    assert det("instance", "list").code == 0


def test_describe_json_has_console_output(rented: FakeCluster, det: Det) -> None:
    assert json.loads(det("instance", "describe", ID, "--json").out)["console"] == "last words"


def test_describe_prints_console_as_yaml_block(rented: FakeCluster, det: Det) -> None:
    message = "cloud-init: \ndetermined-boot: installing docker\n"
    rented.on("GET", f"/api/v1/instances/{ID}", {"instance": instance(console=message)})
    out = det("instance", "describe", ID).out
    assert out.endswith("console: |\n  cloud-init:\n  determined-boot: installing docker\n")
    assert yaml.safe_load(out)["state"] == "LAUNCHED"


def test_describe_without_console_names_required_roles(rented: FakeCluster, det: Det) -> None:
    rented.on("GET", f"/api/v1/instances/{ID}", {"instance": instance()})
    result = det("instance", "describe", ID)
    assert "administrators and agent operators can see its console output" in result.err
    assert yaml.safe_load(result.out)["state"] == "LAUNCHED"


def test_terminate_requires_confirmation(rented: FakeCluster, det: Det) -> None:
    assert det("instance", "terminate", ID).code != 0
    assert rented.sent("POST", ".*terminate") == []
    assert det("instance", "terminate", ID, "--yes").code == 0
    assert len(rented.sent("POST", f"/api/v1/instances/{ID}/terminate")) == 1


def test_hold_and_resume_are_sent_for_one_pool(rented: FakeCluster, det: Det) -> None:
    assert det("pool", "hold", "gpu", "--reason", "the bill").code == 0
    assert det("pool", "resume", "gpu").code == 0
    hold, resume_request = rented.sent("POST", "/api/v1/rented-pools/.*")
    assert (hold.path[-5:], hold.body) == ("/hold", {"reason": "the bill"})
    assert resume_request.path.endswith("/resume")


def test_resume_reports_spent_budget(rented: FakeCluster, det: Det) -> None:
    message = "the budget of pool gpu ($5.00) is spent; raise it with `det budget set`"
    rented.on("POST", "/api/v1/rented-pools/gpu/resume", {"pool": pool(spentBudget=message)})
    assert message in det("pool", "resume", "gpu").err


def test_unknown_pool_shows_message_of_the_cluster(rented: FakeCluster, det: Det) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(404, "pool 'cpu' rents no machines; the pools that do: gpu")

    rented.on("GET", "/api/v1/rented-pools/cpu", refuse)
    result = det("pool", "why", "cpu")
    assert (result.code, "the pools that do: gpu" in result.err) == (3, True)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"queued": 0},
            "Pool gpu can launch machines.\nNo job waits for machines.\n",
        ),
        (
            {"hold": {"sentence": "held by ada: the bill"}, "queued": 0},
            "Pool gpu launches no machines: held by ada: the bill\n`det pool resume gpu` resumes launches.\n"
            "No job waits for machines.\n",
        ),
        (
            {"spentBudget": "the budget of pool gpu ($5.00) is spent", "queued": 0},
            "Pool gpu launches no machines: the budget of pool gpu ($5.00) is spent\nNo job waits for machines.\n",
        ),
        (
            {"instances": 8, "queued": 0},
            "Pool gpu has reached its max_instances of 8 machines.\nNo job waits for machines.\n",
        ),
        (
            {"maxHourlyCost": 0.5, "queued": 0},
            "Pool gpu costs $0.36 per hour; its max_hourly_cost is $0.50.\nNo job waits for machines.\n",
        ),
        (
            {
                "priceListOf": "June 2025",
                "queued": 0,
                "priceProblems": [
                    {
                        "provider": "aws",
                        "region": "us-east-1",
                        "problem": "the price list is denied",
                    }
                ],
            },
            "aws us-east-1: using the price list of June 2025, because the price list is denied\nNo job waits for machines.\n",
        ),
        (
            {"cooldowns": [cooldown("no room.", START), cooldown("no such image.", None)]},
            "aws us-east-1a: no room. (next try 2026-11-20 10:00:00+0000)\n"
            "aws us-east-1a: no such image. (correct it, then `det pool resume gpu`)\n",
        ),
        (
            {
                "waiting": [
                    {
                        "allocations": 1,
                        "slots": 2,
                        "sentence": "needs 2 slots",
                        "code": "PRICE_CAP",
                    },
                    {
                        "allocations": 3,
                        "slots": 3,
                        "sentence": "waits for a machine",
                        "code": "LAUNCHING",
                    },
                ]
            },
            "1 allocation (slots: 2): needs 2 slots\n3 allocations (slots: 3): waits for a machine\n",
        ),
    ],
    ids=[
        "nothing",
        "held",
        "spent",
        "max_instances",
        "max_hourly_cost",
        "prices",
        "refusals",
        "waiting",
    ],
)
def test_pool_why_explains_missing_launches(
    rented: FakeCluster, det: Det, changed: dict[str, Any], expected: str
) -> None:
    rented.on("GET", "/api/v1/rented-pools/gpu", {"pool": pool(**changed)})
    assert det("pool", "why", "gpu").out == expected


def test_pool_why_json_is_the_pool(rented: FakeCluster, det: Det) -> None:
    assert json.loads(det("pool", "why", "gpu", "--json").out) == pool()


@pytest.mark.parametrize("words", [("-5", "--user", "admin"), ("--user", "admin", "--", "-5")])
def test_negative_budget_is_rejected(rented: FakeCluster, det: Det, words: tuple[str, ...]) -> None:
    result = det("budget", "set", *words)
    assert (result.code, "above 0, not '-5'" in result.err) == (2, True)
    assert not rented.sent("PUT", "/api/v1/budgets")


@pytest.mark.parametrize(("name", "costs"), [("gpu", True), ("default", False)])
def test_budget_of_pool_without_rented_machines_is_reported(
    rented: FakeCluster, det: Det, name: str, costs: bool
) -> None:
    result = det("budget", "set", "12", "--pool", name)
    assert result.code == 0
    assert (f"Pool {name} rents no machines" in result.err) is not costs


def test_options_after_double_dash_get_their_own_hint(rented: FakeCluster, det: Det) -> None:
    result = det("budget", "set", "--", "5", "--user", "admin")
    assert "words after `--` are not options: move the option before it" in result.err
    assert "after" not in det("budget", "set", "5", "--usr", "admin").err


def test_usage_report_is_printed_unchanged(rented: FakeCluster, det: Det) -> None:
    rented.on("GET", "/resources/allocation/raw", Raw(b"experiment_id,cost_usd\n1,0.5\n"))
    assert det("resources", "raw", "2026-11-01", "2026-12-01T12:00:00Z").out == (
        "experiment_id,cost_usd\n1,0.5\n"
    )
    (request,) = rented.sent("GET", "/resources/allocation/raw")
    assert request.first("timestampAfter") == "2026-11-01T00:00:00Z"
    assert request.first("timestampBefore") == "2026-12-01T12:00:00Z"
    result = det("res", "raw", "yesterday", "2026-12-01")
    assert (result.code, "'yesterday' is not a time" in result.err) == (2, True)


def test_rejected_usage_report_is_an_error(rented: FakeCluster, det: Det) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(400, "start date 2026-12-01 is after end date 2026-11-01")

    rented.on("GET", "/resources/allocation/aggregated", refuse)
    result = det("res", "agg", "2026-12-01", "2026-11-01")
    assert (result.code, "is after end date" in result.err, result.out) == (1, True, "")


def test_user_list_shows_costs(rented: FakeCluster, det: Det) -> None:
    costs = {"costs": [{"username": "ada", "costUsd": 12.3, "slotHours": 40.0}]}
    rented.on("GET", "/api/v1/costs/users", costs)
    (row,) = [
        r
        for r in csv.DictReader(io.StringIO(det("user", "list", "--csv").out))
        if r["Username"] == "ada"
    ]
    assert (row["Cost $"], row["Slot Hours"]) == ("12.30", "40.00")


def test_budget_list_shows_spent_amount(rented: FakeCluster, det: Det) -> None:
    assert det("budget", "list").out == BUDGETS


@pytest.mark.parametrize(
    ("flags", "scope"),
    [
        (["--experiment", "3"], {"scope": "experiment", "of": "3", "period": "total"}),
        (["--user", "ada", "--monthly"], {"scope": "user", "of": "ada", "period": "month"}),
        (["--workspace", "vision"], {"scope": "workspace", "of": "vision", "period": "total"}),
        (["--pool", "gpu"], {"scope": "pool", "of": "gpu", "period": "total"}),
    ],
)
def test_budget_is_set_for_one_scope(
    rented: FakeCluster, det: Det, flags: list[str], scope: dict[str, str]
) -> None:
    result = det("budget", "set", "12", *flags)
    assert "of which $9.80 is spent" in result.err
    (request,) = rented.sent("PUT", "/api/v1/budgets")
    assert request.body == {"limitUsd": "12", **scope}


@pytest.mark.parametrize("flags", [[], ["--user", "ada", "--pool", "gpu"]])
def test_budget_requires_exactly_one_scope(rented: FakeCluster, det: Det, flags: list[str]) -> None:
    assert det("budget", "set", "12", *flags).code == 2
    assert rented.sent("PUT", "/api/v1/budgets") == []


def test_budget_is_deleted_by_id(rented: FakeCluster, det: Det) -> None:
    assert det("budget", "delete", "7").code == 0
    assert len(rented.sent("DELETE", "/api/v1/budgets/7")) == 1
    assert det("budget", "delete", "seven").code == 2
