"""Actions that no other test presses: groups, templates, webhooks, models, workspaces, agents, settings."""

import re
from typing import Any

from det_controlplane.db.experiments import deletions

from tests.support.api import PASSWORD, trial_of
from tests.support.browser import Tab, opened
from tests.support.forms import choose, fill, gone, press
from tests.support.house import House, id_of
from tests.support.inbox import W, make_webhook
from tests.support.played_agent import PlayedAgent

MINUTE_MS, SOON_MS = 60_000, 10_000
_OPEN_AT_ONCE = """if (sessionStorage.hurries) new MutationObserver((_, seen) => {
    const menu = document.getElementById("menu");
    if (menu) seen.disconnect(), menu.click();
}).observe(document, {childList: true, subtree: true})"""


def told(tab: Tab, words: str) -> None:
    tab.page.get_by_role("status").get_by_text(words).first.wait_for()


def test_group_can_be_renamed_lose_a_member_and_be_deleted(tab: Tab, house: House) -> None:
    ada = id_of(house.person("ada"))
    new = {"name": "sight", "addUsers": [ada]}
    group = house.admin.post("/api/v1/groups", new)["group"]["groupId"]
    path = f"/api/v1/groups/{group}"
    tab.open(f"/admin/groups/{group}")
    press(tab, "More actions", "Rename")
    fill(tab, Name="vision")
    press(tab, "Save")
    tab.page.get_by_role("heading", name="vision").wait_for()
    press(tab, "Remove ada")
    told(tab, "Removed ada from vision")
    assert house.admin.get(path)["group"]["users"] == []
    press(tab, "Undo")
    tab.page.get_by_role("link", name="ada").wait_for()
    stored_group = house.admin.get(path)["group"]
    assert (stored_group["name"], [u["id"] for u in stored_group["users"]]) == ("vision", [ada])
    press(tab, "More actions", "Delete", "Delete")
    tab.page.get_by_role("heading", name="Groups", exact=True).wait_for()
    assert house.admin.ask("GET", path).status == 404


def test_administrator_ends_all_sessions_of_a_user(tab: Tab, house: House) -> None:
    caller = house.person("grace")
    tab.open(f"/admin/people/{id_of(caller)}")
    press(tab, "More actions", "Sign out everywhere", "Sign out")
    gone(tab)
    assert caller.ask("GET", "/api/v1/me").status == 401


def test_a_template_is_renamed(tab: Tab, house: House) -> None:
    house.admin.post("/api/v1/templates/old", {"config": {"max_restarts": 1}})
    tab.open("/templates/old")
    press(tab, "More actions", "Rename")
    fill(tab, Name="new one")
    press(tab, "Save")
    tab.page.get_by_role("heading", name="new one").wait_for()
    assert house.admin.get("/api/v1/templates/new%20one")["template"]["name"] == "new one"
    assert house.admin.ask("GET", "/api/v1/templates/old").status == 404


def test_a_webhook_is_edited(tab: Tab, house: House) -> None:
    make_webhook(house.admin, name="chat")
    tab.open("/webhooks")
    press(tab, "Actions on chat", "Edit")
    fill(tab, Name="pager", URL="https://example.com/other")
    press(tab, "Save")
    gone(tab)
    (webhook,) = house.admin.get(W)["webhooks"]
    assert (webhook["name"], webhook["url"]) == ("pager", "https://example.com/other")


def test_a_model_is_moved_archived_and_deleted(tab: Tab, house: House) -> None:
    new = {"name": "digits", "workspaceId": house.red}
    house.admin.post("/api/v1/models", new)
    path = "/api/v1/models/digits"
    tab.open("/models/digits")
    press(tab, "More actions", "Move to another workspace")
    choose(tab, Workspace="blue")
    press(tab, "Move")
    gone(tab)
    assert house.admin.get(path)["model"]["workspaceId"] == house.blue
    for action, archived in (("Archive", True), ("Unarchive", False)):
        press(tab, "More actions", action)
        told(tab, f"{action}d")
        assert house.admin.get(path)["model"]["archived"] is archived
    press(tab, "More actions", "Delete", "Delete")
    tab.page.get_by_role("heading", name="Model registry").or_(
        tab.page.get_by_role("heading", name="Models")
    ).first.wait_for()
    assert house.admin.ask("GET", path).status == 404


def test_list_of_workspaces_takes_two_requests(tab: Tab, house: House) -> None:
    requests: list[str] = []
    tab.open("/design")
    tab.page.on("request", lambda r: requests.append(r.url) if "/workspaces" in r.url else None)
    tab.page.get_by_role("link", name="Workspaces").click()
    tab.page.get_by_role("link", name="work", exact=True).nth(1).wait_for()
    assert len([url for url in requests if "/api/v1/" in url]) == 2


