"""Check the pages of a cluster that trains, and the effects of tasks, files and servers on them."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

from tests.support.browser import DESK, OF_COLOURS, PHONE, WALL, Tab, opened
from tests.support.cluster import Cluster
from tests.support.ssh import require_ssh
from tests.webui.conftest import EXAMPLE, MARKUP

EXPERIMENT_TABS = (
    "overview", "trials", "search", "hyperparameters", "checkpoints", "logs", "code", "configuration", "notes",
)  # fmt: skip
TRIAL_TABS = (
    "metrics",
    "workloads",
    "hyperparameters",
    "checkpoints",
    "logs",
    "resources",
    "profiler",
    "allocations",
)
PAGES = (
    "/dashboard", "/experiments", "/work", "/tasks?ended=1", "/models", "/workspaces", "/queue", "/cluster",
    "/settings", "/design",
)  # fmt: skip


def addresses(cluster: Cluster, experiment: int) -> list[str]:
    best = cluster.experiment(experiment)["bestTrialId"]
    return [
        *PAGES,
        f"/compare?experiments={experiment}",
        *(f"/experiments/{experiment}/{tab}" for tab in EXPERIMENT_TABS),
        *(f"/trials/{best}/{tab}" for tab in TRIAL_TABS),
    ]


def test_every_page_is_accessible_and_fits(tab: Tab, cluster: Cluster, trained: int) -> None:
    tab.open("/")
    for address in addresses(cluster, trained):
        tab.look(PHONE)
        tab.visit(address)
        tab.ready()
        assert (address, tab.beyond()) == (address, 0), "on a phone"
        tab.look(DESK)
        assert (address, tab.faults()) == (address, [])
        tab.look(WALL, "dark")
        assert (address, tab.beyond()) == (address, 0), "on a wide screen"
        assert (address, tab.faults(OF_COLOURS)) == (address, []), "in the dark"


def test_curves_are_drawn_and_name_their_trials(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}")
    chart = tab.page.get_by_role("img", name=re.compile("validation_error by batches: 4 curves"))
    chart.locator("canvas").wait_for()
    assert tab.page.get_by_role("list", name="Chart legend").locator("li").count() == 4


def test_search_page_shows_rungs_and_why_a_trial_ended(
    tab: Tab, cluster: Cluster, trained: int
) -> None:
    response = cluster.get(f"/api/v1/experiments/{trained}/search")
    # Four trials in rungs of a quarter each: only two rungs can distinguish them, for every max_rungs.
    assert {r["length"] for b in response["brackets"] for r in b["rungs"]} == {30, 120}
    tab.open(f"/experiments/{trained}/search")
    rungs = tab.page.locator(".search-picture .rung-at")
    rungs.first.wait_for()
    assert set(rungs.all_text_contents()) == {"30", "120"}
    for trial in response["trials"]:
        # The stopped trials depend on the order of arrival.
        assert re.match("was stopped by adaptive ASHA at rung|trained for all", trial["sentence"])
        line = tab.page.get_by_role("button", name=re.compile(rf"^Trial {trial['id']}\b"))
        line.press("Enter")
        tab.page.get_by_text(f"Trial {trial['id']} {trial['sentence']}").wait_for()
    tab.open(f"/trials/{response['trials'][0]['id']}")
    tab.page.get_by_text(f"The trial {response['trials'][0]['sentence']}").wait_for()


def test_selecting_part_of_an_axis_filters_the_trials(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}/hyperparameters")
    axis = tab.page.get_by_role("slider", name="validation_error")
    for _ in range(10):
        axis.press("ArrowUp")
    tab.page.get_by_text("1 of 4 trials").wait_for()
    assert tab.page.locator(".parallel .out").count() == 3
    cells = tab.page.locator(".heat td.filled")
    assert cells.count() == 1
    axis.press("Escape")
    tab.page.get_by_text("4 trials", exact=True).wait_for()


def test_chosen_trials_can_be_compared(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}/trials")
    boxes = tab.page.get_by_role("checkbox", name=re.compile("^Select [0-9]+$"))
    boxes.nth(0).check()
    boxes.nth(1).check()
    tab.page.get_by_role("link", name="Compare").click()
    tab.page.get_by_role("img", name=re.compile("validation_error by batches: 2 curves")).wait_for()
    tab.page.get_by_role("rowheader", name="learning_rate").wait_for()


def test_code_is_shown_line_by_line(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}/code?file=train.py")
    source = tab.page.locator(".source")
    source.wait_for()
    code = (EXAMPLE / "train.py").read_text("utf-8")
    assert source.inner_text().rstrip() == code.rstrip()


def test_experiment_forked_in_the_browser_trains(tab: Tab, cluster: Cluster, trained: int) -> None:
    tab.open(f"/experiments/{trained}")
    tab.page.get_by_role("button", name="Fork").click()
    editor = tab.page.get_by_label("Configuration, in YAML")
    text = editor.input_value()
    create = tab.page.get_by_role("button", name="Create")
    tab.page.get_by_text("This configuration is valid. 4 trials with 1 slot each.").wait_for()
    editor.fill(text.replace("max_trials: 4", "max_trials: none"))
    tab.page.get_by_text(re.compile("searcher.max_trials")).wait_for()
    assert create.is_disabled()
    editor.fill(re.sub("max_trials: 4", "max_trials: 2", text))
    tab.page.get_by_text("This configuration is valid. 2 trials with 1 slot each.").wait_for()
    create.click()
    tab.page.wait_for_url(re.compile(rf"/det/experiments/(?!{trained}\b)\d+$"))
    experiment_id = int(tab.page.url.rsplit("/", 1)[1])
    tab.page.locator(".head .state", has_text="Completed").wait_for()
    experiment = cluster.experiment(experiment_id)
    assert (experiment["state"], experiment["forkedFrom"]) == ("STATE_COMPLETED", trained)
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_experiment_can_be_created_from_a_folder(
    tab: Tab, cluster: Cluster, tmp_path: Any, trained: int
) -> None:
    folder = tmp_path / "code"
    (folder / "data").mkdir(parents=True)
    for file in ("train.py", "digits.py", "network.py"):
        (folder / file).write_bytes((EXAMPLE / file).read_bytes())
    (folder / "data" / "large.bin").write_bytes(b"0" * 1000)
    (folder / ".detignore").write_text("data/\n")
    (folder / "const.yaml").write_text(
        (EXAMPLE / "adaptive.yaml").read_text("utf-8").replace("max_trials: 16", "max_trials: 1")
    )
    tab.open("/experiments")
    tab.page.get_by_role("link", name="New experiment").click()
    tab.page.get_by_label("Folder").set_input_files(folder)
    tab.page.get_by_text(re.compile("^4 files, .* of code; 2 excluded")).wait_for()
    tab.page.get_by_label("Load from a file").select_option("const.yaml")
    tab.page.get_by_text("This configuration is valid. 1 trial with 1 slot.").wait_for()
    tab.page.get_by_label("Start paused").check()
    tab.page.get_by_role("button", name="Create experiment", exact=True).click()
    tab.page.wait_for_url(re.compile(r"/det/experiments/\d+$"))
    experiment_id = int(tab.page.url.rsplit("/", 1)[1])
    assert cluster.experiment(experiment_id)["state"] == "STATE_PAUSED"
    files = cluster.get(f"/api/v1/experiments/{experiment_id}/file_tree")["files"]
    assert {f["path"] for f in files} == {"train.py", "digits.py", "network.py", "const.yaml"}
    tab.page.get_by_role("button", name="Resume", exact=True).click()
    assert cluster.until_state(experiment_id, "COMPLETED", "ERROR") == "COMPLETED"


def test_failed_experiment_links_to_its_log(tab: Tab, cluster: Cluster) -> None:
    experiment_id = cluster.create(
        EXAMPLE / "adaptive.yaml", EXAMPLE, "--config", "entrypoint=echo it-broke; exit 3",
        "--config", "max_restarts=0", "--config", "searcher.max_trials=1",
    )  # fmt: skip
    cluster.until_state(experiment_id, "ERROR")
    tab.open(f"/experiments/{experiment_id}")
    tab.page.get_by_role("link", name="View logs").click()
    tab.page.locator(".log-text", has_text="it-broke").first.wait_for()


def test_listed_checkpoint_can_be_registered_and_downloaded(
    tab: Tab, cluster: Cluster, trained: int
) -> None:
    tab.open(f"/experiments/{trained}/checkpoints")
    tab.page.locator("button.link.mono").first.click()
    with tab.page.expect_download() as downloading:
        tab.page.get_by_role("link", name="Download").click()
    uuid = tab.page.get_by_role("dialog").locator("code").first.inner_text()
    assert files_in(downloading.value) == files_of(cluster, uuid)
    tab.page.get_by_role("button", name="Register as a model version").click()
    tab.page.get_by_role("combobox", name="Model").select_option(label="New model")
    tab.page.get_by_label("Name of the new model").fill("from a list")
    tab.page.get_by_role("button", name="Register", exact=True).click()
    tab.page.get_by_role("heading", name="from a list").wait_for()
    (model,) = cluster.get("/api/v1/models?name=from%20a%20list")["models"]
    assert model["numVersions"] == 1
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
    (model,) = cluster.get("/api/v1/models?name=from%20a%20list")["models"]
    assert (model["labels"], model["notes"], model["numVersions"]) == (
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


def test_one_and_several_checkpoints_can_be_deleted(
    tab: Tab, cluster: Cluster, trained: int
) -> None:
    # The last one of each trial is kept by its policy; other tests have the newest of all.
    path = f"/api/v1/experiments/{trained}/checkpoints?states=STATE_COMPLETED&orderBy=ORDER_BY_DESC"
    checkpoints = cluster.get(f"{path}&sortByAttr=SORT_BY_END_TIME")["checkpoints"]
    last = {c["training"]["trialId"]: c["uuid"] for c in reversed(checkpoints)}
    one, *many = [uuid for uuid in last.values() if uuid != checkpoints[0]["uuid"]]
    tab.open(f"/experiments/{trained}/checkpoints")
    tab.page.get_by_role("button", name=one[:8]).click()
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_role("dialog", name="Delete this checkpoint?").wait_for()
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_text("Deleting 1 checkpoint").wait_for()
    for uuid in many:
        tab.page.get_by_role("checkbox", name=f"Select {uuid}").check()
    bar = tab.page.get_by_role("group", name="Selected checkpoints")
    bar.get_by_role("button", name="Delete").click()
    dialog = tab.page.get_by_role("dialog", name=f"Delete {len(many)} checkpoints?")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    bar.wait_for(state="detached")
    for uuid in (one, *many):
        # The list follows until they are gone.
        tab.page.get_by_role("checkbox", name=f"Select {uuid}").wait_for(state="detached")
        checkpoint = cluster.get(f"/api/v1/checkpoints/{uuid}")["checkpoint"]
        assert checkpoint["state"] == "STATE_DELETED"
    assert tab.faults() == []


def test_task_can_be_watched_and_killed(tab: Tab, cluster: Cluster) -> None:
    line = f"echo '{MARKUP}'; sleep 600"
    result = cluster.det("command", "run", "--config", "resources.slots=0", "--detach", line)
    task_id = result.out.split()[-1]
    tab.open("/tasks")
    tab.page.locator(f'a[href="/det/tasks/command/{task_id}"]').click()
    tab.page.locator(".log-text", has_text=MARKUP).first.wait_for()
    assert tab.page.locator("img, b").count() == 0
    tab.page.get_by_role("button", name="End").click()
    tab.page.get_by_role("button", name="End").wait_for(state="detached")
    assert cluster.get(f"/api/v1/commands/{task_id}")["command"]["state"] == "STATE_TERMINATED"


def test_task_tree_can_be_watched_paused_and_killed(
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


def test_shell_works_in_the_page(tab: Tab, browser: Any, base: str, cluster: Cluster) -> None:
    require_ssh()
    tab.open("/tasks")
    tab.page.get_by_role("button", name="New shell").click()
    tab.page.get_by_role("button", name="Start").click()
    tab.page.get_by_role("link", name="Open terminal").click()
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
    assert "Copy" not in (focus := tab.page.evaluate("document.activeElement.textContent"))
    assert focus == "Screen reader mode"
    # The same tab finds its shell and its output again.
    tab.page.reload()
    shown(tab, "<i>42</i>")
    typed(tab, "echo again-$kept")
    shown(tab, "again-here")
    typed(tab, "exit 3")
    tab.page.get_by_text("The shell ended with status 3.").wait_for()
    tab.page.get_by_role("button", name="Restart shell").click()
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
        other.page.get_by_text("The shell is still running. This page is reconnecting.").wait_for()
        typed(other, "echo still-$kept")
        shown(other, "still-there")
        other.page.get_by_role("button", name="End").click()
        other.page.get_by_text("The task and its shell have ended.").wait_for()


def typed(tab: Tab, line: str) -> None:
    tab.page.locator(".terminal[data-state=open]").wait_for()
    tab.page.locator(".xterm-helper-textarea").focus()
    tab.page.keyboard.type(f"{line}\n")


def shown(tab: Tab, text: str) -> None:
    """Wait for output other than the typed text."""
    tab.page.locator(".xterm-rows", has_text=text).wait_for()


def test_page_reconnects_after_a_restart_of_the_api(
    browser: Any, base: str, cluster: Cluster
) -> None:
    with opened(browser, base) as tab:
        tab.open("/queue")
        tab.page.get_by_text("The queue is empty").wait_for()
        cluster.kill("det_controlplane.entry.server.api_server")
        cluster.until(lambda: answers(cluster), "the API is back")
        tab.page.get_by_role("alert").wait_for(state="detached")
        tab.page.get_by_text("The queue is empty").wait_for()


def answers(cluster: Cluster) -> bool:
    try:
        return bool(cluster.get("/health"))
    except (OSError, json.JSONDecodeError):
        return False
