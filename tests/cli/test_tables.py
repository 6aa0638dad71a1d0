"""Lists of experiments and runs against the real API: filters, sort order and columns."""

import csv
import json
from collections.abc import Collection

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.db.experiments.table_columns import EXPERIMENT_COLUMNS, RUN_COLUMNS
from sqlalchemy import text

from tests.cli.conftest import Det
from tests.support.api import PASSWORD, Api, create, report_metrics, trial_of

# This statement fills the columns of experiment 2 that are usually empty.
FILLED = text("""
    WITH due AS (INSERT INTO deadlines (experiment_id, deadline) VALUES (2, now())), ended AS (
        UPDATE experiments SET description = 'of a test', labels = '{blue}', parent_id = 1, external_id = 'x',
            ended_at = now(), state = 'COMPLETED', progress = 0.5 WHERE id = 2
    ) UPDATE trials SET external_id = 'y', ended_at = now(), state = 'COMPLETED' WHERE experiment_id = 2
""")


@pytest.fixture
def api(api: Api) -> Api:
    """A cluster with three experiments of one run each. Another user owns the third experiment."""
    user = api.signed_in("determined")
    for name, lr, loss in (("first", 0.1, 0.5), ("second", 0.01, 0.25)):
        id = create(user, name=name, hyperparameters={"lr": lr, "net": "vit"})
        report_metrics(user, trial_of(user, id)["id"], "validation", 1, {"loss": loss})
    create(api.signed_in("admin"), name="third", hyperparameters={"lr": 1})
    return api


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["e", "list"], "none of yours; 3 of others: --all"),
        (["run", "list"], "none of yours; 3 of others: --all"),
        (["e", "list", "--filter", "name=x"], "no experiment of yours matches the filter; --all includes the others"),
        (["e", "list", "--all", "--filter", "name=x"], "no experiment that you may see matches the filter"),
        (["e", "list", "--all", "--offset", "9"], "no experiment after the first 9 (--offset)"),
        (["notebook", "list"], "no notebook that you may see runs, or ended within a day"),
        (["job", "list"], "no job is queued or running in pool default; -p POOL lists another pool"),
        (["budget", "list"], "there is no budget that you may see"),
    ],
)  # fmt: skip
def test_empty_tables_say_why(api: Api, det: Det, words: list[str], sentence: str) -> None:
    api.signed_in("admin").post(
        "/api/v1/users", {"user": {"username": "eve", "active": True}, "password": PASSWORD}
    )
    result = det("-u", "eve", *words)
    assert (result.code, result.err) == (0, f"{sentence}\n")
    assert len(result.out.splitlines()) == 2, "only the header and its line"
    assert det("-u", "eve", *words, "--csv").err == ""


@pytest.mark.parametrize(
    ("words", "noun"), [(["e", "list"], "experiment"), (["run", "list"], "run")]
)
@pytest.mark.parametrize(
    ("condition", "end"),
    [
        ("hp.lrr<1", "hp.lrr is unknown: no {noun} that you may see has it; similar names: hp.lr"),
        ("hp.zzzzzz<1", "known names with hp.: hp.lr, hp.net"),
        ("validation.los.last<1", "similar names: validation.loss.last, "),
        ("hp.lr<-1", "no {noun} of yours matches the filter; --all includes the others"),
    ],
)  # fmt: skip
def test_filter_by_an_unknown_name_gets_similar_names(
    api: Api, det: Det, words: list[str], noun: str, condition: str, end: str
) -> None:
    result = det(*words, "--filter", condition)
    assert result.code == 0
    assert end.format(noun=noun) in result.err


def test_empty_table_counts_archived_experiments(api: Api, det: Det) -> None:
    user = api.signed_in("determined")
    for id in (1, 2):
        user.post(f"/api/v1/experiments/{id}/kill")
        user.post(f"/api/v1/experiments/{id}/archive")
    sentence = "none of yours that is not archived; 2 archived, 1 of others: --all\n"
    assert det("e", "list").err == sentence


def ids(det: Det, *words: str) -> list[int]:
    result = det(*words, "--json")
    assert result.code == 0, result.err
    return [row["id"] for row in json.loads(result.out)]


