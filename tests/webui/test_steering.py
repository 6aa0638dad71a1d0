"""What is changed through pages other than those of experiments; the API is asked afterwards."""

import re
import tarfile
from pathlib import Path
from typing import Any

from tests.support.browser import Tab, opened
from tests.support.cluster import Cluster
from tests.support.ssh import require_ssh
from tests.webui.conftest import EXAMPLE, MARKUP


def test_a_task_is_watched_and_ended(tab: Tab, cluster: Cluster) -> None:
    line = f"echo '{MARKUP}'; sleep 600"
    told = cluster.det("command", "run", "--config", "resources.slots=0", "--detach", line)
    task_id = told.out.split()[-1]
    tab.open("/tasks")
    tab.page.locator(f'a[href="/det/tasks/command/{task_id}"]').click()
    tab.page.locator(".log-text", has_text=MARKUP).first.wait_for()
    assert tab.page.locator("img, b").count() == 0
    tab.page.get_by_role("button", name="End").click()
    tab.page.get_by_role("button", name="End").wait_for(state="detached")
    assert cluster.get(f"/api/v1/commands/{task_id}")["command"]["state"] == "STATE_TERMINATED"


def test_a_tree_of_tasks_is_watched_paused_and_ended(
    tab: Tab, cluster: Cluster, tmp_path: Path
) -> None:
    config = tmp_path / "task.yaml"
    config.write_text("entrypoint: [sleep, '600']\nresources: {slots: 0}\n")
    top = cluster.det("task", "create", config).out.split()[-1]
    child = cluster.det("task", "create", config, "--parent", top).out.split()[-1]
    tab.open("/tasks")
    below = tab.page.get_by_role("cell", name="\u21b3").filter(has=tab.page.get_by_role("link"))
    below.locator(f'a[href="/det/tasks/generic/{child}"]').wait_for()
    tab.page.locator(f'a[href="/det/tasks/generic/{top}"]').click()
    tab.page.locator(f'a[href="/det/tasks/generic/{child}"]').wait_for()
    tab.page.get_by_role("button", name="Pause", exact=True).click()
    tab.page.get_by_role("button", name="Resume", exact=True).wait_for()
    tab.page.get_by_role("button", name="End", exact=True).click()
    tab.page.locator(".head .state", has_text="Canceled").wait_for()
    assert cluster.get(f"/api/v1/tasks/{child}")["task"]["endTime"]


def test_a_shell_is_used_in_the_page(tab: Tab, browser: Any, base: str, cluster: Cluster) -> None:
    require_ssh()
    tab.open("/tasks")
    tab.page.get_by_role("button", name="New shell").click()
    tab.page.get_by_role("button", name="Start").click()
    tab.page.get_by_role("link", name="Open a terminal").click()
    # Colours of 24 bits are styles that the policy of the page forbids in markup.
    typed(tab, "printf '\\033[38;2;10;120;10m%s\\033[0m\\n' \"<i>$((40+2))</i>\"; kept=h''ere")
    shown(tab, "<i>42</i>")
    assert tab.page.locator(".xterm-rows i").count() == 0
    ground = "e => getComputedStyle(e).backgroundColor"
    assert tab.page.locator(".xterm-viewport").evaluate(ground) == "rgba(0, 0, 0, 0)", (
        "the page's own"
    )
    assert tab.faults() == []
    tab.page.keyboard.press("Control+Shift+ArrowUp")
    assert "Copy" not in (left := tab.page.evaluate("document.activeElement.textContent"))
    assert left == "Read aloud"
    # The same tab finds its shell again, and what that said.
    tab.page.reload()
    shown(tab, "<i>42</i>")
    typed(tab, "echo again-$kept")
    shown(tab, "again-here")
    typed(tab, "exit 3")
    tab.page.get_by_text("The shell ended with status 3.").wait_for()
    tab.page.get_by_role("button", name="Start again").click()
    typed(tab, "echo new-$kept-")
    shown(tab, "new--")
    address = tab.page.url.removeprefix(f"{base}/det")
    tab.open("/design")
    # A console may complain where a server is killed.
    with opened(browser, base) as other:
        other.open(address)
        typed(other, "kept=there; echo $((20+3))-ready")
        shown(other, "23-ready")
        cluster.kill("det_controlplane.entry.server.api_server")
        other.page.get_by_text("The shell goes on; this page tries to reach it again.").wait_for()
        typed(other, "echo still-$kept")
        shown(other, "still-there")
        other.page.get_by_role("button", name="End").click()
        other.page.get_by_text("This task has ended, and its shell with it.").wait_for()


