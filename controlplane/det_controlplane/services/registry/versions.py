"""Versions of registered models: each is a checkpoint that collection leaves alone."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx, as_json
from det_controlplane.db.pages import Listing
from det_controlplane.db.views import CHECKPOINT, CHECKPOINT_FROM, time
from det_controlplane.services.checkpoints.records import parse_uuid
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, WrongState
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_owner
from det_controlplane.services.registry.models import MODEL, MODEL_FROM, locked, shown, touch

_VERSION = f"""json_build_object('id', v.id, 'version', v.version, 'name', v.name, 'comment', v.comment, 'notes', v.notes,
    'metadata', v.metadata, 'labels', to_json(v.labels), 'userId', v.user_id, 'username', vu.username,
    'creationTime', {time("v.created_at")}, 'lastUpdatedTime', {time("v.updated_at")},
    'model', (SELECT {MODEL} FROM {MODEL_FROM} WHERE m.id = v.model_id),
    'checkpoint', (SELECT {CHECKPOINT} FROM {CHECKPOINT_FROM} WHERE c.uuid = v.checkpoint_uuid))"""
_FROM = "model_versions v JOIN users vu ON vu.id = v.user_id"
_ONE = text(f"SELECT {_VERSION} FROM {_FROM} WHERE v.model_id = :model_id AND v.version = :version")
_ORDER = {
    "SORT_BY_VERSION": "v.version",
    "SORT_BY_CREATION_TIME": "v.created_at",
    "SORT_BY_ID": "v.id",
}
_CHECKPOINT = text("SELECT state::text FROM checkpoints WHERE uuid = :uuid")
_INSERT = text("""
    INSERT INTO model_versions (model_id, version, checkpoint_uuid, name, comment, notes, metadata, labels, user_id, created_at, updated_at)
    VALUES (:model_id, (SELECT coalesce(max(version), 0) + 1 FROM model_versions WHERE model_id = :model_id), :uuid, :name,
            :comment, :notes, cast(:metadata AS jsonb), cast(:labels AS text[]), :user_id, :now, :now)
    RETURNING version
""")
_SET = {
    "name": text("UPDATE model_versions SET name = :value WHERE id = :id"),
    "comment": text("UPDATE model_versions SET comment = :value WHERE id = :id"),
    "notes": text("UPDATE model_versions SET notes = :value WHERE id = :id"),
    "metadata": text("UPDATE model_versions SET metadata = cast(:value AS jsonb) WHERE id = :id"),
    "labels": text("UPDATE model_versions SET labels = cast(:value AS text[]) WHERE id = :id"),
}
_TOUCH = text("UPDATE model_versions SET updated_at = :now WHERE id = :id")
_FIND = text(
    "SELECT id, user_id FROM model_versions WHERE model_id = :model_id AND version = :version FOR UPDATE"
)
_DELETE = text("DELETE FROM model_versions WHERE id = :id")


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What is None stays as it is."""

    name: str | None = None
    comment: str | None = None
    notes: str | None = None
    metadata: dict[str, Any] | None = None
    labels: list[str] | None = None


def listed(ctx: Context, name_or_id: str, page: Page, sort: Sort) -> tuple[dict[str, Any], str]:
    """The model, and its versions as JSON text."""
    order = sort.sql(_ORDER, "SORT_BY_VERSION")
    listing = Listing("modelVersions", _VERSION, _FROM, ["v.model_id = :model_id"], order)
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        return shown(tx, model.id), pages.fetch(tx, listing, page, {"model_id": model.id})


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
        uuid = parse_uuid(checkpoint)
        state = tx.execute(_CHECKPOINT, {"uuid": uuid}).scalar()
        if state is None:
            raise Missing(f"checkpoint {checkpoint} not found")
        if state != "COMPLETED":
            raise WrongState(
                f"checkpoint {checkpoint} is {state}: only complete ones can be registered"
            )
        values = {
            "model_id": model.id, "uuid": uuid, "name": new.name or "", "comment": new.comment or "",
            "notes": new.notes or "", "metadata": as_json(new.metadata or {}), "labels": new.labels or [],
            "user_id": caller.id, "now": ctx.now(),
        }  # fmt: skip
        version = int(tx.execute(_INSERT, values).scalar_one())
        touch(ctx, tx, model.id)
        return _one(tx, model, version)


def edit(ctx: Context, name_or_id: str, version: int, changes: VersionChanges) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        row = _find(tx, model, version)
        for column, statement in _SET.items():
            value = getattr(changes, column)
            if value is not None:
                value = as_json(value) if column == "metadata" else value
                tx.execute(statement, {"id": row.id, "value": value})
        tx.execute(_TOUCH, {"id": row.id, "now": ctx.now()})
        touch(ctx, tx, model.id)
        return _one(tx, model, version)


def delete(ctx: Context, caller: User, name_or_id: str, version: int) -> None:
    """The checkpoint stays, and the collection's policy is for it again."""
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        row = _find(tx, model, version)
        require_owner(caller, row.user_id, f"delete version {version} of model '{model.name}'")
        tx.execute(_DELETE, {"id": row.id})
        touch(ctx, tx, model.id)


def _find(tx: Tx, model: Any, version: int) -> Any:
    row = tx.execute(_FIND, {"model_id": model.id, "version": version}).first()
    if row is None:
        raise _missing(model, version)
    return row


def _one(tx: Tx, model: Any, version: int) -> dict[str, Any]:
    found: dict[str, Any] | None = tx.execute(
        _ONE, {"model_id": model.id, "version": version}
    ).scalar()
    if found is None:
        raise _missing(model, version)
    return found


def _missing(model: Any, version: int) -> Missing:
    return Missing(f"version {version} of model '{model.name}' not found")
