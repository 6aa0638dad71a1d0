"""`det experiment create` and `continue`: submit experiments and follow them until they end."""

import argparse
import contextlib
import json
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from determined.common import context_upload, log_stream, tunnel
from determined.common.context import Context, collect
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.common.log_stream import TERMINAL, trial_ended
from determined.common.otlp import caller_headers

from det_cli import config_file, local_test
from det_cli.actions import budgets, dry_run, prices, wait_report
from det_cli.actions.experiments import wait_for
from det_cli.actions.logs import print_line
from det_cli.connection import V1, connect
from det_cli.errors import INTERRUPTED, OK, CommandError, UsageError
from det_cli.render import Progress, print_json, print_yaml, say

_POLL_S = 0.5
_UNITS = ("batches", "epochs", "records")


def create(args: argparse.Namespace) -> int:
    if args.max_cost is not None:
        budgets.check_amount(args.max_cost, "leave --max-cost out for an experiment without one")
    text = config_file.read(args.config_file, args.config)
    if args.local:
        return _run_locally(args, text)
    ports = [_port_pair(text) for text in args.publish]
    if ports and not args.follow_first_trial:
        raise UsageError(
            "--publish works only while the command follows the trial", "add --follow-first-trial"
        )
    context = collect(args.model_def, args.include)
    session = connect(args)
    # The budget must exist before the experiment runs.
    starts_later = args.paused or args.max_cost is not None
    body: dict[str, Any] = {"config": text, "activate": not starts_later}
    if args.template:
        body["template"] = args.template
    if args.project_id is not None:
        body["projectId"] = args.project_id
    if args.dry_run:
        dry_run_body = {**body, "validateOnly": True, "activate": False}
        response = session.post(V1 + "/experiments", {**dry_run_body, "modelDefinition": []})
        _print_warnings(response)
        _say_if_without_files(context, response)
        if args.format == "json":
            print_json(response["config"])
        else:
            dry_run.print_estimate(session, response["config"])
            _say_if_free(session, args, response["config"])
        if args.show_config and args.format != "json":
            print()
            print_yaml(response["config"])
        say("The configuration is valid. No experiment was created.")
        return OK
    if args.test_mode:
        body["config"] = _one_batch_config(session, body)
    body.update(context_upload.send(session, context, _show_progress))
    # If the response is lost, the retried request returns the experiment that the first one created.
    headers = {"Idempotency-Key": str(uuid.uuid4()), **caller_headers()}
    response = session.post(V1 + "/experiments", body, headers=headers)
    _say_if_without_files(context, response)
    if args.max_cost is not None:
        _say_if_free(session, args, response.get("config") or {})
        _set_budget(
            session, int(response["experiment"]["id"]), args.max_cost, activate=not args.paused
        )
    return _report_created(session, args, response, ports)


def _say_if_free(session: Session, args: argparse.Namespace, config: dict[str, Any]) -> None:
    """Say that --max-cost has no effect in a pool that rents no machines."""
    if args.max_cost is None:
        return
    try:
        pool = prices.pool_name(session, config)
        is_free = prices.rented_pool(session, pool) is None
    except (APIError, MasterUnreachableError):
        return  # the experiment has been created, and its budget has to be set
    if is_free:
        say(f"Pool {pool} rents no machines: its jobs cost $0.00, so --max-cost has no effect.")


def _say_if_without_files(context: Context, response: dict[str, Any]) -> None:
    """Say that the image must contain the entrypoint's code if the experiment is created without files."""
    entrypoint = (response.get("config") or {}).get("entrypoint") or ""
    words = entrypoint.split() if isinstance(entrypoint, str) else [str(w) for w in entrypoint]
    names = [word for word in words if word.endswith((".py", ".sh")) and not word.startswith("/")]
    if local_test.is_trial_class(entrypoint):
        names = [entrypoint]
    if names and not context.entries:
        say(
            f"No model directory is given: {names[0]} must be part of the image."
            " To send files: det experiment create CONFIG DIRECTORY"
        )


def _set_budget(session: Session, id: int, limit: str, *, activate: bool) -> None:
    """Set the budget of a new experiment and start it.

    If the budget cannot be set, the experiment stays paused. Raises CommandError.
    """
    budget = {"scope": "experiment", "of": str(id), "limitUsd": limit, "period": "total"}
    try:
        session.request("PUT", V1 + "/budgets", body=budget)
    except (APIError, MasterUnreachableError) as e:
        raise CommandError(
            f"experiment {id} was created but stays paused, because its budget could not be set: {e}",
            f"run `det budget set {limit} --experiment {id}` and `det experiment activate {id}`,"
            f" or `det experiment kill {id}`",
        ) from e
    if activate:
        session.post(f"{V1}/experiments/{id}/activate")


