"""Tables of experiments and trials: filtered by anything, chosen by the hundred, moved, and brought back."""

import json
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support.api import Caller, create, create_ended, report_metrics, trial_of
from tests.support.browser import Tab
from tests.support.forms import choose, fill, gone, press
from tests.support.house import House

MANY = 101  # more than a table has at once, and than one request changes
TWO = {"name": "grid", "metric": "loss", "max_length": {"batches": 4}}


@pytest.fixture
def tab(house_tab: Tab) -> Tab:
    return house_tab


@pytest.fixture
def place(house: House, user: Caller, request: pytest.FixtureRequest) -> dict[str, str]:
    """A project of the test's own, as configurations name it."""
    name = request.node.name
    user.post(f"/api/v1/workspaces/{house.red}/projects", {"name": name})
    return {"workspace": "red", "project": name}


def reported(user: Caller, name: str, loss: float, **more: Any) -> int:
    """Return an experiment with a trial that has reported a loss."""
    experiment_id = create(user, name=name, **more)
    report_metrics(user, trial_of(user, experiment_id)["id"], "validation", 1, {"loss": loss})
    return experiment_id


def address_of(user: Caller, experiment_id: int) -> str:
    """Return where the project of an experiment is listed."""
    return f"/experiments?project={experiment(user, experiment_id)['projectId']}&sort=id%3Dasc"


def experiment(user: Caller, experiment_id: int) -> dict[str, Any]:
    stored_experiment: dict[str, Any] = user.get(f"/api/v1/experiments/{experiment_id}")[
        "experiment"
    ]
    return stored_experiment


def names(tab: Tab) -> list[str]:
    return [n.strip() for n in tab.page.locator("td.main-cell").all_inner_texts()]


def condition(tab: Tab, nth: int, column: str, operator: str, value: str = "") -> None:
    """Fill one line of the dialog that builds a filter."""
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Column", exact=True).nth(nth).select_option(label=column)
    dialog.get_by_label("Operator", exact=True).nth(nth).select_option(label=operator)
    if value:
        dialog.get_by_label("Value", exact=True).nth(nth).fill(value)