@pytest.mark.parametrize("kind", ["e", "run"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--filter", "hp.lr<0.1"], [2]),
        (["--filter", "hp.lr <= 0.1", "--filter", "validation.loss.min>0.3"], [1]),
        (["--filter", "hp.net~VI"], [1, 2]),
        (["--filter", "hp.net!~vi"], []),
        (["--filter", "state!=ACTIVE", "--filter", "id>1"], [2]),
        (["--filter", "state=paused", "--filter", "startTime<2000-01-01"], []),
        (["--sort", "validation.loss.min"], [2, 1]),
        (["--sort", "hp.lr=desc", "--all"], [3, 1, 2]),
        (["--column", "hp.lr"], [1, 2]),
        (["--sort", "id=desc", "--limit", "1"], [2]),
        (["--sort", "id=desc", "--limit", "2", "--offset", "1"], [1]),
        (["--sort", "id=desc", "--limit", "1", "--pages", "1"], [2]),
        (["--sort", "id", "--offset", "1"], [2]),
        (["--filter", "hp.lr<1", "--limit", "1"], [2]),
        (["--filter", "id>0", "--all", "--limit", "2"], [2, 3]),
    ],
)
def test_rows_are_filtered_and_sorted(
    api: Api, det: Det, kind: str, words: list[str], expected: list[int]
) -> None:
    assert ids(det, kind, "list", *words) == expected


def test_columns_of_filters_and_sort_order_are_shown(api: Api, det: Det) -> None:
    by = ("--filter", "hp.lr<1", "--sort", "validation.loss.last", "--column", "checkpointCount")
    for kind in ("e", "run"):
        header, _, first, second = (
            det(kind, "list", *by, "--csv").out.replace("\n", "\n\n", 1).splitlines()
        )
        assert header.endswith(",checkpointCount,hp.lr,validation.loss.last")
        assert [row.split(",")[-2:] for row in (first, second)] == [
            ["0.01", "0.25"],
            ["0.1", "0.5"],
        ]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("e", EXPERIMENT_COLUMNS), ("run", RUN_COLUMNS)],
)
def test_every_column_has_a_value(
    api: Api, database: Database, det: Det, kind: str, columns: Collection[str]
) -> None:
    """In an earlier version, many columns were empty, for example `user` and `tags`."""
    with database.begin() as tx:
        tx.execute(FILLED)
    words = [word for name in columns for word in ("--column", name)]
    result = det(kind, "list", "--filter", "id=2", *words, "--csv")
    assert result.code == 0, result.err
    (row,) = csv.DictReader(result.out.splitlines())
    assert {name for name in columns if not row[name]} == set()
    assert (row["user"], row["searcherMetricsVal"]) == ("determined", "0.25")
    assert "blue" in row["tags"]
    if kind == "run":
        assert (row["experimentId"], row["experimentName"]) == ("2", "second")


@pytest.mark.parametrize("kind", ["e", "run"])
def test_filters_match_texts_that_look_like_numbers(api: Api, det: Det, kind: str) -> None:
    user = api.signed_in("determined")
    for width in (16, "16", "1_0"):
        create(user, hyperparameters={"width": width})
    assert ids(det, kind, "list", "--filter", "hp.width=16") == [4, 5]
    assert ids(det, kind, "list", "--filter", "hp.width!=16") == [1, 2, 6]
    assert ids(det, kind, "list", "--filter", "hp.width=1_0") == [6]


def test_run_list_shows_experiment_and_hyperparameters(api: Api, det: Det) -> None:
    (row,) = det("run", "list", "--filter", "experimentName=second", "--csv").out.splitlines()[1:]
    assert row.split(",")[:3] == ["2", "2", "second"]
    assert "lr=0.01 net=vit" in row


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--filter", "nonsense"], "--filter 'nonsense' is not a condition"),
        (["--column", "usr"], "--column usr: there is no such column"),
        (["--filter", "nonsense=1"], "there is no column 'nonsense'"),
        (["--filter", "nonsense=1"], "there are archived, checkpointCount"),
        (["--sort", "nonsense"], "searcherType, startTime, state"),
        (["--sort", "id=down"], "COLUMN=asc or COLUMN=desc"),
        (["--filter", "id=many"], "value must be a number"),
        (["--filter", "hp.lr<abc"], "hp.lr <: value must be a number or a date, not 'abc'"),
        (["--filter", "state=FOO"], "not 'FOO'"),
    ],
)
def test_invalid_options_are_rejected(api: Api, det: Det, words: list[str], message: str) -> None:
    result = det("run", "list", *words)
    assert result.code != 0
    assert message in result.err
