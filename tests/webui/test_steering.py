"""Change experiments, workspaces, models and jobs through their pages; the API is asked afterwards."""

import base64
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import PASSWORD, Caller, config_of, create, report_checkpoint
from tests.support.browser import Tab, opened
from tests.support.forms import press
from tests.support.house import House
from tests.support.processes import eventually
from tests.webui.conftest import MARKUP

SPACES = "/api/v1/workspaces"
ME = ("determined", PASSWORD)


@pytest.fixture
def tab(house_tab: Tab) -> Tab:
    return house_tab


@pytest.fixture
def waiting(user: Caller) -> int:
    """An experiment that is paused before it began."""
    return create(user)


def experiment(user: Caller, experiment_id: int) -> dict[str, Any]:
    stored_experiment: dict[str, Any] = user.get(f"/api/v1/experiments/{experiment_id}")[
        "experiment"
    ]
    return stored_experiment


def test_signing_in_opens_the_requested_page(browser: Any, house_base: str, searched: int) -> None:
    with opened(browser, house_base, signed_in=False) as tab:
        tab.open(f"/experiments/{searched}/trials")
        tab.sign_in(password="wrong")
        tab.page.get_by_role("alert").wait_for()
        tab.sign_in(*ME)
        tab.page.get_by_role("table").wait_for()
        assert tab.page.url.endswith(f"/det/experiments/{searched}/trials")
        assert "auth" not in tab.page.evaluate(
            "document.cookie + JSON.stringify({...localStorage})"
        )


def test_page_continues_after_signing_in_again(
    browser: Any, house_base: str, searched: int
) -> None:
    with opened(browser, house_base, user=ME) as tab:
        tab.open("/experiments")
        tab.ready()
        tab.page.context.clear_cookies()
        tab.page.locator(f'a[href="/det/experiments/{searched}"]').last.click()
        tab.page.get_by_label("User name").wait_for()
        tab.sign_in(*ME)
        tab.page.get_by_role("link", name="Configuration").wait_for()
        assert f"/det/experiments/{searched}" in tab.page.url


@pytest.mark.parametrize("way", ["notes", "dialog"])
def test_typed_text_survives_the_end_of_the_session(
    browser: Any, house_base: str, searched: int, way: str
) -> None:
    from playwright.sync_api import expect

    with opened(browser, house_base, user=ME) as tab:
        page = tab.page
        tab.open(f"/experiments/{searched}/notes")
        if way == "dialog":
            press(tab, "Fork")
        editor = page.get_by_role("textbox", name="Notes" if way == "notes" else "Configuration")
        editor.fill("name: typed before")
        page.context.clear_cookies()
        if way == "notes":
            press(tab, "Save")
        dialog = page.get_by_role("dialog", name="Your session expired")
        dialog.get_by_text("Your changes are kept.").wait_for()
        assert dialog.get_by_label("User name").input_value() == ME[0]
        expect(dialog.get_by_label("Password")).to_be_focused()
        assert editor.is_visible()
        assert tab.faults() == []
        page.keyboard.press("Escape")
        dialog.get_by_label("Password").fill(ME[1])
        page.keyboard.press("Enter")
        dialog.wait_for(state="detached")
        assert editor.input_value() == "name: typed before"
        message = page.get_by_text("Your session expired. Sign in, then try again.")
        expect(message).to_have_count(int(way == "notes"))


def test_markup_in_names_is_escaped(tab: Tab, searched: int) -> None:
    for address in (
        "/experiments",
        f"/experiments/{searched}",
        f"/experiments/{searched}/configuration",
    ):
        tab.open(address)
        tab.ready()
        tab.page.get_by_text(MARKUP).first.wait_for()
        assert tab.page.locator("img, b").count() == 0
        assert tab.page.title() != "1"


