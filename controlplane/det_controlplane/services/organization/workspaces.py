"""Workspaces: where projects, models and templates live (facts §9.1)."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.secrets import redacted
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx, Violated, as_json
from det_controlplane.db.pages import Listing
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken, WrongState
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin, require_owner

_WORKSPACE = f"""json_build_object('id', w.id, 'name', w.name, 'archived', w.archived, 'username', u.username,
    'userId', w.user_id, 'immutable', w.immutable, 'state', 'WORKSPACE_STATE_' || coalesce(w.state::text, 'UNSPECIFIED'),
    'errorMessage', w.error_message, 'agentUserGroup', w.agent_user, 'checkpointStorageConfig', w.checkpoint_storage,
    'defaultComputePool', coalesce(w.default_compute_pool, ''), 'defaultAuxPool', coalesce(w.default_aux_pool, ''),
    'numProjects', (SELECT count(*) FROM projects p WHERE p.workspace_id = w.id),
    'numExperiments', (SELECT count(*) FROM experiments e JOIN projects p ON p.id = e.project_id WHERE p.workspace_id = w.id),
    'pinned', n.pinned_at IS NOT NULL, 'pinnedAt', {time("n.pinned_at")}, 'autoCreatedNamespace', '')"""
_FROM = """workspaces w JOIN users u ON u.id = w.user_id
    LEFT JOIN workspace_pins n ON n.workspace_id = w.id AND n.user_id = :me"""
_ONE = text(f"SELECT {_WORKSPACE} FROM {_FROM} WHERE w.id = :id")
_ORDER = {"SORT_BY_ID": "w.id", "SORT_BY_NAME": "lower(w.name)"}
_FILTERS = {
    "name": "w.name ILIKE '%' || :name || '%'",
    "name_case_sensitive": "strpos(w.name, :name_case_sensitive) > 0",
    "archived": "w.archived = :archived",
    "pinned": "(n.pinned_at IS NOT NULL) = :pinned",
    "users": "u.username = ANY(cast(:users AS text[]))",
    "user_ids": "w.user_id = ANY(cast(:user_ids AS integer[]))",
}
_LOCK = text("""
    SELECT id, name, user_id, immutable, archived, state::text AS state, checkpoint_storage FROM workspaces WHERE id = :id FOR UPDATE
""")
_INSERT = text("INSERT INTO workspaces (name, user_id) VALUES (:name, :user_id) RETURNING id")
_PIN = text("""
    INSERT INTO workspace_pins (workspace_id, user_id, pinned_at) VALUES (:id, :me, :now) ON CONFLICT DO NOTHING
""")
_UNPIN = text("DELETE FROM workspace_pins WHERE workspace_id = :id AND user_id = :me")
_SET = {
    "name": text("UPDATE workspaces SET name = :value WHERE id = :id"),
    "default_compute_pool": text(
        "UPDATE workspaces SET default_compute_pool = nullif(:value, '') WHERE id = :id"
    ),
    "default_aux_pool": text(
        "UPDATE workspaces SET default_aux_pool = nullif(:value, '') WHERE id = :id"
    ),
}
_SET_JSON = {
    "agent_user": text("UPDATE workspaces SET agent_user = cast(:value AS jsonb) WHERE id = :id"),
    "checkpoint_storage": text(
        "UPDATE workspaces SET checkpoint_storage = cast(:value AS jsonb) WHERE id = :id"
    ),
}
_ARCHIVE = text("UPDATE workspaces SET archived = :archived WHERE id = :id")
_CONTENTS = text("""
    SELECT (SELECT count(*) FROM models WHERE workspace_id = :id) AS models,
           (SELECT count(*) FROM projects WHERE workspace_id = :id) AS projects,
           (SELECT count(*) FROM experiments e JOIN projects p ON p.id = e.project_id
            WHERE p.workspace_id = :id AND e.ended_at IS NULL) AS live
