"""Shortcuts of single keys, and the search over everything."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from det_controlplane.db.schema import imports
from sqlalchemy import insert

from tests.support.api import PASSWORD, create
from tests.support.browser import PHONE, Tab, opened
from tests.support.forms import press
from tests.support.house import House, id_of


@pytest.fixture(scope="module")
def shapes(house: House) -> int:
    """Objects of all kinds with a name in common, in the workspace red."""
    place = {"workspace": "red", "project": "work"}
    experiment_id = create(house.admin, name="zebra stripes", **place)
    house.admin.post(f"/api/v1/workspaces/{house.red}/projects", {"name": "zebra herd"})
    house.admin.post("/api/v1/models", {"name": "zebra model", "workspaceId": house.red})
    task = {"config": {"description": "zebra shell"}, "workspaceId": house.red}
    house.admin.post("/api/v1/shells", task)
    house.person("zebra.keeper")
    return experiment_id


@pytest.fixture
def outsider(browser: Any, base: str, house: House, shapes: int) -> Iterator[Tab]:
    """A tab of a user with a role in the workspace blue only."""
    house.person("outsider", "Editor", house.blue)
    with opened(browser, base, user=("outsider", PASSWORD)) as tab:
        yield tab
        assert tab.complaints == []


def found(tab: Tab, text: str) -> list[str]:
    """Type into the search over everything; return the names of the results."""
    palette = tab.page.get_by_role("dialog", name="Quick search")
    palette.get_by_role("combobox").fill(text)
    palette.get_by_role("status").get_by_text("result").or_(
        palette.get_by_text("No results")
    ).wait_for()
    tab.page.wait_for_function(
        "() => !document.querySelector('.finder [role=status]').textContent.includes('Searching')"
    )
    return list(palette.get_by_role("option").locator("span:first-child").all_inner_texts())


def test_imported_experiment_is_found_by_its_old_id(tab: Tab, house: House, shapes: int) -> None:
    ids = {"experiments": shapes - 1}
    with house.api.ctx.db.begin() as tx:
        tx.execute(
            insert(imports).values(
                source="old", offsets=ids, merged={}, last_ids={"experiments": 1}, logs="all"
            )
        )
    tab.open("/dashboard")
    tab.ready()
    tab.page.keyboard.press("Control+k")
    assert found(tab, "old:1") == ["zebra stripes"]


def heading(tab: Tab, name: str) -> None:
    tab.page.get_by_role("heading", name=name, level=1, exact=True).wait_for()


def test_keys_open_pages_and_the_search_field(tab: Tab) -> None:
    from playwright.sync_api import expect

    tab.open("/dashboard")
    tab.ready()
    for key, name in (("e", "Experiments"), ("m", "Models"), ("q", "Job queue"), ("s", "Settings")):
        tab.page.keyboard.press("g")
        tab.page.keyboard.press(key)
        heading(tab, name)
    tab.open("/models")
    heading(tab, "Models")
    tab.page.keyboard.press("/")
    field = tab.page.get_by_role("searchbox", name="Search names")
    expect(field).to_be_focused()
    tab.page.keyboard.type("g/e?")
    assert field.input_value() == "g/e?"
    tab.page.keyboard.press("Control+k")
    assert tab.page.get_by_role("dialog").count() == 0, "a shortcut must not act in a field"
    heading(tab, "Models")


def test_help_lists_shortcuts_and_switches_single_keys_off(tab: Tab) -> None:
    tab.open("/dashboard")
    tab.ready()
    tab.page.keyboard.press("?")
    tab.page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    assert tab.faults() == []
    tab.page.get_by_label("Use shortcuts of single keys").uncheck()
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("dialog").wait_for(state="detached")
    tab.page.keyboard.press("?")
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("e")
    tab.page.keyboard.press("Control+k")
    tab.page.get_by_role("dialog", name="Quick search").wait_for()
    assert tab.page.get_by_role("dialog").count() == 1
    assert tab.page.url.endswith("/dashboard")


def test_search_finds_objects_of_all_kinds(tab: Tab, shapes: int) -> None:
    tab.open("/dashboard")
    tab.ready()
    tab.page.keyboard.press("Control+k")
    names = ["zebra stripes", "zebra herd", "zebra model", "zebra shell", "zebra.keeper"]
    assert found(tab, "zebra") == names
    groups = tab.page.get_by_role("dialog").get_by_role("group")
    kinds = [group.get_attribute("aria-label") for group in groups.all()]
    assert kinds == ["Experiments", "Projects", "Models", "Tasks", "Users"]
    assert tab.faults() == []
    assert names[0] in found(tab, str(shapes))
    assert found(tab, "budgets") == ["Budgets"]
    assert found(tab, "qwertz") == []
    found(tab, "zebra")
    for _ in range(2):
        tab.page.keyboard.press("ArrowDown")
    active = tab.page.get_by_role("option", selected=True)
    assert "zebra model" in active.inner_text()
    box = tab.page.get_by_role("combobox")
    assert box.get_attribute("aria-activedescendant") == active.get_attribute("id")
    tab.page.keyboard.press("Enter")
    heading(tab, "zebra model")
    assert tab.page.get_by_role("dialog").count() == 0
    tab.page.wait_for_function("() => document.activeElement.matches('h1')")


def test_enter_before_the_answer_opens_the_first_result_of_the_typed_text(
    tab: Tab, shapes: int
) -> None:
    tab.open("/dashboard")
    press(tab, "Quick search")
    tab.page.get_by_role("combobox").wait_for()
    tab.page.keyboard.insert_text("zebra str")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"**/experiments/{shapes}")
    heading(tab, "zebra stripes")


def test_search_shows_only_objects_that_the_user_may_see(
    outsider: Tab, house: House, base: str
) -> None:
    house.person("okapi.keeper")
    outsider.open("/dashboard")
    press(outsider, "Quick search")
    assert found(outsider, "zebra") == ["zebra.keeper"]
    assert found(outsider, "administration") == []
    assert found(outsider, "okapi") == ["okapi.keeper"]
    outsider.page.keyboard.press("Enter")
    heading(outsider, "Experiments")
    condition = json.loads(
        outsider.page.evaluate("new URLSearchParams(location.search).get('filter')")
    )
    assert (condition[0]["column"], condition[0]["value"]) == ("user", "okapi.keeper")
    # The columns of all projects need a right in the whole cluster.
    outsider.complaints[:] = [c for c in outsider.complaints if "projects/0/columns" not in c]


def test_search_is_in_the_menu_of_a_phone(tab: Tab, house: House, shapes: int) -> None:
    tab.look(PHONE)
    tab.open("/dashboard")
    press(tab, "Menu", "Quick search")
    assert found(tab, "zebra.keeper") == ["zebra.keeper"]
    assert tab.beyond() <= 0
    tab.page.get_by_role("option", name="zebra.keeper").click()
    tab.page.wait_for_url(f"**/admin/people/{id_of(house.api.signed_in('zebra.keeper'))}")
