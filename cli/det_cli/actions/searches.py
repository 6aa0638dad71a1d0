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
_NOTHING_VARIES = "no hyperparameter has different values in trials that reported the metric"


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
    show(args, _IMPORTANCE, found["hyperparameters"], found, empty=_NOTHING_VARIES)
    if not args.format and found["hyperparameters"]:
        say(_note(found))


def _note(found: dict[str, Any]) -> str:
    """Return a note about the compared trials and the meaning of the values."""
    trials, metric = found["trials"], found["metric"]
    if not found["best"]:
        return f"{trials} trials reported {metric}: too few, or too many equal values, to compare the best with all"
    compared = f"compared the best {found['best']} of {trials} trials by {metric}"
    if all(entry["importance"] == 0 for entry in found["hyperparameters"]):
        return f"{compared}; no hyperparameter differs more than by chance"
    return f"{compared}; 0% means no difference beyond chance"


def _length(unit: dict[str, Any]) -> str:
    if unit.get("maxLength"):
        return "train to completion"
    return f"train for {unit['value']} {unit['name']}"
