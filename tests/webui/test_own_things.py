"""Settings, webhooks and unsaved texts, over an API in this process without roles."""

import json
import re
from typing import Any

import pytest
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.webhooks import delivery

from tests.support.api import PASSWORD, create
from tests.support.browser import Tab, opened
from tests.support.forms import fill, gone, press
from tests.support.house import House, id_of
from tests.support.inbox import Inbox, end, make_webhook


@pytest.fixture
def tab(house_tab: Tab) -> Tab:
    return house_tab


def test_reused_browser_page_has_no_state_of_an_earlier_test(browser: Any, house_base: str) -> None:
    user, requests = ("determined", PASSWORD), list[str]()
    with opened(browser, house_base, user=user, theme="dark") as before:
        before.open("/settings")
        before.ready()
        before.page.evaluate("localStorage.theme = sessionStorage.loads = 'dark'")
        before.page.route("**/api/v1/auth/login", lambda route: route.abort())
        before.page.on("request", lambda request: requests.append(request.url))
        before.page.reload()
    assert requests
    requests.clear()
    with opened(browser, house_base, signed_in=False) as tab:
        assert tab.page is before.page
        assert tab.page.evaluate("localStorage.length + sessionStorage.length") == 0
        tab.page.clock.install()
        tab.open("/settings")
        tab.sign_in(*user)
        tab.page.get_by_role("heading", name="Settings").wait_for()
        assert requests == []
    with opened(browser, house_base, user=user) as after:
        assert after.page is not tab.page, "the clock is the test's"


def test_user_sees_own_sessions_and_ends_others(tab: Tab, house: House) -> None:
    there = house.api.signed_in("determined")
    tab.open("/settings")
    sessions = tab.page.get_by_role("region", name="Sessions")
    sessions.get_by_text("Chrome on Linux").first.wait_for()
    sessions.get_by_text("This session").wait_for()
    assert tab.faults() == []
    press(tab, "Sign out everywhere else", "Sign out")
    tab.page.get_by_text(re.compile("^Ended [0-9]+ session")).wait_for()
    assert there.ask("GET", "/api/v1/me").status == 401
    sessions.get_by_role("button", name=re.compile("^Sign out session")).click()
    tab.page.get_by_label("User name").wait_for()


def test_webhook_page_shows_the_result_of_each_message(tab: Tab, house: House) -> None:
    house.api.ctx.courier = inbox = Inbox()
    user = house.api.signed_in("determined")
    webhook = make_webhook(user, name="chat")
    inbox.refusals[webhook["url"]] = Unsent("<b>answered</b> with status 503")
    experiment = end(user)
    delivery.run(house.api.ctx)
    tab.open("/webhooks")
    press(tab, "Actions on chat", "Deliveries")
    row = tab.page.get_by_role("row").nth(1)
    row.get_by_text("<b>answered</b> with status 503").wait_for()
    assert row.get_by_role("link", name=f"experiment {experiment}").is_visible()
    assert tab.faults() == []


def test_workspace_owner_sets_policies_without_roles(tab: Tab, house: House) -> None:
    tab.open("/workspaces")
    assert tab.page.get_by_role("link", name="Administration").count() == 0
    press(tab, "New workspace")
    fill(tab, Name="mine")
    press(tab, "Create")
    gone(tab)
    tab.page.get_by_role("link", name="Policies").click()
    fields = tab.page.get_by_label(re.compile("^Policies, in YAML"))
    fields.nth(1).wait_for()  # the answer for tasks may come before the one for experiments
    fields.first.fill("invariant_config:\n  max_restarts: 3\n")
    tab.page.get_by_role("button", name="Save").first.click()
    tab.page.get_by_text("Saved. Applies to new submissions.").wait_for()
    spaces = house.admin.get("/api/v1/workspaces", name="mine")["workspaces"]
    path = f"/api/v1/config-policies/workspaces/{spaces[0]['id']}/experiment"
    assert house.admin.get(path)["configPolicies"]["invariant_config"] == {"max_restarts": 3}


