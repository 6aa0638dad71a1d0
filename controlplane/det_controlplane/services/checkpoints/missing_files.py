"""Find complete checkpoints without files in the cluster's own storage.

They are marked and reported, but never deleted: a storage may be mounted again, and a bucket restored.
"""

import logging
from datetime import timedelta
from uuid import UUID

from det_controlplane.db.checkpoints import missing_files
from det_controlplane.ports.checkpoint_files import StorageUnreachable
from det_controlplane.services.context import Context

log = logging.getLogger("det.checkpoints")

# Checkpoints that were reported or checked since then are skipped.
AGE = timedelta(days=1)
# Scheduling waits for a look.
_LASTS = timedelta(seconds=10)
_AT_ONCE, _NAMED = 200, 5


def look(ctx: Context) -> None:
    """Check the files of the checkpoints that were not checked for longest. Two checks in a row without files mark a
    checkpoint.

    Storages of users are skipped, because they could delay the check or receive the API's credentials."""
    storage, now = ctx.config.checkpoint_storage, ctx.now()
    if ctx.checkpoint_files is None or not storage:
        return
    with ctx.db.begin() as tx:
        due = missing_files.due(tx, storage, now - AGE, _AT_ONCE)
    there, gone, unseen = _looked(ctx, due)
    if not there:  # as if another storage were in its place
        gone, unseen = [], gone + unseen
    with ctx.db.begin() as tx:
        missing_files.seen(tx, there, now)
        missing_files.unseen(tx, unseen, now)
        marked = missing_files.not_found(tx, gone, now)
    if marked:
        _tell(marked)


def _looked(ctx: Context, due: list[UUID]) -> tuple[list[UUID], list[UUID], list[UUID]]:
    """Return which checkpoints are there, which are not, and which could not be looked for; the rest waits."""
    there: list[UUID] = []
    gone: list[UUID] = []
    unseen: list[UUID] = []
    if not due or ctx.checkpoint_files is None:
        return there, gone, unseen
    end = ctx.now() + _LASTS
    try:
        exists = ctx.checkpoint_files.finder(ctx.config.checkpoint_storage or {})
    except StorageUnreachable as e:
        log.info("checkpoints are not looked for: %s", e)
        return there, gone, unseen
    for uuid in due:
        if ctx.now() >= end:
            break
        try:
            (there if exists(str(uuid)) else gone).append(uuid)
        except StorageUnreachable as e:
            log.info("checkpoint %s and others are not looked for: %s", uuid, e)
            unseen.append(uuid)
            break
        except Exception:
            log.exception("checkpoint %s could not be looked for", uuid)
            unseen.append(uuid)
    return there, gone, unseen


def _tell(marked: list[UUID]) -> None:
    uuids = sorted(map(str, marked))
    more = f" and {len(uuids) - _NAMED} more" if len(uuids) > _NAMED else ""
    log.warning(
        "no files are left in the storage of checkpoints %s%s; restore them,"
        " or delete the checkpoints: 'det checkpoint delete UUID'",
        ", ".join(uuids[:_NAMED]), more,
    )  # fmt: skip
