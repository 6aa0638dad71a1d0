"""Rented machines in the page, from the first reason to wait to the bill, over a cloud in memory."""

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Scope
from det_controlplane.db.engine.database import Database
from det_controlplane.services.maintenance import tick

from tests.support.api import create
from tests.support.browser import Tab
from tests.support.forms import fill, gone, press
from tests.support.postgres import DatabaseServer
from tests.support.rented import OFFERS, MachineAgent, RentedCluster, rented_cluster
from tests.support.searches import MODEL, SPACE, train
from tests.support.served_api import served


@pytest.fixture
def rented(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RentedCluster]:
    with postgres_server.database() as url:
        database = Database(url)
        with rented_cluster(database, tmp_path_factory.mktemp("rented")) as cluster:
            # Browsers count from their own clock.
            cluster.time = datetime.now(timezone.utc)
            yield cluster
        database.dispose()


@pytest.fixture
def base(rented: RentedCluster) -> Iterator[str]:
    with served(rented.api) as url:
        yield url


def machine(tab: Tab, name: str) -> Any:
    """Return the row of a machine, on a page that is fresh."""
    tab.page.reload()
    row = tab.page.get_by_role("region", name="Machines").get_by_role("row").filter(has_text=name)
    row.wait_for()
    return row


def test_pages_show_a_machine_from_its_launch_to_its_cost(tab: Tab, rented: RentedCluster) -> None:
    rented.pass_time(hours=-5)
    user = rented.api.signed_in("determined")
    experiment = create(user, activate=True)
    tab.open("/cluster")
    tab.page.get_by_text("No machines.").wait_for()
    rented.settle()
    (rental,) = rented.cloud.alive()
    machine(tab, rental.cloud_id).get_by_text("Launched", exact=True).wait_for()
    agent = rented.boot(rental)
    rented.settle()
    agent.work()
    machine(tab, rental.cloud_id).get_by_text("Registered", exact=True).wait_for()
    tab.page.get_by_role("region", name="Running work").get_by_role("row").nth(1).wait_for()
    assert tab.faults() == []
    rented.pass_time(hours=3)
    agent.poll()
    user.post(f"/api/v1/experiments/{experiment}/kill")
    agent.finish()
    for _ in range(4):
        rented.pass_time(minutes=10)
        rented.settle(1)
    (instance,) = rented.instances(all=True)
    assert instance["state"] == "GONE"
    tab.page.reload()
    tab.page.get_by_text("No machines.").wait_for()
    press(tab, "Show ended")
    row = tab.page.get_by_role("region", name="Machines").get_by_role("row").nth(1)
    row.get_by_text("Gone", exact=True).wait_for()
    row.get_by_text(f"${instance['costUsd']:.2f}", exact=True).wait_for()
    row.get_by_text(instance["reason"], exact=True).wait_for()
    row.get_by_role("button", name=rental.cloud_id).click()
    for word in ("Requested", "Launched", "Agent connected", "Ended"):
        tab.page.get_by_role("dialog").get_by_text(word, exact=True).first.wait_for()
    assert tab.faults() == []
    press(tab, "Close")
    hours = tab.page.get_by_role("img", name="Cost per hour for the last 24 hours").locator("span")
    heights = [hour.bounding_box()["height"] for hour in hours.all()]
    assert sum(height > 1 for height in heights) in (3, 4, 5)
    (month,) = rented.api.signed_in("admin").get("/api/v1/costs/pools")["costs"]
    tab.page.get_by_text(
        f"${month['workingUsd']:.2f} busy, ${month['idleUsd']:.2f} idle"
    ).wait_for()


