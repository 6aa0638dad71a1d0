"""Addresses of Determined's pages, titles of pages, and the response to an invalid address."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.api import PASSWORD, Caller, report_checkpoint
from tests.support.browser import Tab, opened

# Addresses in bookmarks and in Determined's command line, and their pages here.
MOVED = {
    "/experiments/{e}/trials/{t}": "/trials/{t}",
    "/experiments/{e}/trials/{t}/logs": "/trials/{t}/logs",
    "/searches/{e}": "/experiments/{e}",
    "/projects/1": "/experiments?project=1",
    "/projects/1/experiments": "/experiments?project=1",
    "/jobs": "/queue",
    "/clusters": "/cluster",
    "/clusters/historical-usage": "/cluster",
    "/resourcepool/default/active": "/queue/default",
    "/models/{m}/versions/2": "/models/{m}",
    "/login": "/dashboard",
    "/admin/cluster": "/admin",
    "/settings/profile": "/settings",
    "/commands/{c}/logs": "/tasks/command/{c}",
    "/wait/command/{c}?eventUrl=x": "/tasks/command/{c}?open=1",
    "/interactive/{c}/command/a%20%28b/c%29/default/%2Fdet%2Fwait?x=false": "/tasks/command/{c}?open=1",
}  # fmt: skip


@pytest.fixture
def tab(house_tab: Tab) -> Tab:
    return house_tab


def experiment(user: Caller, experiment_id: int) -> dict[str, Any]:
    stored_experiment: dict[str, Any] = user.get(f"/api/v1/experiments/{experiment_id}")[
        "experiment"
    ]
    return stored_experiment


def test_addresses_of_determined_open_the_same_pages(tab: Tab, user: Caller, searched: int) -> None:
    command = {"config": {"entrypoint": ["sleep", "600"]}}
    user.post("/api/v1/models", {"name": "linked"})
    names = {
        "e": searched,
        "t": experiment(user, searched)["bestTrialId"],
        "c": user.post("/api/v1/commands", command)["command"]["id"],
        "m": user.get("/api/v1/models", name="linked")["models"][0]["id"],
    }
    tab.open("/")
    for old_address, page in MOVED.items():
        tab.visit(old_address.format(**names))
        tab.page.wait_for_url(f"{tab.base}/det{page.format(**names)}")
        tab.ready()
        assert (old_address, tab.page.get_by_text("Page not found").count()) == (
            old_address,
            0,
        )
    user.post(f"/api/v1/commands/{names['c']}/kill")


def test_logout_address_signs_out(browser: Any, house_base: str) -> None:
    with opened(browser, house_base, user=("determined", PASSWORD)) as tab:
        tab.open("/logout")
        tab.page.get_by_label("User name").wait_for()
        tab.open("/experiments")
        tab.page.get_by_label("User name").wait_for()


def test_window_title_has_the_name_of_the_page(tab: Tab, searched: int) -> None:
    tab.open(f"/experiments/{searched}")
    tab.ready()
    name = tab.page.locator("h1").inner_text()
    for part in ("Trials", "Search"):
        tab.page.get_by_role("link", name=part, exact=True).click()
        tab.page.wait_for_url(f"**/{part.lower()}")
        tab.ready()
        assert tab.page.title().startswith(name)


def test_invalid_filters_in_an_address_are_reported_and_can_be_dropped(
    tab: Tab, searched: int
) -> None:
    date = {
        "column": "startTime", "location": "LOCATION_TYPE_EXPERIMENT", "type": "COLUMN_TYPE_DATE",
        "operator": ">", "value": "no date",
    }  # fmt: skip
    vain: tuple[Any, ...] = ([{}], [date], "cut")
    for address in vain:
        tab.open(f"/experiments?filter={quote(json.dumps(address))}")
        tab.page.get_by_text("A filter in the URL is invalid").wait_for()
        tab.page.get_by_role("checkbox", name=f"Select {searched}", exact=True).wait_for()
    tab.page.get_by_role("button", name="Remove filter").click()
    tab.page.wait_for_url("**/det/experiments")


def test_broken_page_shows_an_error_and_others_still_work(tab: Tab, searched: int) -> None:
    def torn(route: Any) -> None:
        route.fulfill(json={"jobs": [{"full": {}}], "pagination": {"total": 1}})

    tab.page.route("**/api/v1/job-queues-v2*", torn)
    tab.open("/queue")
    tab.page.get_by_role("heading", name="This page cannot be shown").wait_for()
    tab.page.unroute("**/api/v1/job-queues-v2*")
    tab.page.get_by_role("button", name="Try again").click()
    tab.page.get_by_role("heading", name="Job queue").wait_for()
    tab.complaints.clear()


def test_opening_a_page_announces_it_and_moves_the_focus(tab: Tab, searched: int) -> None:
    tab.open("/experiments")
    tab.ready()
    assert tab.page.evaluate("document.activeElement.tagName") == "BODY"
    tab.page.get_by_role("link", name="Job queue").press("Enter")
    heading = tab.page.get_by_role("heading", name="Job queue")
    heading.wait_for()
    tab.page.get_by_role("status", name="Page").filter(has_text="Job queue").wait_for(
        state="attached"
    )
    assert heading.evaluate("e => e === document.activeElement")


def test_charts_take_one_tab_stop(tab: Tab, searched: int) -> None:
    tab.open(f"/experiments/{searched}/search")
    lines = tab.page.get_by_role("button", name=re.compile(r"^Trial \d+"))
    lines.first.wait_for()
    assert [e.get_attribute("tabindex") for e in lines.all()].count("0") == 1
    lines.first.focus()
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    assert lines.nth(1).get_attribute("aria-pressed") == "true"
    tab.open(f"/experiments/{searched}/hyperparameters")
    points = tab.page.locator(".scatter").first.get_by_role("link")
    points.first.wait_for()
    assert [e.get_attribute("tabindex") for e in points.all()].count("0") == 1
    points.first.focus()
    tab.page.keyboard.press("End")
    assert points.last.evaluate("e => e === document.activeElement")


def test_trial_can_be_trained_again(tab: Tab, user: Caller, searched: int) -> None:
    best = experiment(user, searched)["bestTrialId"]
    checkpoint = report_checkpoint(user, searched)
    hparams = user.get(f"/api/v1/trials/{best}")["trial"]["hparams"]
    tab.open(f"/trials/{best}")
    tab.page.get_by_role("button", name="Retrain").click()
    tab.page.get_by_label("Start from its latest checkpoint").check()
    editor = tab.page.get_by_label("Configuration, in YAML")
    tab.page.wait_for_function(
        "e => e.value.includes('source_trial_id')", arg=editor.element_handle()
    )
    tab.page.get_by_text("This configuration is valid. 1 trial with 1 slot.").wait_for()
    tab.page.get_by_label("Start paused").check()
    tab.page.get_by_role("button", name="Create", exact=True).click()
    tab.page.wait_for_url(re.compile(rf"/det/experiments/(?!{searched}\b)\d+$"))
    experiment_id = int(tab.page.url.rsplit("/", 1)[1])
    searcher = experiment(user, experiment_id)["config"]["searcher"]
    assert searcher["name"] == "single"
    assert searcher["source_checkpoint_uuid"] == checkpoint
    (trial,) = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    assert trial["hparams"] == hparams
