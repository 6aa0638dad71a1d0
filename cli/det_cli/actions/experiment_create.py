"""Submitting experiments, and following them to their end."""

import argparse
import contextlib
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from determined.common import context_upload, log_stream, tunnel
from determined.common.context import collect
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.common.log_stream import TERMINAL, trial_ended

from det_cli import config_file, local_test
from det_cli.actions import budgets, prices
from det_cli.actions.experiments import wait_for
from det_cli.actions.logs import print_line
from det_cli.connection import V1, connect
from det_cli.errors import INTERRUPTED, OK, CommandError, UsageError
from det_cli.progress import Progress
from det_cli.render import print_json, print_yaml, say

_POLL_S = 0.5


def create(args: argparse.Namespace) -> int:
    if args.max_cost is not None:
        budgets.check_amount(args.max_cost, "leave --max-cost out for an experiment without one")
    text = config_file.read(args.config_file, args.config)
    if args.local:
        return _run_here(args, text)
    ports = [_published(text) for text in args.publish]
    if ports and not args.follow_first_trial:
        raise UsageError(
            "--publish takes connections while the trial is followed", "add --follow-first-trial"
        )
    context = collect(args.model_def, args.include)
    session = connect(args)
    # A budget is set before anything runs.
    starts_later = args.paused or args.max_cost is not None
    body: dict[str, Any] = {"config": text, "activate": not starts_later}
    if args.template:
        body["template"] = args.template
    if args.project_id is not None:
        body["projectId"] = args.project_id
    if args.dry_run:
        checked = {**body, "validateOnly": True, "activate": False}
        answer = session.post(V1 + "/experiments", {**checked, "modelDefinition": []})
        print_yaml(answer["config"])
        _pass_on_warnings(answer)
        for line in prices.estimate(session, answer["config"]):
            say(line)
        say("The configuration is valid. Nothing was created.")
        return OK
    if args.test_mode:
        body["config"] = _tiny(session, body)
    body.update(context_upload.send(session, context, _watching))
    # A repeated request, after an answer was lost, finds the experiment that the first one made.
    once = {"Idempotency-Key": str(uuid.uuid4())}
    answer = session.post(V1 + "/experiments", body, headers=once)
    if args.max_cost is not None:
        _bound(session, int(answer["experiment"]["id"]), args.max_cost, activate=not args.paused)
    return _created(session, args, answer, ports)


def _bound(session: Session, id: int, limit: str, *, activate: bool) -> None:
    """Set the budget of a new experiment, and start it; without its budget it stays paused. Raises CommandError."""
    budget = {"scope": "experiment", "of": str(id), "limitUsd": limit, "period": "total"}
    try:
        session.request("PUT", V1 + "/budgets", body=budget)
    except (APIError, MasterUnreachableError) as e:
        raise CommandError(
            f"experiment {id} was created and stays paused, as its budget could not be set: {e}",
            f"`det budget set {limit} --experiment {id}` and `det experiment activate {id}`,"
            f" or `det experiment kill {id}`",
        ) from e
    if activate:
        session.post(f"{V1}/experiments/{id}/activate")


@contextlib.contextmanager
def _watching(size: int) -> Iterator[context_upload.Watch]:
    with Progress("Sending code", size) as progress:
        yield progress.add


def _created(
    session: Session,
    args: argparse.Namespace,
    answer: dict[str, Any],
    ports: Sequence[tuple[int, int]],
) -> int:
    id = int(answer["experiment"]["id"])
    waits = args.wait and not args.follow_first_trial
    if args.format == "json" and waits:
        say(f"Created experiment {id}")
    elif args.format == "json":
        print_json(answer["experiment"])
        sys.stdout.flush()
    else:
        print(f"Created experiment {id}", flush=True)
    _pass_on_warnings(answer)
    for warning in answer.get("warnings") or []:
        if warning == "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED":
            say("It asks for more slots than the pool has now, and waits until they exist.")
    if args.follow_first_trial:
        return _follow(session, id, ports)
    if waits:
        code = wait_for(session, id, 1.0)
        if args.format == "json":
            print_json(session.get(f"{V1}/experiments/{id}")["experiment"])
        return code
    return _watch_test(session, id) if args.test_mode else OK


def _pass_on_warnings(answer: dict[str, Any]) -> None:
    """Print the warnings about the configuration.

    What is deprecated, ignored, or will hardly do what it is meant to.
    """
    for warning in answer.get("configWarnings") or []:
        say(f"warning: {warning}")


def continue_(args: argparse.Namespace) -> int:
    session = connect(args)
    text = config_file.read(args.config_file) if args.config_file else ""
    body = {"id": args.experiment_id, "overrideConfig": config_file.changed(text, args.config)}
    session.post(V1 + "/experiments/continue", body)
    print(f"Continued experiment {args.experiment_id}", flush=True)
    return _follow(session, args.experiment_id) if args.follow_first_trial else OK


def _published(text: str) -> tuple[int, int]:
    """Read LOCAL or LOCAL:REMOTE."""
    local, _, remote = text.partition(":")
    found = [int(n) if n.isascii() and n.isdigit() else 0 for n in (local, remote or local)]
    if not all(0 < number < 1 << 16 for number in found):
        raise UsageError(f"--publish takes a port, or LOCAL:REMOTE, not {text!r}")
    return found[0], found[1]


