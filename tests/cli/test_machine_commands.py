"""Rented machines, the pools that rent them, what work costs, and budgets."""

# ruff: noqa: E501 – the golden tables are as wide as what they show

import csv
import io
import json
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Det
from tests.support.fake_api import Asked, Raw, Refusal
from tests.support.fake_cluster import START, FakeCluster, page

ID = "4e2af5f0-fcd5-4a72-9e48-f0e91fcee8b0"
INSTANCES = """\
 ID                                   | Pool   | State    | Offer                         |   Slots |   $/hour |   Cost $ | Cloud ID   | Agent ID   | Requested                | Reason
--------------------------------------+--------+----------+-------------------------------+---------+----------+----------+------------+------------+--------------------------+----------
 4e2af5f0-fcd5-4a72-9e48-f0e91fcee8b0 | gpu    | LAUNCHED | aws us-east-1b g6.xlarge spot |       1 |    0.362 |     1.20 | i-1        |            | 2026-11-20 10:00:00+0000 |
"""
POOLS = """\
 Name   | Instances   |   $/hour |   Queued |   Queued Slots |   Offers |   Cheapest $/hour | Held
--------+-------------+----------+----------+----------------+----------+-------------------+--------
 gpu    | 1 (0-8)     |     0.36 |        1 |              2 |        2 |            0.3622 |
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
    known = {"id": ID, "pool": "gpu", "state": "LAUNCHED", "costUsd": 1.2, "cloudId": "i-1"}
    silent = {"agentId": None, "reason": None, "console": None, "requestedAt": START}
    return {**offer("us-east-1b", 0.3622), **known, **silent, **more}


def pool(**more: Any) -> dict[str, Any]:
    limits = {"minInstances": 0, "maxInstances": 8, "warmInstances": 0, "maxHourlyCost": 40.0}
    counts = {"instances": 1, "priceUsdHour": 0.3622, "queued": 1, "queuedSlots": 2}
    offers = [offer("us-east-1a", 0.3622), offer("us-east-1b", 0.4)]
    told = {"hold": None, "cooldowns": [], "waiting": [], "offers": offers}
    return {"name": "gpu", **limits, **counts, **told, **more}


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


def test_machines_are_told_with_offer_and_cost(rented: FakeCluster, det: Det) -> None:
    assert det("instance", "list").out == INSTANCES
    (asked,) = rented.sent("GET", "/api/v1/instances")
    assert (asked.first("all"), asked.first("pool")) == ("", "")


def test_ended_machines_and_one_pool_are_asked_for(rented: FakeCluster, det: Det) -> None:
    (row,) = csv.DictReader(io.StringIO(det("i", "ls", "--all", "--pool", "gpu", "--csv").out))
    assert row["ID"] == ID
    (asked,) = rented.sent("GET", "/api/v1/instances")
    assert (asked.first("all"), asked.first("pool")) == ("true", "gpu")


def test_no_machines_are_an_empty_list(rented: FakeCluster, det: Det) -> None:
    rented.on("GET", "/api/v1/instances", lambda a: page("instances", [], a))
    assert json.loads(det("instance", "list", "--json").out) == []
    assert det("instance", "list").code == 0


def test_describe_shows_the_console(rented: FakeCluster, det: Det) -> None:
    assert json.loads(det("instance", "describe", ID, "--json").out)["console"] == "last words"


def test_describe_shows_the_console_as_it_was_printed(rented: FakeCluster, det: Det) -> None:
    printed = "cloud-init: \ndetermined-boot: installing docker\n"
    rented.on("GET", f"/api/v1/instances/{ID}", {"instance": instance(console=printed)})
    out = det("instance", "describe", ID).out
    assert out.endswith("console: |\n  cloud-init:\n  determined-boot: installing docker\n")
    assert yaml.safe_load(out)["state"] == "LAUNCHED"


def test_describe_says_who_is_shown_the_console(rented: FakeCluster, det: Det) -> None:
    rented.on("GET", f"/api/v1/instances/{ID}", {"instance": instance()})
    ran = det("instance", "describe", ID)
    assert "for administrators" in ran.err
    assert yaml.safe_load(ran.out)["state"] == "LAUNCHED"


def test_terminate_asks_first(rented: FakeCluster, det: Det) -> None:
    assert det("instance", "terminate", ID).code != 0
    assert rented.sent("POST", ".*terminate") == []
    assert det("instance", "terminate", ID, "--yes").code == 0
    assert len(rented.sent("POST", f"/api/v1/instances/{ID}/terminate")) == 1


def test_pools_are_told_with_what_waits_and_the_cheapest_offer(
    rented: FakeCluster, det: Det
) -> None:
    assert det("pool", "list").out == POOLS


def test_hold_and_resume_steer_one_pool(rented: FakeCluster, det: Det) -> None:
    assert det("pool", "hold", "gpu", "--reason", "the bill").code == 0
    assert det("pool", "resume", "gpu").code == 0
    held, resumed = rented.sent("POST", "/api/v1/rented-pools/.*")
    assert (held.path[-5:], held.body) == ("/hold", {"reason": "the bill"})
    assert resumed.path.endswith("/resume")


def test_resuming_a_pool_says_that_its_budget_is_spent(rented: FakeCluster, det: Det) -> None:
    spent = "the budget of pool gpu ($5.00) is spent; raise it with `det budget set`"
    rented.on("POST", "/api/v1/rented-pools/gpu/resume", {"pool": pool(spentBudget=spent)})
    assert spent in det("pool", "resume", "gpu").err


def test_an_unknown_pool_is_told_by_the_cluster(rented: FakeCluster, det: Det) -> None:
    def refuse(_: Asked) -> None:
        raise Refusal(404, "pool 'cpu' rents no machines; the pools that do: gpu")

    rented.on("GET", "/api/v1/rented-pools/cpu", refuse)
    ran = det("pool", "why", "cpu")
    assert (ran.code, "the pools that do: gpu" in ran.err) == (3, True)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"queued": 0},
            "Nothing keeps pool gpu from launching.\nNothing waits for machines.\n",
        ),
        (
            {"hold": {"sentence": "held by ada: the bill"}, "queued": 0},
            "Pool gpu launches nothing: held by ada: the bill\n`det pool resume gpu` lets it launch again.\n"
            "Nothing waits for machines.\n",
        ),
        (
            {"spentBudget": "the budget of pool gpu ($5.00) is spent", "queued": 0},
            "Pool gpu launches nothing: the budget of pool gpu ($5.00) is spent\nNothing waits for machines.\n",
        ),
        (
            {"instances": 8, "queued": 0},
            "Pool gpu has all 8 machines that max_instances allows.\nNothing waits for machines.\n",
        ),
        (
            {"maxHourlyCost": 0.5, "queued": 0},
            "Pool gpu costs $0.36 of the $0.50 an hour that max_hourly_cost allows.\nNothing waits for machines.\n",
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
            "aws us-east-1: prices are those of June 2025, as the price list is denied\nNothing waits for machines.\n",
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
def test_why_tells_what_keeps_a_pool_from_launching(
    rented: FakeCluster, det: Det, changed: dict[str, Any], told: str
) -> None:
    rented.on("GET", "/api/v1/rented-pools/gpu", {"pool": pool(**changed)})
    assert det("pool", "why", "gpu").out == told


def test_why_as_json_is_the_pool(rented: FakeCluster, det: Det) -> None:
    assert json.loads(det("pool", "why", "gpu", "--json").out) == pool()


@pytest.mark.parametrize("words", [("-5", "--user", "admin"), ("--user", "admin", "--", "-5")])
def test_a_negative_budget_is_refused_as_an_amount(
    rented: FakeCluster, det: Det, words: tuple[str, ...]
) -> None:
    ran = det("budget", "set", *words)
    assert (ran.code, "above 0, not '-5'" in ran.err) == (2, True)
    assert not rented.sent("PUT", "/api/v1/budgets")


@pytest.mark.parametrize(("name", "costs"), [("gpu", True), ("default", False)])
def test_a_budget_of_a_pool_whose_machines_cost_nothing_is_told_as_such(
    rented: FakeCluster, det: Det, name: str, costs: bool
) -> None:
    ran = det("budget", "set", "12", "--pool", name)
    assert ran.code == 0
    assert (f"Pool {name} rents no machines" in ran.err) is not costs


def test_options_behind_two_dashes_are_told_apart_from_unknown_ones(
    rented: FakeCluster, det: Det
) -> None:
    ran = det("budget", "set", "--", "5", "--user", "admin")
    assert "what stands behind `--` is no option: write it before" in ran.err
    assert "behind" not in det("budget", "set", "5", "--usr", "admin").err


def test_reports_are_printed_as_the_cluster_tells_them(rented: FakeCluster, det: Det) -> None:
    rented.on("GET", "/resources/allocation/raw", Raw(b"experiment_id,cost_usd\n1,0.5\n"))
    assert det("resources", "raw", "2026-11-01", "2026-12-01T12:00:00Z").out == (
        "experiment_id,cost_usd\n1,0.5\n"
    )
    (asked,) = rented.sent("GET", "/resources/allocation/raw")
    assert asked.first("timestampAfter") == "2026-11-01T00:00:00Z"
    assert asked.first("timestampBefore") == "2026-12-01T12:00:00Z"
    ran = det("res", "raw", "yesterday", "2026-12-01")
    assert (ran.code, "'yesterday' is no time" in ran.err) == (2, True)


def test_a_report_that_the_cluster_refuses_is_an_error(rented: FakeCluster, det: Det) -> None:
    def refuse(_: Asked) -> None:
        raise Refusal(400, "start date 2026-12-01 is after end date 2026-11-01")

    rented.on("GET", "/resources/allocation/aggregated", refuse)
    ran = det("res", "agg", "2026-12-01", "2026-11-01")
    assert (ran.code, "is after end date" in ran.err, ran.out) == (1, True, "")


def test_users_are_told_with_what_their_work_cost(rented: FakeCluster, det: Det) -> None:
    told = {"costs": [{"username": "ada", "costUsd": 12.3, "slotHours": 40.0}]}
    rented.on("GET", "/api/v1/costs/users", told)
    (row,) = [
        r
        for r in csv.DictReader(io.StringIO(det("user", "list", "--csv").out))
        if r["Username"] == "ada"
    ]
    assert (row["Cost $"], row["Slot Hours"]) == ("12.30", "40.00")


def test_budgets_are_told_with_what_is_spent(rented: FakeCluster, det: Det) -> None:
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
def test_a_budget_is_set_for_one_thing(
    rented: FakeCluster, det: Det, flags: list[str], scope: dict[str, str]
) -> None:
    ran = det("budget", "set", "12", *flags)
    assert "of which $9.80 are spent" in ran.err
    (asked,) = rented.sent("PUT", "/api/v1/budgets")
    assert asked.body == {"limitUsd": "12", **scope}


@pytest.mark.parametrize("flags", [[], ["--user", "ada", "--pool", "gpu"]])
def test_a_budget_for_none_or_two_things_is_refused(
    rented: FakeCluster, det: Det, flags: list[str]
) -> None:
    assert det("budget", "set", "12", *flags).code == 2
    assert rented.sent("PUT", "/api/v1/budgets") == []


def test_a_budget_is_deleted_by_its_number(rented: FakeCluster, det: Det) -> None:
    assert det("budget", "delete", "7").code == 0
    assert len(rented.sent("DELETE", "/api/v1/budgets/7")) == 1
    assert det("budget", "delete", "seven").code == 2