@contextlib.contextmanager
def _show_progress(size: int) -> Iterator[context_upload.Watch]:
    with Progress("Sending code", size) as progress:
        yield progress.add


def _report_created(
    session: Session,
    args: argparse.Namespace,
    response: dict[str, Any],
    ports: Sequence[tuple[int, int]],
) -> int:
    id = int(response["experiment"]["id"])
    must_wait = args.wait and not args.follow_first_trial
    if args.format == "json" and must_wait:
        say(f"Created experiment {id}")
    elif args.format == "json":
        print_json(response["experiment"])
        sys.stdout.flush()
    else:
        print(f"Created experiment {id}", flush=True)
    _print_warnings(response)
    for warning in response.get("warnings") or []:
        if warning == "LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED":
            say("The experiment needs more slots than the pool has now. It waits until they exist.")
    if args.follow_first_trial:
        return _follow(session, id, ports)
    if must_wait:
        code = wait_for(session, id, 1.0)
        if args.format == "json":
            print_json(session.get(f"{V1}/experiments/{id}")["experiment"])
        return code
    return _watch_test(session, id) if args.test_mode else OK


def _print_warnings(response: dict[str, Any]) -> None:
    """Print the warnings about deprecated, ignored or suspicious settings of the configuration."""
    for warning in response.get("configWarnings") or []:
        say(f"warning: {warning}")


def continue_(args: argparse.Namespace) -> int:
    session = connect(args)
    text = config_file.read(args.config_file) if args.config_file else ""
    body = {
        "id": args.experiment_id,
        "overrideConfig": config_file.apply_changes(text, args.config),
    }
    session.post(V1 + "/experiments/continue", body)
    print(f"Continued experiment {args.experiment_id}", flush=True)
    return _follow(session, args.experiment_id) if args.follow_first_trial else OK


def continue_trial(args: argparse.Namespace) -> int:
    """Create an experiment that trains on from a trial's newest checkpoint, with its hyperparameters and its code."""
    session = connect(args)
    trial = session.get(f"{V1}/trials/{args.trial_id}")["trial"]
    experiment = session.get(f"{V1}/experiments/{trial['experimentId']}")["experiment"]
    body = {
        "config": json.dumps(_config_of_trial(experiment["config"], trial)),
        "parentId": experiment["id"], "projectId": experiment["projectId"], "activate": True,
    }  # fmt: skip
    response = session.post(V1 + "/experiments", body, headers=caller_headers())
    id = response["experiment"]["id"]
    print(f"Created experiment {id}, which continues trial {args.trial_id}", flush=True)
    return _follow(session, id) if args.follow_first_trial else OK


