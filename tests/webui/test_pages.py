"""Every page in a real browser, over a cluster that trains."""

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Tab, opened
from tests.support.cluster import Cluster
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
    "profiler",
    "allocations",
)
PAGES = (
    "/dashboard", "/experiments", "/tasks?ended=1", "/models", "/workspaces", "/queue", "/cluster", "/settings",
    "/design",
)  # fmt: skip


def addresses(cluster: Cluster, experiment: int) -> list[str]:
    best = cluster.experiment(experiment)["bestTrialId"]
    return [
        *PAGES,
        f"/compare?experiments={experiment}",
        *(f"/experiments/{experiment}/{tab}" for tab in EXPERIMENT_TABS),
        *(f"/trials/{best}/{tab}" for tab in TRIAL_TABS),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible(
    browser: Any, base: str, cluster: Cluster, trained: int, theme: str
) -> None:
    with opened(browser, base, theme=theme) as tab:
        for address in addresses(cluster, trained):
            tab.open(address)
            tab.ready()
            assert (address, tab.faults()) == (address, [])
        assert tab.complaints == []


@pytest.mark.parametrize("width", [360, 2560])
def test_every_page_fits(
    browser: Any, base: str, cluster: Cluster, trained: int, width: int
) -> None:
    with opened(browser, base, width=width) as tab:
        for address in addresses(cluster, trained):
            tab.open(address)
            tab.ready()
            assert (address, tab.beyond()) == (address, 0)
        assert tab.complaints == []


def test_signing_in_leads_to_the_page_that_was_asked_for(
    browser: Any, base: str, trained: int
) -> None:
    with opened(browser, base, signed_in=False) as tab:
        tab.open(f"/experiments/{trained}/trials")
        tab.sign_in(password="wrong")
        tab.page.get_by_role("alert").wait_for()
        tab.sign_in()
        tab.page.get_by_role("table").wait_for()
        assert tab.page.url.endswith(f"/det/experiments/{trained}/trials")
        assert "auth" not in tab.page.evaluate(
            "document.cookie + JSON.stringify({...localStorage})"
        )


def test_markup_in_names_stays_text(tab: Tab, trained: int) -> None:
    for address in (
        "/experiments",
        f"/experiments/{trained}",
        f"/experiments/{trained}/configuration",
    ):
        tab.open(address)
        tab.ready()
        tab.page.get_by_text(MARKUP).first.wait_for()
        assert tab.page.locator("img, b").count() == 0
        assert tab.page.title() != "1"


def test_curves_are_drawn_and_name_their_trials(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}")
    chart = tab.page.get_by_role("img", name=re.compile("validation_error by batches: 4 curves"))
    chart.locator("canvas").wait_for()
    assert tab.page.get_by_role("list", name="Trials of the chart").locator("li").count() == 4


def test_the_search_shows_rungs_and_says_why_a_trial_ended(
    tab: Tab, cluster: Cluster, trained: int
) -> None:
    told = cluster.get(f"/api/v1/experiments/{trained}/search")
    # Four trials in rungs of a quarter each: only two rungs can tell them apart, whatever max_rungs is.
    assert {r["length"] for b in told["brackets"] for r in b["rungs"]} == {30, 120}
    tab.open(f"/experiments/{trained}/search")
    rungs = tab.page.locator(".search-picture .rung-at")
    rungs.first.wait_for()
    assert set(rungs.all_text_contents()) == {"30", "120"}
    for trial in told["trials"]:
        # Which are stopped depends on which came first.
        assert re.match(
            "was stopped by adaptive ASHA at rung|trained to the end", trial["sentence"]
        )
        line = tab.page.get_by_role("button", name=re.compile(rf"^Trial {trial['id']}\b"))
        line.press("Enter")
        tab.page.get_by_text(f"Trial {trial['id']} {trial['sentence']}").wait_for()
    tab.open(f"/trials/{told['trials'][0]['id']}")
    tab.page.get_by_text(f"The trial {told['trials'][0]['sentence']}").wait_for()


def test_a_part_of_an_axis_narrows_the_trials(tab: Tab, trained: int) -> None:
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


def test_code_is_shown_line_by_line(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}/code?file=train.py")
    source = tab.page.locator(".source")
    source.wait_for()
    told = (EXAMPLE / "train.py").read_text("utf-8")
    assert source.inner_text().rstrip() == told.rstrip()


def test_code_is_a_tree_whose_files_are_saved(tab: Tab, cluster: Cluster, tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "parts" / "deep").mkdir(parents=True)
    (code / "parts" / "deep" / "layer.py").write_text("# <b>deep</b>\n")
    (code / "image.bin").write_bytes(b"\0\1\2")
    (code / "train.py").write_text("print(1)\n")
    made = cluster.create(EXAMPLE / "adaptive.yaml", code, "--paused")
    tab.open(f"/experiments/{made}/code")
    files = tab.page.get_by_role("navigation", name="Files")
    files.get_by_text("parts", exact=True).wait_for()
    files.get_by_role("link", name="layer.py").click()
    source = tab.page.locator(".source")
    source.get_by_text("# <b>deep</b>").wait_for()
    assert "file=parts%2Fdeep%2Flayer.py" in tab.page.url
    assert tab.faults() == []
    for name, content in (("layer.py", b"# <b>deep</b>\n"), ("image.bin", b"\0\1\2")):
        files.get_by_role("link", name=name).click()
        tab.page.get_by_role("heading", name=name).wait_for()
        with tab.page.expect_download() as downloading:
            tab.page.get_by_role("link", name="Download", exact=True).click()
        assert downloading.value.suggested_filename == name
        assert Path(downloading.value.path()).read_bytes() == content
    tab.page.get_by_text("Not a text").wait_for()
    with tab.page.expect_download() as downloading:
        tab.page.get_by_role("link", name="Download all").click()
    with tarfile.open(downloading.value.path()) as packed:
        assert "parts/deep/layer.py" in packed.getnames()


def until(cluster: Cluster, condition: Callable[[], Any], what: str) -> Any:
    return cluster.until(condition, what)


def test_an_experiment_made_in_the_browser_trains(tab: Tab, cluster: Cluster, trained: int) -> None:
    tab.open(f"/experiments/{trained}")
    tab.page.get_by_role("button", name="Fork").click()
    editor = tab.page.get_by_label("Configuration, in YAML")
    given = editor.input_value()
    create = tab.page.get_by_role("button", name="Create")
    tab.page.get_by_text("This configuration is valid. 4 trials with 1 slot each.").wait_for()
    editor.fill(given.replace("max_trials: 4", "max_trials: none"))
    tab.page.get_by_text(re.compile("searcher.max_trials")).wait_for()
    assert create.is_disabled()
    editor.fill(re.sub("max_trials: 4", "max_trials: 2", given))
    tab.page.get_by_text("This configuration is valid. 2 trials with 1 slot each.").wait_for()
    create.click()
    tab.page.wait_for_url(re.compile(rf"/det/experiments/(?!{trained}\b)\d+$"))
    made = int(tab.page.url.rsplit("/", 1)[1])
    tab.page.locator(".head .state", has_text="Completed").wait_for()
    found = cluster.experiment(made)
    assert (found["state"], found["forkedFrom"]) == ("STATE_COMPLETED", trained)
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]