def test_code_is_a_tree_of_downloadable_files(tab: Tab, user: Caller) -> None:
    code = {
        "parts/deep/layer.py": b"# <b>deep</b>\n",
        "image.bin": b"\0\1\2",
        "train.py": b"print(1)\n",
    }
    experiment_id = create_with(user, code)
    tab.open(f"/experiments/{experiment_id}/code")
    files = tab.page.get_by_role("navigation", name="Files")
    files.get_by_text("parts", exact=True).wait_for()
    files.get_by_role("link", name="layer.py").click()
    source = tab.page.locator(".source")
    source.get_by_text("# <b>deep</b>").wait_for()
    assert "file=parts%2Fdeep%2Flayer.py" in tab.page.url
    assert tab.faults() == []
    for path in ("parts/deep/layer.py", "image.bin"):
        name = path.rpartition("/")[2]
        files.get_by_role("link", name=name).click()
        tab.page.get_by_role("heading", name=name).wait_for()
        with tab.page.expect_download() as downloading:
            tab.page.get_by_role("link", name="Download", exact=True).click()
        assert downloading.value.suggested_filename == name
        assert Path(downloading.value.path()).read_bytes() == code[path]
    tab.page.get_by_text("Binary file").wait_for()
    with tab.page.expect_download() as downloading:
        tab.page.get_by_role("link", name="Download all").click()
    with tarfile.open(downloading.value.path()) as archive:
        assert "parts/deep/layer.py" in archive.getnames()


def create_with(user: Caller, code: dict[str, bytes]) -> int:
    files = [
        {
            "path": path,
            "type": 48,
            "mode": "420",
            "mtime": "0",
            "content": base64.b64encode(content).decode(),
        }
        for path, content in code.items()
    ]
    request = {"config": config_of(), "activate": False, "modelDefinition": files}
    return int(user.post("/api/v1/experiments", request)["experiment"]["id"])


def test_an_experiment_is_paused_resumed_and_stopped(tab: Tab, user: Caller, waiting: int) -> None:
    tab.open(f"/experiments/{waiting}")
    for button, state in (("Resume", "Active"), ("Pause", "Paused")):
        tab.page.get_by_role("button", name=button, exact=True).click()
        tab.page.locator(".head .state", has_text=re.compile(f"{state}|Queued|Running")).wait_for()
    tab.page.get_by_role("button", name="Stop", exact=True).click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    tab.page.locator(".head .state", has_text="Canceled").wait_for()
    assert experiment(user, waiting)["state"] == "STATE_CANCELED"


def test_archiving_experiments_can_be_undone(tab: Tab, user: Caller, searched: int) -> None:
    tab.open("/experiments")
    tab.page.get_by_role("checkbox", name=f"Select {searched}", exact=True).check()
    tab.page.get_by_role("button", name="Archive", exact=True).click()
    assert eventually(lambda: experiment(user, searched)["archived"]), "it is archived"
    tab.page.get_by_role("button", name="Undo").click()
    assert eventually(lambda: not experiment(user, searched)["archived"]), "it is brought back"


def test_filters_are_part_of_the_address(tab: Tab, searched: int) -> None:
    tab.open("/experiments?state=CANCELED&q=bold")
    tab.page.get_by_role("cell", name="Canceled").first.wait_for()
    tab.page.get_by_label("Search names").fill("nothing is called so")
    tab.page.get_by_text("No experiments match your filters.").wait_for()
    assert "q=nothing" in tab.page.url
    tab.page.get_by_role("button", name="Show all experiments").click()
    tab.page.get_by_role("checkbox", name=f"Select {searched}", exact=True).wait_for()


def test_comparison_of_experiments_has_an_address(tab: Tab, searched: int, waiting: int) -> None:
    tab.open("/experiments")
    for experiment_id in (searched, waiting):
        tab.page.get_by_role("checkbox", name=f"Select {experiment_id}", exact=True).check()
    tab.page.get_by_role("link", name="Compare").click()
    tab.page.get_by_role("heading", name="Compare 2 experiments").wait_for()
    assert f"{searched}" in tab.page.url
    assert f"{waiting}" in tab.page.url
    row = tab.page.get_by_role("row", name=re.compile(r"^searcher\.name"))
    assert sorted(row.get_by_role("cell").all_inner_texts()) == ["random", "single"]
    assert tab.page.get_by_role("row", name=re.compile("^entrypoint")).count() == 0
    tab.page.get_by_label("Show identical values").check()
    tab.page.get_by_role("row", name=re.compile("^entrypoint")).wait_for()


