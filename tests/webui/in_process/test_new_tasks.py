"""Notebooks, commands, TensorBoards and generic tasks that are started in the browser."""

import base64
import io
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.api import PASSWORD
from tests.support.browser import Tab, opened
from tests.support.forms import choose, fill, press
from tests.support.house import House
from tests.support.played_agent import PlayedAgent

REPEAT = text("""
    INSERT INTO tasks (id, kind, job_id, context_id, config, sealed, started_at, state, parent_id, project_id)
    SELECT gen_random_uuid()::text, kind, job_id, context_id, config, sealed,
           started_at + n * interval '1 millisecond', state, parent_id, project_id
    FROM tasks, generate_series(1, cast(:times AS integer)) AS n WHERE id = :task RETURNING id
""")


def repeated(house: House, task_id: str, times: int) -> list[str]:
    """Make a generic task that many times again, without a request for each."""
    with house.api.ctx.db.begin() as tx:
        return list(tx.execute(REPEAT, {"task": task_id, "times": times}).scalars())


@pytest.fixture
def tab(browser: Any, base: str) -> Iterator[Tab]:
    with opened(browser, base, user=("admin", PASSWORD)) as new_tab:
        yield new_tab
        # The cluster refuses unfinished input; this is how a page finds its problems.
        assert [c for c in new_tab.complaints if not re.search("status of 40[04]", c)] == []


def started(tab: Tab, house: House, kind: str) -> Any:
    """Start the task of the dialog. Return the API's description of it."""
    tab.page.get_by_text("Ready to start.").wait_for()
    assert tab.faults() == []
    press(tab, "Start")
    tab.page.wait_for_url(re.compile(f"/det/tasks/{kind}/"))
    task_id = tab.page.url.rsplit("/", 1)[1]
    if kind == "generic":
        return json.loads(house.admin.get(f"/api/v1/tasks/{task_id}/config")["config"])
    return house.admin.get(f"/api/v1/{kind}s/{task_id}")


def test_older_tasks_can_be_loaded(tab: Tab, house: House) -> None:
    def generic(name: str, **more: Any) -> Any:
        config = f"{{description: {name}, entrypoint: [sleep, '9']}}"
        new = {"config": config, "contextDirectory": [], **more}
        return house.admin.post("/api/v1/generic-tasks", new)["taskId"]

    first = generic("before")
    last = repeated(house, generic("later", parentId=first), 199)[-1]
    tab.open("/tasks")
    tab.page.locator(f"a[href$='{last}']").wait_for()
    assert tab.page.get_by_role("link", name="before").count() == 0
    assert tab.faults() == []
    press(tab, "Show more")
    tab.page.get_by_role("link", name="before").wait_for()
    assert tab.page.get_by_role("button", name="Show more").count() == 0
    house.admin.post(f"/api/v1/tasks/{first}/kill", {"taskId": first, "killFromRoot": True})


def test_notebook_starts_with_the_settings_of_the_form(
    tab: Tab, house: House, tmp_path: Path
) -> None:
    house.admin.post("/api/v1/templates/urgent", {"config": {"resources": {"priority": 9}}})
    (tmp_path / "plan.ipynb").write_text("{}")
    tab.open("/tasks")
    press(tab, "New notebook")
    fill(tab, Description="looking at digits", Slots="2", Image="own/image:1")
    choose(tab, Workspace="red", Template="urgent", Resource_pool="reserved")
    tab.page.get_by_text("Uses 2 slots in pool reserved.").wait_for()
    tab.page.get_by_text("Advanced configuration").click()
    more = tab.page.get_by_label(re.compile("^YAML"))
    more.fill("resources: {slots: many}")
    tab.page.get_by_text(re.compile("resources.slots")).wait_for()
    assert tab.page.get_by_role("button", name="Start").is_disabled()
    more.fill("idle_timeout: 2h\nresources: {slots: 1}")
    tab.page.get_by_text("Uses 1 slot in pool reserved.").wait_for()
    tab.page.get_by_text("Initial files").click()
    tab.page.get_by_label("Or individual files").set_input_files(tmp_path / "plan.ipynb")
    tab.page.get_by_text("1 file, 2 B").wait_for()
    task = started(tab, house, "notebook")
    assert task["notebook"]["workspaceId"] == house.red
    config = task["config"]
    assert (config["description"], config["idle_timeout"]) == ("looking at digits", 7200)
    assert config["environment"]["image"]["cuda"] == "own/image:1"
    resources = config["resources"]
    assert (resources["slots"], resources["priority"]) == (1, 9)
    archive = house.admin.get(f"/api/v1/tasks/{task['notebook']['id']}/context_directory")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive["b64Tgz"]))) as files:
        assert files.getnames() == ["plan.ipynb"]


