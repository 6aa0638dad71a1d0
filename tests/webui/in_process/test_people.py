"""People, groups and roles in the pages of the administration; the API is asked afterwards."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.api import PASSWORD
from tests.support.browser import Tab, opened
from tests.support.forms import choose, fill, gone, press
from tests.support.house import House
from tests.support.oidc_server import served as identity_provider
from tests.support.sign_in_server import CLIENT, SECRET, SignInServer, trust_provider
from tests.webui.conftest import MARKUP


def user_named(house: House, name: str) -> dict[str, Any]:
    return dict(house.admin.get(f"/api/v1/users/{name}/by-username")["user"])


def test_account_can_be_created_renamed_and_deactivated(tab: Tab, house: House) -> None:
    tab.open("/admin/people")
    press(tab, "New account")
    fill(tab, User_name="grace", Display_name=MARKUP, Password="short")
    press(tab, "Create")
    tab.page.get_by_role("heading", name=MARKUP).wait_for()
    assert user_named(house, "grace")["displayName"] == MARKUP
    house.api.signed_in("grace", "short")
    press(tab, "Edit")
    fill(tab, Display_name="Grace H.")
    tab.page.get_by_label(re.compile("^Administrator")).check()
    press(tab, "Save")
    tab.page.get_by_role("heading", name="Grace H.").wait_for()
    assert user_named(house, "grace")["admin"] is True
    press(tab, "More actions", "Deactivate", "Deactivate")
    press(tab, "Activate")
    tab.page.locator(".head .state", has_text="Active").wait_for()
    assert user_named(house, "grace")["active"] is True


def test_deactivating_an_account_lists_paused_and_ended_tasks(tab: Tab, house: House) -> None:
    alan = house.person("alan", "Editor")
    generic = {"config": "entrypoint: [sleep, '9']", "contextDirectory": []}
    alan.post("/api/v1/generic-tasks", generic)
    shell = alan.post("/api/v1/shells", {"config": {"description": "mine"}})["shell"]["id"]
    tab.open(f"/admin/people/{user_named(house, 'alan')['id']}")
    press(tab, "More actions", "Deactivate", "Deactivate")
    toasts = tab.page.get_by_role("status")
    toasts.get_by_text(re.compile("deactivated. Still running: .*Shell mine")).wait_for()
    press(tab, "Activate", "More actions", "Deactivate")
    tick = "Pause its experiments and generic tasks, end its other tasks"
    tab.page.get_by_label(re.compile(f"^{tick}")).check()
    press(tab, "Deactivate")
    toasts.get_by_text(re.compile("Paused: Task .*Ended: Shell mine")).wait_for()
    assert house.admin.get(f"/api/v1/shells/{shell}")["shell"]["state"] == "STATE_TERMINATED"


def test_new_password_ends_existing_sessions(tab: Tab, house: House) -> None:
    caller = house.person("linus")
    tab.open("/admin/people?q=linus")
    tab.page.get_by_role("link", name="linus").click()
    press(tab, "More actions", "Set password")
    fill(tab, Password="a second password")
    press(tab, "Set password")
    gone(tab)
    assert caller.ask("GET", "/api/v1/me").status == 401
    house.api.signed_in("linus", "a second password")


def test_dialog_shows_the_error_of_the_api(tab: Tab) -> None:
    tab.open("/admin/people")
    press(tab, "New account")
    fill(tab, User_name="determined", Password=PASSWORD)
    press(tab, "Create")
    tab.page.get_by_role("dialog").get_by_role("alert").get_by_text("reserved").wait_for()
    tab.complaints[:] = [c for c in tab.complaints if "403" not in c]


@pytest.fixture
def provider(house: House) -> Iterator[SignInServer]:
    """An identity provider at which people of this cluster sign in."""
    ctx = house.api.ctx
    config, verifiers = ctx.config, replace(ctx.verifiers)
    with identity_provider(SignInServer()) as server:
        settings = {"issuer": server.url, "client_id": CLIENT, "client_secret": SECRET}
        trust_provider(house.api, settings)
        yield server
    ctx.config, ctx.verifiers = config, verifiers


def test_user_with_an_account_signs_in_through_the_identity_provider(
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
        tab.page.get_by_label(re.compile("^Sign in with the identity provider")).check()
        press(tab, "Create")
        tab.page.get_by_text("identity provider", exact=True).wait_for()
        other.open("/queue")
        through.click()
        other.page.get_by_role("heading", name="Job queue").wait_for()
        assert other.page.url == f"{base}/det/queue"
        assert [c for c in other.complaints if "403" not in c] == []


def test_sign_in_page_shows_rejection_by_the_identity_provider(
    browser: Any, base: str, provider: SignInServer
) -> None:
    provider.person = None
    with opened(browser, base, signed_in=False) as other:
        other.open("/")
        other.page.get_by_role("button", name=re.compile("^Sign in with")).click()
        other.page.get_by_role("alert").get_by_text("not you").wait_for()
        assert other.page.get_by_label("Password").is_visible()


def test_group_can_receive_a_member_and_a_role(tab: Tab, house: House) -> None:
    house.person("ada")
    tab.open("/admin/groups")
    press(tab, "New group")
    fill(tab, Name="vision")
    press(tab, "Create", "Add member")
    fill(tab, Person="ada")
    press(tab, "Add")
    gone(tab)
    tab.open(f"/admin/roles?in={house.red}")
    press(tab, "Assign role")
    choose(tab, To="a group")
    choose(tab, Group="vision", Role="Viewer")
    press(tab, "Assign")
    gone(tab)
    ada = house.api.signed_in("ada")
    assert [w["name"] for w in ada.get("/api/v1/workspaces")["workspaces"]] == ["red"]
    button = tab.page.get_by_role("button", name="Remove Viewer from vision")
    button.click()
    button.wait_for(state="detached")
    press(tab, "Undo")
    button.wait_for()
    assert len(ada.get("/api/v1/workspaces")["workspaces"]) == 1


@pytest.fixture
def crowd(house: House) -> Iterator[int]:
    """The last by name of more workspaces than a listing gives at once."""
    workspaces = [house.workspace(f"z-{n:03}") for n in range(100)]
    yield workspaces[-1]
    for id in workspaces:
        house.admin.done("DELETE", f"/api/v1/workspaces/{id}")


def test_roles_and_policies_can_be_set_in_any_of_many_workspaces(tab: Tab, crowd: int) -> None:
    tab.open(f"/admin/roles?in={crowd}")
    press(tab, "Assign role")
    tab.page.get_by_role("heading", name="Assign role in z-099").wait_for()
    tab.open(f"/admin/policies?in={crowd}")
    tab.page.locator(f"option[value='{crowd}']:checked").wait_for(state="attached")


@pytest.mark.parametrize("part", ["roles", "policies"])
def test_page_of_an_unknown_workspace_offers_to_choose_another(tab: Tab, part: str) -> None:
    tab.open(f"/admin/{part}?in=999999")
    tab.page.get_by_role("heading", name="Workspace not found").wait_for()
    assert tab.page.get_by_role("button", name="Assign role").count() == 0
    tab.page.get_by_role("link", name="Select another workspace").click()
    tab.page.get_by_label("Scope").wait_for()


def test_administrator_describes_and_revokes_token_of_another_user(tab: Tab, house: House) -> None:
    caller = house.person("ci").post("/api/v1/tokens", {"description": "old words"})
    tab.open("/admin/tokens")
    press(tab, f"Actions on token {caller['tokenId']}", "Edit description")
    fill(tab, Description="nightly builds")
    press(tab, "Save")
    tab.page.get_by_role("cell", name="nightly builds").wait_for()
    press(tab, f"Actions on token {caller['tokenId']}", "Revoke", "Revoke")
    tab.page.get_by_role("cell", name="nightly builds").wait_for(state="detached")
    assert house.api.with_token(caller["token"]).ask("GET", "/api/v1/me").status == 401


@pytest.mark.parametrize(
    ("role", "parts"),
    [("", []), ("Editor", []), ("WorkspaceAdmin", ["Roles", "Config policies"])],
    ids=str,
)
def test_users_see_administration_pages_allowed_by_their_roles(
    browser: Any, base: str, house: House, role: str, parts: list[str]
) -> None:
    name = f"with-{role or 'nothing'}"
    house.person(name, role, house.blue if role else None)
    with opened(browser, base, user=(name, PASSWORD)) as tab:
        tab.open("/admin")
        tab.page.get_by_role("link", name="Home", exact=True).wait_for()
        assert tab.page.get_by_role("link", name="Administration").count() == bool(parts)
        if not parts:
            tab.page.get_by_text("Administrators only").wait_for()
            return
        links = tab.page.get_by_role("navigation", name="Administration").get_by_role("link")
        links.first.wait_for()
        assert links.all_inner_texts() == parts
        places = tab.page.get_by_label("Scope").locator("option")
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
def test_users_see_actions_allowed_by_their_roles(
    browser: Any, base: str, house: House, role: str, buttons: list[str], more: list[str]
) -> None:
    experiment_id = house.experiment(house.admin, house.blue_project)
    name = f"offered-{role}"
    house.person(name, role, house.blue)
    with opened(browser, base, user=(name, PASSWORD)) as tab:
        tab.open(f"/experiments/{experiment_id}")
        tab.page.get_by_role("heading", level=1).wait_for()
        tab.page.get_by_role("tab", name="Notes").or_(
            tab.page.get_by_role("link", name="Notes")
        ).first.wait_for()
        for button in ("Resume", "Stop", "Fork"):
            count = tab.page.get_by_role("button", name=button, exact=True).count()
            assert count == (button in buttons), button
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