def test_checkpoint_can_be_registered_as_a_model_version(
    tab: Tab, user: Caller, searched: int
) -> None:
    uuid = report_checkpoint(user, searched)
    tab.open("/models")
    tab.page.get_by_role("button", name="New model").click()
    tab.page.get_by_label("Name", exact=True).fill("<b>digits")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("button", name="Register a checkpoint").click()
    tab.page.get_by_label(re.compile("^Checkpoint")).fill(uuid)
    tab.page.get_by_role("button", name="Register", exact=True).click()
    tab.page.get_by_role("cell", name=uuid).wait_for()
    (model,) = user.get("/api/v1/models", name="<b>digits")["models"]
    assert (model["name"], model["numVersions"]) == ("<b>digits", 1)


def test_experiment_can_be_moved_to_a_new_project(tab: Tab, user: Caller, waiting: int) -> None:
    tab.open("/workspaces")
    tab.page.get_by_role("button", name="New workspace").click()
    tab.page.get_by_label("Name", exact=True).fill("Vision")
    tab.page.get_by_role("button", name="Create").click()
    vision = tab.page.locator(".panel", has_text="Vision")
    vision.get_by_role("button", name="New project").click()
    tab.page.get_by_label("Name", exact=True).fill("Digits")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("link", name="Digits").wait_for()
    tab.open(f"/experiments/{waiting}")
    tab.page.get_by_role("button", name="More actions").click()
    tab.page.get_by_role("menuitem", name="Move to another project").click()
    tab.page.get_by_role("combobox", name="Project").select_option(label="Vision / Digits")
    tab.page.get_by_role("button", name="Move", exact=True).click()
    tab.page.get_by_text("in Vision / Digits").wait_for()
    assert experiment(user, waiting)["projectName"] == "Digits"


def test_workspaces_and_projects_can_be_renamed_moved_archived_and_deleted(
    tab: Tab, user: Caller
) -> None:
    old, other = (user.post(SPACES, {"name": name})["workspace"]["id"] for name in ("Old", "Other"))
    user.post(f"{SPACES}/{old}/projects", {"name": "Trials"})
    tab.open("/workspaces")

    def act(on: str, what: str) -> None:
        tab.page.get_by_role("button", name=f"Actions on {on}", exact=True).click()
        tab.page.get_by_role("menuitem", name=what).click()

    act("Old", "Rename")
    tab.page.get_by_label("Name", exact=True).fill("New")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_role("heading", name="New", exact=True).wait_for()
    act("Trials", "Edit")
    tab.page.get_by_label("Description").fill("what was tried")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_text("what was tried").wait_for()
    act("Trials", "Move")
    tab.page.get_by_role("combobox", name="Workspace").select_option(label="Other")
    tab.page.get_by_role("button", name="Move", exact=True).click()
    tab.page.get_by_role("dialog").wait_for(state="detached")
    (project,) = user.get(f"{SPACES}/{other}/projects")["projects"]
    assert (project["name"], project["description"]) == ("Trials", "what was tried")
    act("New", "Archive")
    heading = tab.page.get_by_role("heading", name="New", exact=True)
    heading.wait_for(state="detached")
    tab.page.get_by_role("button", name="Undo").click()
    heading.wait_for()
    act("New", "Delete")
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    heading.wait_for(state="detached")
    assert "New" not in {w["name"] for w in user.get(SPACES)["workspaces"]}


def queue(user: Caller) -> list[str]:
    jobs = user.get("/api/v1/job-queues-v2", resourcePool="default")["jobs"]
    return [job["full"]["entityId"] for job in jobs]


