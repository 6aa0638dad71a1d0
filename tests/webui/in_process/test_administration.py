"""Templates, policies, webhooks, budgets, audit log and message in their pages; the API is asked afterwards."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.webhooks import delivery

from tests.support.api import PASSWORD
from tests.support.browser import PHONE, WALL, Tab, opened
from tests.support.forms import choose, fill, gone, press
from tests.support.house import House
from tests.support.inbox import Inbox, W, end
from tests.webui.conftest import MARKUP

# Values that plain YAML would read differently.
ODD = {
    "labels": ["A=on", "B=1e3", "#no comment", ": ", "- x", "é\u2028\x85"],
    "hyperparameters": {"yes": "no", "1": 2.5, "list": [[1, [2]], {"a": {"b": []}}, {}], "null": None},
    "entrypoint": "set -e\n\n  python3 train.py  \n", "description": " two\nlines", "name": "08", "data": {"x": "~"},
}  # fmt: skip


def test_template_can_be_created_validated_changed_and_deleted(tab: Tab, house: House) -> None:
    tab.open("/templates")
    press(tab, "New template")
    fill(tab, Name="eight")
    fill(tab, Configuration="resources: [")
    tab.page.get_by_role("status").get_by_text(re.compile("not valid YAML")).wait_for()
    assert tab.page.get_by_role("button", name="Create").is_disabled()
    fill(tab, Configuration="resources:\n  slots_per_trial: 8")
    press(tab, "Create")
    tab.page.get_by_role("heading", name="eight").wait_for()
    fill(tab, Configuration="resources: {slots_per_trial: 4}")
    # The saved state is read again while a menu is open, and the menu stays open.
    held_requests: list[Any] = []
    path = "/api/v1/templates/eight"
    tab.page.route(
        f"**{path}", lambda r: held_requests.append(r) if _reads(r.request) else r.continue_()
    )
    with tab.page.expect_request(lambda r: r.url.endswith(path) and _reads(r)):
        press(tab, "Save")
    tab.page.get_by_text("Saved", exact=True).wait_for()
    assert house.admin.get(path)["template"]["config"] == {"resources": {"slots_per_trial": 4}}
    press(tab, "More actions")
    held_requests[0].continue_()
    tab.page.unroute(f"**{path}")
    is_loaded = (
        "() => document.querySelector('textarea').value === 'resources:\\n  slots_per_trial: 4\\n'"
    )
    tab.page.wait_for_function(is_loaded)
    press(tab, "Delete", "Delete")
    tab.page.get_by_role("heading", name="Templates", exact=True).wait_for()
    assert house.admin.ask("GET", "/api/v1/templates/eight").status == 404
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def _reads(request: Any) -> bool:
    return bool(request.method == "GET")


def test_editing_a_template_preserves_its_other_fields(tab: Tab, house: House) -> None:
    house.admin.post("/api/v1/templates/odd", {"config": ODD, "workspaceId": house.red})
    tab.open("/templates/odd")
    editor = tab.page.get_by_label(re.compile("^Configuration"))
    editor.fill(editor.input_value() + "max_restarts: 3\n")
    press(tab, "Save")
    tab.page.get_by_text("Saved", exact=True).wait_for()
    template = house.admin.get("/api/v1/templates/odd")["template"]
    assert template == {
        "name": "odd",
        "workspaceId": house.red,
        "config": {**ODD, "max_restarts": 3},
    }
    house.admin.done("DELETE", "/api/v1/templates/odd")


def test_policies_of_a_workspace_can_be_set(tab: Tab, house: House) -> None:
    path = f"/api/v1/config-policies/workspaces/{house.blue}/experiment"
    tab.open(f"/admin/policies?in={house.blue}")
    policies = tab.page.get_by_label(re.compile("^Policies")).first
    policies.fill("constraints: {resources: {max_slots: many}}")
    tab.page.get_by_role("status").get_by_text(re.compile("max_slots")).wait_for()
    policies.fill("constraints:\n  resources:\n    max_slots: 2\n")
    tab.page.get_by_role("button", name="Save").first.click()
    tab.page.get_by_role("button", name="Delete").first.wait_for()
    demanded = {"constraints": {"resources": {"max_slots": 2}}}
    assert house.admin.get(path)["configPolicies"] == demanded
    press(tab, "Delete")
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    gone(tab)
    assert house.admin.get(path)["configPolicies"] == {}
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_webhook_can_be_created_tested_and_deleted(tab: Tab, house: House) -> None:
    house.api.ctx.courier = inbox = Inbox()
    tab.open("/webhooks")
    press(tab, "New webhook")
    fill(tab, Name="pager", URL="not an address")
    choose(tab, Workspace="All workspaces")
    press(tab, "Create")
    assert house.admin.get(W)["webhooks"] == []
    fill(tab, URL="https://example.com/hook", Log_lines_matching="[")
    press(tab, "Create")
    tab.page.get_by_role("dialog").get_by_role("alert").wait_for()
    fill(tab, Log_lines_matching="CUDA error")
    tab.page.get_by_role("dialog").get_by_label("Budgets").check()
    press(tab, "Create")
    gone(tab)
    tab.page.get_by_text("log lines matching CUDA error, budgets").wait_for()
    press(tab, "Test pager")
    tab.page.get_by_text("pager: test message delivered").wait_for()
    assert [post.url for post in inbox.posts] == ["https://example.com/hook"]
    inbox.refusals["https://example.com/hook"] = Unsent("example.com answered with status 503")
    press(tab, "Test pager")
    tab.page.get_by_role("status").get_by_text("did not accept the test message").wait_for()
    end(house.admin)
    delivery.run(house.api.ctx)
    tab.page.get_by_text(re.compile("attempt 1, will retry: .* 503")).wait_for()
    press(tab, "Actions on pager", "Disable")
    tab.page.get_by_text("Disabled", exact=True).wait_for()
    assert house.admin.get(W)["webhooks"][0]["enabled"] is False
    press(tab, "Actions on pager", "Delete", "Delete")
    tab.page.get_by_text("No webhooks yet").wait_for()
    assert house.admin.get(W)["webhooks"] == []
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_a_budget_is_set_raised_and_deleted(tab: Tab, house: House) -> None:
    tab.open("/budgets")
    press(tab, "New budget")
    choose(tab, Scope="Person")
    fill(tab, Person="nobody", US_dollars="5")
    press(tab, "Save")
    tab.page.get_by_role("dialog").get_by_role("alert").get_by_text("not found").wait_for()
    fill(tab, Person="determined")
    press(tab, "Save")
    gone(tab)
    press(tab, "Actions on the budget of determined", "Edit")
    fill(tab, US_dollars="12.50")
    choose(tab, Period="monthly")
    press(tab, "Save")
    tab.page.get_by_role("cell", name="$12.50").wait_for()
    (budget,) = house.admin.get("/api/v1/budgets")["budgets"]
    assert (budget["limitUsd"], budget["period"]) == (12.5, "month")
    press(tab, "Actions on the budget of determined", "Delete", "Delete")
    tab.page.get_by_text("No budgets").wait_for()
    assert house.admin.get("/api/v1/budgets")["budgets"] == []
    tab.complaints[:] = [c for c in tab.complaints if "404" not in c]


def test_the_audit_log_is_searched_and_saved(tab: Tab, house: House) -> None:
    group_id = house.admin.post("/api/v1/groups", {"name": "audited"})["group"]["groupId"]
    tab.open("/admin/audit")
    fill(tab, Object=f"group {group_id}")
    rows = tab.page.get_by_role("table").get_by_role("row")
    tab.page.get_by_role("heading", name="Audit log").wait_for()
    tab.page.get_by_text("1 entry").wait_for()
    assert "audited" in rows.last.inner_text()
    rows.last.get_by_role("button").click()
    dialog = tab.page.get_by_role("dialog", name="group.create by admin")
    dialog.wait_for()
    names, values = (dialog.locator(tag).all_inner_texts() for tag in ("dt", "dd"))
    entry = dict(zip(names, values, strict=True))
    assert (entry["Object"], entry["Name"]) == (f"group {group_id}", "audited")
    assert tab.faults() == []
    press(tab, "Close")
    gone(tab)
    tab.open(f"/admin/audit?since=1h&object=group+{group_id}")
    tab.page.get_by_text("1 entry").wait_for()
    requests: list[str] = []
    tab.page.on("request", lambda r: requests.append(r.url))
    with tab.page.expect_download() as download:
        press(tab, "Export")
    (part,) = (url for url in requests if "limit=1000" in url)
    assert re.search(r"since=\d{4}-", part), "a moment, the same for every part"
    (line,) = Path(download.value.path()).read_text("utf-8").splitlines()
    assert json.loads(line)["object"] == f"group {group_id}"


def test_all_users_see_the_cluster_message_until_it_is_cleared(
    browser: Any, base: str, tab: Tab, house: House
) -> None:
    tab.open("/admin/message")
    fill(tab, Message=MARKUP)
    press(tab, "Set message")
    banner = tab.page.get_by_role("status", name="Cluster message")
    banner.get_by_text(MARKUP).wait_for()
    with opened(browser, base, user=("determined", PASSWORD)) as other:
        other.open("/")
        other.page.get_by_role("status", name="Cluster message").wait_for()
    press(tab, "Clear message", "Undo")
    banner.wait_for()
    press(tab, "Clear message")
    banner.wait_for(state="detached")
    assert house.admin.get("/api/v1/master")["clusterMessage"] is None


@pytest.fixture(scope="module")
def pages(house: House) -> list[str]:
    group = house.admin.post("/api/v1/groups", {"name": "everybody"})["group"]["groupId"]
    house.admin.post("/api/v1/templates/used", {"config": {"max_restarts": 1}})
    return [
        "/admin/people", "/admin/people/1", "/admin/groups", f"/admin/groups/{group}",
        "/admin/roles", "/admin/tokens", "/admin/policies", "/templates", "/templates/used",
        "/webhooks", "/budgets", "/admin/audit", "/admin/message",
    ]  # fmt: skip


def test_pages_fit_and_are_accessible(tab: Tab, pages: list[str]) -> None:
    tab.open("/")
    for address in pages:
        tab.look(PHONE)
        tab.visit(address)
        tab.ready()
        assert (address, tab.beyond(), tab.faults()) == (address, 0, [])
        tab.look(WALL, "dark")
        assert (address, tab.beyond(), tab.faults()) == (address, 0, [])
