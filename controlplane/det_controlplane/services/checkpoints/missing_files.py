"""Find complete checkpoints without files in the cluster's own storage.

They are marked and reported, but never deleted: a storage may be mounted again, and a bucket restored.
"""

import logging
from datetime import timedelta
from uuid import UUID

from det_controlplane.db.checkpoints import missing_files
from det_controlplane.ports.files import StorageUnreachable
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
    present, absent, failures = _check_files(ctx, due)
    if not present:  # as if another storage were in its place
        absent, failures = [], absent + failures
    with ctx.db.begin() as tx:
        missing_files.seen(tx, present, now)
        missing_files.unseen(tx, failures, now)
        marked = missing_files.not_found(tx, absent, now)
    if marked:
        _log_missing(marked)


def _check_files(ctx: Context, due: list[UUID]) -> tuple[list[UUID], list[UUID], list[UUID]]:
    """Return the checkpoints with files, without files, and with a failed check.

    After the time limit, the rest waits for the next run."""
    present: list[UUID] = []
    absent: list[UUID] = []
    failures: list[UUID] = []
    if not due or ctx.checkpoint_files is None:
        return present, absent, failures
    end = ctx.now() + _LASTS
    try:
        exists = ctx.checkpoint_files.finder(ctx.config.checkpoint_storage or {})
    except StorageUnreachable as e:
        log.info("checkpoints are not looked for: %s", e)
        return present, absent, failures
    for uuid in due:
        if ctx.now() >= end:
            break
        try:
            (present if exists(str(uuid)) else absent).append(uuid)
        except StorageUnreachable as e:
            log.info("checkpoint %s and others are not looked for: %s", uuid, e)
            failures.append(uuid)
            break
        except Exception:
            log.exception("checkpoint %s could not be looked for", uuid)
            failures.append(uuid)
    return present, absent, failures


def _log_missing(marked: list[UUID]) -> None:
    uuids = sorted(map(str, marked))
    more = f" and {len(uuids) - _NAMED} more" if len(uuids) > _NAMED else ""
    log.warning(
        "no files are left in the storage of checkpoints %s%s; restore them,"
        " or delete the checkpoints: 'det checkpoint delete UUID'",
        ", ".join(uuids[:_NAMED]), more,
    )  # fmt: skip