""")
_DELETING = text("UPDATE workspaces SET state = 'DELETING', error_message = '' WHERE id = :id")
_DELETING_PROJECTS = text("UPDATE projects SET state = 'DELETING' WHERE workspace_id = :id")


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """What is None stays as it is."""

    name: str | None = None
    agent_user: dict[str, Any] | None = None
    checkpoint_storage: dict[str, Any] | None = None
    default_compute_pool: str | None = None
    default_aux_pool: str | None = None


def get(ctx: Context, caller: User, workspace_id: int) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        return _one(tx, caller, workspace_id)


def listed(ctx: Context, caller: User, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    where = [_FILTERS[name] for name in filters]
    listing = Listing("workspaces", _WORKSPACE, _FROM, where, sort.sql(_ORDER, "SORT_BY_ID"))
    with ctx.db.begin() as tx:
        found = pages.fetch(tx, listing, page, {**filters, "me": caller.id})
    return redacted_text(found)


def create(ctx: Context, caller: User, new: WorkspaceChanges) -> dict[str, Any]:
    """It is pinned for who creates it."""
    _check_admin_only(caller, new)
    name = _checked_name(new.name or "")
    try:
        with ctx.db.begin() as tx:
            workspace_id = int(
                tx.execute(_INSERT, {"name": name, "user_id": caller.id}).scalar_one()
            )
            _apply(ctx, tx, workspace_id, new, {})
            tx.execute(_PIN, {"id": workspace_id, "me": caller.id, "now": ctx.now()})
            return _one(tx, caller, workspace_id)
    except Violated as e:
        raise _name_taken(name) from e


def edit(
    ctx: Context, caller: User, workspace_id: int, changes: WorkspaceChanges
) -> dict[str, Any]:
    _check_admin_only(caller, changes)
    try:
        with ctx.db.begin() as tx:
            row = _editable(tx, caller, workspace_id, "edit")
            if row.archived:
                raise WrongState(f"workspace '{row.name}' is archived: unarchive it first")
            if changes.name is not None:
                _checked_name(changes.name)
            _apply(ctx, tx, workspace_id, changes, row.checkpoint_storage or {})
            return _one(tx, caller, workspace_id)
    except Violated as e:
        raise _name_taken(changes.name or "") from e


def set_archived(ctx: Context, caller: User, workspace_id: int, archived: bool) -> None:
    """Its projects count as archived with it."""
    with ctx.db.begin() as tx:
        _editable(tx, caller, workspace_id, "archive")
        tx.execute(_ARCHIVE, {"id": workspace_id, "archived": archived})


def set_pinned(ctx: Context, caller: User, workspace_id: int, pinned: bool) -> None:
    with ctx.db.begin() as tx:
        _one(tx, caller, workspace_id)
        params = {"id": workspace_id, "me": caller.id, "now": ctx.now()}
        tx.execute(_PIN if pinned else _UNPIN, params)


def begin_deletion(ctx: Context, tx: Tx, caller: User, workspace_id: int) -> bool:
    """Whether projects must go first. Nothing is lost by surprise: what runs or is registered is refused."""
    row = _editable(tx, caller, workspace_id, "delete")
    contents = tx.execute(_CONTENTS, {"id": workspace_id}).first()
    assert contents is not None
    if contents.models:
        raise WrongState(
            f"workspace '{row.name}' has {contents.models} models: delete or move them first"
        )
    if contents.live:
        raise WrongState(
            f"workspace '{row.name}' has {contents.live} experiments that have not ended: kill them first"
        )
    tx.execute(_DELETING, {"id": workspace_id})
    tx.execute(_DELETING_PROJECTS, {"id": workspace_id})
    return bool(contents.projects)


def redacted_text(found: str) -> str:
    """Storage keys stay inside, also in listings."""
    return redacted(found) if "_key" in found or "password" in found else found


def _one(tx: Tx, caller: User, workspace_id: int) -> dict[str, Any]:
    found: dict[str, Any] | None = tx.execute(_ONE, {"id": workspace_id, "me": caller.id}).scalar()
    if found is None:
        raise Missing(f"workspace {workspace_id} not found")
    return redacted(found)


def _editable(tx: Tx, caller: User, workspace_id: int, verb: str) -> Any:
    row = tx.execute(_LOCK, {"id": workspace_id}).first()
    if row is None:
        raise Missing(f"workspace {workspace_id} not found")
    require_owner(caller, row.user_id, f"{verb} workspace '{row.name}'")
    if row.immutable:
        raise WrongState(f"workspace '{row.name}' is built in: nobody may {verb} it")
    if row.state == "DELETING":
        raise WrongState(f"workspace '{row.name}' is being deleted")
    return row


def _check_admin_only(caller: User, changes: WorkspaceChanges) -> None:
    if changes.agent_user is not None:
        require_admin(caller, "set the agent user of a workspace")


def _apply(
    ctx: Context, tx: Tx, workspace_id: int, changes: WorkspaceChanges, stored: dict[str, Any]
) -> None:
    for column, statement in _SET.items():
        value = getattr(changes, column)
        if value is None:
            continue
        if column != "name" and value and ctx.config.pool(value) is None:
            raise Invalid(f"{column}: resource pool '{value}' does not exist")
        tx.execute(statement, {"id": workspace_id, "value": value.strip()})
    if changes.agent_user is not None:
        value = as_json(changes.agent_user) if changes.agent_user else None
        tx.execute(_SET_JSON["agent_user"], {"id": workspace_id, "value": value})
    if changes.checkpoint_storage is not None:
        storage = _checked_storage(changes.checkpoint_storage, stored)
        value = as_json(storage) if storage else None
        tx.execute(_SET_JSON["checkpoint_storage"], {"id": workspace_id, "value": value})


def _checked_storage(given: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """What was shown redacted and comes back unchanged keeps its secret. {} unsets."""
    storage = {k: stored.get(k) if v == "********" else v for k, v in given.items()}
    if storage and not storage.get("type"):
        raise Invalid(
            "checkpointStorageConfig.type is required: directory, shared_fs, s3, gcs, azure"
        )
    return storage


def _checked_name(name: str) -> str:
    if not name.strip() or len(name) > 80:
        raise Invalid(f"workspace name {name!r} must have 1 to 80 characters, not only blanks")
    return name.strip()


def _name_taken(name: str) -> Taken:
    return Taken(f"workspace '{name}' already exists: avoid names equal to other workspaces")