def decide(tab: Tab, button: str) -> None:
    """Answer the question about unsaved changes."""
    question = tab.page.get_by_role("dialog", name="Discard your changes?")
    question.wait_for()
    press(tab, button)
    question.wait_for(state="detached")


def test_leaving_a_page_with_unsaved_text_asks_for_confirmation(tab: Tab, house: House) -> None:
    house.admin.post("/api/v1/templates/kept", {"config": {"max_restarts": 1}})
    tab.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    tab.open("/templates")
    tab.page.get_by_role("link", name="kept").click()
    text = tab.page.get_by_label(re.compile("^Configuration"))
    text.fill("max_restarts: 2\n")
    tab.page.get_by_role("link", name="Models").click()
    decide(tab, "Keep editing")
    assert text.input_value() == "max_restarts: 2\n"
    tab.page.evaluate("history.back()")
    tab.page.get_by_role("dialog").wait_for()
    assert tab.faults() == []
    decide(tab, "Keep editing")
    tab.page.wait_for_url("**/templates/kept")
    assert text.input_value() == "max_restarts: 2\n"
    tab.page.evaluate("history.back()")
    decide(tab, "Discard changes")
    tab.page.wait_for_url("**/templates")
    tab.page.get_by_role("heading", name="Templates", exact=True).wait_for()
    config = house.admin.get("/api/v1/templates/kept")["template"]["config"]
    assert json.dumps(config) == '{"max_restarts": 1}'


def test_leaving_a_typed_configuration_asks_for_confirmation(tab: Tab, house: House) -> None:
    tab.open("/experiments/new")
    text = tab.page.get_by_label(re.compile("^Configuration"))
    text.fill(f"{text.input_value()}# typed\n")
    tab.page.get_by_role("link", name="Models").click()
    decide(tab, "Keep editing")
    assert "typed" in text.input_value()
    tab.page.get_by_role("link", name="Models").click()
    decide(tab, "Discard changes")
    tab.page.get_by_role("heading", name="Models", exact=True).wait_for()


def test_escape_in_a_filled_form_asks_each_time_and_leaves_the_page_unsaved(
    tab: Tab, searched: int
) -> None:
    tab.open(f"/experiments/{searched}/notes")
    notes = tab.page.get_by_role("textbox", name="Notes")
    notes.fill("not saved")
    press(tab, "Fork")
    form = tab.page.get_by_role("dialog", name=re.compile("^New experiment"))
    form.get_by_role("textbox", name="Configuration").fill("name: typed\n")
    question = tab.page.get_by_role("dialog", name="Discard your changes?")
    for _ in range(3):
        tab.page.keyboard.press("Escape")
        question.wait_for()
        tab.page.keyboard.press("Escape")
        question.wait_for(state="detached")
        assert form.is_visible()
    tab.page.keyboard.press("Escape")
    decide(tab, "Discard changes")
    gone(tab)
    tab.page.get_by_role("link", name="Models").click()
    decide(tab, "Keep editing")
    assert notes.input_value() == "not saved"
    tab.page.get_by_role("link", name="Models").click()
    decide(tab, "Discard changes")
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]  # the typed configuration


def test_new_password_needs_the_current_one_and_a_repetition(tab: Tab, house: House) -> None:
    tab.open("/settings")
    fill(tab, Current_password="wrong", New_password="a new password", Repeat="another one")
    press(tab, "Change password")
    tab.page.get_by_role("alert").get_by_text("The passwords differ.").wait_for()
    assert tab.page.evaluate("document.activeElement.name") == "repeated"
    fill(tab, Repeat="a new password")
    press(tab, "Change password")
    message = tab.page.get_by_label("Current password").locator("..").get_by_role("alert")
    assert message.inner_text() == (
        "The current password is missing or wrong, and nothing was changed."
    )
    assert tab.page.evaluate("document.activeElement.name") == "current"
    assert tab.page.get_by_text("Use at least 8 characters.").is_visible()
    tab.complaints[:] = [c for c in tab.complaints if "403" not in c]
    house.api.signed_in("determined", PASSWORD)
    fill(tab, Current_password=PASSWORD)
    press(tab, "Change password")
    tab.page.get_by_text("Password changed").wait_for()
    house.api.signed_in("determined", "a new password")
    admin_path = f"/api/v1/users/{id_of(house.api.signed_in('determined', 'a new password'))}"
    house.admin.done("PATCH", admin_path, {"password": PASSWORD, "isHashed": False})


