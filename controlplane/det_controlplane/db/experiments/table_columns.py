"""Columns of the tables of experiments and runs, as SQL: fixed ones, and metrics and hyperparameters by their names."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from sqlalchemy import ARRAY, Boolean, ColumnElement, Text, cast, literal_column

from det_controlplane.core.filters import WORK_STATES, ColumnType
from det_controlplane.core.lifecycle.experiment import ExperimentState
from det_controlplane.core.lifecycle.trial import TrialState
from det_controlplane.db.engine import views
from det_controlplane.db.engine.conditions import Find, TableColumn, Value
from det_controlplane.db.experiments.run_values import LONGEST_NAME, KeptValue

TEXT, NUMBER, DATE, LIST = ColumnType.TEXT, ColumnType.NUMBER, ColumnType.DATE, ColumnType.ARRAY
STATISTICS = ("last", "min", "max", "mean")
_SUMMARIES = {"training": "avg_metrics", "validation": "validation_metrics"}


def column(type_: ColumnType, *sql: str) -> TableColumn:
    return TableColumn(tuple(literal_column(part) for part in sql), type_)


def _filled_column(type_: ColumnType, sql: str) -> TableColumn:
    """Return a column without NULL."""
    return TableColumn((literal_column(sql),), type_, filled=True)


def _state(row: str, list_state: str, states: type[Enum]) -> TableColumn:
    """Return a column that is filtered by the stored state, and by the one that lists show of ACTIVE."""
    names = {state.value for state in states}

    def equals(name: str) -> ColumnElement[bool]:
        # Compared as its own type, and not as text, the column is found in indexes.
        if name in names:
            return literal_column(f"{row}.state = '{name}'", Boolean)
        return literal_column(f"({row}.state = 'ACTIVE' AND {list_state} = '{name}')", Boolean)

    state_column = column(TEXT, f"{row}.state::text", list_state)
    return replace(state_column, known=WORK_STATES[1:], equals=equals)


def _duration(row: str) -> str:
    return f"floor(date_part('epoch', coalesce({row}.ended_at, now()) - {row}.started_at))"


# Columns of experiments e with job j, user u, project p and workspace w.
_SHARED = {
    "tags": column(LIST, "e.labels"),
    "forkedFrom": column(NUMBER, "e.parent_id"),
    "searcherType": column(TEXT, "e.searcher_name"),
    "searcherMetric": column(TEXT, "e.metric_name"),
    "resourcePool": column(TEXT, "j.pool"),
    "user": column(TEXT, "u.username", "u.display_name"),
    "externalExperimentId": column(TEXT, "e.external_id"),
    "projectId": column(NUMBER, "e.project_id"),
    "parentArchived": column(TEXT, "(p.archived OR w.archived)::text"),
}
_COMPLETE = "(SELECT count(*) FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'COMPLETED')"
_SIZE = """(SELECT coalesce(sum(c.size), 0) FROM checkpoints c
    WHERE c.trial_id = t.id AND c.state IN ('COMPLETED', 'PARTIALLY_DELETED'))"""


# The aliases of tables that only some columns of experiments read, and how each is joined.
COUNTS_OF_EXPERIMENTS = {
    "n": "trial_counts n ON n.experiment_id = e.id",
    "k": "checkpoint_counts k ON k.experiment_id = e.id",
}
EXPERIMENT_COLUMNS = {
    "id": _filled_column(NUMBER, "e.id"),
    "name": _filled_column(TEXT, "e.name"),
    "description": column(TEXT, "e.description"),
    "startTime": _filled_column(DATE, "e.started_at"),
    "endTime": column(DATE, "e.ended_at"),
    "duration": column(NUMBER, _duration("e")),
    "numTrials": _filled_column(NUMBER, "n.trials"),
    "state": _state("e", views.SHOWN_EXPERIMENT_STATE, ExperimentState),
    "progress": column(NUMBER, "e.progress"),
    "searcherMetricsVal": column(NUMBER, "e.best_metric"),
    "checkpointCount": _filled_column(NUMBER, "k.complete"),
    "checkpointSize": _filled_column(NUMBER, "k.size"),
    "archived": column(TEXT, "e.archived::text"),
    "deadline": column(DATE, "(SELECT d.deadline FROM deadlines d WHERE d.experiment_id = e.id)"),
    **_SHARED,
}
# Columns of trials t in addition.
RUN_COLUMNS = {
    "id": _filled_column(NUMBER, "t.id"),
    "localId": column(TEXT, "concat(p.key, '-', t.id)"),
    "experimentId": column(NUMBER, "e.id"),
    "experimentName": column(TEXT, "e.name"),
    "experimentDescription": column(TEXT, "e.description"),
    "experimentProgress": column(NUMBER, "e.progress"),
    "isExpMultitrial": column(TEXT, f"({views.NUMBER_OF_TRIALS} > 1)::text"),
    "startTime": _filled_column(DATE, "t.started_at"),
    "endTime": column(DATE, "t.ended_at"),
    "duration": column(NUMBER, _duration("t")),
    "state": _state("t", views.SHOWN_TRIAL_STATE, TrialState),
    "searcherMetricsVal": column(NUMBER, "t.searcher_metric"),
    "totalBatchesProcessed": column(NUMBER, "t.total_batches"),
    "restarts": column(NUMBER, "t.restarts"),
    "externalRunId": column(TEXT, "t.external_id"),
    "checkpointCount": column(NUMBER, _COMPLETE),
    "checkpointSize": column(NUMBER, _SIZE),
    "archived": column(TEXT, "(t.archived OR e.archived)::text"),
    **_SHARED,
}


def _below(document: str, path: Sequence[str]) -> Value:
    return literal_column(document).op("#>")(cast(list(path), ARRAY(Text)))


def json_columns(prefix: str, document: str) -> Find:
    """Find values of a JSON document by names like `hp.lr`."""

    def find(name: str) -> TableColumn | None:
        if not name.startswith(prefix) or name == prefix:
            return None
        return TableColumn((_below(document, name.removeprefix(prefix).split(".")),), None)

    return find


def metric_columns(summaries: str) -> Find:
    """Find summaries of metrics by names like `validation.loss.min`."""

    def find(name: str) -> TableColumn | None:
        group, _, rest = name.partition(".")
        metric, _, statistic = rest.rpartition(".")
        if not metric or statistic not in STATISTICS:
            return None
        path = (_SUMMARIES.get(group, group), metric, statistic)
        return TableColumn((_below(summaries, path),), None)

    return find


def kept(find: Find, subject: str, of: str, document: Find | None = None) -> Find:
    """Add the kept values of a trial or an experiment to the columns that `find` finds.

    `document` finds the same values in trial `t`, if `find` reads another one."""

    def found(name: str) -> TableColumn | None:
        column, of_trial = find(name), (document or find)(name)
        segments = name.split(".")[1:]
        # Numbers are places in lists, which are kept as one value.
        if column is None or of_trial is None or any(s.lstrip("-").isdigit() for s in segments):
            return column
        if len(name.encode()) > LONGEST_NAME:
            return column
        return replace(column, kept=KeptValue(name, subject, of, of_trial.values[0]))

    return found


def of_each(find: Find, within: Callable[[Any], Any], order: Find) -> Find:
    """Find a column with values in rows of another table."""

    def found(name: str) -> TableColumn | None:
        inner, first = find(name), order(name)
        if inner is None or first is None:
            return None
        return TableColumn(inner.values, inner.type, within, first.values[0])

    return found
