"""A user's actions on forms of the WebUI."""

import re

from tests.support.browser import Tab


def press(tab: Tab, *names: str) -> None:
    """Press buttons, or items of the menus that they open; one named twice asks in a dialog whether it is meant."""
    before = ""
    for name in names:
        place = tab.page.get_by_role("dialog") if name == before else tab.page
        for_button = place.get_by_role("button", name=name, exact=True)
        for_button.or_(place.get_by_role("menuitem", name=name, exact=True)).last.click()
        before = name


def fill(tab: Tab, **fields: str) -> None:
    for label, text in fields.items():
        tab.page.get_by_label(re.compile(f"^{label.replace('_', ' ')}")).last.fill(text)


def choose(tab: Tab, **fields: str) -> None:
    for label, name in fields.items():
        field = tab.page.get_by_role("dialog").get_by_label(
            re.compile(f"^{label.replace('_', ' ')}")
        )
        field.select_option(label=name)


def gone(tab: Tab) -> None:
    """Wait until the action of a dialog is done."""
    tab.page.get_by_role("dialog").wait_for(state="detached")
