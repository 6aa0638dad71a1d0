"""`det preview-search`: show the trials of a search without running it."""

import argparse
from typing import Any

from det_cli import config_file
from det_cli.connection import V1, connect
from det_cli.errors import CommandError
from det_cli.live.charts import bar
from det_cli.render import Column, print_yaml, say, show

_COLUMNS: tuple[Column, ...] = (
    ("Trials", lambda t: t["count"]),
    ("Training Time", lambda t: _length(t["unit"])),
)
_IMPORTANCE: tuple[Column, ...] = (
    ("Hyperparameter", lambda h: h["name"]),
    ("Importance", lambda h: f"{bar(h['importance'], 20)} {h['importance']:.0%}"),
)


def preview(args: argparse.Namespace) -> None:
    config = config_file.load(config_file.read(args.config_file), args.config_file)
    if "searcher" not in config:
        raise CommandError(
            f"{args.config_file} has no searcher", "add `searcher: {name: single, metric: …}`"
        )
    response = connect(args).post(V1 + "/preview-hp-search", {"config": config})
    summary = response["summary"]
    if not args.format:
        print("Using search configuration:")
        print_yaml(summary["config"])
        print()
    show(args, _COLUMNS, summary["trials"], summary)


def importance(args: argparse.Namespace) -> None:
    found = connect(args).get(f"{V1}/experiments/{args.experiment_id}/importance")
    note = found.get("note", "")
    show(args, _IMPORTANCE, found["hyperparameters"], found, empty=note)
    if not args.format and found["hyperparameters"]:
        say(note)


def _length(unit: dict[str, Any]) -> str:
    if unit.get("maxLength"):
        return "train to completion"
    return f"train for {unit['value']} {unit['name']}"
