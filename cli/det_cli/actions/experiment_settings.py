"""`det experiment set`, `label` and `move`: change the settings of experiments and trials."""

import argparse
from typing import Any

from determined.common.http import Session

from det_cli import prompts
from det_cli.connection import V1, connect, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Column, counted, local_time, say, show

_RESOURCES = ("maxSlots", "priority", "weight", "deadline")
_FOREVER = -1
_TO_DELETE: tuple[Column, ...] = (
    ("Trial ID", lambda c: c.get("TrialID")),
    ("# of Batches", lambda c: c.get("StepsCompleted")),
    ("State", lambda c: c.get("State")),
    ("Validation Metrics", lambda c: c.get("ValidationMetrics")),
    ("UUID", lambda c: c.get("UUID")),
)


def set_field(args: argparse.Namespace) -> None:
    value = _max_slots(args.value) if args.field == "maxSlots" else args.value
    change: dict[str, Any] = {args.field: value}
    if args.field in _RESOURCES:
        change = {"resources": change}
    path = f"{V1}/experiments/{args.experiment_id}"
    response = connect(args).patch(path, {"id": args.experiment_id, **change})
    name = args.command_path.rpartition(" ")[2].replace("-", "_")
    deadline = response["experiment"].get("deadline") if args.field == "deadline" else None
    shown = local_time(deadline["time"]) if deadline else value
    print(f"Set `{name}` of experiment {args.experiment_id} to {shown}")


def _max_slots(text: str) -> "int | None":
    if text == "none":
        return None
    if not text.isdigit():
        raise UsageError(f"'{text}' is neither a number of slots nor `none`")
    return int(text)


def add_label(args: argparse.Namespace) -> None:
    connect(args).put(f"{V1}/experiments/{args.experiment_id}/labels/{_quote_text(args.label)}")
    print(f"Added label '{args.label}' to experiment {args.experiment_id}")


def remove_label(args: argparse.Namespace) -> None:
    session = connect(args)
    experiment = session.get(f"{V1}/experiments/{args.experiment_id}")["experiment"]
    if args.label not in experiment["labels"]:
        labels = ", ".join(experiment["labels"]) or "none"
        print(f"Experiment {args.experiment_id} has no label '{args.label}'; its labels: {labels}")
        return
    session.delete(f"{V1}/experiments/{args.experiment_id}/labels/{_quote_text(args.label)}")
    print(f"Removed label '{args.label}' from experiment {args.experiment_id}")


def _quote_text(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def move(args: argparse.Namespace) -> None:
    session = connect(args)
    project = project_of(session, args.workspace_name, args.project_name)
    body = {"destinationProjectId": project["id"], "experimentId": args.experiment_id}
    session.post(f"{V1}/experiments/{args.experiment_id}/move", body)
    print(f"Moved experiment {args.experiment_id} to '{args.project_name}'")


def workspace_of(session: Session, name: str) -> dict[str, Any]:
    spaces = pages(session, "/workspaces", "workspaces", {"nameCaseSensitive": name})
    workspace = next((w for w in spaces if w["name"] == name), None)
    if workspace is None:
        raise MissingError(
            f"there is no workspace '{name}'", "`det workspace list` lists the workspaces"
        )
    return dict(workspace)


def project_of(session: Session, workspace: str, name: str) -> dict[str, Any]:
    space = workspace_of(session, workspace)
    projects = pages(session, f"/workspaces/{space['id']}/projects", "projects", {"name": name})
    project = next((p for p in projects if p["name"] == name), None)
    if project is None:
        raise MissingError(
            f"workspace '{workspace}' has no project '{name}'",
            f"`det project list {workspace}` lists its projects",
        )
    return dict(project)


def set_gc_policy(args: argparse.Namespace) -> None:
    session, id = connect(args), args.experiment_id
    params = {
        "save_experiment_best": args.save_experiment_best,
        "save_trial_best": args.save_trial_best,
        "save_trial_latest": args.save_trial_latest,
    }
    to_delete = session.get(f"/experiments/{id}/preview_gc", params)["checkpoints"] or []
    if to_delete and not args.yes:
        args.format = "table"
        show(args, _TO_DELETE, to_delete)
        prompts.confirm(f"Delete {counted(len(to_delete), 'checkpoint')}?", yes=False)
    policy = {
        "saveExperimentBest": args.save_experiment_best,
        "saveTrialBest": args.save_trial_best,
        "saveTrialLatest": args.save_trial_latest,
    }
    session.patch(f"{V1}/experiments/{id}", {"id": id, "checkpointStorage": policy})
    print(
        f"Set GC policy of experiment {id}; {counted(len(to_delete), 'checkpoint')} will be deleted"
    )


def set_log_retention(args: argparse.Namespace) -> None:
    if args.days is None and not args.forever:
        raise UsageError("for how long?", "give --days N or --forever")
    if args.days is not None and not 0 <= args.days <= 32767:
        raise UsageError("--days is a number from 0 to 32767")
    days = _FOREVER if args.forever else args.days
    id = args.experiment_id if args.kind == "experiment" else args.trial_id
    path = f"{V1}/{args.kind}s/{id}/retain_logs"
    connect(args).put(path, {f"{args.kind}Id": id, "numDays": days})
    period = "forever" if args.forever else f"for {counted(days, 'day')}"
    say(f"Logs of {args.kind} {id} will be kept {period}.")
