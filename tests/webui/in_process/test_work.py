"""The list of all work: filters in the address, sorting, and actions on work of several types at once."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import create
from tests.support.browser import Tab
from tests.support.forms import press
from tests.support.house import House
from tests.support.interactive import V
from tests.support.keyboard import Keyboard

NAMES = ("train digits", "look at digits", "prepare data", "sweep")


@pytest.fixture(scope="module", autouse=True)
def work(house: House) -> Iterator[None]:
    """An active experiment, a notebook, a command of blue, and a generic task; all wait for slots."""
    admin = house.admin
    create(admin, name=NAMES[0], activate=True, workspace="red", project="work")
    launched = {"description": NAMES[1]}
    admin.post(f"{V}/notebooks", {"config": launched, "workspaceId": house.red})
    command = {"description": NAMES[2], "entrypoint": ["true"]}
    admin.post(f"{V}/commands", {"config": command, "workspaceId": house.blue})
    config = f"{{description: {NAMES[3]}, entrypoint: [sleep, '9']}}"
    body = {"config": config, "contextDirectory": [], "projectId": house.red_project}
    admin.post(f"{V}/generic-tasks", body)
    yield
    for row in rows(house):
        end(house, row)


def rows(house: House, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.admin.get(f"{V}/work", **query)["work"]
    return found


def end(house: House, row: dict[str, Any]) -> None:
    kind, id = row["type"].removeprefix("TYPE_").lower(), row["entityId"]
    path = f"tasks/{id}" if kind == "generic" else f"{kind}s/{id}"
    house.admin.post(f"{V}/{path}/kill", {"taskId": id})


def states(house: House) -> dict[str, str]:
    return {row["name"]: row["state"].removeprefix("STATE_") for row in rows(house)}


def shown(tab: Tab) -> list[str]:
    tab.page.get_by_role("table").wait_for()
    texts: list[str] = tab.page.locator("tbody tr td:nth-child(2) a").all_inner_texts()
    return texts


def until(tab: Tab, names: list[str]) -> None:
    """Wait until the table has these rows in this order."""
    for _ in range(300):
        if shown(tab) == names:
            return
        tab.page.wait_for_timeout(50)
    assert shown(tab) == names


def test_work_of_all_types_is_listed_with_the_newest_first(tab: Tab) -> None:
    tab.open("/work")
    until(tab, [*reversed(NAMES)])
    tab.page.get_by_text("4 jobs: experiments and tasks of all types").wait_for()
    assert tab.faults() == []
    tab.page.get_by_role("link", name=NAMES[1]).click()
    tab.page.wait_for_url(re.compile("/tasks/notebook/"))


def test_filters_are_kept_in_the_address(tab: Tab, house: House) -> None:
    tab.open("/work")
    tab.page.get_by_label("Search names").fill("digits")
    until(tab, ["look at digits", "train digits"])
    tab.page.get_by_label("Type").select_option("Experiment")
    until(tab, ["train digits"])
    assert "q=digits" in tab.page.url
    assert "type=experiment" in tab.page.url
    tab.page.reload()
    until(tab, ["train digits"])
    tab.page.get_by_label("State").select_option("Completed")
    tab.page.get_by_text("No work matches your filters.").wait_for()
    press(tab, "Show all work")
    until(tab, [*reversed(NAMES)])
    tab.page.get_by_label("Workspace").select_option("blue")
    until(tab, ["prepare data"])


def test_owner_is_chosen_by_name(tab: Tab, house: House) -> None:
    tab.open("/work")
    tab.page.get_by_label("Owner").select_option("Somebody else…")
    tab.page.get_by_label(re.compile("^Owner")).last.fill("determined")
    press(tab, "Show")
    tab.page.get_by_text("No work matches your filters.").wait_for()
    assert "owner=determined" in tab.page.url
    tab.page.get_by_label("Owner").select_option("Mine")
    until(tab, [*reversed(NAMES)])


def test_list_is_sorted_by_columns(tab: Tab) -> None:
    tab.open("/work")
    until(tab, [*reversed(NAMES)])
    tab.page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    tab.page.wait_for_url(re.compile("sort=name"))
    first = shown(tab)
    until(tab, sorted(NAMES, reverse=first[0] != min(NAMES)))


def choose(tab: Tab, *names: str) -> None:
    for name in names:
        tab.page.get_by_role("row", name=re.compile(name)).get_by_role("checkbox").check()


def test_work_is_paused_and_resumed_by_undo(tab: Tab, house: House) -> None:
    tab.open("/work")
    until(tab, [*reversed(NAMES)])
    choose(tab, *NAMES)
    press(tab, "Pause 2")
    tab.page.get_by_text("Paused 2 jobs").wait_for()
    assert states(house) == {
        "train digits": "PAUSED", "look at digits": "QUEUED", "prepare data": "QUEUED", "sweep": "PAUSED",
    }  # fmt: skip
    press(tab, "Undo")
    tab.page.get_by_text("Undone for 2 jobs").wait_for()
    assert set(states(house).values()) == {"QUEUED"}


def test_priorities_of_several_types_change_and_return(tab: Tab, house: House) -> None:
    tab.open("/work")
    until(tab, [*reversed(NAMES)])
    choose(tab, "train digits", "look at digits", "sweep")
    press(tab, "Priority")
    tab.page.get_by_label(re.compile("^Priority")).fill("7")
    press(tab, "Set priority")
    tab.page.get_by_text("Set the priority of 3 jobs to 7").wait_for()
    assert sorted(row["priority"] for row in rows(house)) == [7, 7, 7, 42]
    press(tab, "Undo")
    tab.page.get_by_text("Undone for 3 jobs").wait_for()
    assert {row["priority"] for row in rows(house)} == {42}


def test_experiment_moves_to_another_pool(tab: Tab, house: House) -> None:
    tab.open("/work?q=digits")
    until(tab, ["look at digits", "train digits"])
    choose(tab, "train digits", "look at digits")
    press(tab, "Pool 1")
    tab.page.get_by_label(re.compile("^Resource pool")).select_option("reserved")
    press(tab, "Move")
    tab.page.get_by_text("Moved 1 job to reserved").wait_for()
    (row,) = rows(house, text="train")
    assert row["resourcePool"] == "reserved"
    press(tab, "Undo")
    tab.page.get_by_text("Undone for 1 job").wait_for()
    (row,) = rows(house, text="train")
    assert row["resourcePool"] == "default"


def test_kill_asks_first_and_tells_what_refused(tab: Tab, house: House) -> None:
    for n in range(2):
        command = {"description": f"short {n}", "entrypoint": ["true"]}
        house.admin.post(f"{V}/commands", {"config": command, "workspaceId": house.red})
    tab.open("/work?q=short")
    until(tab, ["short 1", "short 0"])
    choose(tab, "short 0", "short 1")
    press(tab, "Kill")
    dialog = tab.page.get_by_role("dialog", name="Kill 2 jobs?")
    dialog.wait_for()
    assert tab.faults() == []
    dialog.get_by_role("button", name="Kill").click()
    tab.page.get_by_text("Killed 2 jobs").wait_for()
    assert {row["state"] for row in rows(house, text="short")} == {"STATE_CANCELED"}


def test_views_of_the_list_are_kept(tab: Tab) -> None:
    tab.open("/work?type=shell&state=running")
    tab.page.get_by_text("No work matches your filters.").wait_for()
    press(tab, "Views", "Save this view")
    tab.page.get_by_label(re.compile("^Name")).fill("running shells")
    press(tab, "Save")
    tab.page.get_by_text("Saved the view running shells").wait_for()
    tab.open("/work")
    press(tab, "Views", "running shells")
    tab.page.wait_for_url(re.compile(r"type=shell&state=running"))
    tab.open("/experiments")
    press(tab, "Views")
    assert tab.page.get_by_role("menuitem", name="running shells").count() == 0


def test_list_works_by_keys_alone(tab: Tab) -> None:
    keys = Keyboard(tab)
    tab.open("/tasks")
    tab.page.get_by_role("heading", name="Tasks", level=1).wait_for()
    keys.press("g", "l")
    keys.heading("All work")
    shown(tab)
    keys.press("/")
    keys.type("sweep")
    until(tab, ["sweep"])
    keys.to("Select")
    keys.press("Space")
    keys.page.get_by_text("1 selected").wait_for()
    keys.enter("Pause")
    keys.page.get_by_text("Paused 1 job").wait_for()
    keys.press("Control+z")
    keys.page.get_by_text("Undone for 1 job").wait_for()
    assert keys.unseen == set()