def test_command_form_requires_a_command(tab: Tab, house: House) -> None:
    tab.open("/tasks")
    press(tab, "Others", "New command")
    tab.page.get_by_text("Enter the command to run.").wait_for()
    assert tab.page.get_by_role("button", name="Start").is_disabled()
    fill(tab, Command="python3 prepare.py && ls")
    task = started(tab, house, "command")
    assert task["config"]["entrypoint"] == ["python3 prepare.py && ls"]
    assert task["config"]["resources"]["slots"] == 0


def test_a_generic_task_is_started_in_a_project(tab: Tab, house: House) -> None:
    tab.open("/tasks")
    press(tab, "Others", "New generic task")
    fill(tab, Command="python3 sweep.py", Description="sweeping")
    choose(tab, Project="blue / work")
    config = started(tab, house, "generic")
    assert (config["entrypoint"], config["description"]) == (["python3 sweep.py"], "sweeping")
    tasks = house.admin.get("/api/v1/generic-tasks", workspaceId=house.blue)["tasks"]
    assert [t["description"] for t in tasks] == ["sweeping"]


def test_tensorboard_form_selects_the_compared_experiments(tab: Tab, house: House) -> None:
    first, second = (house.experiment(house.admin, house.red_project) for _ in range(2))
    tab.open(f"/compare?experiments={first},{second}")
    tab.page.get_by_role("link", name="TensorBoard").click()
    experiments = tab.page.get_by_label(re.compile("^Experiments"))
    assert experiments.input_value() == f"{first}, {second}"
    experiments.fill(f"{first}, 99999")
    tab.page.get_by_text(re.compile("experiment 99999 not found", re.I)).wait_for()
    experiments.fill(f"{first}, {second}")
    task = started(tab, house, "tensorboard")
    assert task["tensorboard"]["experimentIds"] == [first, second]


def test_task_in_a_large_tree_has_a_page(tab: Tab, house: House) -> None:
    new = {"config": "entrypoint: [sleep, '9']", "contextDirectory": []}
    top = house.admin.post("/api/v1/generic-tasks", new)["taskId"]
    child = house.admin.post("/api/v1/generic-tasks", new | {"parentId": top})["taskId"]
    for id in (top, repeated(house, child, 99)[-1]):
        tab.open(f"/tasks/generic/{id}")
        tab.page.get_by_text("Task of admin").wait_for()
    house.admin.post(f"/api/v1/tasks/{top}/kill", {"taskId": top, "killFromRoot": True})


def test_ended_tasks_show_how_they_ended(tab: Tab, house: House) -> None:
    agent = PlayedAgent(house.api, "agent-of-commands")
    agent.join()

    def run(name: str, exit_code: int | None = None, *, killed: bool = False) -> None:
        new = {"config": {"entrypoint": ["true"], "description": name}}
        task_id = house.admin.post("/api/v1/commands", new)["command"]["id"]
        if exit_code is not None:
            house.api.tick()
            agent.poll()
            agent.poll()
        if killed:
            house.admin.post(f"/api/v1/commands/{task_id}/kill")
        if exit_code is not None:
            agent.poll("terminated", exit_code=exit_code)
            agent.poll()

    run("in the queue", killed=True)
    run("at work", 137, killed=True)
    run("with a fault", 3)
    run("without a fault", 0)
    tab.open("/tasks?ended=1")
    for name, word, colour in (
        ("in the queue", "Canceled", []),
        ("at work", "Canceled", []),
        ("with a fault", "Error", ["red"]),
        ("without a fault", "Completed", ["green"]),
    ):
        row = tab.page.get_by_role("row").filter(
            has=tab.page.get_by_role("link", name=name, exact=True)
        )
        state = row.locator(".state")
        assert state.inner_text() == word
        assert state.get_attribute("class").split() == ["state", *colour]
