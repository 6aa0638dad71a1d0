"""Download checkpoints, selected by UUID or by metric."""

import argparse
import os
import pathlib
import sys
from typing import Any

from determined.common import checkpoint_files
from determined.common.http import Session

from det_cli.actions.checkpoints import COLUMNS
from det_cli.actions.experiments import best_checkpoints
from det_cli.connection import V1, connect, pages
from det_cli.errors import MissingError, UsageError
from det_cli.render import Progress, print_rows

Checkpoint = dict[str, Any]


def one(args: argparse.Namespace) -> None:
    consolidate = _consolidation() if args.consolidate else None
    session = connect(args)
    checkpoint = session.get(f"{V1}/checkpoints/{args.uuid}")["checkpoint"]
    target = args.output_dir or checkpoint_files.default_directory(checkpoint["uuid"])
    _fetch(session, checkpoint, target, args.mode, quiet=args.quiet)
    if consolidate is None:
        return
    if consolidate.is_sharded(pathlib.Path(target)):
        consolidate.consolidate(pathlib.Path(target))
    else:
        print(f"{checkpoint['uuid']} has no shards, so its files are unchanged", file=sys.stderr)


def _consolidation() -> Any:
    """Return the module that joins shards. Fail before the download if PyTorch is missing."""
    try:
        from determined.pytorch import _consolidate
    except ImportError as e:
        raise UsageError(
            f"--consolidate needs PyTorch, which cannot be imported here ({e})",
            "run `pip install torch` in the environment of det, or download without --consolidate",
        ) from e
    return _consolidate


def of_experiment(args: argparse.Namespace) -> None:
    session = connect(args)
    if args.top_n < 1:
        raise UsageError("--top-n is at least 1")
    if args.sort_by:
        path = f"/experiments/{args.experiment_id}/checkpoints"
        checkpoints = _by_metric(session, args, path)[: args.top_n]
    else:
        checkpoints = best_checkpoints(session, args.experiment_id, args.top_n)
    if not checkpoints:
        of_metric = f" with metric {args.sort_by}" if args.sort_by else ""
        raise MissingError(
            f"experiment {args.experiment_id} has no checkpoints{of_metric}",
            f"`det experiment list-checkpoints {args.experiment_id}` lists the existing checkpoints",
        )
    for checkpoint in checkpoints:
        target = os.path.join(args.output_dir, checkpoint["uuid"])
        _fetch(session, checkpoint, target, checkpoint_files.AUTO, quiet=args.quiet)


def of_trial(args: argparse.Namespace) -> None:
    session = connect(args)
    checkpoint = _select(session, args)
    target = args.output_dir or checkpoint_files.default_directory(checkpoint["uuid"])
    _fetch(session, checkpoint, target, checkpoint_files.AUTO, quiet=args.quiet)


def _select(session: Session, args: argparse.Namespace) -> Checkpoint:
    if args.uuid:
        return dict(session.get(f"{V1}/checkpoints/{args.uuid}")["checkpoint"])
    path = f"/trials/{args.trial_id}/checkpoints"
    if args.sort_by:
        checkpoints = _by_metric(session, args, path)
    elif args.best:
        smaller = _smaller_is_better(session, args)
        order = "ORDER_BY_ASC" if smaller else "ORDER_BY_DESC"
        params = {"sortByAttr": "SORT_BY_SEARCHER_METRIC", "orderBy": order}
        checkpoints = _list_completed(session, path, params)
    elif args.latest:
        checkpoints = _list_completed(session, path, {"sortByAttr": "SORT_BY_BATCH_NUMBER"})[::-1]
    else:
        raise UsageError(
            "which checkpoint?", "give --best, --latest, --uuid ID or --sort-by METRIC"
        )
    if not checkpoints:
        raise MissingError(f"trial {args.trial_id} has no such checkpoint")
    return checkpoints[0]


def _by_metric(session: Session, args: argparse.Namespace, path: str) -> list[Checkpoint]:
    if args.smaller_is_better is None:
        raise UsageError("is a smaller value better?", "give --smaller-is-better true or false")
    order = "ORDER_BY_ASC" if args.smaller_is_better == "true" else "ORDER_BY_DESC"
    checkpoints = _list_completed(session, path, {"sortByMetric": args.sort_by, "orderBy": order})
    return [c for c in checkpoints if args.sort_by in _validation(c)]


def _validation(checkpoint: Checkpoint) -> dict[str, Any]:
    training = checkpoint.get("training") or {}
    return (training.get("validationMetrics") or {}).get("avgMetrics") or {}


def _list_completed(session: Session, path: str, params: dict[str, Any]) -> list[Checkpoint]:
    states = ["STATE_COMPLETED", "STATE_PARTIALLY_DELETED"]
    return list(pages(session, path, "checkpoints", {**params, "states": states}))


def _smaller_is_better(session: Session, args: argparse.Namespace) -> bool:
    if args.smaller_is_better is not None:
        return bool(args.smaller_is_better == "true")
    trial = session.get(f"{V1}/trials/{args.trial_id}")["trial"]
    experiment = session.get(f"{V1}/experiments/{trial['experimentId']}")["experiment"]
    searcher = (experiment.get("config") or {}).get("searcher") or {}
    return bool(searcher.get("smaller_is_better", True))


def _fetch(
    session: Session, checkpoint: Checkpoint, target: str, mode: str, *, quiet: bool
) -> None:
    total = sum(int(size) for size in (checkpoint.get("resources") or {}).values())
    with Progress(f"Downloading {checkpoint['uuid']}", total, quiet=quiet) as progress:
        checkpoint_files.download(session, checkpoint, target, mode, progress.add)
    if quiet:
        print(target)
        return
    print(f"Local checkpoint path:\n{target}\n")
    rows = [[get(checkpoint) for _, get in COLUMNS]]
    print_rows([name for name, _ in COLUMNS], rows, as_csv=False)
