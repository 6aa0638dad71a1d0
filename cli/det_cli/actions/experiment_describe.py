"""`det experiment describe`: a summary, or tables and data of trials and workloads."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from determined.common.http import Session

from det_cli import deadlines, outlooks
from det_cli.actions import costs
from det_cli.actions.experiments import ids_of
from det_cli.connection import V1, connect, pages
from det_cli.live import summary
from det_cli.live.readers import ExperimentReader
from det_cli.live.show import print_lines
from det_cli.render import (
    Column,
    local_time,
    percent,
    print_json,
    print_rows,
    print_yaml,
    state_text,
    terminal_width,
    trial_state_text,
    write_csv,
)

_UNBOUNDED = 10_000
_EXPERIMENT: tuple[Column, ...] = (
    ("Experiment ID", lambda e: e["id"]),
    ("State", lambda e: state_text(e["state"])),
    ("Progress", lambda e: percent(e.get("progress"))),
    ("Started", lambda e: local_time(e.get("startTime"))),
    ("Ended", lambda e: local_time(e.get("endTime"))),
    ("Name", lambda e: e["name"]),
    ("Description", lambda e: e.get("description")),
    ("Archived", lambda e: e["archived"]),
    ("Resource Pool", lambda e: e.get("resourcePool")),
    ("Labels", lambda e: ", ".join(sorted(e.get("labels") or []))),
)
_TRIAL: tuple[Column, ...] = (
    ("Trial ID", lambda t: t["id"]),
    ("Experiment ID", lambda t: t["experimentId"]),
    ("State", trial_state_text),
    ("Started", lambda t: local_time(t.get("startTime"))),
    ("Ended", lambda t: local_time(t.get("endTime"))),
    ("H-Params", lambda t: t["hparams"]),
)


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    ids = ids_of(args.experiment_ids)
    if not (args.format or args.metrics or args.outdir):
        _summarize(session, ids)
        return
    responses = [session.get(f"{V1}/experiments/{id}") for id in ids]
    experiments = [a["experiment"] for a in responses]
    experiment_costs = costs.add(session, "experiments", experiments)
    outlooks.add(session, responses)
    if args.format in ("json", "yaml"):
        (print_json if args.format == "json" else print_yaml)(responses)
        return
    trials = [t for id in ids for t in pages(session, f"/experiments/{id}/trials", "trials")]
    rows = [row for t in trials for row in workload_rows(session, t["id"], args.metrics)]
    columns = _workload_columns(rows) if args.metrics else _WORKLOAD
    trial_costs = costs.add(session, "trials", trials)
    extra = deadlines.columns(experiments) + outlooks.columns(experiments) + experiment_costs
    _table(args, "Experiment", "experiments", _EXPERIMENT + extra, experiments)
    _table(args, "\nTrials", "trials", _TRIAL + trial_costs, trials)
    _table(args, "\nWorkloads", "workloads", columns, rows)


def _summarize(session: Session, ids: Sequence[int]) -> None:
    """Print a summary of each experiment. Lines are not wrapped in a pipe, so that tools can search them."""
    width = terminal_width() if sys.stdout.isatty() else _UNBOUNDED
    for position, id in enumerate(ids):
        if position:
            print()
        print_lines(summary.lines(ExperimentReader(session, id).read(), width, time.time()))


def _table(
    args: argparse.Namespace, title: str, name: str, columns: Sequence[Column], items: list[Any]
) -> None:
    header = [name for name, _ in columns]
    rows = [[get(item) for _, get in columns] for item in items]
    if not args.outdir:
        print(f"{title}:")
        print_rows(header, rows, as_csv=args.format == "csv")
        return
    os.makedirs(args.outdir, exist_ok=True)
    path = os.path.join(args.outdir, f"{name}.csv")
    with open(path, "w", newline="", encoding="utf-8") as f:
        write_csv(f, header, rows)
    print(path)


_WORKLOAD: tuple[Column, ...] = (
    ("Trial ID", lambda r: r["trial"]),
    ("# of Batches", lambda r: r["batches"]),
    ("State", lambda r: _field(r, "training", "state")),
    ("Report Time", lambda r: local_time(_report_time(r))),
    ("Checkpoint State", lambda r: _field(r, "checkpoint", "state")),
    ("Checkpoint Report Time", lambda r: local_time(_field(r, "checkpoint", "endTime"))),
    ("Validation State", lambda r: _field(r, "validation", "state")),
    ("Validation Report Time", lambda r: local_time(_field(r, "validation", "endTime"))),
)


def _workload_columns(rows: list[dict[str, Any]]) -> tuple[Column, ...]:
    """Return the columns of workloads: one for each metric that any workload reported."""
    training, validation = metric_columns(rows, "training"), metric_columns(rows, "validation")
    return (*_WORKLOAD[:4], *training, *_WORKLOAD[4:], *validation)


def metric_columns(rows: list[dict[str, Any]], kind: str) -> tuple[Column, ...]:
    """Return one column for each metric in the training or validation workloads of the rows."""
    names = sorted({n for r in rows for n in metrics_of(r.get(kind))})
    return tuple((f"{kind.capitalize()} Metric: {n}", _metric(kind, n)) for n in names)


def _metric(kind: str, name: str) -> Any:
    return lambda row: metrics_of(row.get(kind)).get(name)


def metrics_of(workload: "dict[str, Any] | None") -> dict[str, Any]:
    metrics = ((workload or {}).get("metrics") or {}).get("avgMetrics") or {}
    return metrics if isinstance(metrics, dict) else {}


def _field(row: dict[str, Any], kind: str, field: str) -> Any:
    workload = row.get(kind)
    if workload is None:
        return ""
    if field != "state":
        return workload.get(field)
    default = "STATE_COMPLETED" if workload.get("endTime") else ""
    return state_text(workload.get("state") or default)


def _report_time(row: dict[str, Any]) -> Any:
    kinds = (row.get(kind) for kind in ("training", "validation", "checkpoint"))
    return next((w.get("endTime") for w in kinds if w), None)


def workload_rows(session: Session, trial_id: int, batch_metrics: bool) -> list[dict[str, Any]]:
    """Return one row per number of batches, with the training, validation and checkpoint workloads."""
    params = {"includeBatchMetrics": batch_metrics, "orderBy": "ORDER_BY_ASC"}
    rows: dict[int, dict[str, Any]] = {}
    path = f"/trials/{trial_id}/workloads"
    for item in pages(session, path, "workloads", params, limit=500):
        for kind in ("training", "validation", "checkpoint"):
            workload = item.get(kind)
            if workload:
                total = int(workload["totalBatches"])
                rows.setdefault(total, {"trial": trial_id, "batches": total})[kind] = workload
    return [rows[total] for total in sorted(rows)]
