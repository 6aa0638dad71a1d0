"""Ended trials have their values in a table: filters and sorts find the same rows as in the documents of the trials."""

import json
from typing import Any

import pytest
from det_controlplane.core.filters import EVERYTHING, Filter, parse_filter, parse_sort
from det_controlplane.core.paging import Page
from det_controlplane.db.experiments import run_values, table_pages
from det_controlplane.db.experiments.table_pages import TableScope
from det_controlplane.services.context import Context
from det_controlplane.services.experiments import creation
from sqlalchemy import event, text

from tests.support.searching import OWNER, SINGLE

EVERYWHERE = TableScope(None, None)
_SET = text("""
    UPDATE trials SET hparams = cast(:hparams AS json), summary_metrics = cast(:summaries AS jsonb) WHERE id = :id
""")
_END = text(
    "UPDATE trials SET state = 'COMPLETED', ended_at = now() WHERE id = ANY(cast(:ids AS integer[]))"
)
_REOPEN = text("UPDATE trials SET state = 'ACTIVE', ended_at = NULL WHERE id = :id")
_HAVE = text("SELECT id, has_values FROM trials ORDER BY id")
_KEPT = text("""
    SELECT n.name, v.number, v.text FROM run_values v JOIN value_names n ON n.id = v.name_id
    WHERE v.trial_id = :id ORDER BY n.name
""")
# Hyperparameters, and the summary of the metric `loss`.
RUNS: tuple[tuple[Any, Any], ...] = (
    ({"lr": 0.1, "optimizer": {"name": "adam", "eps": 1e-8}, "sizes": [1, 2]}, 0.5),
    ({"lr": 1, "optimizer": "adam", "wide": True}, 2),
    ({"lr": "0.1", "optimizer": "sgd", "empty": ""}, "NaN"),
    ({"lr": None, "a.b": 3, "deep": {"er": {"est": 7}}}, None),
    ({"lr": 0.1, "optimizer": "Adam", "name": "x" * 2000}, -3.25),
    ({"lr": "Infinity", "huge": 10**400, "tiny": "1e-400"}, "2026-11-20"),
)
FILTERS = [
    ("hp.lr", operator, value, kind)
    for operator in ("=", "!=", "<", "<=", ">", ">=")
    for value, kind in ((0.1, "NUMBER"), ("0.1", "TEXT"), (1, "UNSPECIFIED"))
    if kind == "NUMBER" or operator in ("=", "!=", "<")
] + [
    ("hp.lr", "isEmpty", None, "NUMBER"),
    ("hp.lr", "=", "Infinity", "TEXT"),
    ("hp.optimizer", "=", "adam", "TEXT"),
    ("hp.optimizer", "!=", "adam", "TEXT"),
    ("hp.optimizer", "contains", "ADA", "TEXT"),
    ("hp.optimizer.name", "=", "adam", "TEXT"),
    ("hp.optimizer.eps", "<", 1, "NUMBER"),
    ("hp.wide", "=", True, "UNSPECIFIED"),
    ("hp.sizes", "=", 2, "ARRAY"),
    ("hp.sizes", "=", "[1, 2]", "TEXT"),
    ("hp.sizes.0", "=", 1, "NUMBER"),
    ("hp.a.b", "=", 3, "NUMBER"),
    ("hp.deep.er.est", ">", 6, "NUMBER"),
    ("hp.name", "=", "x" * 2000, "TEXT"),
    ("hp.empty", "=", "", "TEXT"),
    ("hp.missing", "!=", 1, "NUMBER"),
    ("validation.loss.min", "<", 1, "NUMBER"),
    ("validation.loss.min", ">=", 2, "NUMBER"),
    ("validation.loss.last", "=", "2026-11-20", "TEXT"),
    ("validation.loss.last", ">", "2026-01-01", "DATE"),
]  # fmt: skip
SORTS = [
    "hp.lr=asc", "hp.lr=desc", "hp.optimizer=asc", "hp.lr=desc,id=desc", "validation.loss.min=asc",
    "validation.loss.min=desc", "validation.loss.last=desc,hp.lr=asc", "hp.missing=asc",
]  # fmt: skip


@pytest.fixture
def trials(ctx: Context) -> list[int]:
    """Return trials that have not ended, one of each experiment."""
    for _ in RUNS:
        creation.create(ctx, OWNER, creation.Submission(config=SINGLE))
    ids = [row.id for row in ctx.db.read(_HAVE)]
    with ctx.db.begin() as tx:
        for id, (hparams, loss) in zip(ids, RUNS, strict=True):
            summary = dict.fromkeys(("last", "min", "max", "mean"), loss)
            summaries = {"validation_metrics": {"loss": {**summary, "count": 3}}}
            values = {"hparams": json.dumps(hparams), "summaries": json.dumps(summaries)}
            tx.execute(_SET, {"id": id, **values})
    return ids


def end(ctx: Context, ids: list[int]) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_END, {"ids": ids})


def have_values(ctx: Context) -> list[bool | None]:
    return [row.has_values for row in ctx.db.read(_HAVE)]


