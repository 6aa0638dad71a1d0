"""The job queue: a dialog manages each job, undoes changes, and shows refusals."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from det_controlplane.core.config.pools import Scheduler

from tests.support.api import Caller, create
from tests.support.browser import Tab
from tests.support.forms import choose, fill, gone, press
from tests.support.house import House

QUEUE = "/api/v1/job-queues-v2"


@pytest.fixture
def tab(house_tab: Tab) -> Tab:
    return house_tab


@pytest.fixture
def three(house: House, user: Caller) -> Iterator[list[str]]:
    """Names of three experiments that wait, next first."""
    ids = [create(user, name=f"job {n}", activate=True) for n in "abc"]
    house.api.tick()
    yield ["job a", "job b", "job c"]
    for experiment_id in ids:
        user.post(f"/api/v1/experiments/{experiment_id}/kill")


def queue(user: Caller, pool: str = "default") -> list[str]:
    jobs = user.get(QUEUE, resourcePool=pool)["jobs"]
    return [job["full"]["name"] for job in jobs]


def job(user: Caller, name: str, pool: str = "default") -> dict[str, Any]:
    jobs = user.get(QUEUE, resourcePool=pool)["jobs"]
    return next(j["full"] for j in jobs if j["full"]["name"] == name)


def manage(tab: Tab, name: str) -> None:
    press(tab, f"Actions on {name}", "Manage job")
    tab.page.get_by_role("dialog", name=f"Manage {name}").wait_for()


def test_priority_and_place_of_a_job_can_be_changed_and_undone(
    tab: Tab, user: Caller, three: list[str]
) -> None:
    tab.open("/queue/default")
    manage(tab, "job c")
    tab.page.get_by_text(re.compile("^Waiting: ")).wait_for()
    assert tab.faults() == []
    fill(tab, Priority="10")
    press(tab, "Save")
    gone(tab)
    tab.page.get_by_text("Changed job c").wait_for()
    assert (queue(user)[0], job(user, "job c")["priority"]) == ("job c", 10)
    press(tab, "Undo")
    tab.page.get_by_text("Undone").wait_for()
    assert (queue(user), job(user, "job c")["priority"]) == (three, 42)
    tab.page.get_by_role("row").nth(3).get_by_text("job c").wait_for()
    manage(tab, "job c")
    fill(tab, Position="2")
    press(tab, "Save")
    gone(tab)
    assert queue(user) == ["job a", "job c", "job b"]
    press(tab, "Undo")
    tab.page.get_by_role("row").nth(3).get_by_text("job c").wait_for()
    assert queue(user) == three


def test_jobs_have_the_positions_of_the_api_plus_one(
    tab: Tab, user: Caller, three: list[str]
) -> None:
    tab.open("/queue/default")
    tab.page.get_by_role("link", name="job c").wait_for()
    first_cells = tab.page.locator("tbody tr td:first-child").all_inner_texts()
    jobs = user.get(QUEUE, resourcePool="default")["jobs"]
    positions = [str(j["full"]["summary"]["jobsAhead"] + 1) for j in jobs]
    assert first_cells == positions == ["1", "2", "3"]


def test_job_can_be_moved_to_another_pool_and_back(
    tab: Tab, user: Caller, three: list[str]
) -> None:
    tab.open("/queue/default")
    manage(tab, "job a")
    fill(tab, Position="9")  # has no meaning in another pool
    choose(tab, Resource="reserved")
    fill(tab, Priority="7")
    press(tab, "Save")
    gone(tab)
    tab.page.wait_for_url(re.compile("/queue/reserved$"))
    tab.page.get_by_role("link", name="job a").wait_for()
    assert (queue(user, "reserved"), job(user, "job a", "reserved")["priority"]) == (["job a"], 7)
    press(tab, "Undo")
    tab.page.get_by_text("Undone").wait_for()
    assert (sorted(queue(user)), job(user, "job a")["priority"]) == (three, 42)


@pytest.fixture
def fair(house: House) -> Iterator[str]:
    """A pool with a scheduler that uses weights instead of priorities."""
    before = house.api.ctx.config
    (pool,) = [p for p in before.resource_pools if p.pool_name == "reserved"]
    pools = [p for p in before.resource_pools if p is not pool]
    other = replace(pool, scheduler=Scheduler("fair_share"))
    house.api.ctx.config = replace(before, resource_pools=(*pools, other))
    yield pool.pool_name
    house.api.ctx.config = before


def test_move_to_a_pool_with_another_scheduler_can_be_undone(
    tab: Tab, user: Caller, three: list[str], fair: str
) -> None:
    tab.open("/queue/default")
    manage(tab, "job a")
    choose(tab, Resource=fair)
    fill(tab, Weight="3")
    press(tab, "Save")
    gone(tab)
    tab.page.wait_for_url(re.compile(f"/queue/{fair}$"))
    assert job(user, "job a", fair)["weight"] == 3
    press(tab, "Undo")
    tab.page.get_by_text("Undone").wait_for()
    assert (sorted(queue(user)), job(user, "job a")["weight"]) == (three, 1)


def test_weight_of_a_job_can_be_changed_and_undone(
    tab: Tab, house: House, user: Caller, fair: str
) -> None:
    experiment_ids = []
    for name, weight in (("light", 1), ("heavy", 2)):
        resources = {"slots_per_trial": 1, "resource_pool": fair, "weight": weight}
        experiment_ids.append(create(user, name=name, activate=True, resources=resources))
    house.api.tick()
    tab.open(f"/queue/{fair}")
    row = tab.page.get_by_role("row").filter(has=tab.page.get_by_role("link", name="light"))
    tab.page.get_by_role("columnheader", name="Weight").wait_for()
    manage(tab, "light")
    assert tab.page.get_by_role("dialog").get_by_label("Priority").count() == 0
    fill(tab, Weight="2.5")
    press(tab, "Save")
    gone(tab)
    row.get_by_role("cell", name="2.5", exact=True).wait_for()
    assert [job(user, name, fair)["weight"] for name in ("light", "heavy")] == [2.5, 2]
    press(tab, "Undo")
    tab.page.get_by_text("Undone").wait_for()
    assert job(user, "light", fair)["weight"] == 1
    for experiment_id in experiment_ids:
        user.post(f"/api/v1/experiments/{experiment_id}/kill")


def test_job_moved_across_priorities_returns_to_its_place_and_priority(
    tab: Tab, user: Caller, three: list[str]
) -> None:
    body = {"updates": [{"jobId": job(user, "job a")["jobId"], "priority": 5}]}
    user.post("/api/v1/job-queues", body)
    tab.open("/queue/default")
    press(tab, "Actions on job c", "Move to top")
    tab.page.get_by_text("Moved to the top").wait_for()
    assert (queue(user)[0], job(user, "job c")["priority"]) == ("job c", 5)
    press(tab, "Undo")
    tab.page.get_by_text("Undone").wait_for()
    assert (queue(user), job(user, "job c")["priority"]) == (three, 42)


def test_queue_errors_are_shown_in_their_dialog(
    tab: Tab, house: House, user: Caller, three: list[str]
) -> None:
    path = "/api/v1/config-policies/global/experiment"
    policies = "constraints:\n  priority_limit: 20\n"
    house.admin.done("PUT", path, {"configPolicies": policies})
    try:
        tab.open("/queue/default")
        manage(tab, "job b")
        fill(tab, Priority="3")
        press(tab, "Save")
        alert = tab.page.get_by_role("dialog").get_by_role("alert")
        alert.wait_for()
        assert "job b" in alert.inner_text()
        press(tab, "Cancel")
        gone(tab)
    finally:
        house.admin.done("DELETE", path)
    assert queue(user) == three
    body = {"error": {"error": "there is no room"}}
    tab.page.route("**/api/v1/job-queues", lambda r: r.fulfill(status=400, json=body))
    press(tab, "Actions on job b", "Move to top")
    tab.page.get_by_role("alert").get_by_text("there is no room").wait_for()
    press(tab, "Dismiss")
    tab.page.get_by_role("alert").wait_for(state="detached")
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_long_queue_shows_that_its_list_is_incomplete(
    tab: Tab, user: Caller, three: list[str]
) -> None:
    requests: list[str] = []

    def two_of_three(route: Any) -> None:
        requests.append(route.request.url)
        if len(requests) > 1 and "limit=1000" in route.request.url:
            route.continue_()
            return
        response = user.get(QUEUE, resourcePool="default")
        response["jobs"] = response["jobs"][:2]
        route.fulfill(json=response)

    tab.page.route(f"**{QUEUE}*", two_of_three)
    tab.open("/queue/default")
    tab.page.get_by_text("Showing the first 2 of 3 jobs.").wait_for()
    manage(tab, "job b")
    tab.page.get_by_text("1 is next. The queue has 3 jobs.").wait_for()
    press(tab, "Cancel")
    press(tab, "Show more")
    tab.page.get_by_role("link", name="job c").wait_for()
    tab.page.get_by_text("Showing the first 2 of 3 jobs.").wait_for(state="detached")


def test_job_can_be_moved_with_the_keyboard(tab: Tab, user: Caller, three: list[str]) -> None:
    tab.open("/queue/default")
    tab.page.get_by_role("button", name="Actions on job b").focus()
    tab.page.keyboard.press("Enter")
    # A menu takes keys once it has the focus, which a busy browser gives it a moment later.
    tab.page.locator('[role="menuitem"]:focus').wait_for()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        tab.page.keyboard.press(key)
    tab.page.get_by_text("Moved down").wait_for()
    assert queue(user) == ["job a", "job c", "job b"]