def test_leaving_a_page_with_saved_text_asks_no_confirmation(tab: Tab, house: House) -> None:
    house.admin.post("/api/v1/templates/saved", {"config": {"max_restarts": 1}})
    tab.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    tab.open("/templates/saved")
    tab.page.get_by_label(re.compile("^Configuration")).fill("max_restarts: 2\n")
    # From now on, the page waits for its requests, also for saved changes.
    tab.page.route("**/*", lambda route: route.request.method == "GET" or route.continue_())
    press(tab, "Save")
    tab.page.get_by_text("Saved", exact=True).wait_for()
    tab.page.get_by_role("link", name="Models").click()
    tab.page.wait_for_url("**/models")


NOTES = """# Findings
Use **AdamW**, not *SGD*. See [the paper](https://example.org/paper) and `train.py`.

- first
- <b>second</b>

1. one

```
x = [1](javascript:alert)
```
[bad](javascript:alert(1))
"""


def test_notes_are_rendered_as_markdown_without_markup(tab: Tab, house: House) -> None:
    user = house.api.signed_in("determined")
    experiment_id = create(user, name="with notes")
    tab.open(f"/experiments/{experiment_id}/notes")
    tab.page.get_by_role("textbox", name="Notes").fill(NOTES)
    press(tab, "Save")
    notes = tab.page.locator(".markdown")
    notes.get_by_role("heading", name="Findings").wait_for()
    assert notes.locator("strong, em, code").all_inner_texts() == ["AdamW", "SGD", "train.py"]
    assert notes.locator("li").all_inner_texts() == ["first", "<b>second</b>", "one"]
    assert notes.locator("pre").inner_text() == "x = [1](javascript:alert)"
    addresses = [a.get_attribute("href") for a in notes.get_by_role("link").all()]
    assert addresses == ["https://example.org/paper"]
    assert "[bad](javascript:alert(1))" in notes.inner_text()
    assert tab.faults() == []
    press(tab, "Edit")
    text = tab.page.get_by_role("textbox", name="Notes")
    assert text.input_value() == NOTES
    text.fill("")
    press(tab, "Save")
    tab.page.locator("button:disabled", has_text="Save").wait_for()
    assert user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["notes"] == ""


@pytest.mark.parametrize(
    ("address", "list"),
    [
        ("/experiments/999999", "All experiments"),
        ("/trials/999999", "All experiments"),
        ("/models/999999", "All models"),
        ("/tasks/shell/00000000-0000-4000-8000-000000000000", "All tasks"),
        ("/templates/nothing", "All templates"),
        ("/webhooks/999999", "All webhooks"),
    ],
)
def test_page_of_a_missing_object_links_to_its_list(tab: Tab, address: str, list: str) -> None:
    tab.open(address)
    assert "det " not in tab.page.get_by_role("alert").inner_text()
    assert tab.page.get_by_role("button", name="Try again").count() == 0
    tab.page.get_by_role("link", name=list).click()
    tab.page.get_by_role("alert").wait_for(state="detached")
    tab.page.get_by_role("heading", level=1).wait_for()
    assert address not in tab.page.url
    tab.complaints[:] = [c for c in tab.complaints if "404" not in c]


def test_heading_that_a_script_focused_has_no_ring(tab: Tab) -> None:
    tab.open("/dashboard")
    tab.ready()
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("m")
    tab.page.wait_for_function("() => document.activeElement.matches('h1')")
    assert tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none"