def test_job_can_be_moved_to_the_top_and_back(tab: Tab, user: Caller, house: House) -> None:
    experiment_ids = [create(user, activate=True) for _ in range(3)]
    house.api.tick()
    first, second, third = (str(e) for e in experiment_ids)
    assert eventually(lambda: queue(user) == [first, second, third]), "all wait in the queue"
    tab.open("/queue")
    row: Any = tab.page.get_by_role("row").filter(
        has=tab.page.locator(f'a[href="/det/experiments/{third}"]')
    )
    row.get_by_role("button", name="Actions on").click()
    tab.page.get_by_role("menuitem", name="Move to top").click()
    assert eventually(lambda: queue(user)[0] == third), "it is at the top"
    tab.page.get_by_role("button", name="Undo").click()
    assert eventually(lambda: queue(user) == [first, second, third]), "it is back"
    # The page asks again a moment later than we.
    last = tab.page.get_by_role("row").nth(3)
    last.locator(f'a[href="/det/experiments/{third}"]').wait_for()
    handles = tab.page.get_by_role("button", name=re.compile("^Position [0-9]+"))
    # A finger drags as a mouse does, and does not scroll the page.
    assert handles.nth(2).evaluate("e => getComputedStyle(e).touchAction") == "none"
    handles.nth(2).drag_to(handles.nth(1))
    assert eventually(lambda: queue(user) == [first, third, second]), "it was dragged up"
    table_row = tab.page.get_by_role("row").nth(2)
    table_row.locator(f'a[href="/det/experiments/{third}"]').wait_for()
    table_row.get_by_role("button", name=re.compile("^Position 2")).press("ArrowDown")
    assert eventually(lambda: queue(user) == [first, second, third]), "a key moved it down"
    for experiment_id in experiment_ids:
        user.post(f"/api/v1/experiments/{experiment_id}/kill")


def test_view_can_be_saved_reused_and_deleted(tab: Tab, user: Caller, searched: int) -> None:
    tab.open("/experiments?state=CANCELED&columns=id,name,numTrials")
    tab.page.get_by_role("button", name="Views").click()
    tab.page.get_by_role("menuitem", name="Save this view").click()
    tab.page.get_by_label("Name", exact=True).fill("<b>done")
    tab.page.get_by_role("button", name="Save", exact=True).click()
    tab.page.get_by_role("button", name="<b>done").wait_for()
    tab.open("/experiments")
    tab.page.get_by_role("button", name="Views").click()
    tab.page.get_by_role("menuitem", name="<b>done").click()
    tab.page.wait_for_url(re.compile("state=CANCELED"))
    tab.page.get_by_role("columnheader", name="Trials").wait_for()
    heads = tab.page.get_by_role("columnheader").all_inner_texts()
    assert heads[1:] == ["ID", "Name", "Trials"]
    tab.page.get_by_role("button", name="<b>done").click()
    tab.page.get_by_role("menuitem", name="Rename or delete views").click()
    tab.page.get_by_role("button", name="Delete <b>done").click()
    tab.page.get_by_text("No views").wait_for()
    (setting,) = user.get("/api/v1/users/setting")["settings"]
    assert setting["value"] == "[]"


def test_a_token_is_shown_once_and_revoked(tab: Tab, user: Caller) -> None:
    tab.open("/settings")
    tab.page.get_by_role("button", name="New token").click()
    tab.page.get_by_label(re.compile("^Description")).fill("a pipeline")
    tab.page.get_by_role("button", name="Create").click()
    token = tab.page.locator(".token").inner_text()
    assert len(token) > 20
    tab.page.get_by_role("button", name="Close").click()
    tab.page.get_by_role("button", name=re.compile("^Actions on token")).click()
    tab.page.get_by_role("menuitem", name="Revoke").click()
    tab.page.get_by_role("button", name="Revoke", exact=True).click()
    tab.page.get_by_text("No access tokens").wait_for()
    assert user.get("/api/v1/tokens")["tokenInfo"] == []
