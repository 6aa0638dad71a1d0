"""Workspaces: where projects, models and templates live."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import workspaces
from det_controlplane.db.people.workspaces import OwnedRow, WorkspaceRow
from det_controlplane.db.schema.enums import DeletionState
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import (
    Forbidden,
    Invalid,
    Taken,
    WrongState,
    require,
    require_open,
)
from det_controlplane.services.identity import host_access, roles
from det_controlplane.services.identity.rights import require_admin, require_owner
from det_controlplane.services.organization import pool_bindings
from det_controlplane.services.principal import User

R = TypeVar("R", bound=OwnedRow)


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """Hold the fields to change; None keeps a field."""

    name: str | None = None
    agent_user: dict[str, Any] | None = None
    checkpoint_storage: dict[str, Any] | None = None
    default_compute_pool: str | None = None
    default_aux_pool: str | None = None


def get(ctx: Context, caller: User, workspace_id: int) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return _read_workspace(tx, caller, workspace_id)


def listed(ctx: Context, caller: User, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    return "".join(workspaces.listed(ctx.db, caller.id, page, sort, filters))


def create(ctx: Context, caller: User, new: WorkspaceChanges) -> dict[str, Any]:
    """Create a workspace and pin it for its creator."""
    _check_admin_only(caller, new)
    _check_storage_access(ctx, caller, new, None)
    name = _checked_name(new.name or "")
    columns = _columns(ctx, replace(new, name=name), {})
    try:
        with ctx.db.begin() as tx:
            workspace_id = workspaces.create(tx, caller.id, **columns)
            ctx.recorder.add_objects(f"workspace {workspace_id}")
            workspaces.pin(tx, workspace_id, caller.id, ctx.now())
            roles.administrate(tx, caller.id, workspace_id)
            return _read_workspace(tx, caller, workspace_id)
    except Violated as e:
        raise _name_taken(name) from e


def edit(
    ctx: Context, caller: User, workspace_id: int, changes: WorkspaceChanges
) -> dict[str, Any]:
    try:
        with ctx.db.begin() as tx:
            row = editable(locked(tx, workspace_id), caller, "edit")
            _check_admin_only(caller, changes)
            _check_storage_access(ctx, caller, changes, row.checkpoint_storage)
            storage = sealing.unsealed(ctx, row.checkpoint_storage or {}, row.sealed)
            columns = _columns(ctx, changes, storage)
            workspaces.change(tx, workspace_id, **columns)
            return _read_workspace(tx, caller, workspace_id)
    except Violated as e:
        raise _name_taken(changes.name or "") from e


def set_archived(ctx: Context, caller: User, workspace_id: int, archived: bool) -> None:
    """Archive a workspace, and its projects with it."""
    with ctx.db.begin() as tx:
        editable(locked(tx, workspace_id), caller, "archive", archived_too=True)
        workspaces.change(tx, workspace_id, archived=archived)


def set_pinned(ctx: Context, caller: User, workspace_id: int, pinned: bool) -> None:
    with ctx.db.begin() as tx:
        _read_workspace(tx, caller, workspace_id)
        if pinned:
            workspaces.pin(tx, workspace_id, caller.id, ctx.now())
        else:
            workspaces.unpin(tx, workspace_id, caller.id)


def owner(tx: Tx, workspace_id: int) -> int:
    return require(workspaces.owner(tx, workspace_id), f"workspace {workspace_id}")


def locked(tx: Tx, workspace_id: int) -> WorkspaceRow:
    return require(workspaces.lock(tx, workspace_id), f"workspace {workspace_id}")


def open_workspace(tx: Tx, workspace_id: int) -> WorkspaceRow:
    """Return a workspace that takes projects."""
    row = require(workspaces.share(tx, workspace_id), f"workspace {workspace_id}")
    what = f"workspace '{row.name}'"
    require_open(what, archived=row.archived, deleting=row.state is not None)
    if row.immutable:
        raise WrongState(
            f"{what} is built in and takes no further projects: choose another workspace"
        )
    return row


def editable(row: R, caller: User, verb: str, *, archived_too: bool = False) -> R:
    """Return a workspace or project that this caller may change now."""
    name = f"{row.kind} '{row.name}'"
    require_owner(caller, row.user_id, f"{verb} {name}")
    if row.immutable:
        # An administrator of a workspace is not one of the cluster, who gets the other status.
        refusal = WrongState if caller.admin else Forbidden
        raise refusal(f"{name} is built in and cannot be changed")
    if row.state is DeletionState.DELETING:
        raise WrongState(f"{name} is being deleted")
    if row.archived and not archived_too:
        raise WrongState(f"{name} is archived: unarchive it first")
    return row


def _read_workspace(tx: Tx, caller: User, workspace_id: int) -> dict[str, Any]:
    return require(workspaces.one(tx, workspace_id, caller.id), f"workspace {workspace_id}")


def _check_admin_only(caller: User, changes: WorkspaceChanges) -> None:
    if changes.agent_user is not None:
        require_admin(caller, "set the agent user of a workspace")


def _check_storage_access(
    ctx: Context, caller: User, changes: WorkspaceChanges, before: dict[str, Any] | None
) -> None:
    storage = changes.checkpoint_storage
    if storage:
        host_access.require_storage(ctx, caller, storage, "checkpointStorageConfig", [before])


def _columns(ctx: Context, changes: WorkspaceChanges, storage: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that change; empty pools, users and storages are unset."""
    columns: dict[str, Any] = {}
    if changes.name is not None:
        columns["name"] = _checked_name(changes.name)
    for column in ("default_compute_pool", "default_aux_pool"):
        pool = getattr(changes, column)
        if pool:
            pool_bindings.require_known(ctx, pool)
        if pool is not None:
            columns[column] = pool.strip() or None
    if changes.agent_user is not None:
        columns["agent_user"] = changes.agent_user or None
    if changes.checkpoint_storage is not None:
        parts = sealing.seal(ctx, _checked_storage(changes.checkpoint_storage, storage))
        columns |= {"checkpoint_storage": parts.shown or None, "sealed": parts.secrets}
    return columns


def _checked_storage(new: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Check a storage. A masked value keeps its stored secret. {} removes the storage."""
    storage = sealing.completed(new, earlier)
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
    return Taken(f"workspace '{name}' already exists: choose another name")
