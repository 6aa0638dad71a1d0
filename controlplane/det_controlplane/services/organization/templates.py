"""Templates: fragments of configuration, merged below what a user submits (facts §9.4)."""

from typing import Any

from sqlalchemy import text

from det_controlplane.core.config.text import json_problems
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db import pages
from det_controlplane.db.engine import Tx, Violated, as_json
from det_controlplane.db.pages import Listing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken

_TEMPLATE = "json_build_object('name', t.name, 'config', t.config, 'workspaceId', t.workspace_id)"
_ONE = text(f"SELECT {_TEMPLATE} FROM templates t WHERE t.name = :name")
_ORDER = {"SORT_BY_NAME": "t.name"}
_FILTERS = {
    "name": "t.name ILIKE '%' || :name || '%'",
    "workspace_ids": "t.workspace_id = ANY(cast(:workspace_ids AS integer[]))",
}
_INSERT = text(
    "INSERT INTO templates (name, config, workspace_id) VALUES (:name, cast(:config AS jsonb), :workspace_id)"
)
_UPSERT = text("""
    INSERT INTO templates (name, config, workspace_id) VALUES (:name, cast(:config AS jsonb), :workspace_id)
    ON CONFLICT (name) DO UPDATE SET config = excluded.config
""")
_SET = text("UPDATE templates SET config = cast(:config AS jsonb) WHERE name = :name")
_RENAME = text("UPDATE templates SET name = :to WHERE name = :name")
_DELETE = text("DELETE FROM templates WHERE name = :name")


def get(ctx: Context, name: str) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        return _one(tx, name)


def listed(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> str:
    where = [_FILTERS[key] for key in filters]
    listing = Listing(
        "templates", _TEMPLATE, "templates t", where, sort.sql(_ORDER, "SORT_BY_NAME")
    )
    with ctx.db.begin() as tx:
        return pages.fetch(tx, listing, page, filters)


def create(
    ctx: Context, name: str, config: Any, workspace_id: int, *, replace: bool = False
) -> dict[str, Any]:
    values = {
        "name": _checked_name(name), "config": as_json(_checked_config(config)), "workspace_id": workspace_id or 1,
    }  # fmt: skip
    try:
        with ctx.db.begin() as tx:
            tx.execute(_UPSERT if replace else _INSERT, values)
            return _one(tx, name.strip())
    except Violated as e:
        raise _told(e, name, workspace_id) from e


def set_config(ctx: Context, name: str, config: Any) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        tx.execute(_SET, {"name": name, "config": as_json(_checked_config(config))})
        return _one(tx, name)


def rename(ctx: Context, name: str, to: str) -> dict[str, Any]:
    try:
        with ctx.db.begin() as tx:
            _one(tx, name)
            tx.execute(_RENAME, {"name": name, "to": _checked_name(to)})
            return _one(tx, to.strip())
    except Violated as e:
        raise _told(e, to, 0) from e


def delete(ctx: Context, name: str) -> None:
    with ctx.db.begin() as tx:
        if not tx.execute(_DELETE, {"name": name}).rowcount:
            raise _missing(name)


def _one(tx: Tx, name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = tx.execute(_ONE, {"name": name}).scalar()
    if found is None:
        raise _missing(name)
    return found


def _missing(name: str) -> Missing:
    return Missing(f"template '{name}' not found: see 'det template list'")


def _checked_name(name: str) -> str:
    if not name.strip():
        raise Invalid("a template's name must not be blank")
    return name.strip()


def _checked_config(config: Any) -> dict[str, Any]:
    problems = list(json_problems(config))
    if not isinstance(config, dict):
        problems = [Problem("config", "a template is an object, like a configuration")]
    if problems:
        raise InvalidConfig(problems, what="template")
    checked: dict[str, Any] = config
    return checked


def _told(e: Violated, name: str, workspace_id: int) -> Missing | Taken:
    if e.constraint == "templates_workspace_id_fkey":
        return Missing(f"workspace {workspace_id} not found")
    return Taken(f"template '{name}' already exists: choose another name, or change that one")