def _config_of_trial(config: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    old = config["searcher"]
    searcher = {name: old[name] for name in ("metric", "smaller_is_better") if name in old}
    searcher |= {"name": "single", "source_trial_id": trial["id"]}
    if length := _training_length(old):
        searcher["max_length"] = length
    hyperparameters = _constants(trial["hparams"])
    name = f"{config.get('name', '')} (trial {trial['id']})"
    return {**config, "name": name, "searcher": searcher, "hyperparameters": hyperparameters}


def _constants(hparams: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _constants(value) if isinstance(value, dict) else {"type": "const", "val": value}
        for name, value in hparams.items()
    }


def _training_length(searcher: dict[str, Any]) -> dict[str, Any] | None:
    """Return the length of a trial of a search, or None if the code decides it."""
    if searcher.get("max_length"):
        return dict(searcher["max_length"])
    if searcher.get("time_metric") in _UNITS:
        return {searcher["time_metric"]: searcher["max_time"]}
    rounds, each = searcher.get("num_rounds"), searcher.get("length_per_round")
    return {unit: count * rounds for unit, count in each.items()} if rounds and each else None


def _port_pair(text: str) -> tuple[int, int]:
    """Parse LOCAL or LOCAL:REMOTE."""
    local, _, remote = text.partition(":")
    pair = [int(n) if n.isascii() and n.isdigit() else 0 for n in (local, remote or local)]
    if not all(0 < number < 1 << 16 for number in pair):
        raise UsageError(f"--publish takes a port, or LOCAL:REMOTE, not {text!r}")
    return pair[0], pair[1]


@contextlib.contextmanager
def _forward_ports(
    session: Session, trial: int, ports: Sequence[tuple[int, int]]
) -> Iterator[None]:
    """Forward local ports to ports of the trial."""
    with contextlib.ExitStack() as stack:
        if ports:
            task = session.get(f"{V1}/trials/{trial}")["trial"]["taskId"]
        for local, remote in ports:
            service = f"{task}:{remote}"
            stack.enter_context(tunnel.listening(session, service, "127.0.0.1", local, say))
            say(f"Forwarding 127.0.0.1:{local} to port {remote} of trial {trial}.")
        yield


def _follow(session: Session, id: int, ports: Sequence[tuple[int, int]] = ()) -> int:
    """Print the first trial's log and wait until the experiment ends. Ctrl-C does not stop the experiment."""
    try:
        trial = _first_trial(session, id)
        if trial is not None:
            with _forward_ports(session, trial, ports):
                _print_log(session, trial)
        return wait_for(session, id, 1.0)
    except KeyboardInterrupt:
        say(
            f"\nStopped following. Experiment {id} continues:"
            f" `det experiment logs -f {id}` follows it again, `det experiment kill {id}` stops it."
        )
        return INTERRUPTED


def _print_log(session: Session, trial: int) -> None:
    ended = trial_ended(session, trial)
    with wait_report.reporting(session, "trial", trial):
        for line in log_stream.follow(session, f"/trials/{trial}", {}, ended):
            print_line(line)
            sys.stdout.flush()


def _first_trial(session: Session, id: int) -> "int | None":
    """Wait for the first trial and print the experiment's state. Return None if it ended without a trial."""
    last_state, waits = "", wait_report.WaitReport(session, "experiment", id)
    while True:
        trials = session.get(f"{V1}/experiments/{id}/trials", {"limit": 1})["trials"]
        if trials:
            say(f"Following trial {trials[0]['id']} of experiment {id}.")
            return int(trials[0]["id"])
        state = session.get(f"{V1}/experiments/{id}")["experiment"]["state"]
        if state in TERMINAL:
            return None
        if state != last_state:
            last_state = state
            say(f"Waiting for the first trial: the experiment is {state.removeprefix('STATE_')}.")
        waits.check()
        time.sleep(_POLL_S)


def _one_batch_config(session: Session, body: dict[str, Any]) -> str:
    """Validate the user's configuration and return it reduced to one batch."""
    dry_run_body = {**body, "validateOnly": True, "activate": False, "modelDefinition": []}
    resolved = session.post(V1 + "/experiments", dry_run_body)["config"]
    metric = (resolved.get("searcher") or {}).get("metric", "loss")
    smaller = str((resolved.get("searcher") or {}).get("smaller_is_better", True)).lower()
    if not local_test.is_trial_class(resolved.get("entrypoint")):
        say(local_test.UNCHANGED)
    searcher = (
        f"{{name: single, metric: {metric}, smaller_is_better: {smaller},"
        " max_length: {batches: 1}}"
    )
    # Changes merge mappings, so null first removes the existing mapping.
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
    return config_file.apply_changes(body["config"], changes)


def _watch_test(session: Session, id: int) -> int:
    """Print the phases of the test experiment and its result, and archive it if it passed."""
    names = {
        "training": "Training one batch",
        "validating": "Validating",
        "checkpointing": "Saving a checkpoint",
    }
    printed, waits = set(), wait_report.WaitReport(session, "experiment", id)
    while True:
        trials = session.get(f"{V1}/experiments/{id}/trials", {"limit": 1})["trials"]
        phase = trials[0].get("runnerState") if trials else None
        if phase in names and phase not in printed:
            printed.add(phase)
            say(f"{names[phase]} …")
        state = session.get(f"{V1}/experiments/{id}")["experiment"]["state"]
        if state in TERMINAL:
            break
        waits.check()
        time.sleep(_POLL_S)
    code = wait_for(session, id, _POLL_S)
    if code != OK:
        say(f"The test failed; `det experiment logs {id}` shows why.")
        return code
    verdict = local_test.judge(_steps(session, trials[0]["id"]) if trials else set())
    if verdict == OK:
        session.post(f"{V1}/experiments/{id}/archive")
    return verdict


def _steps(session: Session, trial: int) -> set[str]:
    """Return the completed steps of a trial: its reported metric groups, and `checkpoint` if it saved one."""
    summary = session.get(f"{V1}/trials/{trial}")["trial"].get("summaryMetrics") or {}
    names = {"avg_metrics": "training", "validation_metrics": "validation"}
    checkpoints = session.get(f"{V1}/trials/{trial}/checkpoints", {"limit": 1})["checkpoints"]
    groups = {names.get(group, group) for group in summary}
    return groups | ({"checkpoint"} if checkpoints else set())


def _run_locally(args: argparse.Namespace, text: str) -> int:
    if not args.test_mode:
        raise UsageError("--local works only together with --test-mode", "add --test-mode")
    return local_test.run(text, args.model_def or ".")
