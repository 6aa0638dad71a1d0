"""`det trial`: describe and stop trials."""

import argparse
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from typing import Any

from determined.common.http import Session
from determined.common.log_stream import TERMINAL

from det_cli.actions import costs
from det_cli.actions.experiment_describe import metric_columns, metrics_of
from det_cli.connection import V1, connect, paged, pages
from det_cli.live import trial_summary
from det_cli.live.readers import TrialReader
from det_cli.live.show import print_lines
from det_cli.render import (
    Column,
    cell,
    local_time,
    print_json,
    print_rows,
    print_yaml,
    show,
    state_text,
    terminal_width,
    trial_state_text,
)

_UNBOUNDED = 10_000
_TRIAL: tuple[Column, ...] = (
    ("Experiment ID", lambda t: t["experimentId"]),
    ("State", trial_state_text),
    ("H-Params", lambda t: t["hparams"]),
    ("Summary Metrics", lambda t: t.get("summaryMetrics")),
    ("Started", lambda t: local_time(t.get("startTime"))),
    ("Ended", lambda t: local_time(t.get("endTime"))),
)
_ROWS: tuple[Column, ...] = (
    ("# of Batches", lambda w: _either(w).get("totalBatches")),
    ("Report Time", lambda w: local_time(_either(w).get("endTime"))),
    ("Checkpoint", lambda w: state_text((w.get("checkpoint") or {}).get("state"))),
    ("Checkpoint UUID", lambda w: (w.get("checkpoint") or {}).get("uuid")),
    ("Checkpoint Metadata", lambda w: (w.get("checkpoint") or {}).get("metadata")),
)
_VALIDATION: Column = ("Validation Metrics", lambda w: (w.get("validation") or {}).get("metrics"))
_KINDS = ("training", "validation", "checkpoint")
_WORKLOADS: tuple[Column, ...] = (
    ("Workload", lambda w: w["kind"]),
    ("# of Batches", lambda w: w.get("totalBatches")),
    ("State", lambda w: state_text(w.get("state")) or "COMPLETED"),
    ("Report Time", lambda w: local_time(w.get("endTime"))),
    ("Result", lambda w: _result(w)),
)


def describe(args: argparse.Namespace) -> None:
    session = connect(args)
    trial = session.get(f"{V1}/trials/{args.trial_id}")["trial"]
    if not _wants_tables(args):
        costs.add(session, "trials", [trial])
        width = terminal_width() if sys.stdout.isatty() else _UNBOUNDED
        reading = TrialReader(session).read(trial)
        print_lines(trial_summary.lines(*reading, width))
        return
    workloads = _workloads(session, args)
    if args.format in ("json", "yaml"):
        every_kind = [{**dict.fromkeys(_KINDS), **w} for w in workloads]
        data = {"trial": trial, "workloads": every_kind}
        (print_json if args.format == "json" else print_yaml)(data)
        return
    if args.workloads:
        show(args, _WORKLOADS, _split(workloads))
        return
    # With --metrics, the columns of the workloads have the values of the summary metrics.
    details = tuple(c for c in _TRIAL if not args.metrics or c[0] != "Summary Metrics")
    _print(args, details + costs.add(session, "trials", [trial]), [trial])
    if args.metrics_summary:
        print("\nMetrics summary:")
        print_json(trial.get("summaryMetrics"))
    print("\nWorkloads:")
    metrics = [c for kind in ("validation", "training") for c in metric_columns(workloads, kind)]
    _print(args, (*_ROWS, *(metrics if args.metrics else [_VALIDATION])), workloads)


def _wants_tables(args: argparse.Namespace) -> bool:
    """Return True if an option selects a format, a part, or rows."""
    parts = (args.format, args.metrics, args.metrics_summary, args.workloads)
    return any(parts) or args.limit is not None or args.offset > 0 or args.pages != "all"


def _print(args: argparse.Namespace, columns: tuple[Column, ...], items: list[Any]) -> None:
    rows = [[get(item) for _, get in columns] for item in items]
    print_rows([name for name, _ in columns], rows, as_csv=args.format == "csv")


def _workloads(session: Session, args: argparse.Namespace) -> list[dict[str, Any]]:
    path, params = f"/trials/{args.trial_id}/workloads", {"includeBatchMetrics": args.metrics}
    return paged(session, args, path, "workloads", **params)


def _split(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Split rows into single workloads, in the order in which the trial ran them."""
    return [{"kind": k, **c[k]} for c in rows for k in _KINDS if c.get(k)]


def _either(workload: dict[str, Any]) -> dict[str, Any]:
    return next((w for w in map(workload.get, _KINDS) if w), {})


def _result(workload: dict[str, Any]) -> str:
    """Return the metrics of a training or validation workload, or the UUID of a checkpoint."""
    if workload["kind"] == "checkpoint":
        return str(workload.get("uuid") or "")
    return " ".join(f"{k}={cell(v)}" for k, v in sorted(metrics_of(workload).items()))


def kill(args: argparse.Namespace) -> None:
    session, path = connect(args), f"{V1}/trials/{args.trial_id}"
    state = session.get(path)["trial"]["state"]
    if state in TERMINAL:
        print(f"Trial {args.trial_id} has already ended: it is {state_text(state)}")
        return
    session.post(f"{path}/kill")
    print(f"Killed trial {args.trial_id}")


def support_bundle(args: argparse.Namespace) -> None:
    """Write an archive with the information for the diagnosis of a failed trial."""
    session, id = connect(args), args.trial_id
    trial = session.get(f"{V1}/trials/{id}")
    experiment = session.get(f"{V1}/experiments/{trial['trial']['experimentId']}")
    logs = session.stream_lines("GET", f"{V1}/trials/{id}/logs")
    master_logs = session.stream_lines("GET", f"{V1}/master/logs")
    parts = {
        "trial.json": [json.dumps(trial, indent=2)],
        "experiment.json": [json.dumps(experiment, indent=2)],
        "workloads.json": [
            json.dumps(list(pages(session, f"/trials/{id}/workloads", "workloads")))
        ],
        "master.json": [json.dumps(session.get(V1 + "/master"), indent=2)],
        "trial_logs.txt": (line["message"] for line in logs),
        "master_logs.txt": (_master_line(line["logEntry"]) for line in master_logs),
    }
    os.makedirs(args.output_dir, exist_ok=True)
    path = os.path.join(args.output_dir, f"support-bundle-trial-{id}.tar.gz")
    with tarfile.open(path, "w:gz") as tar:
        for name, texts in parts.items():
            _add(tar, f"support-bundle-trial-{id}/{name}", texts)
    print(path)


def _add(tar: tarfile.TarFile, name: str, texts: Iterable[str]) -> None:
    """Add a member to the archive.

    A temporary file holds the text, because logs may be larger than memory and the header needs the size.
    """
    with tempfile.TemporaryFile() as file:
        for text in texts:
            file.write(text.encode())
        info = tarfile.TarInfo(name)
        info.size = file.tell()
        file.seek(0)
        tar.addfile(info, file)


def _master_line(entry: dict[str, Any]) -> str:
    level = entry["level"].removeprefix("LOG_LEVEL_")
    return f"{entry['timestamp']} [{level}]: {entry['message']}\n"
