"""Tables of experiments and runs: filters by every operator and kind of column, orders, columns, actions on many."""

import json
from typing import Any

import pytest

from tests.support.api import (
    Api,
    Caller,
    create,
    create_ended,
    report_checkpoint,
    report_metrics,
    trial_of,
)

TWO = {"name": "random", "metric": "loss", "max_trials": 2, "max_length": {"batches": 9}}
RUNS, EXPERIMENTS = "/api/v1/runs", "/api/v1/experiments-search"


def field(column: str, operator: str, value: Any = None, type_: str = "") -> dict[str, Any]:
    kind = f"COLUMN_TYPE_{type_ or 'UNSPECIFIED'}"
    return {
        "kind": "field", "columnName": column, "operator": operator, "value": value, "type": kind,
        "location": "LOCATION_TYPE_UNSPECIFIED",
    }  # fmt: skip


def group(conjunction: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "group", "conjunction": conjunction, "children": list(children)}


def filter_of(*children: dict[str, Any], archived: bool = False) -> str:
    return json.dumps({"filterGroup": group("and", *children), "showArchived": archived})


def listed(caller: Caller, path: str, **query: Any) -> list[int]:
    """Ids of the rows that were found, in their order."""
    answer = caller.post(path, query)
    rows = answer["runs" if path == RUNS else "experiments"]
    return [row.get("experiment", row)["id"] if path == EXPERIMENTS else row["id"] for row in rows]


@pytest.fixture(scope="module")
def three(shared_api: Api) -> Caller:
    """Three experiments of one run each, numbered alike, of which only the first has reported."""
    user = shared_api.signed_in("determined")
    first = create(
        user,
        name="first one",
        labels=["cat", "dog"],
        description="about 100%",
        hyperparameters={"lr": 0.1, "model": {"name": "vit", "depth": 4}, "sizes": [1, 2]},
    )
    create(user, name="second", labels=["Cats"], hyperparameters={"lr": 1, "model": "mlp"})
    create(user, name="third", hyperparameters={"wide": True})
    trial_id = trial_of(user, first)["id"]
    report_metrics(user, trial_id, "validation", 1, {"loss": 0.5, "day": "2026-11-20"})
    report_metrics(user, trial_id, "validation", 2, {"loss": 2.5, "day": "2026-11-21"})
    report_metrics(user, trial_id, "training", 2, {"rate": "NaN"})
    report_checkpoint(user, first, 2, state="10")
    metadata = {"team": {"name": "navy"}, "stars": 3}
    user.post(f"/api/v1/runs/{trial_id}/metadata", {"metadata": metadata})
    return user


EVERYWHERE = [
    (field("id", "=", 1), [1]),
    (field("id", "!=", 1), [2, 3]),
    (field("id", "<", 2), [1]),
    (field("id", "<=", 2.0), [1, 2]),
    (field("id", ">", "2"), [3]),
    (field("id", ">=", 2), [2, 3]),
    (field("id", "isEmpty"), []),
    (field("forkedFrom", "notEmpty"), []),
    (field("tags", "contains", "CAT"), [1, 2]),
    (field("tags", "notContains", "cat"), [3]),
    (field("tags", "=", "cat"), [1]),
    (field("tags", "isEmpty"), [3]),
    (field("tags", "notEmpty"), [1, 2]),
    (field("user", "=", "determined"), [1, 2, 3]),
    (field("user", "!=", "determined"), []),
    (field("user", "contains", "Term"), [1, 2, 3]),
    (field("startTime", ">", "2020-01-01"), [1, 2, 3]),
    (field("startTime", "<", "2020-01-01T00:00:00Z"), []),
    (field("startTime", "<", "2020-01-01T00:00:00.5+01:00"), []),
    (field("endTime", "isEmpty"), [1, 2, 3]),
    (field("state", "=", "PAUSED"), [1, 2, 3]),
    (field("state", "=", "STATE_paused"), [1, 2, 3]),
    (field("state", "!=", "RUNNING"), [1, 2, 3]),
    (field("state", "contains", "use"), [1, 2, 3]),
    (field("checkpointSize", ">=", 10), [1]),
    (field("checkpointCount", "=", 0), [2, 3]),
    (field("searcherMetricsVal", "<", 1), [1]),
    (field("searcherMetricsVal", "isEmpty"), [2, 3]),
    (field("parentArchived", "=", False), [1, 2, 3]),
    (field("hp.lr", "=", 0.1, "NUMBER"), [1]),
    (field("hp.lr", ">=", 0.1), [1, 2]),
    (field("hp.lr", "!=", 0.1, "NUMBER"), [2, 3]),
    (field("hp.lr", "isEmpty"), [3]),
    (field("hp.lr", "<", "0.5", "TEXT"), [1]),
    (field("hp.lr", "<", "2026-11-20", "DATE"), []),
    (field("hp.model.name", "contains", "VI", "TEXT"), [1]),
    (field("hp.model", "=", "mlp", "TEXT"), [2]),
    (field("hp.wide", "=", True), [3]),
    (field("hp.sizes", "contains", "2", "ARRAY"), [1]),
    (field("hp.sizes", "=", 2, "ARRAY"), [1]),
    (field("validation.loss.max", ">", 2), [1]),
    (field("validation.loss.min", "=", 0.5), [1]),
    (field("validation.loss.mean", "notEmpty"), [1]),
    (field("validation.loss.last", "<", 9, "NUMBER"), [1]),
    (field("validation.day.last", ">=", "2026-11-21", "DATE"), [1]),
    (field("validation.day.last", "<", "2026-11-22", "TEXT"), [1]),
    (field("training.rate.last", "isEmpty"), [2, 3]),
]  # fmt: skip


