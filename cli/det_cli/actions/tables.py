"""Tables of experiments and runs with filters, sorting and columns of the user's choice."""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from determined.common.pages import each_page
from determined.common.sign_in import SignedIn

from det_cli.connection import V1, is_part, limited, page_options
from det_cli.errors import UsageError
from det_cli.render import Column

_CONDITION = re.compile(r"\s*([^\s=!<>~]+)\s*(!=|!~|<=|>=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
# Python also parses nan, inf and 1_0 as numbers. In a filter they are text.
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_OPERATORS = {"~": "contains", "!~": "notContains"}
# The key of each metric group in the summary metrics.
_SUMMARIES = {"training": "avg_metrics", "validation": "validation_metrics"}


@dataclass(frozen=True, slots=True)
class Table:
    """The paths of the columns in a row: fixed columns, JSON documents, and metric summaries."""

    paths: Mapping[str, str]
    documents: Mapping[str, str]
    summaries: str


def _paths(same: str, **others: str) -> dict[str, str]:
    return {**{name: name for name in same.split()}, **others}


_OF_BOTH = """id state startTime endTime duration checkpointCount checkpointSize archived parentArchived
    projectId projectName workspaceName"""
RUNS = Table(
    _paths(
        f"{_OF_BOTH} localId externalRunId totalBatchesProcessed restarts",
        user="username",
        tags="labels",
        searcherMetricsVal="searcherMetricValue",
        experimentId="experiment.id",
        experimentName="experiment.name",
        experimentDescription="experiment.description",
        experimentProgress="experiment.progress",
        isExpMultitrial="experiment.isMultitrial",
        **{
            name: f"experiment.{name}"
            for name in ("forkedFrom", "searcherType", "searcherMetric", "resourcePool", "externalExperimentId")
        },
    ),
    {"hp": "hyperparameters", "metadata": "metadata"},
    "summaryMetrics",
)  # fmt: skip
# An experiment shows the hyperparameters and metrics of its best trial.
EXPERIMENTS = Table(
    _paths(
        f"""{_OF_BOTH} name description numTrials progress forkedFrom searcherType searcherMetric resourcePool
            externalExperimentId""",
        user="username",
        tags="labels",
        searcherMetricsVal="bestTrialSearcherMetric",
        deadline="deadline.time",
    ),
    {"hp": "bestTrial.hparams"},
    "bestTrial.summaryMetrics",
)


def has_table_options(args: argparse.Namespace) -> bool:
    return bool(args.filter or args.sort or args.column)


def search(
    session: SignedIn, args: argparse.Namespace, path: str, key: str
) -> list[dict[str, Any]]:
    """Return the rows that match the --filter options, in the order of the --sort options."""
    conditions = [_condition(text) for text in args.filter]
    if not args.all:
        user = session.username or session.get(V1 + "/me")["user"]["username"]
        conditions.append(_field("user", "=", user, "TEXT"))
    group = {"kind": "group", "conjunction": "and", "children": conditions}
    newest = is_part(args) and not args.sort
    body = {
        "projectId": 0,
        "filter": json.dumps({"filterGroup": group, "showArchived": args.all}),
        "sort": "id=desc" if newest else ",".join(_order(text) for text in args.sort),
    }

    def fetch(page: Mapping[str, int]) -> Any:
        return session.post(V1 + path, {**body, **page})

    rows = limited(args, each_page(fetch, key, **page_options(args)))
    return rows[::-1] if newest else rows


def _condition(text: str) -> dict[str, Any]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--filter {text!r} is not a condition",
            "write --filter 'state=COMPLETED' or 'hp.lr<0.1'",
        )
    column, operator, value = match.groups()
    return _typed_condition(column, _OPERATORS.get(operator, operator), value)


def _typed_condition(column: str, operator: str, value: str) -> dict[str, Any]:
    """Return a condition with a type. Columns with a dot have values of any type, so `16` also matches text."""
    conjunction = {"=": "or", "!=": "and"}.get(operator)
    is_number = _NUMBER.fullmatch(value) is not None
    if "." in column and is_number and conjunction:
        children = [_field(column, operator, value, kind) for kind in ("NUMBER", "TEXT")]
        return {"kind": "group", "conjunction": conjunction, "children": children}
    numeric = is_number and operator not in _OPERATORS.values()
    return _field(column, operator, value, "NUMBER" if numeric else "TEXT")


def _field(column: str, operator: str, value: str, kind: str) -> dict[str, Any]:
    return {
        "kind": "field", "columnName": column, "operator": operator, "value": value,
        "type": f"COLUMN_TYPE_{kind}",
    }  # fmt: skip


def _order(text: str) -> str:
    """Return COLUMN=asc for COLUMN. Other sort orders stay unchanged."""
    return text if "=" in text else f"{text}=asc"


def filter_names(args: argparse.Namespace) -> list[str]:
    """Return the column names in the --filter options."""
    matches = [_CONDITION.fullmatch(text) for text in args.filter]
    return [match[1] for match in matches if match]


def columns(args: argparse.Namespace, table: Table) -> tuple[Column, ...]:
    """Return the --column columns, and the columns with a dot in --filter and --sort.

    Raises UsageError for an unknown column."""
    names = filter_names(args) + [text.partition("=")[0] for text in args.sort]
    for name in args.column:
        if "." not in name and name not in table.paths:
            existing = ", ".join(sorted(table.paths))
            raise UsageError(
                f"--column {name}: there is no such column",
                f"the columns are {existing}, hp.NAME and GROUP.METRIC.last",
            )
    selected = dict.fromkeys([*args.column, *(name for name in names if "." in name)])
    return tuple((name, lambda row, name=name: _value(table, row, name)) for name in selected)


def _value(table: Table, row: Mapping[str, Any], name: str) -> Any:
    kind, dot, rest = name.partition(".")
    if not dot:
        return _below(row, table.paths[name].split("."))
    if kind in table.documents:
        return _below(row, [*table.documents[kind].split("."), *rest.split(".")])
    metric, _, statistic = rest.rpartition(".")
    group = _SUMMARIES.get(kind, kind)
    return _below(row, [*table.summaries.split("."), group, metric, statistic])


def _below(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, Mapping) else None
    return document
