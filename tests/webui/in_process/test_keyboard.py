"""Everything by keys alone, from signing in to signing out: the focus reaches all, and is never lost or unseen."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import PASSWORD, create, report_checkpoint, report_metrics, trial_of
from tests.support.browser import opened
from tests.support.house import House
from tests.support.keyboard import Keyboard

MANY = 101  # more than a table has at once


@pytest.fixture(scope="module")
def keys(browser: Any, base: str, house: House) -> Iterator[Keyboard]:
    """The keyboard of an administrator, who has signed in with it."""
    with opened(browser, base, signed_in=False) as tab:
        keyboard = Keyboard(tab)
        tab.open("/")
        keyboard.until("the user name has the focus", "document.activeElement.matches('input')")
        keyboard.fill({"User name": "admin", "Password": PASSWORD})
        keyboard.press("Enter")
        keyboard.until("the heading has the focus", "document.activeElement.matches('h1')")
        yield keyboard
        keyboard.choose("Your account", "Sign out")
        keyboard.until("the user name has the focus", "document.activeElement.matches('input')")
        assert keyboard.unseen == set()
        # Browsers report each refused request: before the sign-in, and for half-typed input.
        assert [c for c in tab.complaints if not re.search("status of 40[01]", c)] == []


def go(keys: Keyboard, page: str) -> None:
    """Go to a page by the menu of pages, once no message of before lies above it."""
    keys.page.locator(".toast").first.wait_for(state="detached")
    keys.press("Escape")
    keys.to(page, "Tab" if keys.at().startswith("Skip") else "Shift+Tab")
    keys.press("Enter")
    keys.page.get_by_role("heading", level=1).wait_for()
    keys.until("the page has no other to come", "!document.querySelector('.bones')")
    keys.kept()


def state(keys: Keyboard, *names: str) -> None:
    words = re.compile("|".join(names))
    keys.page.locator(".head .state", has_text=words).wait_for()
    keys.kept()


def test_an_experiment_is_forked_watched_paused_and_killed(keys: Keyboard, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    go(keys, "Experiments")
    keys.enter("counting")
    keys.heading("counting")
    keys.enter("Fork")
    keys.dialog(f"New experiment from experiment {experiment_id}")
    keys.page.get_by_text("This configuration is valid.").wait_for()
    keys.enter("Create")
    keys.page.wait_for_url(re.compile(rf"/experiments/(?!{experiment_id}$)\d+$"))
    forked = int(keys.page.url.rsplit("/", 1)[1])
    keys.heading("counting")
    state(keys, "Queued", "Active")
    for button, expected_state in (("Pause", "Paused"), ("Resume", "Queued|Active")):
        keys.enter(button)
        state(keys, expected_state)
    for part in ("Trials", "Search", "Hyperparameters", "Checkpoints", "Logs", "Code", "Notes"):
        keys.enter(part)
        keys.page.wait_for_url(re.compile(f"/{part.lower()}$"))
        keys.kept()
    keys.press("Escape")
    keys.to("More actions", "Shift+Tab")
    keys.pick("Kill")
    keys.dialog(f"Kill experiment {forked}?")
    keys.enter("Kill")
    keys.gone()
    state(keys, "Canceled")
    experiment = house.admin.get(f"/api/v1/experiments/{forked}")["experiment"]
    assert (experiment["forkedFrom"], experiment["state"]) == (experiment_id, "STATE_CANCELED")


def test_keyboard_filters_sorts_and_compares_a_long_list(keys: Keyboard, house: House) -> None:
    house.admin.post(f"/api/v1/workspaces/{house.red}/projects", {"name": "many"})
    place = {"workspace": "red", "project": "many"}
    for n in range(MANY):
        create(house.admin, name=f"run {n:03}", **place)
    go(keys, "Workspaces")
    keys.enter("many")
    keys.heading("Experiments")
    keys.page.get_by_text(f"{MANY} experiments in red / many").wait_for()
    keys.enter("Columns")
    keys.dialog("Columns")
    keys.type("search")
    keys.to("Searcher")
    keys.press("Space", "Escape")
    keys.gone()
    assert keys.at() == "Columns"
    keys.page.get_by_role("columnheader", name="Searcher").wait_for()
    keys.enter("Name")
    keys.page.locator("th[aria-sort]", has_text="Name").wait_for()
    keys.press("Enter")  # the other way round, where it begins with the first one
    keys.page.locator("tbody tr").first.get_by_text("run 000").wait_for()
    for _ in range(2):
        keys.to("Select")
        keys.press("Space")
    keys.page.get_by_text("2 selected").wait_for()
    # Rows of a hundred experiments are two hundred stops: Escape goes behind all of them.
    keys.press("Escape")
    assert keys.at() == "Clear selection"
    keys.enter("Compare")
    keys.heading("Compare 2 experiments")
    keys.page.go_back()
    keys.heading("Experiments")
    table = keys.page.get_by_role("region", name="Experiments")
    table.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    keys.enter("Name")
    keys.until("it begins anew", "document.querySelector('.table-scroll').scrollTop === 0")
    keys.to("Filter", "Shift+Tab")
    keys.press("Enter")
    keys.dialog("Filter")
    keys.press("Escape")
    keys.gone()
    assert keys.at() == "Filter"


def test_a_job_is_moved_in_the_queue_and_back(keys: Keyboard, house: House) -> None:
    ids = [create(house.admin, name=f"job {n}", activate=True) for n in "abc"]
    house.api.tick()

    def queue() -> list[str]:
        jobs = house.admin.get("/api/v1/job-queues-v2", resourcePool="default")["jobs"]
        return [j["full"]["name"] for j in jobs if j["full"]["name"].startswith("job ")]

    go(keys, "Job queue")
    keys.choose("Actions on job c", "Move up")
    keys.page.get_by_text("Moved up").wait_for()
    assert queue() == ["job a", "job c", "job b"]
    keys.kept()
    assert keys.at() == "Actions on job c"
    keys.press("Control+z")
    keys.page.get_by_text("Undone").wait_for()
    assert queue() == ["job a", "job b", "job c"]
    keys.kept()
    keys.to("Position", "Shift+Tab")
    keys.press("ArrowUp")
    keys.page.get_by_text("moved to position").wait_for()
    assert queue() == ["job a", "job c", "job b"]
    keys.kept()
    keys.to("Undo")
    keys.press("Enter")
    keys.page.get_by_text("Undone").last.wait_for()
    keys.kept()
    for experiment in ids:
        house.admin.post(f"/api/v1/experiments/{experiment}/kill")


def test_second_move_uses_the_order_after_the_first(keys: Keyboard, house: House) -> None:
    ids = [create(house.admin, name=f"swift {n}", activate=True) for n in "abc"]
    house.api.tick()
    go(keys, "Job queue")
    keys.page.locator("[aria-label*='swift c: move']").focus()
    keys.press("ArrowUp", "ArrowUp")
    keys.page.get_by_text("moved to position").nth(1).wait_for()
    jobs = house.admin.get("/api/v1/job-queues-v2", resourcePool="default")["jobs"]
    names = [job["full"]["name"] for job in jobs]
    assert [name for name in names if "swift" in name] == ["swift c", "swift a", "swift b"]
    assert "swift c" in keys.at()
    for experiment in ids:
        house.admin.post(f"/api/v1/experiments/{experiment}/kill")


def test_a_checkpoint_is_registered(keys: Keyboard, house: House) -> None:
    experiment_id = create(house.admin, name="with a checkpoint", activate=True)
    report_metrics(
        house.admin, trial_of(house.admin, experiment_id)["id"], "validation", 2, {"loss": 0.5}
    )
    checkpoint = report_checkpoint(house.admin, experiment_id)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")
    go(keys, "Experiments")
    keys.enter("with a checkpoint", "Checkpoints")
    keys.page.get_by_role("table").wait_for()
    keys.enter(checkpoint[:8])
    keys.dialog("Checkpoint")
    keys.enter("Register as a model version")
    keys.dialog("Register this checkpoint")
    keys.fill({"Name of the new model": "by keys"})
    keys.enter("Register")
    keys.heading("by keys")
    assert len(house.admin.get("/api/v1/models", name="by keys")["models"]) == 1


def test_keyboard_creates_objects_in_dialogs(keys: Keyboard, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.blue_project)
    go(keys, "Workspaces")
    keys.enter("New workspace")
    keys.dialog("New workspace")
    keys.fill({"Name": "green"})
    keys.press("Enter")
    keys.gone()
    assert keys.at() == "New workspace"
    keys.choose("Actions on green", "Unpin")
    keys.page.get_by_text("Unpinned green").wait_for()
    keys.kept()
    keys.to("New project", "Shift+Tab")
    keys.press("Enter")
    keys.dialog("New project in green")
    keys.fill({"Name": "leaves", "Description": "made by keys"})
    keys.press("Enter")
    keys.gone()

    go(keys, "Templates")
    keys.enter("New template")
    keys.dialog("New template")
    keys.fill({"Name": "by keys", "Configuration, in YAML": "max_restarts: 1"})
    keys.page.get_by_text("Sets max_restarts.").wait_for()
    keys.enter("Create")
    keys.heading("by keys")

    go(keys, "Webhooks")
    keys.enter("New webhook")
    keys.dialog("New webhook")
    keys.fill({"Name": "by keys", "URL": "https://example.com/hook"})
    keys.enter("Create")
    keys.gone()

    go(keys, "Administration")
    keys.enter("New account")
    keys.dialog("New account")
    keys.fill({"User name": "keys", "Password": PASSWORD})
    keys.press("Enter")
    keys.heading("keys")
    keys.to("Groups", "Shift+Tab")
    keys.press("Enter")
    keys.heading("Groups")
    keys.enter("New group")
    keys.dialog("New group")
    keys.fill({"Name": "typists"})
    keys.press("Enter")
    keys.heading("typists")

    go(keys, "Budgets")
    keys.enter("New budget")
    keys.dialog("New budget")
    keys.fill({"Experiment": str(experiment_id), "US dollars": "5"})
    keys.press("Enter")
    keys.gone()

    admin = house.admin
    assert "green" in [w["name"] for w in admin.get("/api/v1/workspaces", limit=-1)["workspaces"]]
    assert admin.get("/api/v1/templates/by%20keys")["template"]["config"] == {"max_restarts": 1}
    assert [w["name"] for w in admin.get("/api/v1/webhooks")["webhooks"]] == ["by keys"]
    assert admin.get("/api/v1/users/keys/by-username")["user"]["active"]
    assert admin.get("/api/v1/budgets")["budgets"][0]["limitUsd"] == 5
    house.api.signed_in("keys")