@pytest.mark.parametrize("path", [RUNS, EXPERIMENTS])
@pytest.mark.parametrize(("condition", "expected"), EVERYWHERE)
def test_condition_filters_matching_rows(
    three: Caller, path: str, condition: dict[str, Any], expected: list[int]
) -> None:
    assert listed(three, path, filter=filter_of(condition)) == expected


@pytest.mark.parametrize(
    ("path", "condition", "expected"),
    [
        (EXPERIMENTS, field("name", "contains", "IR"), [1, 3]),
        (EXPERIMENTS, field("name", "=", "second"), [2]),
        (EXPERIMENTS, field("description", "contains", "100%"), [1]),
        (EXPERIMENTS, field("description", "contains", "1%0"), []),
        (EXPERIMENTS, field("description", "isEmpty"), [2, 3]),
        (EXPERIMENTS, field("numTrials", "=", 1), [1, 2, 3]),
        (RUNS, field("experimentName", "!=", "second"), [1, 3]),
        (RUNS, field("isExpMultitrial", "=", "false"), [1, 2, 3]),
        (RUNS, field("totalBatchesProcessed", ">=", 2), [1]),
        (RUNS, field("restarts", ">", 0), []),
        (RUNS, field("metadata.team.name", "=", "navy"), [1]),
        (RUNS, field("metadata.stars", ">", 2), [1]),
        (RUNS, field("metadata.stars", "isEmpty"), [2, 3]),
    ],
)
def test_each_table_filters_its_own_columns(
    three: Caller, path: str, condition: dict[str, Any], expected: list[int]
) -> None:
    assert listed(three, path, filter=filter_of(condition)) == expected


@pytest.mark.parametrize("path", [RUNS, EXPERIMENTS])
def test_groups_join_their_conditions_by_and_or_or(three: Caller, path: str) -> None:
    either = group("or", field("id", "=", 1), field("hp.wide", "notEmpty"))
    assert listed(three, path, filter=filter_of(either)) == [1, 3]
    assert listed(three, path, filter=filter_of(either, field("id", ">", 1))) == [3]
    assert listed(three, path, filter=filter_of(group("or"))) == [1, 2, 3]


@pytest.mark.parametrize("path", [RUNS, EXPERIMENTS])
@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("id=desc", [3, 2, 1]),
        ("hp.lr=desc", [2, 1, 3]),
        ("hp.lr=asc", [1, 2, 3]),
        ("validation.loss.last=desc,id=desc", [1, 3, 2]),
        ("checkpointCount=asc,id=asc", [2, 3, 1]),
        ("", [1, 2, 3]),
    ],
)
def test_sorting_puts_rows_without_a_value_last(
    three: Caller, path: str, sort: str, expected: list[int]
) -> None:
    assert listed(three, path, sort=sort) == expected


