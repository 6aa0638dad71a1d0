"""Looking for complete checkpoints whose files are gone from their storage.

They are marked and told of, never deleted: a storage may be mounted again, and a bucket restored."""

import logging
from collections.abc import Iterable
from datetime import timedelta
from itertools import groupby
from uuid import UUID

from det_controlplane.db import checkpoint_looks
from det_controlplane.db.checkpoint_looks import Due
from det_controlplane.ports.checkpoint_files import CheckpointFiles, StorageUnreachable
from det_controlplane.services import sealing
from det_controlplane.services.checkpoints.records import of_experiment
from det_controlplane.services.context import Context

log = logging.getLogger("det.checkpoints")

# What was reported or looked for since is not looked for again.
AGE = timedelta(days=1)
_AT_ONCE, _NAMED = 200, 5


def look(ctx: Context) -> None:
    """Look for those that were not looked for longest; two looks without files in a row mark a checkpoint."""
    files = ctx.checkpoint_files
    if files is None:
        return
    now = ctx.now()
    with ctx.db.begin() as tx:
        due = checkpoint_looks.due(tx, now - AGE, _AT_ONCE)
    for place, of_place in groupby(due, key=lambda d: (d.storage_id, d.experiment_id)):
        there, gone, unseen = _looked(ctx, files, list(of_place))
        with ctx.db.begin() as tx:
            checkpoint_looks.seen(tx, there, now)
            checkpoint_looks.unseen(tx, unseen, now)
            marked = checkpoint_looks.not_found(tx, gone, now)
        if marked:
            _tell(place[1], marked)


def _looked(
    ctx: Context, files: CheckpointFiles, due: list[Due]
) -> tuple[list[UUID], list[UUID], list[UUID]]:
    """Return which checkpoints of a storage are there, which are not, and which could not be looked for."""
    first = due[0]
    storage = (
        sealing.opened(ctx, first.storage, first.sealed)
        if first.storage
        else of_experiment(ctx, first.of_experiment, first.experiment_sealed)
    )
    there: list[UUID] = []
    gone: list[UUID] = []
    for place, checkpoint in enumerate(due):
        try:
            found = files.files(storage or {}, str(checkpoint.uuid))
        except StorageUnreachable as e:
            log.info("checkpoints of experiment %d are not looked for: %s", first.experiment_id, e)
            return there, gone, [d.uuid for d in due[place:]]
        (there if found else gone).append(checkpoint.uuid)
    return there, gone, []


def _tell(experiment_id: int, marked: Iterable[UUID]) -> None:
    uuids = sorted(map(str, marked))
    more = f" and {len(uuids) - _NAMED} more" if len(uuids) > _NAMED else ""
    log.warning(
        "experiment %d: no files are left in the storage of checkpoints %s%s; restore them,"
        " or delete the checkpoints: 'det checkpoint delete UUID'",
        experiment_id, ", ".join(uuids[:_NAMED]), more,
    )  # fmt: skip