def typed(tab: Tab, line: str) -> None:
    tab.page.locator(".terminal[data-state=open]").wait_for()
    tab.page.locator(".xterm-helper-textarea").focus()
    tab.page.keyboard.type(f"{line}\n")


def shown(tab: Tab, text: str) -> None:
    """Wait for output, which is not what was typed."""
    tab.page.locator(".xterm-rows", has_text=text).wait_for()


def checkpoint_of(cluster: Cluster, experiment_id: int) -> str:
    # The last one of a trial is kept: others may be deleted while this looks.
    path = (
        f"/api/v1/experiments/{experiment_id}/checkpoints?states=STATE_COMPLETED"
        "&sortByAttr=SORT_BY_END_TIME&orderBy=ORDER_BY_DESC"
    )
    return str(cluster.get(path)["checkpoints"][0]["uuid"])


def test_a_checkpoint_becomes_a_version_of_a_model(
    tab: Tab, cluster: Cluster, trained: int
) -> None:
    uuid = checkpoint_of(cluster, trained)
    tab.open("/models")
    tab.page.get_by_role("button", name="New model").click()
    tab.page.get_by_label("Name", exact=True).fill("<b>digits")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("button", name="Register a checkpoint").click()
    tab.page.get_by_label(re.compile("^Checkpoint")).fill(uuid)
    tab.page.get_by_role("button", name="Register", exact=True).click()
    tab.page.get_by_role("cell", name=uuid).wait_for()
    (model,) = cluster.get("/api/v1/models?name=%3Cb%3Edigits")["models"]
    assert (model["name"], model["numVersions"]) == ("<b>digits", 1)


def test_a_checkpoint_is_registered_and_downloaded_where_it_is_listed(
    tab: Tab, cluster: Cluster, trained: int
) -> None:
    tab.open(f"/experiments/{trained}/checkpoints")
    tab.page.locator("button.link.mono").first.click()
    with tab.page.expect_download() as downloading:
        tab.page.get_by_role("link", name="Download").click()
    uuid = tab.page.get_by_role("dialog").locator("code").first.inner_text()
    assert files_in(downloading.value) == files_of(cluster, uuid)
    tab.page.get_by_role("button", name="Register as a model version").click()
    tab.page.get_by_role("combobox", name="Model").select_option(label="A new model")
    tab.page.get_by_label("Name of the new model").fill("from a list")
    tab.page.get_by_role("button", name="Register", exact=True).click()
    tab.page.get_by_role("heading", name="from a list").wait_for()
    (made,) = cluster.get("/api/v1/models?name=from%20a%20list")["models"]
    assert made["numVersions"] == 1
    tab.page.get_by_role("button", name="Actions on version 1").click()
    with tab.page.expect_download() as downloading:
        tab.page.get_by_role("menuitem", name="Download").click()
    assert files_in(downloading.value) == files_of(cluster, uuid)
    tab.page.get_by_role("button", name="More actions").click()
    tab.page.get_by_role("menuitem", name="Edit").click()
    tab.page.get_by_label("Labels").fill("best, digits")
    tab.page.get_by_label("Notes").fill("keep this one")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_text("keep this one").wait_for()
    tab.page.get_by_role("button", name="Actions on version 1").click()
    tab.page.get_by_role("menuitem", name="Edit").click()
    tab.page.get_by_label("Comment").fill("after two epochs")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_text("after two epochs").wait_for()
    tab.page.get_by_role("button", name="Actions on version 1").click()
    tab.page.get_by_role("menuitem", name="Delete").click()
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_text("No versions yet").wait_for()
    (made,) = cluster.get("/api/v1/models?name=from%20a%20list")["models"]
    assert (made["labels"], made["notes"], made["numVersions"]) == (
        ["best", "digits"],
        "keep this one",
        0,
    )


