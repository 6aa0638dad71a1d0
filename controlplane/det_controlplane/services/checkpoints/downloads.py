"""Send checkpoints as one archive to clients that cannot reach the storage themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from det_controlplane.core.code import archives
from det_controlplane.core.code.archives import Entry
from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.db.checkpoints import checkpoints
from det_controlplane.ports.files import StorageUnreachable
from det_controlplane.services import sealing
from det_controlplane.services.checkpoints.records import of_experiment, parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, WrongState

TAR, GZIP, ZIP = "application/x-tar", "application/gzip", "application/zip"
KINDS = (TAR, GZIP, ZIP)
_OF_THIS_MACHINE = ("directory", "shared_fs")


@dataclass(frozen=True, slots=True)
class Archive:
    name: str
    media_type: str
    size: int | None  # known in advance for tar
    pieces: Iterator[bytes]


def checkpoint(ctx: Context, uuid: str, media_type: str) -> Archive:
    with ctx.db.begin() as tx:
        row = checkpoints.location(tx, parse_uuid(uuid))
    if row is None:
        raise Missing(f"checkpoint {uuid} not found")
    if row.state is CheckpointState.DELETED:
        raise Missing(f"checkpoint {uuid} was deleted: its files are gone")
    if row.state is CheckpointState.ACTIVE:
        raise WrongState(
            f"checkpoint {uuid} is incomplete: its upload has not ended, or was cut off"
        )
    storage = (
        sealing.unsealed(ctx, row.storage, row.sealed)
        if row.storage
        else of_experiment(ctx, row.of_experiment, row.experiment_sealed)
    )
    if not storage:
        raise WrongState(f"checkpoint {uuid} has no checkpoint_storage: its location is unknown")
    _refuse_foreign_server(ctx, storage, uuid)
    entries = _entries(ctx, storage, str(row.uuid))
    read = partial(_files(ctx).read, storage, str(row.uuid))
    if media_type == ZIP:
        return Archive(f"{row.uuid}.zip", ZIP, None, archives.zipped(entries, read))
    tar = archives.tar(entries, read)
    if media_type == GZIP:
        return Archive(f"{row.uuid}.tar.gz", GZIP, None, archives.gzipped(tar))
    return Archive(f"{row.uuid}.tar", TAR, archives.tar_size(entries), tar)


def _refuse_foreign_server(ctx: Context, storage: Mapping[str, Any], uuid: str) -> None:
    """Keep the API's credentials, threads and network from servers that users name, and that answer as they like."""
    own = (ctx.config.checkpoint_storage or {}).get("endpoint_url")
    endpoint = storage.get("endpoint_url")
    if storage.get("type") == "s3" and endpoint and endpoint != own:
        raise Invalid(
            f"checkpoint {uuid} cannot be downloaded through the API: its checkpoint_storage names an endpoint_url of its"
            " own, and the API asks only the cluster's; use --mode direct"
        )


def _entries(ctx: Context, storage: dict[str, Any], uuid: str) -> list[Entry]:
    here = storage.get("type") in _OF_THIS_MACHINE
    try:
        files = _files(ctx).files(storage, uuid)
    except StorageUnreachable as e:
        if not here:
            raise Invalid(
                f"checkpoint {uuid} cannot be downloaded through the API: {e}; use --mode direct"
            ) from e
        files = []
    if not files:
        # All directories of users get the same answer, so that it does not reveal whether a directory exists.
        hint = "; where its directory is not mounted on the API's machine, use --mode direct"
        raise Missing(f"checkpoint {uuid}: its storage has no files of it{hint if here else ''}")
    return [Entry(f.path, f.size) for f in files]


def _files(ctx: Context) -> Any:
    if ctx.checkpoint_files is None:
        raise Invalid("this API has no access to checkpoint storages; use --mode direct")
    return ctx.checkpoint_files