@pytest.mark.parametrize("path", [RUNS, EXPERIMENTS])
def test_page_is_a_part_of_the_matching_rows(three: Caller, path: str) -> None:
    last = three.post(path, {"sort": "id=desc", "limit": 1, "offset": 1, "projectId": 1})
    assert last["pagination"] == {
        "offset": 1, "limit": 1, "startIndex": 1, "endIndex": 2, "total": 3,
    }  # fmt: skip
    assert listed(three, path, limit=1, offset=-1) == [3]
    assert three.post(path, {"limit": -2})["pagination"]["total"] == 3
    assert listed(three, path, projectId=99) == []


@pytest.mark.parametrize("path", [RUNS, EXPERIMENTS])
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"filter": "{"}, "filter: is not valid JSON"),
        ({"filter": "[]"}, "filter: must be an object"),
        ({"filter": filter_of(field("nope", "=", 1))}, "no column 'nope'"),
        ({"filter": filter_of(field("id", "~", 1))}, "children[0].operator: must be one of ="),
        ({"filter": filter_of(field("id", "=", "x"))}, "id =: value must be a number, not 'x'"),
        ({"filter": filter_of(field("startTime", "=", "noon"))}, "value must be a date"),
        (
            {"filter": filter_of(field("hp.lr", "<", "abc", "TEXT"))},
            "hp.lr <: value must be a number or a date, not 'abc'",
        ),
        ({"filter": filter_of(field("hp.wide", ">=", True))}, "hp.wide >=: value must be a number"),
        (
            {"filter": filter_of(field("state", "=", "FOO"))},
            "state =: value must be one of ACTIVE, PAUSED",
        ),
        ({"filter": filter_of(field("state", "!=", "DONE"))}, "RUNNING, not 'DONE'"),
        ({"filter": filter_of(field("state", "<", "PAUSED"))}, "state: < cannot compare"),
        (
            {"filter": filter_of(field("startTime", ">", "0001-01-01T00:00:00+23:00"))},
            "value must be a date",
        ),
        ({"filter": filter_of(field("tags", "<", "x"))}, "< cannot compare"),
        ({"filter": filter_of(field("id", "=", [1]))}, "value: must be text"),
        ({"filter": filter_of(field("id", "=", 1, "WORD"))}, "type: must be one of COLUMN_TYPE_"),
        ({"filter": filter_of({"kind": "tree"})}, "kind must be group or field"),
        ({"filter": filter_of(group("xor"))}, "conjunction: must be and or or"),
        ({"filter": "[" * 9000}, "filter: is not valid JSON"),
        ({"sort": "id"}, "sort: must be a list of COLUMN=asc"),
        ({"sort": "nope=asc"}, "no column 'nope'; there are archived, checkpointCount"),
        ({"sort": "nope=asc"}, " and GROUP.METRIC.last"),
        ({"limit": -3}, "limit must be"),
    ],
)
def test_rejects_invalid_filters_with_their_position(
    three: Caller, path: str, asked: dict[str, Any], said: str
) -> None:
    response = three.ask("POST", path, asked)
    assert response.status == 400
    assert said in response.error


def test_rejects_extremely_deep_or_long_filters(three: Caller) -> None:
    deep = field("id", "=", 1)
    for _ in range(30):
        deep = group("and", deep)
    assert "deeper than 20" in three.ask("POST", RUNS, {"filter": filter_of(deep)}).error
    many = filter_of(*[field("id", "=", 1)] * 501)
    assert "one condition too many" in three.ask("POST", RUNS, {"filter": many}).error
    empty = filter_of(*[group("and")] * 501)
    assert "one condition too many" in three.ask("POST", RUNS, {"filter": empty}).error
    response = three.ask("POST", RUNS, {"sort": ",".join(["id=asc"] * 51)})
    assert (response.status, "more than 50 columns" in response.error) == (400, True)


