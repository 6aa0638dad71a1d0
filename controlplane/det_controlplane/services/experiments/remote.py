"""Searches that a program outside decides (`searcher.name: custom`): it reads events and posts operations."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.core import search
from det_controlplane.core.people.roles import Right
from det_controlplane.db.experiments import experiments
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, WrongState
from det_controlplane.services.experiments import live, warm_starts
from det_controlplane.services.experiments.live import LiveExperiment
from det_controlplane.services.identity.route_rights import require_things
from det_controlplane.services.principal import User

Operation = Mapping[str, Any]  # one, in the JSON of the API


def events(ctx: Context, experiment_id: int) -> list[dict[str, Any]]:
    """Return the events that the search method has not answered yet, oldest first; the experiment's end is the last."""
    with live.locked_experiment(ctx, experiment_id) as experiment:
        remote = _remote(experiment)
        unread = [dict(event) for event in remote.remote_events()]
        state = experiment.row.state
    if state.terminal:
        ended = {"experimentState": f"STATE_{state.value}"}
        unread.append({"id": remote.last_id + 1, "experimentInactive": ended})
    return unread


def operate(
    ctx: Context,
    user: User,
    experiment_id: int,
    operations: Sequence[Operation],
    triggered_by: int | None,
) -> None:
    """Apply all operations or none. A repeated answer to an event, or an answer for an ended experiment, has no
    effect."""
    created = [o["createTrial"] for o in operations if "createTrial" in o]
    uuids = [trial["checkpointUuid"] for trial in created if "checkpointUuid" in trial]
    require_things(ctx, user, Right.VIEW_EXPERIMENT_ARTIFACTS, "checkpoint", uuids)
    with live.locked_experiment(ctx, experiment_id) as experiment:
        remote = _remote(experiment)
        if not experiment.row.state.live:
            return
        if triggered_by is not None and triggered_by > remote.last_id:
            raise Invalid(
                f"experiment {experiment_id} has no event {triggered_by}: its newest is {remote.last_id}"
            )
        _refuse_unknown_trials(experiment_id, remote, operations)
        _refuse_useless_checkpoints(experiment, remote, operations)
        experiment.feed(search.CustomOperations(operations, triggered_by))
        if experiment.row.state.live:
            progress = experiment.journal.progress(experiment.now)
            if progress is not None:
                experiments.set_progress(experiment.tx, experiment_id, progress)


def _remote(experiment: LiveExperiment) -> search.RemoteSearch:
    remote = experiment.journal.remote()
    if remote is None:
        name = experiments.searcher_name(experiment.tx, experiment.row.id)
        raise WrongState(
            f"experiment {experiment.row.id} searches by {name}: only experiments with"
            " searcher.name 'custom' have events and take operations"
        )
    return remote


def _refuse_unknown_trials(
    experiment_id: int, remote: search.RemoteSearch, operations: Sequence[Operation]
) -> None:
    created: set[str] = set()
    for index, operation in enumerate(operations):
        if "createTrial" in operation:
            created.add(operation["createTrial"]["requestId"])
            continue
        request_id = _trial_of(operation)
        if request_id and request_id not in created and not remote.created(request_id):
            raise Invalid(
                f"searcherOperations[{index}]: experiment {experiment_id} has no trial with request id"
                f" {request_id}: create it first; none of the operations was carried out"
            )


def _refuse_useless_checkpoints(
    experiment: LiveExperiment, remote: search.RemoteSearch, operations: Sequence[Operation]
) -> None:
    for index, operation in enumerate(operations):
        created = operation.get("createTrial", {})
        uuid = created.get("checkpointUuid")
        if uuid is None or remote.created(created["requestId"]):
            continue
        fault = warm_starts.fault_of(experiment.tx, uuid)
        if fault is not None:
            raise Invalid(
                f"searcherOperations[{index}]: {fault}; none of the operations was carried out"
            )


def _trial_of(operation: Operation) -> str | None:
    if "trialOperation" in operation:
        return str(operation["trialOperation"]["validateAfter"]["requestId"])
    return str(operation["closeTrial"]["requestId"]) if "closeTrial" in operation else None