def test_conditions_can_be_grouped_and_saved_in_views(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    reported(user, "good", 0.25, hyperparameters={"lr": 0.1}, **place)
    reported(user, "fair", 0.5, hyperparameters={"lr": 1.0}, description="to be told", **place)
    experiment_id = reported(user, "bad", 0.75, hyperparameters={"lr": 2.0}, **place)
    tab.open(address_of(user, experiment_id))
    tab.page.get_by_text(f"3 experiments in red / {place['project']}").wait_for()
    press(tab, "Filter")
    condition(tab, 0, "loss, last (validation)", "is at most (≤)", "0.5")
    tab.page.get_by_text("2 experiments match.").wait_for()
    press(tab, "Add group")
    condition(tab, 1, "lr", "is at least (≥)", "1")
    press_in_group(tab, "Add condition")
    condition(tab, 2, "Description", "is empty")
    tab.page.get_by_text("2 experiments match.").wait_for()
    tab.page.get_by_label("Operator", exact=True).nth(1).select_option(label="is more than (>)")
    tab.page.get_by_text("1 experiment matches.").wait_for()
    assert tab.faults() == []
    press(tab, "Apply")
    gone(tab)
    tab.page.get_by_role("button", name="lr > 1 or Description is empty", exact=True).wait_for()
    tab.page.get_by_role("row").nth(2).wait_for(state="detached")
    assert names(tab) == ["good"]
    press(tab, "Views", "Save this view")
    fill(tab, Name="low losses")
    press(tab, "Save")
    gone(tab)
    tab.open("/experiments")
    press(tab, "Views", "low losses")
    tab.page.get_by_text("1 experiment in red").wait_for()
    assert names(tab) == ["good"]
    press(tab, "Remove filter lr > 1 or Description is empty")
    tab.page.get_by_text("2 experiments in red").wait_for()
    assert names(tab) == ["good", "fair"]


def press_in_group(tab: Tab, name: str) -> None:
    group = tab.page.get_by_role("group", name="Group")
    group.get_by_role("button", name=name, exact=True).click()


def test_filter_can_be_built_with_the_keyboard(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    create(user, name="reached by keys", **place)
    tab.open(address_of(user, create(user, name="not reached", **place)))
    tab.page.get_by_text("2 experiments in").wait_for()
    keyboard = tab.page.keyboard
    tab.page.get_by_role("button", name="Filter", exact=True).focus()
    keyboard.press("Enter")
    tab.page.get_by_role("dialog").wait_for()
    for keys in ("Name", "contains", "by keys"):
        label = {"Name": "Column", "contains": "Operator"}.get(keys, "Value")
        for _ in range(12):
            if tab.page.evaluate("document.activeElement.ariaLabel") == label:
                break
            keyboard.press("Tab")
        keyboard.type(keys)
    tab.page.get_by_text("1 experiment matches.").wait_for()
    keyboard.press("Enter")
    gone(tab)
    tab.page.get_by_text("1 experiment in").wait_for()
    assert names(tab) == ["reached by keys"]


def test_valid_conditions_of_a_grouped_filter_in_an_address_apply(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    create(user, name="one", **place)
    address = address_of(user, create(user, name="two", **place))
    text = {"location": "LOCATION_TYPE_EXPERIMENT", "type": "COLUMN_TYPE_TEXT", "operator": "="}
    one, other = ({"column": "name", "value": value, **text} for value in ("one", "other"))
    body = {"any": [one, {"all": [other, {"column": "name"}]}]}
    tab.open(f"{address}&filter={json.dumps(body)}")
    tab.page.get_by_text("1 experiment in").wait_for()
    tab.page.get_by_text("A filter in the URL is invalid").wait_for()
    assert names(tab) == ["one"]
    press(tab, "Remove filter")
    tab.page.get_by_text("A filter in the URL").wait_for(state="detached")
    assert names(tab) == ["one"]


def test_columns_are_chosen_from_groups_that_can_be_searched(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    hparams = {"dropout": {"type": "categorical", "vals": [0.25]}}
    experiment_id = reported(user, "one", 0.125, hyperparameters=hparams, searcher=TWO, **place)
    address = address_of(user, experiment_id)
    tab.open(address)
    press(tab, "Columns")
    dialog = tab.page.get_by_role("dialog", name="Columns")
    dialog.get_by_role("group", name="Hyperparameters").get_by_label("dropout").check()
    groups = dialog.get_by_role("group").locator("legend").all_inner_texts()
    assert groups == ["General", "Hyperparameters", "Validation metrics"]
    assert tab.faults() == []
    dialog.get_by_label("Search columns").fill("loss, min")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_label("Search columns").fill("no such column")
    dialog.get_by_text("No columns match your search.").wait_for()
    press(tab, "Done")
    gone(tab)
    for value in ("0.25", "0.125"):
        tab.page.get_by_role("cell", name=value, exact=True).last.wait_for()
    columns = tab.page.get_by_role("columnheader")
    assert columns.all_inner_texts()[-2:] == ["dropout", "loss, min (validation)"]
    press(tab, "Columns", "Reset to default", "Done")
    gone(tab)
    assert "dropout" not in columns.all_inner_texts()
    assert tab.page.url.endswith(address)


def test_filter_of_a_state_shows_its_name(tab: Tab, user: Caller, place: dict[str, str]) -> None:
    experiment_id = create(user, name="one", **place)
    where = {"column": "state", "location": "LOCATION_TYPE_EXPERIMENT", "type": "COLUMN_TYPE_TEXT"}
    filter = json.dumps([{**where, "operator": "=", "value": "PAUSED"}])
    tab.open(f"{address_of(user, experiment_id)}&filter={filter}")
    tab.page.get_by_role("button", name="State = Paused", exact=True).wait_for()


def test_trials_can_be_filtered_and_show_chosen_metrics(tab: Tab, user: Caller) -> None:
    experiment_id = create(
        user, searcher=TWO, hyperparameters={"lr": {"type": "categorical", "vals": [1, 2, 3]}}
    )
    trials = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    assert len(trials) > 1
    for nth, trial in enumerate(trials):
        report_metrics(user, trial["id"], "validation", nth + 1, {"loss": 0.5, "accuracy": nth / 8})
    first, last = trials[0], trials[-1]
    tab.open(f"/experiments/{experiment_id}/trials")
    press(tab, "Columns")
    tab.page.get_by_label("Search columns").fill("accu")
    group = tab.page.get_by_role("group", name="Validation metrics")
    group.get_by_label("accuracy, last (validation)").check()
    assert group.get_by_role("checkbox").count() == len(("last", "min", "max", "mean"))
    press(tab, "Done")
    gone(tab)
    value = f"{(len(trials) - 1) / 8:g}"
    tab.page.get_by_role("cell", name=value, exact=True).wait_for()
    press(tab, "Filter")
    condition(tab, 0, "accuracy, last (validation)", "is more than (>)", "0")
    for column, operator, expected_value in (
        ("lr", "is (=)", str(last["hparams"]["lr"])),
        ("Batches", "is at least (≥)", str(len(trials))),
        ("Restarts", "is (=)", "0"),
    ):
        press(tab, "Add condition")
        condition(tab, -1, column, operator, expected_value)
    tab.page.get_by_text("1 trial matches.").wait_for()
    press(tab, "Apply")
    gone(tab)
    tab.page.get_by_text(f"1 of {len(trials)} trials").wait_for()
    links = tab.page.get_by_role("table").locator('a[href*="/trials/"]')
    assert links.all_inner_texts() == [str(last["id"])]
    assert str(first["id"]) != str(last["id"])
    assert tab.faults() == []


def test_archiving_all_matching_experiments_can_be_undone(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    experiment_ids = [create_ended(user, name=f"run {n}", **place) for n in range(MANY)]
    tab.open(address_of(user, experiment_ids[0]))
    tab.page.get_by_text(f"{MANY} experiments in").wait_for()
    tab.page.get_by_role("checkbox", name=f"Select {experiment_ids[0]}", exact=True).check()
    press(tab, f"Select all {MANY} matching")
    tab.page.get_by_text(f"{MANY} selected").wait_for()
    press(tab, "Archive")
    tab.page.get_by_text(f"Archived {MANY} experiments").wait_for()
    assert all(experiment(user, e)["archived"] for e in (experiment_ids[0], experiment_ids[-1]))
    tab.page.get_by_text("No experiments yet").wait_for()
    press(tab, "Undo")
    tab.page.get_by_text(f"Undone for {MANY} experiments").wait_for()
    assert not any(experiment(user, e)["archived"] for e in experiment_ids)


def test_undoing_a_move_reports_each_refused_experiment(
    tab: Tab, house: House, user: Caller, place: dict[str, str]
) -> None:
    experiment_ids = [create_ended(user, name=f"moved {n}", **place) for n in range(3)]
    here, there = experiment(user, experiment_ids[0])["projectId"], house.blue_project
    tab.open(address_of(user, experiment_ids[0]))
    for experiment_id in experiment_ids:
        tab.page.get_by_role("checkbox", name=f"Select {experiment_id}", exact=True).check()
    user.post(f"/api/v1/experiments/{experiment_ids[1]}/archive")  # as another user does meanwhile
    press(tab, "Move")
    choose(tab, Project="blue / work")
    tab.page.get_by_role("dialog").get_by_role("button", name="Move", exact=True).click()
    tab.page.get_by_role("dialog", name="Move failed for 1 experiment").wait_for()
    tab.page.get_by_role(
        "cell", name=f"experiment {experiment_ids[1]} or its project is archived"
    ).wait_for()
    assert tab.faults() == []
    assert [experiment(user, e)["projectId"] for e in experiment_ids] == [there, here, there]
    press(tab, "Close")
    tab.page.get_by_text("1 selected").wait_for()
    press(tab, "Undo")
    tab.page.get_by_text("Undone for 2 experiments").wait_for()
    assert {experiment(user, e)["projectId"] for e in experiment_ids} == {here}


@pytest.mark.parametrize(("end", "done"), [("Stop", "Stopping"), ("Kill", "Killed")])
def test_several_experiments_can_be_paused_resumed_killed_and_deleted(
    tab: Tab, user: Caller, place: dict[str, str], end: str, done: str
) -> None:
    experiment_ids = [create(user, name=f"steered {n}", activate=True, **place) for n in range(2)]
    tab.open(address_of(user, experiment_ids[0]))
    steps = (
        ("Pause", "Paused", "STATE_PAUSED"),
        ("Resume", "Resumed", "STATE_QUEUED"),
        (end, done, "STATE_CANCELED"),
    )
    for action, message, state in steps:
        tab.page.get_by_role("checkbox", name="Select all visible rows").check()
        press(tab, action)
        if action == end:
            tab.page.get_by_role("dialog").get_by_role("button", name=end, exact=True).click()
        tab.page.get_by_text(f"{message} 2 experiments").wait_for()
        assert {experiment(user, e)["state"] for e in experiment_ids} == {state}
        tab.page.get_by_text("2 selected").wait_for(state="detached")
    tab.page.get_by_role("checkbox", name="Select all visible rows").check()
    press(tab, "Delete")
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_text("Deleting 2 experiments").wait_for()
    states = [user.ask("GET", f"/api/v1/experiments/{e}") for e in experiment_ids]
    assert all(s.status == 404 or "DELET" in s.json()["experiment"]["state"] for s in states)


def test_actions_depend_on_states_of_chosen_experiments(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    experiment_ids = [create(user, name=f"ends {n}", activate=True, **place) for n in range(2)]
    tab.open(address_of(user, experiment_ids[0]))
    tab.page.get_by_role("checkbox", name="Select all visible rows").check()
    tab.page.get_by_role("button", name="Kill", exact=True).wait_for()
    for experiment_id in experiment_ids:
        user.post(f"/api/v1/experiments/{experiment_id}/kill")
    tab.page.get_by_role("button", name="Delete", exact=True).wait_for()
    tab.page.get_by_role("button", name="Kill", exact=True).wait_for(state="detached")


def test_rows_of_an_earlier_filter_are_not_chosen(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    experiment_ids = [create(user, name=f"asked {n}", **place) for n in range(2)]
    create(user, name="other", **place)
    tab.open(address_of(user, experiment_ids[0]))
    tab.page.get_by_role("checkbox", name=f"Select {experiment_ids[0]}", exact=True).check()
    held_requests: list[Any] = []

    def hold(route: Any) -> None:
        every = json.loads(route.request.post_data)["limit"] == -1
        held_requests.append(route) if every else route.continue_()

    tab.page.route("**/experiments-search", hold)
    press(tab, "Select all 3 matching")
    tab.page.get_by_label("Search names").fill("other")
    tab.page.get_by_text("1 experiment in").wait_for()
    with tab.page.expect_response("**/experiments-search") as answer:
        held_requests[0].continue_()
    answer.value.finished()
    tab.page.get_by_role("checkbox", name="Select all visible rows").check()
    tab.page.get_by_text("1 selected").wait_for()


def test_refused_and_failed_actions_are_shown_on_other_pages(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    experiment_ids = [create_ended(user, name=f"kept {n}", **place) for n in range(60)]
    held_requests: list[Any] = []
    tab.page.route("**/projects/-1/experiments/archive", lambda route: held_requests.append(route))
    tab.open(address_of(user, experiment_ids[0]))

    def archive() -> None:
        tab.page.get_by_role("checkbox", name=f"Select {experiment_ids[0]}", exact=True).check()
        press(tab, "Select all 60 matching")
        tab.page.get_by_text("60 selected").wait_for()
        press(tab, "Archive")
        tab.page.get_by_text("Archive: 0 of 60 done").wait_for()

    def answer() -> None:
        route = held_requests.pop()
        ids = json.loads(route.request.post_data)["experimentIds"]
        outcomes = [{"id": id, "error": "" if n else "not now"} for n, id in enumerate(ids)]
        route.fulfill(json={"results": outcomes})

    archive()
    press(tab, "Cancel the rest")
    answer()
    tab.page.get_by_role("dialog", name="Archive failed for 1 experiment").wait_for()
    tab.page.get_by_text("49 experiments succeeded, and 10 were not attempted.").wait_for()
    press(tab, "Close", "Clear selection")
    archive()
    press(tab, "Cancel the rest")
    tab.page.get_by_role("link", name="Models", exact=True).click()
    tab.page.get_by_role("heading", name="Models", exact=True).wait_for()
    answer()
    tab.page.get_by_text("Archive failed for 1 experiment: not now").wait_for()


def test_time_in_an_address_is_independent_of_the_time_zone(
    tab: Tab, user: Caller, place: dict[str, str]
) -> None:
    address = address_of(user, create(user, name="timed", **place))
    session = tab.page.context.new_cdp_session(tab.page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    tab.open(address)
    press(tab, "Filter")
    condition(tab, 0, "Started", "is after", "2026-01-01T10:00")
    press(tab, "Apply")
    gone(tab)
    tab.page.get_by_text("Started after 2026-01-01 10:00", exact=True).wait_for()
    assert "2026-01-01T01:00:00.000Z" in unquote(tab.page.url)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "America/Lima"})
    tab.page.reload()
    press(tab, "Started after 2025-12-31 20:00")
    value = tab.page.get_by_role("dialog").get_by_label("Value", exact=True)
    assert value.input_value() == "2025-12-31T20:00"


def test_a_long_list_shows_its_last_row(tab: Tab, user: Caller) -> None:
    for n in range(MANY):
        user.post("/api/v1/models", {"name": f"listed {n:03}"})
    tab.open("/models?q=listed")
    table = tab.page.get_by_role("table")
    table.wait_for()
    assert table.get_attribute("aria-rowcount") == str(MANY + 1)
    steps = 40
    assert tab.layouts_of_scrolling(".table-scroll", 20, steps) < steps / 2
    tab.page.get_by_role("region", name="Models").evaluate("e => e.scrollTo(0, e.scrollHeight)")
    tab.page.get_by_role("link", name="listed 000").wait_for()