def test_columns_include_fixed_and_reported_ones(three: Caller) -> None:
    def shown(table: str) -> dict[str, tuple[str, str]]:
        columns = three.get("/api/v1/projects/1/columns", tableType=f"TABLE_TYPE_{table}")[
            "columns"
        ]
        return {
            c["column"]: (c["location"].removeprefix("LOCATION_TYPE_"), c["type"].split("_")[-1])
            for c in columns
        }

    of_runs, of_experiments = shown("RUN"), shown("EXPERIMENT")
    assert of_runs["experimentName"] == ("RUN", "TEXT")
    assert of_experiments["startTime"] == ("EXPERIMENT", "DATE")
    assert of_runs["hp.model.depth"] == ("RUN_HYPERPARAMETERS", "NUMBER")
    assert of_experiments["hp.sizes"] == ("HYPERPARAMETERS", "ARRAY")
    assert of_runs["hp.model"] == ("RUN_HYPERPARAMETERS", "TEXT")
    assert of_runs["validation.loss.mean"] == ("VALIDATIONS", "NUMBER")
    assert of_runs["validation.day.last"] == ("VALIDATIONS", "DATE")
    assert "validation.day.mean" not in of_runs
    assert of_runs["metadata.team.name"] == ("RUN_METADATA", "TEXT")
    assert "metadata.team.name" not in of_experiments
    assert three.ask("GET", "/api/v1/projects/99/columns").status == 404
    for table, path in ((of_runs, RUNS), (of_experiments, EXPERIMENTS)):
        for name in table:
            assert len(listed(three, path, sort=f"{name}=desc")) == 3, name


def test_returns_ranges_of_metrics_and_values_of_metadata(three: Caller) -> None:
    ranges = three.get("/api/v1/projects/0/experiments/metric-ranges")["ranges"]
    assert {r["metricsName"]: (r["min"], r["max"]) for r in ranges} == {
        "validation.loss.last": (2.5, 2.5), "validation.loss.max": (2.5, 2.5),
        "validation.loss.mean": (1.5, 1.5), "validation.loss.min": (0.5, 0.5),
    }  # fmt: skip
    assert three.get("/api/v1/projects/1/metadata/team.name")["values"] == ["navy"]
    assert three.get("/api/v1/projects/1/metadata/stars")["values"] == ["3"]
    assert three.get("/api/v1/projects/1/metadata/none")["values"] == []


def act(caller: Caller, action: str, *runs: int, **more: Any) -> dict[int, str]:
    """Act on runs, and return the results of each."""
    response = caller.post(f"{RUNS}/{action}", {"runIds": list(runs), "projectId": 1, **more})
    return {result["id"]: result["error"] for result in response["results"]}


def state_of(caller: Caller, run_id: int) -> str:
    return str(caller.get(f"/api/v1/trials/{run_id}")["trial"]["state"])


def test_runs_are_archived_separately_from_their_experiment(user: Caller) -> None:
    live, ended_experiment = create(user), create_ended(user)
    outcomes = act(user, "archive", live, ended_experiment, 99)
    assert "only ended ones" in outcomes[live]
    assert (outcomes[ended_experiment], outcomes[99]) == ("", "run 99 not found")
    assert listed(user, RUNS, filter=filter_of()) == [live]
    (row,) = user.post(
        RUNS, {"filter": filter_of(field("id", "=", ended_experiment), archived=True)}
    )["runs"]
    assert (row["archived"], row["parentArchived"]) == (True, False)
    assert listed(user, EXPERIMENTS, filter=filter_of()) == [live, ended_experiment]
    assert act(user, "unarchive", ended_experiment) == {ended_experiment: ""}
    assert listed(user, RUNS, filter=filter_of()) == [live, ended_experiment]


def test_runs_of_a_filter_can_be_paused_resumed_and_killed(user: Caller) -> None:
    alone = create(user, activate=True)
    chosen_filter = filter_of(field("state", "=", "ACTIVE"))
    assert act(user, "pause", filter=chosen_filter) == {alone: ""}
    assert state_of(user, alone) == "STATE_PAUSED"
    assert act(user, "resume", alone) == {alone: ""}
    assert state_of(user, alone) == "STATE_QUEUED"
    assert act(user, "kill", filter=chosen_filter) == {alone: ""}
    assert state_of(user, alone) == "STATE_CANCELED"
    response = user.ask("POST", f"{RUNS}/kill", {"projectId": 1})
    assert "runIds, or choose them by a filter" in response.error


def test_runs_have_a_stored_and_a_shown_state(user: Caller) -> None:
    experiment_id = create(user, activate=True)
    (run,) = user.post("/api/v1/runs", {"projectId": 1})["runs"]
    assert run["experiment"]["id"] == experiment_id
    assert (run["state"], run["shownState"]) == ("STATE_ACTIVE", "STATE_QUEUED")
    user.post(f"/api/v1/experiments/{experiment_id}/pause")
    (run,) = user.post("/api/v1/runs", {"projectId": 1})["runs"]
    assert (run["state"], run["shownState"]) == ("STATE_PAUSED", "STATE_PAUSED")


