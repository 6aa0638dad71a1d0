"""Pages of the administration, over an API in this process: no agent is needed. The API is asked afterwards."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.adapters.issuer_answers import CachedIssuers
from det_controlplane.adapters.issuer_tokens import IssuerTokens
from det_controlplane.adapters.issuers import describe, fetch_keys, post_form
from det_controlplane.core.config.cluster import load_cluster
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.webhooks import delivery

from tests.support.api import PASSWORD
from tests.support.browser import Tab, opened
from tests.support.house import House, house_over
from tests.support.inbox import Inbox, W, end
from tests.support.oidc_server import served as identity_provider
from tests.support.postgres import DatabaseServer
from tests.support.pressing import choose, fill, gone, press
from tests.support.served_api import served
from tests.support.sign_in_server import CLIENT, SECRET, SignInServer

MARKUP = "<img src=x onerror=alert(1)>"
LOOKS = [(360, "light"), (2560, "dark")]


@pytest.fixture(scope="module")
def house(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A cluster with roles and two workspaces, red and blue."""
    with house_over(postgres_server, tmp_path_factory.mktemp("house")) as made:
        made.admin.post("/api/v1/groups", {"name": "everybody"})
        made.admin.post("/api/v1/templates/used", {"config": {"max_restarts": 1}})
        yield made


@pytest.fixture(scope="module")
def base(house: House) -> Iterator[str]:
    with served(house.api) as url:
        yield url


@pytest.fixture
def tab(browser: Any, base: str) -> Iterator[Tab]:
    with opened(browser, base, user=("admin", PASSWORD)) as made:
        yield made
        assert made.complaints == []


def user_named(house: House, name: str) -> dict[str, Any]:
    return dict(house.admin.get(f"/api/v1/users/{name}/by-username")["user"])


def test_an_account_is_made_renamed_and_deactivated(tab: Tab, house: House) -> None:
    tab.open("/admin/people")
    press(tab, "New account")
    fill(tab, User_name="grace", Shown_name=MARKUP, Password="short")
    press(tab, "Create")
    tab.page.get_by_role("heading", name=MARKUP).wait_for()
    assert user_named(house, "grace")["displayName"] == MARKUP
    house.api.signed_in("grace", "short")
    press(tab, "Edit")
    fill(tab, Shown_name="Grace H.")
    tab.page.get_by_label(re.compile("^Administrator")).check()
    press(tab, "Save")
    tab.page.get_by_role("heading", name="Grace H.").wait_for()
    assert user_named(house, "grace")["admin"] is True
    press(tab, "More actions", "Deactivate", "Deactivate")
    press(tab, "Activate")
    tab.page.locator(".head .state", has_text="Active").wait_for()
    assert user_named(house, "grace")["active"] is True


def test_what_becomes_of_the_work_of_a_deactivated_account_is_told(tab: Tab, house: House) -> None:
    alan = house.person("alan", "Editor")
    generic = {"config": "entrypoint: [sleep, '9']", "contextDirectory": []}
    alan.post("/api/v1/generic-tasks", generic)
    shell = alan.post("/api/v1/shells", {"config": {"description": "mine"}})["shell"]["id"]
    tab.open(f"/admin/people/{user_named(house, 'alan')['id']}")
    press(tab, "More actions", "Deactivate", "Deactivate")
    toasts = tab.page.get_by_role("status")
    toasts.get_by_text(re.compile("deactivated. Goes on: .*Shell mine")).wait_for()
    press(tab, "Activate", "More actions", "Deactivate")
    tick = "Pause its experiments and generic tasks, end its other tasks"
    tab.page.get_by_label(re.compile(f"^{tick}")).check()
    press(tab, "Deactivate")
    toasts.get_by_text(re.compile("Paused: Task .*Ended: Shell mine")).wait_for()
    assert house.admin.get(f"/api/v1/shells/{shell}")["shell"]["state"] == "STATE_TERMINATED"


def test_a_new_password_ends_what_the_old_one_began(tab: Tab, house: House) -> None:
    caller = house.person("linus")
    tab.open("/admin/people?q=linus")
    tab.page.get_by_role("link", name="linus").click()
    press(tab, "More actions", "Set password")
    fill(tab, Password="a second password")
    press(tab, "Set password")
    gone(tab)
    assert caller.ask("GET", "/api/v1/me").status == 401
    house.api.signed_in("linus", "a second password")