def files_in(download: Any) -> set[str]:
    """Return the files of a downloaded archive."""
    assert download.suggested_filename.endswith(".tar")
    with tarfile.open(download.path()) as archive:
        return {m.name.removeprefix("./") for m in archive if m.isfile()}


def files_of(cluster: Cluster, uuid: str) -> set[str]:
    resources = cluster.get(f"/api/v1/checkpoints/{uuid}")["checkpoint"]["resources"]
    return {path for path in resources if not path.endswith("/")}


def test_checkpoints_are_deleted_one_and_many(tab: Tab, cluster: Cluster, trained: int) -> None:
    # The last one of each trial is kept by its policy; other tests have the newest of all.
    path = f"/api/v1/experiments/{trained}/checkpoints?states=STATE_COMPLETED&orderBy=ORDER_BY_DESC"
    listed = cluster.get(f"{path}&sortByAttr=SORT_BY_END_TIME")["checkpoints"]
    last = {c["training"]["trialId"]: c["uuid"] for c in reversed(listed)}
    one, *many = [uuid for uuid in last.values() if uuid != listed[0]["uuid"]]
    tab.open(f"/experiments/{trained}/checkpoints")
    tab.page.get_by_role("button", name=one[:8]).click()
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_role("dialog", name="Delete this checkpoint?").wait_for()
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_text("Deleting 1 checkpoint").wait_for()
    for uuid in many:
        tab.page.get_by_role("checkbox", name=f"Choose {uuid}").check()
    bar = tab.page.get_by_role("group", name="Chosen checkpoints")
    bar.get_by_role("button", name="Delete").click()
    asked = tab.page.get_by_role("dialog", name=f"Delete {len(many)} checkpoints?")
    asked.get_by_role("button", name="Delete", exact=True).click()
    bar.wait_for(state="detached")
    for uuid in (one, *many):
        # The list follows until they are gone.
        tab.page.get_by_role("checkbox", name=f"Choose {uuid}").wait_for(state="detached")
        found = cluster.get(f"/api/v1/checkpoints/{uuid}")["checkpoint"]
        assert found["state"] == "STATE_DELETED"
    assert tab.faults() == []


def test_a_project_is_made_and_an_experiment_moves_there(
    tab: Tab, cluster: Cluster, waiting: int
) -> None:
    tab.open("/workspaces")
    tab.page.get_by_role("button", name="New workspace").click()
    tab.page.get_by_label("Name", exact=True).fill("Vision")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("button", name="New project").click()
    tab.page.get_by_label("Name", exact=True).fill("Digits")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_role("link", name="Digits").wait_for()
    tab.open(f"/experiments/{waiting}")
    tab.page.get_by_role("button", name="More actions").click()
    tab.page.get_by_role("menuitem", name="Move to another project").click()
    tab.page.get_by_role("combobox", name="Project").select_option(label="Vision / Digits")
    tab.page.get_by_role("button", name="Move", exact=True).click()
    tab.page.get_by_text("in Vision / Digits").wait_for()
    assert cluster.experiment(waiting)["projectName"] == "Digits"


def test_workspaces_and_projects_are_renamed_moved_archived_and_deleted(
    tab: Tab, cluster: Cluster
) -> None:
    for name in ("Old", "Other"):
        cluster.det("workspace", "create", name)
    cluster.det("project", "create", "Old", "Trials")
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
    ids = {w["name"]: w["id"] for w in cluster.get("/api/v1/workspaces")["workspaces"]}
    (moved,) = cluster.get(f"/api/v1/workspaces/{ids['Other']}/projects")["projects"]
    assert (moved["name"], moved["description"]) == ("Trials", "what was tried")
    act("New", "Archive")
    heading = tab.page.get_by_role("heading", name="New", exact=True)
    heading.wait_for(state="detached")
    tab.page.get_by_role("button", name="Undo").click()
    heading.wait_for()
    act("New", "Delete")
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    heading.wait_for(state="detached")
    assert "New" not in {w["name"] for w in cluster.get("/api/v1/workspaces")["workspaces"]}


