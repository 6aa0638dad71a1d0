"""`det run list`: the trials of all experiments in one table."""

import argparse
import json
from typing import Any

from det_cli.actions import empty, tables
from det_cli.connection import connect, pages
from det_cli.render import Column, local_time, show, trial_state_text

_LIST: tuple[Column, ...] = (
    ("ID", lambda r: r["id"]),
    ("Experiment ID", lambda r: r["experiment"]["id"]),
    ("Name", lambda r: r["experiment"]["name"]),
    ("State", lambda r: trial_state_text({**r, "state": r.get("shownState") or r["state"]})),
    ("Searcher Metric", lambda r: r.get("searcherMetricValue")),
    ("H-Params", lambda r: _hyperparameters(r.get("hyperparameters") or {})),
    ("Started", lambda r: local_time(r.get("startTime"))),
    ("Ended", lambda r: local_time(r.get("endTime"))),
)


def list_(args: argparse.Namespace) -> None:
    columns = tables.columns(args, tables.RUNS)
    session = connect(args)
    rows = tables.search(session, args, "/runs", "runs")
    if "user" in args.column:
        # Runs contain only the ids of their owners.
        names = {u["id"]: u["username"] for u in pages(session, "/users", "users")}
        rows = [{**row, "username": names.get(row["userId"])} for row in rows]
    show(args, _LIST + columns, rows, empty=lambda: empty.of_table(session, args, "/runs", "run"))


def _hyperparameters(values: dict[str, Any]) -> str:
    """Return the hyperparameters on one line, so that users can compare rows."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in values.items()
    )