def filter_of(column: str, operator: str, value: Any, kind: str) -> Filter:
    field = {"kind": "field", "columnName": column, "operator": operator, "value": value}
    field |= {"type": f"COLUMN_TYPE_{kind}", "location": "LOCATION_TYPE_UNSPECIFIED"}
    group = {"kind": "group", "conjunction": "and", "children": [field]}
    return parse_filter(json.dumps({"filterGroup": group, "showArchived": True}))


def answers(
    ctx: Context, filters: Filter = EVERYTHING, sort: str = "", limit: int = 100, offset: int = 0
) -> list[Any]:
    """Return ids and totals of runs and experiments."""
    result = []
    for lister, name in (
        (table_pages.runs, "runs"),
        (table_pages.brief_experiments, "experiments"),
    ):
        parts = lister(
            ctx.db, EVERYWHERE, filters, parse_sort(sort), Page(limit=limit, offset=offset)
        )
        answer = json.loads("".join(parts))
        rows = [
            row.get("experiment", row) if name == "experiments" else row for row in answer[name]
        ]
        result.append(([row["id"] for row in rows], answer["pagination"]["total"]))
    return result


@pytest.mark.parametrize(("ended", "few"), [(6, run_values.FEW), (3, run_values.FEW), (3, 0)])
def test_filters_and_sorts_return_the_same_rows_from_stored_values(
    ctx: Context, trials: list[int], ended: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_answers() -> list[Any]:
        filters = [filter_of(*f) for f in FILTERS]
        pages = ((2, 0), (3, 1), (3, 4), (0, 0))
        return [
            *(answers(ctx, chosen_filters) for chosen_filters in filters),
            *(answers(ctx, chosen_filters, "hp.lr=asc", limit=1) for chosen_filters in filters),
            *(answers(ctx, EVERYTHING, sort, *page) for sort in SORTS for page in pages),
        ]

    before = all_answers()
    monkeypatch.setattr(run_values, "FEW", few)
    end(ctx, trials[:ended])
    assert not run_values.keep_some(ctx.db, 100)
    assert have_values(ctx) == [True] * ended + [None] * (6 - ended)
    assert all_answers() == before


def test_values_of_running_trials_are_not_stored(ctx: Context, trials: list[int]) -> None:
    assert not run_values.keep_some(ctx.db, 100)
    assert have_values(ctx) == [None] * 6


def test_values_of_ended_trials_are_stored_in_parts(ctx: Context, trials: list[int]) -> None:
    end(ctx, trials)
    assert run_values.keep_some(ctx.db, 4)
    assert have_values(ctx) == [True] * 4 + [None] * 2
    assert not run_values.keep_some(ctx.db, 4)
    values = {row.name: (row.number, row.text) for row in ctx.db.read(_KEPT, {"id": trials[0]})}
    assert values["hp.optimizer.name"] == (None, "adam")
    assert values["validation.loss.mean"] == (0.5, None)
    assert len(values) == 8


def test_changing_an_ended_trial_deletes_its_stored_values(ctx: Context, trials: list[int]) -> None:
    end(ctx, trials)
    run_values.keep_some(ctx.db, 100)
    with ctx.db.begin() as tx:
        tx.execute(_SET, {"id": trials[0], "hparams": '{"lr": 9}', "summaries": "{}"})
        tx.execute(_REOPEN, {"id": trials[1]})
    assert have_values(ctx) == [None, None, True, True, True, True]
    assert [list(ctx.db.read(_KEPT, {"id": id})) for id in trials[:2]] == [[], []]
    assert answers(ctx, filter_of("hp.lr", "=", 9, "NUMBER"))[0] == ([trials[0]], 1)


def test_trials_with_very_many_values_are_read_from_their_documents(
    ctx: Context, trials: list[int]
) -> None:
    many = json.dumps({f"h{n}": n for n in range(run_values.MOST_VALUES + 1)})
    with ctx.db.begin() as tx:
        tx.execute(_SET, {"id": trials[0], "hparams": many, "summaries": "{}"})
    end(ctx, trials)
    assert not run_values.keep_some(ctx.db, 100)
    assert have_values(ctx) == [False, True, True, True, True, True]
    assert answers(ctx, filter_of("hp.h7", "=", 7, "NUMBER"))[0] == ([trials[0]], 1)


def test_a_sorted_page_is_read_in_the_order_of_an_index(ctx: Context, trials: list[int]) -> None:
    statements: list[tuple[str, Any]] = []

    def note(*arguments: Any) -> None:
        statements.append((arguments[2], arguments[3]))

    end(ctx, trials)
    run_values.keep_some(ctx.db, 100)
    event.listen(ctx.db.engine, "before_cursor_execute", note)
    try:
        answers(ctx, sort="validation.loss.min=asc", limit=2)
    finally:
        event.remove(ctx.db.engine, "before_cursor_execute", note)
    assert len(statements) == 2  # the leading rows fill the pages
    with ctx.db.begin() as tx:
        for setting in (
            "enable_seqscan",
            "enable_hashjoin",
            "enable_mergejoin",
            "enable_bitmapscan",
        ):
            tx.execute(text(f"SET LOCAL {setting} = off"))
        for statement, parameters in statements:
            plan = "\n".join(tx.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())
            assert "run_values_by_number" in plan