@contextlib.contextmanager
def _publishing(session: Session, trial: int, ports: Sequence[tuple[int, int]]) -> Iterator[None]:
    """Take connections at ports of this machine, which go to ports of the trial."""
    with contextlib.ExitStack() as stack:
        if ports:
            task = session.get(f"{V1}/trials/{trial}")["trial"]["taskId"]
        for local, remote in ports:
            service = f"{task}:{remote}"
            stack.enter_context(tunnel.listening(session, service, "127.0.0.1", local, say))
            say(f"127.0.0.1:{local} is port {remote} of trial {trial}.")
        yield


def _follow(session: Session, id: int, ports: Sequence[tuple[int, int]] = ()) -> int:
    """Print the first trial's log and wait for the experiment's end; Ctrl-C leaves the experiment alone."""
    try:
        trial = _first_trial(session, id)
        if trial is not None:
            with _publishing(session, trial, ports):
                _print_log(session, trial)
        return wait_for(session, id, 1.0)
    except KeyboardInterrupt:
        say(
            f"\nStopped following. Experiment {id} goes on:"
            f" `det experiment logs -f {id}` follows it again, `det experiment kill {id}` stops it."
        )
        return INTERRUPTED


def _print_log(session: Session, trial: int) -> None:
    ended = trial_ended(session, trial)
    for line in log_stream.follow(session, f"/trials/{trial}", {}, ended):
        print_line(line)
        sys.stdout.flush()


def _first_trial(session: Session, id: int) -> "int | None":
    """Wait until there is one, telling what the experiment does meanwhile; None if it ended without."""
    seen = ""
    while True:
        trials = session.get(f"{V1}/experiments/{id}/trials", {"limit": 1})["trials"]
        if trials:
            say(f"Following trial {trials[0]['id']} of experiment {id}.")
            return int(trials[0]["id"])
        state = session.get(f"{V1}/experiments/{id}")["experiment"]["state"]
        if state in TERMINAL:
            return None
        if state != seen:
            seen = state
            say(f"Waiting for the first trial: the experiment is {state.removeprefix('STATE_')}.")
        time.sleep(_POLL_S)


def _tiny(session: Session, body: dict[str, Any]) -> str:
    """Check the user's configuration as it is, then cut it down to one batch."""
    checked = {**body, "validateOnly": True, "activate": False, "modelDefinition": []}
    resolved = session.post(V1 + "/experiments", checked)["config"]
    metric = (resolved.get("searcher") or {}).get("metric", "loss")
    smaller = str((resolved.get("searcher") or {}).get("smaller_is_better", True)).lower()
    searcher = (
        f"{{name: single, metric: {metric}, smaller_is_better: {smaller},"
        " max_length: {batches: 1}}"
    )
    # Mappings are merged: what is there goes first.
    changes = [
        "searcher=null",
        f"searcher={searcher}",
        "scheduling_unit=1",
        "min_validation_period=null",
        "min_validation_period={batches: 1}",
        "max_restarts=0",
        "checkpoint_storage.save_experiment_best=0",
        "checkpoint_storage.save_trial_best=0",
        "checkpoint_storage.save_trial_latest=0",
    ]
    return config_file.changed(body["config"], changes)


def _watch_test(session: Session, id: int) -> int:
    """Print the phases of the tiny experiment, archive it, and print whether it passed."""
    names = {
        "training": "Training one batch",
        "validating": "Validating",
        "checkpointing": "Saving a checkpoint",
    }
    told = set()
    while True:
        trials = session.get(f"{V1}/experiments/{id}/trials", {"limit": 1})["trials"]
        phase = trials[0].get("runnerState") if trials else None
        if phase in names and phase not in told:
            told.add(phase)
            say(f"{names[phase]} …")
        state = session.get(f"{V1}/experiments/{id}")["experiment"]["state"]
        if state in TERMINAL:
            break
        time.sleep(_POLL_S)
    code = wait_for(session, id, _POLL_S)
    if code != OK:
        say(f"The test failed; `det experiment logs {id}` shows why.")
        return code
    verdict = local_test.judge(_seen(session, trials[0]["id"]) if trials else set())
    if verdict == OK:
        session.post(f"{V1}/experiments/{id}/archive")
    return verdict


def _seen(session: Session, trial: int) -> set[str]:
    """Return what a trial has done: the groups of metrics that it reported, and `checkpoint`."""
    reported = session.get(f"{V1}/trials/{trial}")["trial"].get("summaryMetrics") or {}
    names = {"avg_metrics": "training", "validation_metrics": "validation"}
    saved = session.get(f"{V1}/trials/{trial}/checkpoints", {"limit": 1})["checkpoints"]
    return {names.get(group, group) for group in reported} | ({"checkpoint"} if saved else set())


def _run_here(args: argparse.Namespace, text: str) -> int:
    if not args.test_mode:
        raise UsageError("--local runs a test here and needs --test-mode", "add --test-mode")
    return local_test.run(text, args.model_def or ".")