@pytest.mark.parametrize(
    ("path", "location"),
    [
        (RUNS, "LOCATION_TYPE_RUN_HYPERPARAMETERS"),
        (EXPERIMENTS, "LOCATION_TYPE_HYPERPARAMETERS"),
    ],
)
@pytest.mark.parametrize("column", ["lr", "hp.lr"])
def test_hyperparameter_column_has_a_location_or_a_prefix(
    user: Caller, path: str, location: str, column: str
) -> None:
    first = create(user, hyperparameters={"lr": 0.1})
    create(user, hyperparameters={"lr": 0.5})
    condition = {**field(column, "<", 0.2, "NUMBER"), "location": location}
    ids = listed(user, path, filter=filter_of(condition))
    if path == RUNS:
        assert ids == [trial_of(user, first)["id"]]
    else:
        assert ids == [first]


def test_filters_by_the_shown_state(user: Caller) -> None:
    alone = create(user, activate=True)
    create(user)
    for path in (RUNS, EXPERIMENTS):
        assert listed(user, path, filter=filter_of(field("state", "=", "QUEUED"))) == [alone]
        assert listed(user, path, filter=filter_of(field("state", "=", "RUNNING"))) == []
        assert listed(user, path, filter=filter_of(field("state", "=", "ACTIVE"))) == [alone]


def test_actions_on_runs_of_a_search_change_their_experiment(user: Caller) -> None:
    experiment_id = create(user, searcher=TWO)
    trials = user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]
    first, second = (trial["id"] for trial in trials)
    outcomes = act(user, "pause", first)
    assert f"'det experiment pause {experiment_id}'" in outcomes[first]
    assert act(user, "kill", first) == {first: ""}
    assert state_of(user, second) == "STATE_PAUSED"
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    assert "deletes them all" in act(user, "delete", first)[first]
    (row, _) = user.post(RUNS, {})["runs"]
    assert row["experiment"]["isMultitrial"] is True


def test_moving_a_run_moves_its_experiment_unless_searches_are_skipped(user: Caller) -> None:
    workspace = user.post("/api/v1/workspaces", {"name": "other"})["workspace"]["id"]
    new = {"name": "cats", "workspaceId": workspace, "key": "CATS"}
    project = user.post(f"/api/v1/workspaces/{workspace}/projects", new)["project"]["id"]
    alone, search = create(user), create(user, searcher=TWO)
    part = trial_of(user, search)["id"]
    there = {"sourceProjectId": 1, "destinationProjectId": project}
    outcomes = act(user, "move", alone, part, skipMultitrial=True, **there)
    assert outcomes == {
        alone: "",
        part: f"run {part} is skipped: it is part of a search with other runs",
    }
    (row,) = user.post(RUNS, {"projectId": project})["runs"]
    assert (row["id"], row["localId"], row["projectName"]) == (alone, f"CATS-{alone}", "cats")
    assert act(user, "move", part, **there) == {part: ""}
    assert len(listed(user, RUNS, projectId=project)) == 3


def test_deleting_a_run_deletes_its_experiment(api: Api, user: Caller) -> None:
    live, ended_experiment = create(user), create_ended(user)
    outcomes = act(user, "delete", live, ended_experiment)
    assert outcomes[ended_experiment] == ""
    assert "kill it, or wait" in outcomes[live]
    experiment = user.get(f"/api/v1/experiments/{ended_experiment}")["experiment"]
    assert experiment["state"] == "STATE_DELETING"


def test_brief_search_returns_only_fields_for_actions(api: Api, user: Caller) -> None:
    experiment_id = create_ended(user, name="brief")
    response = user.post(EXPERIMENTS, {"brief": True, "filter": filter_of(), "limit": -1})
    row = next(
        r["experiment"] for r in response["experiments"] if r["experiment"]["id"] == experiment_id
    )
    whole = user.get(f"/api/v1/experiments/{experiment_id}")["experiment"]
    names = ("id", "name", "state", "archived", "unmanaged", "userId", "projectId", "workspaceId")
    assert row == {name: whole[name] for name in names}
    assert response["pagination"]["total"] == len(response["experiments"])
