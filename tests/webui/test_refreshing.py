"""Pages stay up to date, also beside an unanswered request and outside the visible part."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.api import Caller
from tests.support.browser import Tab

LONG = 240  # rows; a table fetches a hundred at a time
SOON_MS = 20_000
TRIES = 3  # for a script, each by a reloaded page; browsers send several requests for each


@pytest.fixture
def tab(house_tab: Tab) -> Tab:
    return house_tab


def test_failed_request_does_not_stop_others(tab: Tab) -> None:
    tab.page.clock.install()
    tab.open("/queue/default")
    tab.page.get_by_text("The queue is empty").wait_for()
    tab.page.route("**/job-queues-v2*", lambda r: r.fulfill(status=504, body="too slow"))
    alert = tab.page.get_by_role("alert").get_by_text("The cluster returned 504")
    for _ in range(4):
        with tab.page.expect_response("**/resource-pools*", timeout=SOON_MS):
            tab.page.clock.run_for(60_000)
    alert.wait_for()
    for _ in range(4):
        with tab.page.expect_response("**/resource-pools*", timeout=SOON_MS):
            tab.page.clock.run_for(60_000)
        assert (alert.count(), tab.page.locator(".lost").count()) == (1, 0)
    tab.page.unroute("**/job-queues-v2*")
    with tab.page.expect_response("**/job-queues-v2*", timeout=SOON_MS):
        tab.page.clock.run_for(60_000)
    alert.wait_for(state="detached")
    tab.complaints[:] = [c for c in tab.complaints if "504" not in c]


def test_changed_rows_outside_the_visible_part_are_loaded_again(tab: Tab, user: Caller) -> None:
    for n in range(LONG):
        user.post("/api/v1/models", {"name": f"fresh {n:03}"})
    tab.page.clock.install()
    tab.open("/models?q=fresh")
    tab.page.get_by_role("link", name=f"fresh {LONG - 1}").wait_for()
    scroll(tab, "e.scrollHeight")
    tab.page.get_by_role("link", name="fresh 000").wait_for()
    user.post("/api/v1/models", {"name": "fresh and new"})
    with tab.page.expect_response(lambda r: "/models?" in r.url, timeout=SOON_MS):
        tab.page.clock.run_for(60_000)
    tab.page.locator(f'table[aria-rowcount="{LONG + 2}"]').wait_for()
    tab.hide(True)  # so that the clock triggers no request
    scroll(tab, "0")
    tab.page.get_by_role("link", name="fresh and new").wait_for(timeout=SOON_MS)


def scroll(tab: Tab, to: str) -> None:
    region: Any = tab.page.get_by_role("region", name="Models")
    region.evaluate(f"e => e.scrollTo(0, {to})")
    for _ in range(5):
        tab.page.wait_for_timeout(50)
        tab.page.clock.run_for(100)


@pytest.mark.parametrize(
    "script", ["trial", "experiment/checkpoints"], ids=["its own", "one it needs"]
)
def test_page_is_reloaded_if_its_script_fails_to_load(tab: Tab, trial: int, script: str) -> None:
    with lost(tab, f"pages/{script}.js", times=1):
        tab.visit(f"/trials/{trial}")
        tab.page.get_by_role("heading", name=f"Trial {trial}").wait_for()


def test_page_shows_an_error_if_its_script_never_loads(tab: Tab, trial: int) -> None:
    with lost(tab, "pages/trial.js") as requests:
        reloads = loaded_pages(tab)
        tab.visit(f"/trials/{trial}")
        tab.page.get_by_role("alert").get_by_text("This page did not load").wait_for()
        assert len(reloads) == TRIES - 1 < len(requests)
        tab.visit("/queue")
        tab.ready()


def test_page_shows_an_error_if_one_part_never_loads(tab: Tab, trial: int, searched: int) -> None:
    with lost(tab, "experiment/trials.js") as requests:
        reloads = loaded_pages(tab)
        tab.visit(f"/experiments/{searched}/trials")
        tab.page.get_by_role("alert").get_by_text("A part of this page did not load").wait_for()
        assert len(reloads) == TRIES - 1 < len(requests)


def test_unsaved_text_remains_if_a_part_fails_to_load(tab: Tab, searched: int) -> None:
    tab.open(f"/experiments/{searched}/notes")
    notes = tab.page.get_by_role("textbox", name="Notes")
    notes.fill("to be kept")
    with lost(tab, "experiment/dialogs.js"):
        tab.page.get_by_role("button", name="Fork").click()
        tab.page.get_by_role("alert").get_by_text("A part of this page did not load").wait_for()
        assert notes.input_value() == "to be kept"
        tab.visit("/queue")
        tab.page.get_by_role("button", name="Discard changes").click()


@pytest.fixture
def trial(tab: Tab, user: Caller, searched: int) -> int:
    """A trial before its page is opened."""
    tab.open("/")
    tab.ready()
    best: int = user.get(f"/api/v1/experiments/{searched}")["experiment"]["bestTrialId"]
    return best


def loaded_pages(tab: Tab) -> list[str]:
    """Return the addresses of pages that the tab loads from now on."""
    pages: list[str] = []
    tab.page.on("request", lambda r: pages.append(r.url) if r.is_navigation_request() else None)
    return pages


@contextmanager
def lost(tab: Tab, script: str, times: int = 1_000) -> Iterator[list[str]]:
    """Lose a script of the page so many times; yields the addresses that were asked for."""
    requests: list[str] = []

    def lose(route: Any) -> None:
        requests.append(route.request.url)
        if len(requests) > times:
            route.continue_()
        else:
            route.abort()

    tab.page.route(f"**/{script}", lose)
    yield requests
    assert requests
    tab.complaints[:] = [c for c in tab.complaints if "ERR_FAILED" not in c]