def queue(cluster: Cluster) -> list[str]:
    jobs = cluster.get("/api/v1/job-queues-v2?resourcePool=default")["jobs"]
    return [job["full"]["entityId"] for job in jobs]


def test_a_job_goes_to_the_top_and_back(tab: Tab, cluster: Cluster) -> None:
    made = [held(cluster) for _ in range(3)]
    first, second, third = (str(e) for e in made)
    cluster.until(lambda: queue(cluster) == [first, second, third], "all wait in the queue")
    tab.open("/queue")
    row: Any = tab.page.get_by_role("row").filter(
        has=tab.page.locator(f'a[href="/det/experiments/{third}"]')
    )
    row.get_by_role("button", name="Actions on").click()
    tab.page.get_by_role("menuitem", name="Move to top").click()
    cluster.until(lambda: queue(cluster)[0] == third, "it is at the top")
    tab.page.get_by_role("button", name="Undo").click()
    cluster.until(lambda: queue(cluster) == [first, second, third], "it is back")
    # The page asks again a moment later than we.
    last = tab.page.get_by_role("row").nth(3)
    last.locator(f'a[href="/det/experiments/{third}"]').wait_for()
    handles = tab.page.get_by_role("button", name=re.compile("^Place [0-9]+"))
    # A finger drags as a mouse does, and does not scroll the page.
    assert handles.nth(2).evaluate("e => getComputedStyle(e).touchAction") == "none"
    handles.nth(2).drag_to(handles.nth(1))
    cluster.until(lambda: queue(cluster) == [first, third, second], "it was dragged up")
    shown = tab.page.get_by_role("row").nth(2)
    shown.locator(f'a[href="/det/experiments/{third}"]').wait_for()
    shown.get_by_role("button", name=re.compile("^Place 2")).press("ArrowDown")
    cluster.until(lambda: queue(cluster) == [first, second, third], "a key moved it down")
    for experiment_id in made:
        cluster.det("experiment", "kill", str(experiment_id))


def held(cluster: Cluster) -> int:
    """An experiment that waits in the queue: it asks for more slots than are free."""
    return cluster.create(
        EXAMPLE / "adaptive.yaml", EXAMPLE, "--config", "searcher.max_trials=1",
        "--config", "resources.slots_per_trial=4", "--config", "entrypoint=sleep 600",
    )  # fmt: skip


def test_a_view_is_saved_used_again_and_deleted(tab: Tab, cluster: Cluster, trained: int) -> None:
    tab.open("/experiments?state=COMPLETED&columns=id,name,numTrials")
    tab.page.get_by_role("button", name="Views").click()
    tab.page.get_by_role("menuitem", name="Save this view").click()
    tab.page.get_by_label("Name", exact=True).fill("<b>done")
    tab.page.get_by_role("button", name="Save", exact=True).click()
    tab.page.get_by_role("button", name="<b>done").wait_for()
    tab.open("/experiments")
    tab.page.get_by_role("button", name="Views").click()
    tab.page.get_by_role("menuitem", name="<b>done").click()
    tab.page.wait_for_url(re.compile("state=COMPLETED"))
    heads = tab.page.get_by_role("columnheader").all_inner_texts()
    assert heads[1:] == ["ID", "Name", "Trials"]
    tab.page.get_by_role("button", name="<b>done").click()
    tab.page.get_by_role("menuitem", name="Rename or delete views").click()
    tab.page.get_by_role("button", name="Delete <b>done").click()
    tab.page.get_by_text("No views").wait_for()
    (kept,) = cluster.get("/api/v1/users/setting")["settings"]
    assert kept["value"] == "[]"


def test_a_token_is_shown_once_and_revoked(tab: Tab, cluster: Cluster) -> None:
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
    assert cluster.get("/api/v1/tokens")["tokenInfo"] == []