def test_what_the_cluster_refuses_stands_in_the_dialog(tab: Tab) -> None:
    tab.open("/admin/people")
    press(tab, "New account")
    fill(tab, User_name="determined", Password=PASSWORD)
    press(tab, "Create")
    tab.page.get_by_role("dialog").get_by_role("alert").get_by_text("reserved").wait_for()
    tab.complaints[:] = [c for c in tab.complaints if "403" not in c]


@pytest.fixture
def provider(house: House) -> Iterator[SignInServer]:
    """An identity provider at which people of this cluster sign in."""
    before = replace(house.api.ctx)
    ctx = house.api.ctx
    with identity_provider(SignInServer()) as server:
        settings = {"issuer": server.url, "client_id": CLIENT, "client_secret": SECRET}
        oidc = load_cluster({"security": {"oidc": settings}}).oidc
        ctx.config = replace(ctx.config, oidc=oidc)
        ctx.tokens, ctx.issuers = IssuerTokens(fetch_keys), CachedIssuers(describe, post_form)
        yield server
    ctx.config, ctx.tokens, ctx.issuers = before.config, before.tokens, before.issuers


def test_who_has_an_account_for_it_signs_in_at_the_identity_provider(
    browser: Any, base: str, tab: Tab, provider: SignInServer
) -> None:
    with opened(browser, base, signed_in=False) as other:
        other.open("/queue")
        through = other.page.get_by_role("button", name=re.compile("^Sign in with"))
        through.click()
        other.page.get_by_role("alert").get_by_text("there is no user ada@example.com").wait_for()
        tab.open("/admin/people")
        press(tab, "New account")
        fill(tab, User_name="ada@example.com")
        tab.page.get_by_label(re.compile("^Signs in at the identity provider")).check()
        press(tab, "Create")
        tab.page.get_by_text("at the identity provider").wait_for()
        other.open("/queue")
        through.click()
        other.page.get_by_role("heading", name="Job queue").wait_for()
        assert other.page.url == f"{base}/det/queue"
        assert [c for c in other.complaints if "403" not in c] == []


def test_a_refusal_of_the_identity_provider_is_told(
    browser: Any, base: str, provider: SignInServer
) -> None:
    provider.person = None
    with opened(browser, base, signed_in=False) as other:
        other.open("/")
        other.page.get_by_role("button", name=re.compile("^Sign in with")).click()
        other.page.get_by_role("alert").get_by_text("not you").wait_for()
        assert other.page.get_by_label("Password").is_visible()


def test_a_group_gets_a_member_and_a_role(tab: Tab, house: House) -> None:
    house.person("ada")
    tab.open("/admin/groups")
    press(tab, "New group")
    fill(tab, Name="vision")
    press(tab, "Create", "Add a member")
    fill(tab, Person="ada")
    press(tab, "Add")
    gone(tab)
    tab.open(f"/admin/roles?in={house.red}")
    press(tab, "Give a role")
    choose(tab, To="a group")
    choose(tab, Group="vision", Role="Viewer")
    press(tab, "Give")
    gone(tab)
    ada = house.api.signed_in("ada")
    assert [w["name"] for w in ada.get("/api/v1/workspaces")["workspaces"]] == ["red"]
    press(tab, "Take away Viewer from vision", "Undo")
    tab.page.get_by_role("button", name="Take away Viewer from vision").wait_for()
    assert len(ada.get("/api/v1/workspaces")["workspaces"]) == 1


@pytest.fixture
def crowd(house: House) -> Iterator[int]:
    """The last by name of more workspaces than a listing gives at once."""
    made = [house.workspace(f"z-{n:03}") for n in range(100)]
    yield made[-1]
    for id in made:
        house.admin.done("DELETE", f"/api/v1/workspaces/{id}")


def test_roles_and_policies_are_given_in_each_of_many_workspaces(tab: Tab, crowd: int) -> None:
    tab.open(f"/admin/roles?in={crowd}")
    press(tab, "Give a role")
    tab.page.get_by_role("heading", name="Give a role in z-099").wait_for()
    tab.open(f"/admin/policies?in={crowd}")
    tab.page.locator(f"option[value='{crowd}']:checked").wait_for(state="attached")


@pytest.mark.parametrize("part", ["roles", "policies"])
def test_a_workspace_that_is_unknown_is_no_other_place(tab: Tab, part: str) -> None:
    tab.open(f"/admin/{part}?in=999999")
    tab.page.get_by_role("heading", name="There is no such workspace").wait_for()
    assert tab.page.get_by_role("button", name="Give a role").count() == 0
    tab.page.get_by_role("link", name="Choose another").click()
    tab.page.get_by_label("Place").wait_for()


