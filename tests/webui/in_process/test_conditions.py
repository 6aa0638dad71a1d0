"""Pages as people use them: in two tabs, hidden, over a slow line, with odd names, by keyboard and ear."""

import json
from typing import Any

import pytest

from tests.support.api import create
from tests.support.browser import DESK, OF_COLOURS, Tab, opened
from tests.support.house import House
from tests.webui.conftest import MARKUP

CONFIG = {
    "name": "odd names", "entrypoint": "sleep 600", "max_restarts": 0,
    "hyperparameters": {MARKUP: {"type": "categorical", "vals": [1, 2]}},
    "searcher": {"name": "grid", "metric": MARKUP, "max_length": {"batches": 4}},
}  # fmt: skip


@pytest.fixture(scope="module")
def odd(house: House) -> tuple[int, int]:
    """An experiment with markup in the names of its metric and hyperparameter, and one of its trials."""
    body = {"config": json.dumps(CONFIG), "activate": False}
    experiment_id = int(house.admin.post("/api/v1/experiments", body)["experiment"]["id"])
    trials = house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    for trial in trials:
        for batches in (2, 4):
            metrics = {"avgMetrics": {MARKUP: trial["id"] / batches}}
            report = {
                "trialId": trial["id"],
                "trialRunId": 0,
                "stepsCompleted": batches,
                "metrics": metrics,
            }
            path = f"/api/v1/trials/{trial['id']}/metrics"
            house.admin.post(path, {"group": "validation", "metrics": report})
    return experiment_id, int(trials[0]["id"])


@pytest.fixture(scope="module")
def made(house: House) -> int:
    """An experiment that is paused before it began."""
    return create(house.admin)


def test_names_of_metrics_and_hyperparameters_are_escaped(tab: Tab, odd: tuple[int, int]) -> None:
    experiment_id, trial_id = odd
    tab.open("/")
    for address in (
        f"/experiments/{experiment_id}", f"/experiments/{experiment_id}/trials",
        f"/experiments/{experiment_id}/search", f"/experiments/{experiment_id}/hyperparameters",
        f"/trials/{trial_id}", f"/trials/{trial_id}/workloads", f"/trials/{trial_id}/hyperparameters",
        f"/compare?experiments={experiment_id}",
    ):  # fmt: skip
        tab.visit(address)
        tab.ready()
        tab.page.get_by_text(MARKUP).first.wait_for(state="attached")
        assert (address, tab.page.locator("main img, main b").count()) == (address, 0)
        assert tab.page.title() != "1"


def test_changes_in_one_tab_appear_in_another_tab(tab: Tab, house: House) -> None:
    tab.open(f"/experiments/{create(house.admin)}")
    tab.page.locator(".head .state", has_text="Paused").wait_for()
    other = tab.page.context.new_page()
    other.goto(tab.page.url)
    other.get_by_role("button", name="Stop", exact=True).click()
    other.get_by_role("dialog").get_by_role("button", name="Stop").click()
    tab.page.bring_to_front()
    tab.page.locator(".head .state", has_text="Canceled").wait_for()
    other.get_by_role("button", name="Your account").click()
    other.get_by_role("menuitem", name="Sign out").click()
    other.get_by_label("User name").wait_for()
    tab.page.get_by_role("link", name="Job queue").click()
    tab.page.get_by_label("User name").wait_for()
    tab.complaints[:] = [c for c in tab.complaints if "401" not in c]


def test_hidden_tab_sends_no_requests(tab: Tab) -> None:
    requests: list[str] = []
    tab.page.on("request", lambda r: requests.append(r.url) if "/api/" in r.url else None)
    tab.page.clock.install()
    tab.open("/queue")
    tab.page.get_by_text("The queue is empty").wait_for()
    with tab.page.expect_response("**/job-queues-v2*"):
        tab.page.clock.run_for(60_000)
    tab.hide(True)
    tab.page.wait_for_load_state("networkidle")
    tab.page.clock.run_for(60_000)  # the due refresh finds that the page is hidden
    before = len(requests)
    tab.page.clock.run_for(600_000)
    assert requests[before:] == []
    with tab.page.expect_response("**/job-queues-v2*"):
        tab.hide(False)


