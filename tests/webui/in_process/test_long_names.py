"""Names of 119 characters without a space: no page becomes wider than its window by them."""

from itertools import pairwise
from typing import Any

import pytest

from tests.support.api import config_of, report_metrics
from tests.support.browser import DESK, PHONE, Tab
from tests.support.house import House

RATE = {"type": "double", "minval": 0, "maxval": 1}


def long(kind: str) -> str:
    return kind.ljust(119, "x")


@pytest.fixture(scope="module")
def pages(house: House) -> list[str]:
    """Make something of each kind; return the addresses of the pages that name it."""
    ask, workspace = house.admin.post, house.workspace(long("workspace")[:80])
    at = f"/api/v1/workspaces/{workspace}/projects"
    project = ask(at, {"name": long("project")[:80], "description": long("described")})["project"]
    model = {"name": long("model"), "labels": [long("label")], "description": long("described")}
    ask("/api/v1/models", {**model, "workspaceId": workspace})
    ask(f"/api/v1/templates/{long('template')}", {"config": {"max_restarts": 1}})
    experiment = searched(house, project["id"], {long(name): RATE for name in "ab"})
    trial = house.admin.get(f"/api/v1/experiments/{experiment}/trials")["trials"][0]["id"]
    parts = ("overview", "trials", "search", "hyperparameters", "configuration")
    return [
        *(f"/experiments/{experiment}/{part}" for part in parts),
        *(f"/trials/{trial}/{part}" for part in ("metrics", "workloads", "hyperparameters")),
        f"/compare?experiments={experiment}", f"/experiments?project={project['id']}", "/workspaces",
        "/models", "/models/1", "/templates", f"/templates/{long('template')}",
        f"/admin/roles?in={workspace}", f"/admin/policies?in={workspace}",
    ]  # fmt: skip


def searched(house: House, project: int, hyperparameters: dict[str, Any]) -> int:
    """Return an experiment of trials that have reported."""
    metric = long("metric")
    config = config_of(
        name=long("experiment"), labels=[long("label")], description=long("described"),
        hyperparameters=hyperparameters,
        searcher={"name": "random", "metric": metric, "max_trials": 3, "max_length": {"batches": 4}},
    )  # fmt: skip
    request = {"config": config, "activate": False, "projectId": project}
    experiment_id = int(house.admin.post("/api/v1/experiments", request)["experiment"]["id"])
    for trial in house.admin.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]:
        for batches in (2, 4):
            response = report_metrics(
                house.admin, trial["id"], "validation", batches, {metric: 0.5}
            )
            assert response.status == 200
    return experiment_id


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_long_names_do_not_make_pages_wider(tab: Tab, pages: list[str], width: int) -> None:
    tab.open("/")
    tab.look(width)
    wide = {}
    for address in pages:
        tab.visit(address)
        tab.ready()
        if beyond := tab.beyond():
            wide[address] = beyond
    assert wide == {}


def test_compared_values_are_visible_beside_long_names(tab: Tab, pages: list[str]) -> None:
    tab.open(next(page for page in pages if page.startswith("/compare")))
    table = tab.page.get_by_role("region", name="Differences").bounding_box()
    row = tab.page.get_by_role("row").filter(has_text=long("a")).first
    cell = row.get_by_role("cell").last.bounding_box()
    assert cell["x"] < table["x"] + table["width"] / 2


# Return the lines of text of an element: each is the text of a row of boxes.
_LINES = """(element) => {
    const lines = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let top = null, node = walker.nextNode(); node; node = walker.nextNode()) {
        for (let i = 0; i < node.data.length; i++) {
            const range = new Range();
            range.setStart(node, i);
            range.setEnd(node, i + 1);
            const at = Math.round(range.getBoundingClientRect().top);
            if (at !== top) lines.push("");
            top = at;
            lines[lines.length - 1] += node.data[i];
        }
    }
    return lines;
}"""


def test_names_of_compared_settings_break_after_dots(tab: Tab, house: House) -> None:
    names = ["optimizer.first_group.learning_rate", "a.b"]
    hyperparameters = {name: dict(RATE) for name in names}
    ids = [searched(house, house.red_project, hyperparameters) for _ in range(3)]
    tab.look(1440)
    tab.open(f"/compare?experiments={','.join(map(str, ids))}&all=1")
    headers = tab.page.get_by_role("region", name="Differences").get_by_role("rowheader")
    headers.first.wait_for()
    lines = headers.evaluate_all(f"headers => headers.map({_LINES})")
    assert "checkpoint_storage.type" in ["".join(parts) for parts in lines]
    broken = [part for parts in lines for part in parts[:-1] if part[-1] not in ". "]
    assert broken == []


def test_names_of_many_hyperparameters_do_not_overlap(tab: Tab, house: House) -> None:
    names = [f"optimizer_of_all.parameter_{nth}" for nth in range(9)]
    experiment_id = searched(house, house.red_project, dict.fromkeys(names, RATE))
    tab.open(f"/experiments/{experiment_id}/hyperparameters")
    labels = tab.page.locator(".axis-name")
    labels.first.wait_for()
    boxes = sorted((box["y"], box["x"], box["width"]) for box in map(bounds, labels.all()))
    assert len(boxes) == len(names) + 1
    for (line, x, width), (next_line, next_x, _) in pairwise(boxes):
        assert line != next_line or x + width <= next_x
    whole = labels.locator("title").all_text_contents()
    assert whole[:9] == names


def bounds(found: Any) -> dict[str, float]:
    box: dict[str, float] = found.bounding_box()
    return box
