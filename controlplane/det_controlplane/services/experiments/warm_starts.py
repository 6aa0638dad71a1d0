"""The checkpoint that the trials of a new experiment start from."""

from typing import Any

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.db.engine.database import Tx
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.identity.route_rights import require_things
from det_controlplane.services.principal import User


def settle(ctx: Context, user: User, config: dict[str, Any]) -> None:
    """Choose the checkpoint of a warm start now, because its source trial may continue or lose checkpoints."""
    searcher = config["searcher"]
    trial_id, uuid = searcher["source_trial_id"], searcher["source_checkpoint_uuid"]
    if uuid is None and trial_id is None:
        return
    kind, name = ("trial", trial_id) if uuid is None else ("checkpoint", uuid)
    require_things(ctx, user, Right.VIEW_EXPERIMENT_ARTIFACTS, kind, [name])
    with ctx.db.begin() as tx:
        if uuid is not None:
            _check(tx, uuid)
        else:
            searcher |= {"source_trial_id": None, "source_checkpoint_uuid": _newest(tx, trial_id)}


def fault_of(tx: Tx, uuid: str) -> str | None:
    """Say why no trial can start from a checkpoint; None where one can."""
    state = checkpoints.state(tx, parse_uuid(uuid))
    if state is CheckpointState.COMPLETED:
        return None
    problem = (
        "does not exist" if state is None else f"is {state.value}: it has no files to start from"
    )
    return f"checkpoint {uuid} {problem}"


def _check(tx: Tx, uuid: str) -> None:
    fault = fault_of(tx, uuid)
    if fault is not None:
        raise InvalidConfig([Problem("searcher.source_checkpoint_uuid", fault)])


def _newest(tx: Tx, trial_id: int) -> str:
    uuid = checkpoints.newest_of_trial(tx, trial_id)
    if uuid is None:
        message = (
            f"there is no trial {trial_id} with a checkpoint to start from;"
            f" `det trial describe {trial_id}` shows what it has"
        )
        raise InvalidConfig([Problem("searcher.source_trial_id", message)])
    return str(uuid)