def test_a_task_in_a_tree_of_many_has_a_page(tab: Tab, house: House) -> None:
    new = {"config": "entrypoint: [sleep, '9']", "contextDirectory": []}
    ids = [house.admin.post("/api/v1/generic-tasks", new)["taskId"]]
    for _ in range(100):
        ids.append(house.admin.post("/api/v1/generic-tasks", new | {"parentId": ids[0]})["taskId"])
    for id in (ids[0], ids[-1]):
        tab.open(f"/tasks/generic/{id}")
        tab.page.get_by_text("Task of admin").wait_for()
    house.admin.post(f"/api/v1/tasks/{ids[0]}/kill", {"taskId": ids[0], "killFromRoot": True})


def test_a_token_of_somebody_else_is_described_and_revoked(tab: Tab, house: House) -> None:
    made = house.person("ci").post("/api/v1/tokens", {"description": "old words"})
    tab.open("/admin/tokens")
    press(tab, f"Actions on token {made['tokenId']}", "Describe")
    fill(tab, Description="nightly builds")
    press(tab, "Save")
    tab.page.get_by_role("cell", name="nightly builds").wait_for()
    press(tab, f"Actions on token {made['tokenId']}", "Revoke", "Revoke")
    tab.page.get_by_role("cell", name="nightly builds").wait_for(state="detached")
    assert house.api.with_token(made["token"]).ask("GET", "/api/v1/me").status == 401


# What plain YAML would read as something else.
ODD = {
    "labels": ["A=on", "B=1e3", "#no comment", ": ", "- x", "é\u2028\x85"],
    "hyperparameters": {"yes": "no", "1": 2.5, "list": [[1, [2]], {"a": {"b": []}}, {}], "null": None},
    "entrypoint": "set -e\n\n  python3 train.py  \n", "description": " two\nlines", "name": "08", "data": {"x": "~"},
}  # fmt: skip


def test_a_template_is_made_checked_and_changed(tab: Tab, house: House) -> None:
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
    press(tab, "Save")
    tab.page.get_by_text("Saved").wait_for()
    found = house.admin.get("/api/v1/templates/eight")["template"]
    assert found["config"] == {"resources": {"slots_per_trial": 4}}
    press(tab, "More actions", "Delete", "Delete")
    tab.page.get_by_role("link", name="used", exact=True).wait_for()
    assert house.admin.ask("GET", "/api/v1/templates/eight").status == 404
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_a_template_stays_as_it_was_under_the_pen(tab: Tab, house: House) -> None:
    house.admin.post("/api/v1/templates/odd", {"config": ODD, "workspaceId": house.red})
    tab.open("/templates/odd")
    editor = tab.page.get_by_label(re.compile("^Configuration"))
    editor.fill(editor.input_value() + "max_restarts: 3\n")
    press(tab, "Save")
    tab.page.get_by_text("Saved").wait_for()
    found = house.admin.get("/api/v1/templates/odd")["template"]
    assert found == {"name": "odd", "workspaceId": house.red, "config": {**ODD, "max_restarts": 3}}
    house.admin.done("DELETE", "/api/v1/templates/odd")


def test_policies_are_demanded_of_a_workspace(tab: Tab, house: House) -> None:
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


