"""`det checkpoint`: describe, list and delete checkpoints."""

import argparse

from det_cli import prompts
from det_cli.actions.experiments import CHECKPOINTS, checkpoint_state
from det_cli.connection import V1, connect, pages
from det_cli.errors import UsageError
from det_cli.render import Column, local_time, show

COLUMNS: tuple[Column, ...] = (
    ("Experiment ID", lambda c: c["training"].get("experimentId")),
    ("Trial ID", lambda c: c["training"].get("trialId")),
    ("Steps Completed", lambda c: (c.get("metadata") or {}).get("steps_completed")),
    ("State", checkpoint_state),
    ("Report Time", lambda c: local_time(c.get("reportTime"))),
    ("Checkpoint UUID", lambda c: c["uuid"]),
    ("Validation Metrics", lambda c: c["training"].get("validationMetrics")),
    ("Metadata", lambda c: c.get("metadata")),
)


def describe(args: argparse.Namespace) -> None:
    checkpoint = connect(args).get(f"{V1}/checkpoints/{args.uuid}")["checkpoint"]
    show(args, COLUMNS, [checkpoint], checkpoint)


def list_(args: argparse.Namespace) -> None:
    if (args.experiment_id is None) == (args.trial_id is None):
        raise UsageError("whose checkpoints?", "give --experiment-id N or --trial-id N")
    kind, id = "experiments", args.experiment_id
    if id is None:
        kind, id = "trials", args.trial_id
    checkpoints = pages(connect(args), f"/{kind}/{id}/checkpoints", "checkpoints")
    show(args, CHECKPOINTS, checkpoints, empty="no checkpoint was saved, or all were deleted")


def delete(args: argparse.Namespace) -> None:
    uuids = _uuids(args)
    prompts.confirm(f"Delete {', '.join(uuids)} and all their files?", yes=args.yes)
    connect(args).delete(V1 + "/checkpoints", {"checkpointUuids": uuids})
    print(f"Deletion of checkpoints {', '.join(uuids)} is in progress")


def remove(args: argparse.Namespace) -> None:
    uuids, globs = _uuids(args), args.glob or []
    names = ", ".join(uuids)
    if globs:
        prompts.confirm(f"Remove {', '.join(globs)} from {names}?", yes=args.yes)
    body = {"checkpointUuids": uuids, "checkpointGlobs": globs}
    connect(args).post(V1 + "/checkpoints/rm", body)
    if globs:
        print(f"Removal of files from checkpoints {names} is in progress")
    else:
        print(f"No --glob was given: comparing the records of checkpoints {names} with the storage")


def _uuids(args: argparse.Namespace) -> list[str]:
    uuids = [part.strip() for part in args.checkpoints_uuids.split(",") if part.strip()]
    if not uuids:
        raise UsageError("no checkpoint is named", "give their ids, separated by commas")
    return uuids
