"""Versions of registered models: each is a checkpoint that collection leaves alone."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from det_controlplane.core.lifecycle.checkpoint import CheckpointState
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.checkpoints import checkpoints, models
from det_controlplane.db.checkpoints.models import Model, Version
from det_controlplane.db.engine.database import Tx
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.principal import User
from det_controlplane.services.registry.models import check_labels, locked


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """Hold the fields to change; None keeps a field."""

    name: str | None = None
    comment: str | None = None
    notes: str | None = None
    metadata: dict[str, Any] | None = None
    labels: list[str] | None = None


def listed(
    ctx: Context, name_or_id: str, page: Page, sort: Sort
) -> tuple[dict[str, Any], Iterator[str]]:
    """Return the model, and its versions as JSON text."""
    with ctx.db.begin() as tx:
        model = models.one(tx, locked(tx, name_or_id).id)
    return model, models.listed_versions(ctx.db, model["id"], page, sort)


def get(ctx: Context, name_or_id: str, version: int) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        return _one(tx, model, version)


def create(
    ctx: Context, caller: User, name_or_id: str, checkpoint: str, new: VersionChanges
) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        if model.archived:
            raise WrongState(f"model '{model.name}' is archived: unarchive it first")
        check_labels(f"a version of model '{model.name}'", new.labels)
        uuid = parse_uuid(checkpoint)
        state = checkpoints.state(tx, uuid)
        if state is None:
            raise Missing(f"checkpoint {checkpoint} not found")
        if state is not CheckpointState.COMPLETED:
            raise WrongState(
                f"checkpoint {checkpoint} is {state.value}: only complete ones can be registered"
            )
        values = {
            "checkpoint_uuid": uuid, "name": new.name or "", "comment": new.comment or "",
            "notes": new.notes or "", "metadata": new.metadata or {}, "labels": new.labels or [],
            "user_id": caller.id,
        }  # fmt: skip
        version = models.create_version(tx, model.id, values, ctx.now())
        models.change(tx, model.id, {}, ctx.now())
        return _one(tx, model, version)


def edit(ctx: Context, name_or_id: str, version: int, changes: VersionChanges) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        row = _find(tx, model, version)
        check_labels(f"version {version} of model '{model.name}'", changes.labels)
        columns = {column: value for column, value in asdict(changes).items() if value is not None}
        models.change_version(tx, row.id, columns, ctx.now())
        models.change(tx, model.id, {}, ctx.now())
        return _one(tx, model, version)


def delete(ctx: Context, caller: User, name_or_id: str, version: int) -> None:
    """Delete a version; the checkpoint stays, and the collection's policy is for it again."""
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        row = _find(tx, model, version)
        require_owner(caller, row.user_id, f"delete version {version} of model '{model.name}'")
        models.remove_version(tx, row.id)
        models.change(tx, model.id, {}, ctx.now())


def _find(tx: Tx, model: Model, version: int) -> Version:
    row = models.lock_version(tx, model.id, version)
    if row is None:
        raise _missing_error(model, version)
    return row


def _one(tx: Tx, model: Model, version: int) -> dict[str, Any]:
    view = models.one_version(tx, model.id, version)
    if view is None:
        raise _missing_error(model, version)
    return view


def _missing_error(model: Model, version: int) -> Missing:
    return Missing(f"version {version} of model '{model.name}' not found")