def test_search_shows_its_gain_for_each_dollar_and_then_why_it_ended(
    tab: Tab, rented: RentedCluster
) -> None:
    """The machine costs $0.40 an hour, so the limit of $0.10 is exceeded after 15 minutes."""
    user = rented.api.signed_in("determined")
    searcher = {**MODEL, "stop_when": {"or_cost_above": 0.10}}
    seed = {"experiment_seed": 1}
    id = create(user, activate=True, searcher=searcher, hyperparameters=SPACE, reproducibility=seed)
    _, agent = rented.employ()
    pass_minutes(rented, agent, 10)
    train(user, id, 12)
    gain = user.get(f"/api/v1/experiments/{id}/search")["expectedGain"]
    tab.open(f"/experiments/{id}/search")
    value, price = (f"{gain[name]:.5g}" for name in ("value", "perUsd"))
    tab.page.get_by_text(f"improve loss by {value}, {price} for each dollar").wait_for()
    assert tab.faults() == []
    pass_minutes(rented, agent, 10)
    tab.page.get_by_text("The search ended early: its cost of $0.1").wait_for()
    assert tab.page.get_by_text("for each dollar").count() == 0


def pass_minutes(rented: RentedCluster, agent: MachineAgent, minutes: int) -> None:
    for _ in range(minutes * 3):
        rented.pass_time(seconds=20)
        agent.poll()
        tick.run(rented.api.ctx)


def test_machine_can_be_terminated(tab: Tab, rented: RentedCluster) -> None:
    create(rented.api.signed_in("determined"), activate=True)
    rental, _ = rented.employ()
    tab.open("/cluster")
    press(tab, f"Actions on {rental.cloud_id}", "Release", "Release")
    gone(tab)
    (instance,) = rented.instances()
    assert (instance["state"], instance["reason"]) == ("TERMINATING", "terminated by admin")
    machine(tab, rental.cloud_id).get_by_text("terminated by admin").wait_for()


def test_pool_can_be_held_and_resumed(tab: Tab, rented: RentedCluster) -> None:
    tab.open("/cluster")
    press(tab, "Hold")
    fill(tab, Reason="the bill <b>of March</b>")
    press(tab, "Hold")
    gone(tab)
    tab.page.get_by_text("held by admin: the bill <b>of March</b>").wait_for()
    admin = rented.api.signed_in("admin")
    assert admin.get("/api/v1/rented-pools/default")["pool"]["hold"]["byOperator"]
    create(rented.api.signed_in("determined"), activate=True)
    rented.settle()
    assert rented.cloud.rented == []
    tab.page.reload()
    tab.page.get_by_text("1 queued run:").wait_for()
    press(tab, "Resume")
    tab.page.get_by_role("button", name="Hold").wait_for()
    assert admin.get("/api/v1/rented-pools/default")["pool"]["hold"] is None
    rented.settle()
    assert len(rented.cloud.rented) == 1


def test_offers_show_hardware_and_refusals_with_next_try(tab: Tab, rented: RentedCluster) -> None:
    rented.cloud.refuse(Scope.of(OFFERS[0]), RefusalKind.NO_CAPACITY, "1a has no <b>g5</b>")
    create(rented.api.signed_in("determined"), activate=True)
    rented.settle()
    tab.open("/cluster")
    offers = tab.page.get_by_role("region", name="Offers")
    row = offers.get_by_role("row").filter(has_text="us-east-1a").first
    row.get_by_text("1a has no <b>g5</b>. Retry in").wait_for()
    row.get_by_text("NVIDIA A10G 24 GiB, 4 vCPU, 16 GiB", exact=True).wait_for()
    others = offers.get_by_role("row").filter(has_text="us-east-1b")
    assert "Retry in" not in (others.text_content() or "")
    assert tab.faults() == []


def test_deadline_is_shown_on_the_page_and_in_the_list_of_experiments(
    tab: Tab, rented: RentedCluster
) -> None:
    user = rented.api.signed_in("determined")
    resources = {"slots_per_trial": 1, "finish_within": "30h", "expected_hours": 10}
    experiment = create(user, activate=True, resources=resources)
    rented.settle()
    tab.open(f"/experiments/{experiment}")
    tab.page.get_by_text("Deadline", exact=True).wait_for()
    tab.page.get_by_text("100 %, on track; predicted end").wait_for()
    assert tab.faults() == []
    tab.visit("/experiments?columns=id,deadline")
    tab.page.get_by_role("row").get_by_text("100 %, on track").wait_for()
    assert tab.faults() == []