def test_slow_network_shows_the_last_opened_page_and_repeats_no_action(
    tab: Tab, house: House, made: int
) -> None:
    tab.open("/experiments")
    tab.ready()
    slow = {
        "offline": False,
        "latency": 700,
        "downloadThroughput": 60_000,
        "uploadThroughput": 60_000,
    }
    tab.page.context.new_cdp_session(tab.page).send("Network.emulateNetworkConditions", slow)
    tab.page.locator(f'a[href="/det/experiments/{made}"]').last.click()
    tab.page.get_by_role("status", name="Loading").first.wait_for()
    tab.page.get_by_role("link", name="Workspaces").click()
    tab.page.get_by_role("heading", name="Workspaces").wait_for()
    tab.ready()
    assert tab.page.locator("h1").all_inner_texts() == ["Workspaces"]
    tab.page.get_by_role("button", name="New workspace").click()
    tab.page.get_by_label("Name", exact=True).fill("Slow")
    tab.page.get_by_role("button", name="Create").dblclick()
    tab.page.get_by_role("heading", name="Slow").wait_for()
    names = [w["name"] for w in house.admin.get("/api/v1/workspaces", limit=-1)["workspaces"]]
    assert names.count("Slow") == 1


def faults(tab: Tab) -> list[str]:
    """Return the accessibility problems of the page in the light theme, and of its colours in the dark theme."""
    problems = tab.faults()
    tab.look(DESK, "dark")
    problems += tab.faults(OF_COLOURS)
    tab.look(DESK)
    return problems


def test_menus_and_dialogs_are_accessible(browser: Any, base: str, tab: Tab, made: int) -> None:
    tab.open(f"/experiments/{made}")
    tab.ready()
    tab.page.get_by_role("button", name="More actions").click()
    tab.page.get_by_role("menu").wait_for()
    assert ("menu", faults(tab)) == ("menu", [])
    tab.page.get_by_role("menuitem", name="Move to another project").click()
    tab.page.get_by_role("combobox", name="Project").wait_for()
    assert ("dialog", faults(tab)) == ("dialog", [])
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("button", name="Fork").click()
    tab.page.get_by_text("This configuration is valid.").wait_for()
    assert ("fork", faults(tab)) == ("fork", [])
    tab.open("/experiments/new")
    tab.ready()
    assert ("new", faults(tab)) == ("new", [])
    tab.open("/experiments/999999")
    tab.page.get_by_role("alert").wait_for()
    assert ("failure", faults(tab)) == ("failure", [])
    tab.open("/nowhere")
    tab.page.get_by_role("heading", name="Page not found").wait_for()
    assert ("missing", faults(tab)) == ("missing", [])
    with opened(browser, base, signed_in=False) as other:
        other.open("/experiments")
        other.page.get_by_label("User name").wait_for()
        assert ("sign-in", faults(other)) == ("sign-in", [])
    # Browsers report missing files.
    tab.complaints[:] = [c for c in tab.complaints if "404" not in c]


def test_page_of_an_unreachable_cluster_retries_only_one_request(tab: Tab, odd: Any) -> None:
    requests: list[str] = []

    def lost(route: Any) -> None:
        requests.append(route.request.url)
        route.abort()

    tab.page.clock.install()
    tab.open("/dashboard")
    tab.ready()
    tab.page.route("**/api/v1/**", lost)
    tab.page.clock.run_for(60_000)
    alert = tab.page.get_by_role("alert")
    alert.get_by_text("The cluster is not responding. Retrying automatically.").wait_for()
    assert alert.count() == 1
    for _ in range(20):
        tab.page.clock.run_for(30_000)
    first = len(requests)
    for _ in range(20):
        tab.page.clock.run_for(30_000)
    assert 0 < len(requests) - first < 40
    tab.page.unroute("**/api/v1/**")
    tab.page.get_by_role("button", name="Retry now").click()
    alert.wait_for(state="detached")
    tab.ready()
    tab.complaints[:] = [c for c in tab.complaints if "ERR_FAILED" not in c]
