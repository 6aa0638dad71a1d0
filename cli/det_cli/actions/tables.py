"""Tables of experiments and runs that are filtered and sorted by any column."""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from determined.common.pages import each_page
from determined.common.sign_in import SignedIn

from det_cli.connection import V1
from det_cli.errors import UsageError
from det_cli.render import Column

_CONDITION = re.compile(r"\s*([^\s=!<>~]+)\s*(!=|!~|<=|>=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
# What Python also reads as a number (nan, inf, 1_0) is a text where people write it.
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_OPERATORS = {"~": "contains", "!~": "notContains"}
# How summaries of metrics are called by their groups.
_SUMMARIES = {"training": "avg_metrics", "validation": "validation_metrics"}


@dataclass(frozen=True, slots=True)
class Table:
    """The places of columns in a row: those of fixed names, those in documents, and summaries of metrics."""

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
# Hyperparameters and metrics of an experiment are those of its best trial.
EXPERIMENTS = Table(
    _paths(
        f"""{_OF_BOTH} name description numTrials progress forkedFrom searcherType searcherMetric resourcePool
            externalExperimentId""",
        user="username",
        tags="labels",
        searcherMetricsVal="bestTrialSearcherMetric",
    ),
    {"hp": "bestTrial.hparams"},
    "bestTrial.summaryMetrics",
)


def is_asked_for(args: argparse.Namespace) -> bool:
    return bool(args.filter or args.sort or args.column)


def search(
    session: SignedIn, args: argparse.Namespace, path: str, key: str
) -> list[dict[str, Any]]:
    """Return the rows that the options of a command choose, in their order."""
    conditions = [_condition(text) for text in args.filter]
    if not args.all:
        user = session.username or session.get(V1 + "/me")["user"]["username"]
        conditions.append(_field("user", "=", user, "TEXT"))
    group = {"kind": "group", "conjunction": "and", "children": conditions}
    body = {
        "projectId": 0,
        "filter": json.dumps({"filterGroup": group, "showArchived": args.all}),
        "sort": ",".join(_order(text) for text in args.sort),
    }

    def fetch(page: Mapping[str, int]) -> Any:
        return session.post(V1 + path, {**body, **page})

    one_page = args.pages == "1"
    return list(each_page(fetch, key, limit=args.limit, offset=args.offset, one_page=one_page))


def _condition(text: str) -> dict[str, Any]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--filter {text!r} is no condition", "write --filter 'state=COMPLETED' or 'hp.lr<0.1'"
        )
    column, operator, value = found.groups()
    return _chosen_by(column, _OPERATORS.get(operator, operator), value)


def _chosen_by(column: str, operator: str, value: str) -> dict[str, Any]:
    """Return a condition. In columns with a dot, whose values may be of any type, `16` may be a text, too."""
    both = {"=": "or", "!=": "and"}.get(operator)
    is_number = _NUMBER.fullmatch(value) is not None
    if "." in column and is_number and both:
        children = [_field(column, operator, value, kind) for kind in ("NUMBER", "TEXT")]
        return {"kind": "group", "conjunction": both, "children": children}
    numeric = is_number and operator not in _OPERATORS.values()
    return _field(column, operator, value, "NUMBER" if numeric else "TEXT")


def _field(column: str, operator: str, value: str, kind: str) -> dict[str, Any]:
    return {
        "kind": "field", "columnName": column, "operator": operator, "value": value,
        "type": f"COLUMN_TYPE_{kind}",
    }  # fmt: skip


def _order(text: str) -> str:
    """Read COLUMN, COLUMN=asc or COLUMN=desc."""
    return text if "=" in text else f"{text}=asc"


def columns(args: argparse.Namespace, table: Table) -> tuple[Column, ...]:
    """Return the columns that were asked for, and those with numbers of a run that rows are chosen or sorted by.

    Raises UsageError for one that there is not."""
    used = [_CONDITION.fullmatch(text) for text in args.filter]
    names = [found[1] for found in used if found] + [text.partition("=")[0] for text in args.sort]
    for name in args.column:
        if "." not in name and name not in table.paths:
            known = ", ".join(sorted(table.paths))
            raise UsageError(
                f"--column {name}: there is no such column",
                f"there are {known}, hp.NAME and GROUP.METRIC.last",
            )
    wanted = dict.fromkeys([*args.column, *(name for name in names if "." in name)])
    return tuple((name, lambda row, name=name: _value(table, row, name)) for name in wanted)


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