def test_a_workspace_is_pinned_and_unpinned(tab: Tab, house: House) -> None:
    def pinned() -> bool:
        stored_pinned = house.admin.get(f"/api/v1/workspaces/{house.red}")["workspace"]["pinned"]
        return bool(stored_pinned)

    tab.open("/workspaces")
    # As for their creators.
    assert pinned()
    press(tab, "Actions on red", "Unpin")
    told(tab, "Unpinned red")
    assert not pinned()
    press(tab, "Actions on red", "Pin")
    tab.page.get_by_role("status").get_by_text("Pinned red", exact=True).wait_for()
    assert pinned()


def test_failed_deletions_show_their_reasons(tab: Tab, house: House) -> None:
    workspace_id = house.workspace("doomed")
    path = f"/api/v1/workspaces/{workspace_id}/projects"
    project = house.admin.post(path, {"name": "cats"})["project"]["id"]
    with house.api.ctx.db.begin() as tx:
        deletions.fail(tx, "workspace", workspace_id, "workspace: its files stay")
        deletions.fail(tx, "project", project, "project: its files stay")
    tab.open("/workspaces")
    tab.page.get_by_text("Deletion failed: workspace: its files stay").wait_for()
    tab.page.get_by_text("Deletion failed: project: its files stay").wait_for()


def test_an_agent_is_drained_disabled_and_enabled(tab: Tab, house: House) -> None:
    PlayedAgent(house.api, "a1").join()

    def agent() -> tuple[bool, bool]:
        stored_agent = house.admin.get("/api/v1/agents/a1")["agent"]
        return stored_agent["enabled"], stored_agent["draining"]

    tab.open("/cluster")
    press(tab, "Actions on a1", "Drain: finish running work")
    told(tab, "a1 is draining")
    assert agent()[1] or not agent()[0]
    press(tab, "Actions on a1", "Enable")
    told(tab, "a1 is enabled")
    assert agent() == (True, False)
    press(tab, "Actions on a1", "Disable: stop running work")
    told(tab, "a1 is disabled")
    assert agent()[0] is False


def test_user_changes_own_name_password_and_colours(browser: Any, base: str, house: House) -> None:
    house.person("linus")
    with opened(browser, base, user=("linus", PASSWORD)) as tab:
        tab.open("/settings")
        fill(tab, Display_name="Linus <b>P.")
        tab.page.get_by_role("button", name="Save", exact=True).first.click()
        told(tab, "Name saved")
        user = house.admin.get("/api/v1/users/linus/by-username")["user"]
        assert user["displayName"] == "Linus <b>P."
        press(tab, "Dark")
        assert tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
        password = "another password"
        fill(tab, Current_password=PASSWORD, New_password=password, Repeat=password)
        press(tab, "Change password")
        told(tab, "Password changed")
        house.api.signed_in("linus", password)
        assert tab.complaints == []


def test_user_describes_own_token(tab: Tab, house: House) -> None:
    token_id = house.admin.post("/api/v1/tokens", {"description": "old words"})["tokenId"]
    tab.open("/settings")
    press(tab, f"Actions on token {token_id}", "Edit description")
    fill(tab, Description="nightly builds")
    press(tab, "Save")
    gone(tab)
    (token,) = house.admin.get("/api/v1/tokens")["tokenInfo"]
    assert token["description"] == "nightly builds"