def test_a_webhook_is_made_tried_and_deleted(tab: Tab, house: House) -> None:
    house.api.ctx.courier = inbox = Inbox()
    tab.open("/webhooks")
    press(tab, "New webhook")
    fill(tab, Name="pager", Address="not an address")
    choose(tab, Workspace="All workspaces")
    press(tab, "Create")
    assert house.admin.get(W)["webhooks"] == []
    fill(tab, Address="https://example.com/hook", Lines_of_logs="[")
    press(tab, "Create")
    tab.page.get_by_role("dialog").get_by_role("alert").wait_for()
    fill(tab, Lines_of_logs="CUDA error")
    tab.page.get_by_role("dialog").get_by_label("Budgets").check()
    press(tab, "Create")
    gone(tab)
    tab.page.get_by_text("lines with CUDA error, budgets").wait_for()
    press(tab, "Test pager")
    tab.page.get_by_text("pager took an example").wait_for()
    assert [post.url for post in inbox.posts] == ["https://example.com/hook"]
    inbox.refusals["https://example.com/hook"] = Unsent("example.com answered with status 503")
    press(tab, "Test pager")
    tab.page.get_by_role("status").get_by_text("took no message").wait_for()
    end(house.admin)
    delivery.run(house.api.ctx)
    tab.page.get_by_text(re.compile("try 1, it is tried again: .* 503")).wait_for()
    press(tab, "Actions on pager", "Delete", "Delete")
    tab.page.get_by_text("No webhooks yet").wait_for()
    assert house.admin.get(W)["webhooks"] == []
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_a_budget_is_set_raised_and_deleted(tab: Tab, house: House) -> None:
    tab.open("/budgets")
    press(tab, "New budget")
    choose(tab, Of="a person")
    fill(tab, Person="nobody", US_dollars="5")
    press(tab, "Set")
    tab.page.get_by_role("dialog").get_by_role("alert").get_by_text("not found").wait_for()
    fill(tab, Person="determined")
    press(tab, "Set")
    gone(tab)
    press(tab, "Actions on the budget of determined", "Change")
    fill(tab, US_dollars="12.50")
    choose(tab, Counts="each month")
    press(tab, "Set")
    tab.page.get_by_role("cell", name="$12.50").wait_for()
    (found,) = house.admin.get("/api/v1/budgets")["budgets"]
    assert (found["limitUsd"], found["period"]) == (12.5, "month")
    press(tab, "Actions on the budget of determined", "Delete", "Delete")
    tab.page.get_by_text("No budgets").wait_for()
    assert house.admin.get("/api/v1/budgets")["budgets"] == []
    tab.complaints[:] = [c for c in tab.complaints if "404" not in c]


def test_the_audit_log_is_searched_and_saved(tab: Tab, house: House) -> None:
    made = house.admin.post("/api/v1/groups", {"name": "audited"})["group"]["groupId"]
    tab.open("/admin/audit")
    fill(tab, Object=f"group {made}")
    rows = tab.page.get_by_role("table").get_by_role("row")
    tab.page.get_by_role("heading", name="Audit log").wait_for()
    tab.page.get_by_text("1 entry").wait_for()
    assert "audited" in rows.last.inner_text()
    tab.open(f"/admin/audit?since=1h&object=group+{made}")
    tab.page.get_by_text("1 entry").wait_for()
    asked: list[str] = []
    tab.page.on("request", lambda r: asked.append(r.url))
    with tab.page.expect_download() as saved:
        press(tab, "Export")
    (part,) = (url for url in asked if "limit=1000" in url)
    assert re.search(r"since=\d{4}-", part), "a moment, the same for every part"
    (line,) = Path(saved.value.path()).read_text("utf-8").splitlines()
    assert json.loads(line)["object"] == f"group {made}"


def test_a_message_is_shown_to_everybody_until_it_is_cleared(
    browser: Any, base: str, tab: Tab, house: House
) -> None:
    tab.open("/admin/message")
    fill(tab, Message=MARKUP)
    press(tab, "Set")
    shown = tab.page.get_by_role("status", name="Message of the cluster")
    shown.get_by_text(MARKUP).wait_for()
    with opened(browser, base, user=("determined", PASSWORD)) as other:
        other.page.get_by_role("status", name="Message of the cluster").wait_for()
    press(tab, "Clear", "Undo")
    shown.wait_for()
    press(tab, "Clear")
    shown.wait_for(state="detached")
    assert house.admin.get("/api/v1/master")["clusterMessage"] is None


@pytest.mark.parametrize(
    ("role", "parts"),
    [("", []), ("Editor", []), ("WorkspaceAdmin", ["Roles", "Config policies"])],
    ids=str,
)
def test_everybody_sees_of_the_administration_what_their_roles_allow(
    browser: Any, base: str, house: House, role: str, parts: list[str]
) -> None:
    name = f"with-{role or 'nothing'}"
    house.person(name, role, house.blue if role else None)
    with opened(browser, base, user=(name, PASSWORD)) as tab:
        assert tab.page.get_by_role("link", name="Administration").count() == bool(parts)
        tab.open("/admin")
        if not parts:
            tab.page.get_by_text("This is for administrators").wait_for()
            return
        shown = tab.page.get_by_role("navigation", name="Administration").get_by_role("link")
        shown.first.wait_for()
        assert shown.all_inner_texts() == parts
        places = tab.page.get_by_label("Place").locator("option")
        places.first.wait_for(state="attached")
        assert places.all_inner_texts() == ["blue"]
        assert tab.complaints == []