def test_an_experiment_is_paused_resumed_and_stopped(
    tab: Tab, cluster: Cluster, waiting: int
) -> None:
    tab.open(f"/experiments/{waiting}")
    for button, state in (("Resume", "Active"), ("Pause", "Paused")):
        tab.page.get_by_role("button", name=button, exact=True).click()
        tab.page.locator(".head .state", has_text=re.compile(f"{state}|Queued|Running")).wait_for()
    tab.page.get_by_role("button", name="Stop", exact=True).click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    tab.page.locator(".head .state", has_text="Canceled").wait_for()
    assert cluster.experiment(waiting)["state"] == "STATE_CANCELED"


def test_many_are_archived_and_brought_back(tab: Tab, cluster: Cluster, trained: int) -> None:
    tab.open("/experiments")
    tab.page.get_by_role("checkbox", name=f"Choose {trained}", exact=True).check()
    tab.page.get_by_role("button", name="Archive", exact=True).click()
    until(cluster, lambda: cluster.experiment(trained)["archived"], "it is archived")
    tab.page.get_by_role("button", name="Undo").click()
    until(cluster, lambda: not cluster.experiment(trained)["archived"], "it is brought back")


def test_filters_live_in_the_address(tab: Tab, trained: int) -> None:
    tab.open("/experiments?state=COMPLETED&q=bold")
    tab.page.get_by_role("cell", name="Completed").first.wait_for()
    tab.page.get_by_label("Search names").fill("nothing is called so")
    tab.page.get_by_text("No experiment fits").wait_for()
    assert "q=nothing" in tab.page.url
    tab.page.get_by_role("button", name="Show all experiments").click()
    tab.page.get_by_role("checkbox", name=f"Choose {trained}", exact=True).wait_for()


def test_chosen_experiments_are_compared_at_an_address(
    tab: Tab, trained: int, waiting: int
) -> None:
    tab.open("/experiments")
    for experiment_id in (trained, waiting):
        tab.page.get_by_role("checkbox", name=f"Choose {experiment_id}", exact=True).check()
    tab.page.get_by_role("link", name="Compare").click()
    tab.page.get_by_role("heading", name="Compare 2 experiments").wait_for()
    assert f"{trained}" in tab.page.url
    assert f"{waiting}" in tab.page.url
    row = tab.page.get_by_role("row", name=re.compile(r"^searcher\.max_trials"))
    assert sorted(row.get_by_role("cell").all_inner_texts()) == ["16", "4"]
    assert tab.page.get_by_role("row", name=re.compile("^entrypoint")).count() == 0
    tab.page.get_by_label("What is the same, too").check()
    tab.page.get_by_role("row", name=re.compile("^entrypoint")).wait_for()


def test_chosen_trials_are_compared(tab: Tab, trained: int) -> None:
    tab.open(f"/experiments/{trained}/trials")
    boxes = tab.page.get_by_role("checkbox", name=re.compile("^Choose [0-9]+$"))
    boxes.nth(0).check()
    boxes.nth(1).check()
    tab.page.get_by_role("link", name="Compare").click()
    tab.page.get_by_role("img", name=re.compile("validation_error by batches: 2 curves")).wait_for()
    tab.page.get_by_role("rowheader", name="learning_rate").wait_for()


def test_a_session_that_ended_asks_to_sign_in_and_goes_on(
    browser: Any, base: str, trained: int
) -> None:
    with opened(browser, base) as tab:
        tab.open("/experiments")
        tab.ready()
        tab.page.context.clear_cookies()
        tab.page.locator(f'a[href="/det/experiments/{trained}"]').last.click()
        tab.page.get_by_label("User name").wait_for()
        tab.sign_in()
        tab.page.get_by_role("link", name="Configuration").wait_for()
        assert f"/det/experiments/{trained}" in tab.page.url


def test_a_page_outlives_its_server(browser: Any, base: str, cluster: Cluster) -> None:
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