def test_notes_of_an_experiment_are_saved(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    tab.open(f"/experiments/{experiment_id}/notes")
    fill(tab, Notes="what was <b>tried</b>")
    press(tab, "Save")
    told(tab, "Notes saved")
    assert (
        house.admin.get(f"/api/v1/experiments/{experiment_id}")["experiment"]["notes"]
        == "what was <b>tried</b>"
    )


def test_a_trial_is_killed(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/activate")
    trial = trial_of(house.admin, experiment_id)["id"]
    tab.open(f"/trials/{trial}")
    press(tab, "Kill", "Kill")
    tab.page.locator(".head .state", has_text=re.compile("Canceled|Stopping")).wait_for()
    assert house.admin.get(f"/api/v1/trials/{trial}")["trial"]["state"] == "STATE_CANCELED"


def test_an_experiment_is_renamed_and_labelled(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    tab.open(f"/experiments/{experiment_id}")
    press(tab, "More actions", "Edit name and labels")
    fill(tab, Name="digits", Description="the first", Labels="a, <b>b")
    press(tab, "Save")
    gone(tab)
    experiment = house.admin.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert (experiment["name"], experiment["description"]) == ("digits", "the first")
    assert sorted(experiment["labels"]) == ["<b>b", "a"]


def test_keyboard_shortcut_undoes_the_last_action(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    house.admin.post(f"/api/v1/experiments/{experiment_id}/kill")
    tab.open(f"/experiments/{experiment_id}")
    press(tab, "More actions", "Archive")
    told(tab, "Archived experiment")
    tab.page.keyboard.press("Control+z")
    told(tab, "Unarchived experiment")
    experiment = house.admin.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    assert experiment["archived"] is False


def test_message_stays_while_it_has_the_focus(tab: Tab) -> None:
    tab.page.clock.install()
    tab.open("/design")
    press(tab, "Message")
    undo = tab.page.get_by_role("button", name="Undo")
    undo.focus()
    tab.page.clock.run_for(MINUTE_MS)
    undo.wait_for()
    tab.page.get_by_role("heading", name="Design").focus()
    tab.page.clock.run_for(MINUTE_MS)
    undo.wait_for(state="detached")


def test_text_can_be_copied_without_https(tab: Tab) -> None:
    tab.page.context.grant_permissions(["clipboard-read"])
    tab.open("/settings")
    # Browsers give such pages no clipboard.
    tab.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    press(tab, "New token", "Create")
    token = tab.page.locator(".token").inner_text()
    press(tab, "Copy")
    told(tab, "Copied")
    press(tab, "Close")
    name = tab.page.get_by_label("Display name")
    name.fill("")
    name.press("Control+v")
    assert name.input_value() == token


def test_escape_closes_the_menu_on_a_phone(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.open("/models")
    menu = tab.page.get_by_role("button", name="Menu", exact=True)
    menu.press("Enter")
    tab.page.get_by_role("link", name="Workspaces").press("Escape")
    tab.page.get_by_role("link", name="Workspaces").wait_for(state="hidden")
    assert menu.evaluate("e => e === document.activeElement")


def test_menu_opened_during_page_load_stays_open(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.page.add_init_script(_OPEN_AT_ONCE)
    tab.page.evaluate("sessionStorage.hurries = 1")
    tab.open("/models")
    tab.ready()
    tab.page.get_by_role("link", name="Workspaces").wait_for(timeout=SOON_MS)


def test_new_experiment_form_selects_the_shown_project(tab: Tab, house: House) -> None:
    tab.open(f"/experiments?project={house.red_project}")
    tab.page.get_by_role("link", name="New experiment").first.click()
    tab.page.locator("option:checked", has_text="red / work").wait_for(state="attached")


def test_experiment_can_be_killed_continued_and_deleted(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    path = f"/api/v1/experiments/{experiment_id}"
    tab.open(f"/experiments/{experiment_id}")
    press(tab, "More actions", "Kill", "Kill")
    tab.page.locator(".head .state", has_text="Canceled").wait_for()
    press(tab, "More actions", "Continue training")
    tab.page.get_by_text("Ready to continue.").wait_for()
    press(tab, "Continue")
    gone(tab)
    assert house.admin.get(path)["experiment"]["state"] not in ("STATE_CANCELED", "STATE_ERROR")
    press(tab, "More actions", "Kill", "Kill")
    tab.page.locator(".head .state", has_text="Canceled").wait_for()
    press(tab, "More actions", "Delete", "Delete")
    tab.page.get_by_role("heading", name="Experiments").wait_for()
    assert (
        house.admin.ask("GET", path).status == 404
        or "DELET" in house.admin.get(path)["experiment"]["state"]
    )


def test_tensorboard_of_an_experiment_can_be_opened(tab: Tab, house: House) -> None:
    experiment_id = house.experiment(house.admin, house.red_project)
    tab.open(f"/experiments/{experiment_id}")
    press(tab, "More actions", "Open TensorBoard")
    tab.page.wait_for_url(re.compile("/det/tasks/tensorboard/"))
    (tensorboard,) = house.admin.get("/api/v1/tensorboards")["tensorboards"]
    assert tensorboard["experimentIds"] == [experiment_id]


def test_users_can_move_only_own_experiments_to_another_workspace(
    browser: Any, base: str, house: House
) -> None:
    mover = house.person("mover", "Editor")
    experiment_id = house.experiment(house.admin, house.red_project)
    own = house.experiment(mover, house.red_project)
    with opened(browser, base, user=("mover", PASSWORD)) as tab:
        for new_id, is_offered in ((experiment_id, False), (own, True)):
            tab.open(f"/experiments/{new_id}")
            press(tab, "More actions", "Move to another project")
            reason = tab.page.get_by_text(
                "Only the owner of an experiment and workspace administrators"
            )
            there = tab.page.get_by_role("option", name="blue / work")
            reason.or_(there).first.wait_for(state="attached")
            assert (there.count(), reason.count()) == ((1, 0) if is_offered else (0, 1))
        assert tab.complaints == []
