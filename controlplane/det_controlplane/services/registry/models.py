"""The model registry: named models. Their versions are in `versions`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.documents import fault_of_labels
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.people.roles import Right
from det_controlplane.db.checkpoints import models
from det_controlplane.db.checkpoints.models import Model
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken, WrongState, require_open
from det_controlplane.services.identity.rights import require_owner, require_removal
from det_controlplane.services.identity.route_rights import UNCATEGORIZED, require_in
from det_controlplane.services.principal import User


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """Hold the fields to change; None keeps a field."""

    name: str | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    labels: list[str] | None = None
    notes: str | None = None
    workspace_id: int | None = None
    workspace_name: str | None = None
    archived: bool | None = None


def get(ctx: Context, name_or_id: str) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        return models.one(tx, locked(tx, name_or_id).id)


def listed(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return models.listed(ctx.db, page, sort, filters)


def labels(ctx: Context, workspace_id: int, within: Sequence[int] | None) -> list[str]:
    """Return the labels of models in one workspace, or in some (None: all), the most used first."""
    with ctx.db.begin() as tx:
        return models.labels(tx, [workspace_id] if workspace_id else within)


def create(ctx: Context, caller: User, new: ModelChanges) -> dict[str, Any]:
    name = _checked_name(new.name or "")
    check_labels(f"model '{name}'", new.labels)
    try:
        with ctx.db.begin() as tx:
            values = {
                "name": name, "description": new.description or "", "notes": new.notes or "",
                "metadata": new.metadata or {}, "labels": new.labels or [],
                "user_id": caller.id, "workspace_id": _workspace(tx, caller, new, default=1),
            }  # fmt: skip
            return models.one(tx, models.create(tx, values, ctx.now()))
    except Violated as e:
        raise _refusal(e, name) from e


def edit(ctx: Context, caller: User, name_or_id: str, changes: ModelChanges) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": None if changes.name is None else _checked_name(changes.name),
        "description": changes.description, "notes": changes.notes, "labels": changes.labels,
        "metadata": changes.metadata, "archived": changes.archived,
    }  # fmt: skip
    try:
        with ctx.db.begin() as tx:
            model = locked(tx, name_or_id)
            if changes.archived is not None:
                require_owner(caller, model.user_id, f"archive model '{model.name}'")
            elif model.archived:
                raise WrongState(f"model '{model.name}' is archived: unarchive it first")
            target = values["workspace_id"] = _workspace(tx, caller, changes)
            check_labels(f"model '{model.name}'", changes.labels)
            if target is not None:
                what = f"model '{model.name}'"
                require_removal(caller, model.user_id, model.workspace_id, target, what)
            columns = {column: value for column, value in values.items() if value is not None}
            models.change(tx, model.id, columns, ctx.now())
            return models.one(tx, model.id)
    except Violated as e:
        raise _refusal(e, changes.name or "") from e


def delete(ctx: Context, caller: User, name_or_id: str) -> None:
    """Delete a model with its versions; their checkpoints stay."""
    with ctx.db.begin() as tx:
        model = locked(tx, name_or_id)
        require_owner(caller, model.user_id, f"delete model '{model.name}'")
        models.remove(tx, model.id)


def check_labels(what: str, labels: Sequence[str] | None) -> None:
    fault = fault_of_labels(labels or ())
    if fault is not None:
        raise Invalid(f"{what}: {fault}")


def locked(tx: Tx, name_or_id: str) -> Model:
    model = models.lock(tx, name_or_id)
    if model is None:
        raise Missing(f"model '{name_or_id}' not found: see 'det model list'")
    return model


def _workspace(tx: Tx, caller: User, changes: ModelChanges, default: int = 0) -> int | None:
    """Return the workspace for a model; None where none is named."""
    name = changes.workspace_name or ""
    workspace_id = changes.workspace_id or (0 if name else default)
    if not workspace_id and not name:
        return None
    workspace = models.workspace(tx, workspace_id, name)
    if workspace is None or not _may_see(caller, workspace.id):
        raise Missing(f"workspace {workspace_id or repr(name)} not found")
    require_in(caller, Right.CREATE_MODEL_REGISTRY, workspace.id)
    what = f"workspace {workspace.id}"
    require_open(what, archived=workspace.archived, deleting=workspace.deleting)
    return workspace.id


def _may_see(caller: User, workspace_id: int) -> bool:
    """Return whether the caller may know of a workspace: everybody knows that which needs no name."""
    return workspace_id == UNCATEGORIZED or caller.grants.has(Right.VIEW_WORKSPACE, workspace_id)


def _checked_name(name: str) -> str:
    wrong = (
        "be blank" if not name.strip()
        else "contain / or \\" if re.search(r"[/\\]", name)
        else "contain two blanks in a row" if re.search(r"\s\s", name)
        else "be only digits: those are ids" if name.strip().isdigit()
        else ""
    )  # fmt: skip
    if wrong:
        raise Invalid(f"model name {name!r} must not {wrong}")
    return name.strip()


def _refusal(e: Violated, name: str) -> Missing | Taken:
    if e.constraint == "models_name_key":
        return Taken(f"model '{name}' already exists: choose another name")
    return Missing("the workspace does not exist")
