"""`det experiment`: list experiments and change their state."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from determined.common.context_download import code_of
from determined.common.http import APIError, Session
from determined.common.log_stream import TERMINAL
from determined.common.sign_in import SignedIn

from det_cli import deadlines, prompts
from det_cli.actions import costs, empty, tables
from det_cli.actions.wait_report import WaitReport
from det_cli.connection import V1, connect, is_part, paged, pages
from det_cli.errors import FAILED, OK, CommandError, UsageError
from det_cli.render import (
    local_time,
    percent,
    print_object,
    say,
    show,
    size_text,
    state_text,
    trial_state_text,
)

LIST = (
    ("ID", lambda e: e["id"]),
    ("Owner", lambda e: e["username"]),
    ("Name", lambda e: e["name"]),
    ("Parent ID", lambda e: e.get("forkedFrom")),
    ("State", lambda e: state_text(e["state"])),
    ("Progress", lambda e: percent(e.get("progress"))),
    ("Started", lambda e: local_time(e.get("startTime"))),
    ("Ended", lambda e: local_time(e.get("endTime"))),
    ("Resource Pool", lambda e: e.get("resourcePool")),
)
_PROJECT = (
    ("Workspace", lambda e: e.get("workspaceName")),
    ("Project", lambda e: e.get("projectName")),
)
_ARCHIVED = (("Archived", lambda e: e["archived"]),)
_TRIALS = (
    ("Trial ID", lambda t: t["id"]),
    ("State", trial_state_text),
    ("H-Params", lambda t: t["hparams"]),
    ("Started", lambda t: local_time(t.get("startTime"))),
    ("Ended", lambda t: local_time(t.get("endTime"))),
    ("# of Batches", lambda t: t["totalBatchesProcessed"]),
)


def checkpoint_state(checkpoint: dict[str, Any]) -> str:
    """Return the state of a checkpoint, with a note if its files are missing in the storage."""
    note = ", files missing" if checkpoint.get("filesMissing") else ""
    return state_text(checkpoint["state"]) + note


CHECKPOINTS = (
    ("Trial ID", lambda c: c["training"].get("trialId")),
    ("# of Batches", lambda c: (c.get("metadata") or {}).get("steps_completed")),
    ("State", checkpoint_state),
    ("Validation Metric", lambda c: c["training"].get("searcherMetric")),
    ("UUID", lambda c: c["uuid"]),
    ("Resources", lambda c: "\n".join(sorted(c["resources"]))),
    ("Size", lambda c: size_text(sum(map(int, c["resources"].values())))),
)


def list_(args: argparse.Namespace) -> None:
    extra_columns = tables.columns(args, tables.EXPERIMENTS)
    session = connect(args)
    if tables.has_table_options(args):
        results = tables.search(session, args, "/experiments-search", "experiments")
        rows = [{**row["experiment"], "bestTrial": row["bestTrial"]} for row in results]
    else:
        rows = _list(session, args)
    columns = (_PROJECT if args.show_project else ()) + LIST + (_ARCHIVED if args.all else ())
    columns += deadlines.columns(rows) + costs.add(session, "experiments", rows)
    show(
        args,
        columns + extra_columns,
        rows,
        empty=lambda: empty.of_table(session, args, "/experiments-search", "experiment"),
    )


def _list(session: SignedIn, args: argparse.Namespace) -> list[dict[str, Any]]:
    newest = is_part(args)
    order = "ORDER_BY_DESC" if newest else "ORDER_BY_ASC"
    filters: dict[str, Any] = {"sortBy": "SORT_BY_ID", "orderBy": order}
    if not args.all:
        user = session.username or session.get(V1 + "/me")["user"]["username"]
        filters.update(users=user, archived=False)
    rows = paged(session, args, "/experiments", "experiments", **filters)
    return rows[::-1] if newest else rows


def ids_of(words: Iterable[str]) -> list[int]:
    """Return experiment ids that are separated by spaces or commas."""
    try:
        ids = [int(part) for word in words for part in word.split(",") if part]
    except ValueError:
        ids = []
    if not ids:
        raise UsageError(f"'{' '.join(words)}' is not a list of experiment numbers")
    return ids


def _for_each(ids: Sequence[int], act: Callable[[int], None]) -> None:
    """Act on each experiment. A failure does not stop the others."""
    if len(ids) == 1:
        act(ids[0])
        return
    failures = 0
    for id in ids:
        try:
            act(id)
        except APIError as e:
            failures += 1
            name = f"experiment {id}"
            say(str(e) if str(e).startswith(name) else f"{name}: {e}")
    if failures:
        raise CommandError(f"{failures} of {len(ids)} experiments were not changed")


def change_state(args: argparse.Namespace) -> None:
    ids = ids_of(args.experiment_ids)
    session = connect(args)
    _for_each(ids, lambda id: _change_state(session, args, id))


def _change_state(session: Session, args: argparse.Namespace, id: int) -> None:
    path = f"{V1}/experiments/{id}"
    if args.verb in ("cancel", "kill"):
        state = session.get(path)["experiment"]["state"]
        if state in TERMINAL:
            print(f"Experiment {id} has already ended: it is {state_text(state)}")
            return
    session.post(f"{path}/{args.verb}")
    print(f"{args.done} experiment {id}")


def config(args: argparse.Namespace) -> None:
    response = connect(args).get(f"{V1}/experiments/{args.experiment_id}")
    print_object(args, response["experiment"].get("config") or response["config"])


def list_trials(args: argparse.Namespace) -> None:
    path = f"/experiments/{args.experiment_id}/trials"
    why = f"the experiment has no trial yet: `det why {args.experiment_id}` explains it"
    show(args, _TRIALS, paged(connect(args), args, path, "trials"), empty=why)


def list_checkpoints(args: argparse.Namespace) -> None:
    path = f"/experiments/{args.experiment_id}/checkpoints"
    session = connect(args)
    if args.best is None:
        rows = list(pages(session, path, "checkpoints"))
    else:
        rows = best_checkpoints(session, args.experiment_id, args.best)
    show(args, CHECKPOINTS, rows, empty="no checkpoint was saved, or all of them were deleted")


def best_checkpoints(session: Session, experiment_id: int, count: int) -> list[dict[str, Any]]:
    """Return the best checkpoints by the searcher metric, as ordered by `smaller_is_better`."""
    config = session.get(f"{V1}/experiments/{experiment_id}")["experiment"].get("config") or {}
    smaller = (config.get("searcher") or {}).get("smaller_is_better", True)
    params = {
        "sortByAttr": "SORT_BY_SEARCHER_METRIC",
        "orderBy": "ORDER_BY_ASC" if smaller else "ORDER_BY_DESC",
        "states": "STATE_COMPLETED",
    }
    path = f"/experiments/{experiment_id}/checkpoints"
    checkpoints = pages(session, path, "checkpoints", params, limit=count, one_page=True)
    return list(checkpoints)[:count]


def delete(args: argparse.Namespace) -> None:
    ids = ids_of(args.experiment_ids)
    session = connect(args)
    if len(ids) == 1:
        question = f"Delete experiment {ids[0]}, its checkpoints and its logs?"
    else:
        numbers = ", ".join(map(str, ids))
        question = f"Delete experiments {numbers}, their checkpoints and their logs?"
    prompts.confirm(question, yes=args.yes)
    _for_each(ids, lambda id: _delete(session, id))


def _delete(session: Session, id: int) -> None:
    session.delete(f"{V1}/experiments/{id}")
    print(f"Deletion of experiment {id} is in progress")


def delete_tb_files(args: argparse.Namespace) -> None:
    connect(args).delete(f"{V1}/experiments/{args.experiment_id}/tensorboard-files")
    print(f"Deletion of TensorBoard files of experiment {args.experiment_id} is in progress")


def download_model_def(args: argparse.Namespace) -> None:
    code = code_of(connect(args), f"{V1}/experiments/{args.experiment_id}/model_def")
    os.makedirs(args.output_dir, exist_ok=True)
    name = f"experiment_{args.experiment_id}_model_def.tgz"
    path = os.path.join(args.output_dir, name)
    with open(path, "wb") as f:
        f.write(code)
    print(path)


def wait(args: argparse.Namespace) -> int:
    """Wait for each experiment. Return OK only if all of them completed."""
    session, ids = connect(args), ids_of(args.experiment_ids)
    if len(ids) > 1:
        for (
            id
        ) in ids:  # a wrong id is an error at once, not after the end of the experiments before it
            session.get(f"{V1}/experiments/{id}")
    return max([wait_for(session, id, args.polling_interval) for id in ids])


def wait_for(session: Session, experiment_id: int, interval_s: float) -> int:
    """Wait until the experiment ends and print each state. Return OK only if it completed."""
    last_state, waits = "", WaitReport(session, "experiment", experiment_id)
    while True:
        experiment = session.get(f"{V1}/experiments/{experiment_id}")["experiment"]
        if experiment["state"] != last_state:
            last_state = experiment["state"]
            say(f"Experiment {experiment_id} is {state_text(last_state)}.")
        if last_state == "STATE_ERROR":
            _print_failure(session, experiment_id)
        if last_state == "STATE_COMPLETED":
            _print_warnings(session, experiment_id)
        if last_state in TERMINAL:
            return OK if last_state == "STATE_COMPLETED" else FAILED
        sys.stdout.flush()
        if last_state == "STATE_QUEUED":
            waits.check()
        time.sleep(interval_s)


def _print_warnings(session: Session, experiment_id: int) -> None:
    try:
        reasons = session.get(f"{V1}/why/experiment/{experiment_id}")["reasons"]
    except APIError:
        return  # a completed experiment exits with 0 in any case
    for reason in reasons:
        if reason.get("warning"):
            say(f"Warning: {reason['warning']}.")


def _print_failure(session: Session, experiment_id: int) -> None:
    command = f"det experiment logs {experiment_id}"
    for reason in session.get(f"{V1}/why/experiment/{experiment_id}")["reasons"]:
        if not reason.get("cause"):
            say(f"It {reason['sentence']}.")
            continue
        say(f"{reason['cause']}.")
        if reason["details"]:
            say(f"  details: {reason['details']}")
        if reason.get("nextStep"):
            say(f"Next step: {reason['nextStep']}.")
        if reason["failedTrialId"]:
            command = f"det trial logs {reason['failedTrialId']}"
    say(f"`{command}` shows the output of its code.")