EDITS = ["Edit name and labels", "Open TensorBoard", "Move to another project", "Kill"]


@pytest.mark.parametrize(
    ("role", "buttons", "more"),
    [
        ("Viewer", [], []),
        ("EditorRestricted", ["Resume", "Stop", "Fork"], [e for e in EDITS if "Tensor" not in e]),
        ("Editor", ["Resume", "Stop", "Fork"], EDITS),
    ],
)
def test_everybody_is_offered_what_their_roles_allow(
    browser: Any, base: str, house: House, role: str, buttons: list[str], more: list[str]
) -> None:
    made = house.experiment(house.admin, house.blue_project)
    name = f"offered-{role}"
    house.person(name, role, house.blue)
    with opened(browser, base, user=(name, PASSWORD)) as tab:
        tab.open(f"/experiments/{made}")
        tab.page.get_by_role("heading", level=1).wait_for()
        tab.page.get_by_role("tab", name="Notes").or_(
            tab.page.get_by_role("link", name="Notes")
        ).first.wait_for()
        for button in ("Resume", "Stop", "Fork"):
            offered = tab.page.get_by_role("button", name=button, exact=True).count()
            assert offered == (button in buttons), button
        menu = tab.page.get_by_role("button", name="More actions")
        assert menu.count() == bool(more)
        if more:
            menu.click()
            tab.page.get_by_role("menuitem", name=more[0]).wait_for()
            items = tab.page.get_by_role("menuitem").all_inner_texts()
            assert items == more
        tab.open("/tasks")
        tab.page.get_by_role("heading", name="Tasks", level=1).wait_for()
        starts = tab.page.get_by_role("button", name="New notebook").count()
        assert starts == (role == "Editor")
        assert tab.complaints == []


def test_lines_of_one_moment_are_all_found_and_filtered(tab: Tab, house: House) -> None:
    made = house.experiment(house.admin, house.blue_project)
    house.admin.post(f"/api/v1/experiments/{made}/activate")
    (trial,) = house.admin.get(f"/api/v1/experiments/{made}/trials")["trials"]
    told = {"taskId": trial["taskId"], "timestamp": "2026-01-01T00:00:00Z"}
    lines = [{**told, "log": f"line {n}\n", "rankId": n % 2} for n in range(1500)]
    lines[7] |= {"level": "LOG_LEVEL_ERROR"}
    house.admin.post("/api/v1/task/logs", {"logs": lines[:1000]})
    house.admin.post("/api/v1/task/logs", {"logs": lines[1000:]})
    tab.open(f"/trials/{trial['id']}/logs")
    shown = tab.page.locator(".log-text")
    tab.page.get_by_text("line 1499", exact=True).wait_for()
    tab.page.get_by_role("log", name="Log lines").press("Home")
    tab.page.get_by_text("line 0", exact=True).wait_for()
    assert sum(text.startswith("line ") for text in shown.all_text_contents()) == 1500
    tab.page.get_by_label("Least level").select_option(label="Error and up")
    shown.nth(1).wait_for(state="detached")
    assert shown.all_text_contents() == ["line 7"]
    tab.page.get_by_label("Least level").select_option(label="Every level")
    tab.page.get_by_label("Ranks").fill("1")
    tab.page.get_by_label("Search in logs").fill("line 149")
    shown.filter(has_text=re.compile("^line 149$")).wait_for()
    shown.nth(6).wait_for(state="detached")
    # Those of odd ranks that have "line 149" in them.
    wanted = [149, *range(1491, 1500, 2)]
    assert shown.all_text_contents() == [f"line {n}" for n in wanted]
    house.admin.post(f"/api/v1/experiments/{made}/kill")


def pages(house: House) -> list[str]:
    group = house.admin.post("/api/v1/groups/search", {})["groups"][0]["group"]["groupId"]
    return [
        "/admin/people", "/admin/people/1", "/admin/groups", f"/admin/groups/{group}",
        "/admin/roles", "/admin/tokens", "/admin/policies", "/templates", "/templates/used",
        "/webhooks", "/budgets", "/admin/audit", "/admin/message",
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_pages_fit_and_are_accessible(
    browser: Any, base: str, house: House, width: int, theme: str
) -> None:
    with opened(browser, base, width=width, theme=theme, user=("admin", PASSWORD)) as tab:
        for address in pages(house):
            tab.open(address)
            tab.ready()
            beyond = tab.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert (address, beyond, tab.faults()) == (address, 0, [])
        assert tab.complaints == []
