"""Templates: configuration fragments that are merged below a submitted configuration."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from det_controlplane.core import config as configs
from det_controlplane.core.config.text import json_problems, load_yaml
from det_controlplane.core.paging import Page, Sort
from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.experiments import submissions
from det_controlplane.db.people import templates
from det_controlplane.services import sealing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken
from det_controlplane.services.identity.route_rights import require_in, require_things
from det_controlplane.services.principal import User

_WHAT = "template"


def get(ctx: Context, caller: User, name: str) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        return _read_template(ctx, tx, caller, name)


def listed(ctx: Context, page: Page, sort: Sort, filters: dict[str, Any]) -> Iterator[str]:
    return templates.listed(ctx.db, page, sort, filters)


def to_merge(ctx: Context, user: User, name: str) -> dict[str, Any] | None:
    """Return a template with its secrets for merging, or None if no template is named."""
    if not name:
        return None
    require_things(ctx, user, Right.VIEW_TEMPLATES, "template", [name])
    row = submissions.template(ctx.db, name)
    if row is None:
        raise Missing(f"template '{name}' not found")
    config: dict[str, Any] = sealing.unsealed(ctx, row.config, row.sealed)
    return config


@contextmanager
def naming(name: str, submitted: Mapping[str, Any], config: Any) -> Iterator[None]:
    """Add the name of the template to problems that it caused."""
    try:
        yield
    except InvalidConfig as e:
        if config is None:
            raise
        raise InvalidConfig(
            list(configs.with_template_name(e.problems, submitted, config, name))
        ) from e


def create(
    ctx: Context, caller: User, name: str, config: Any, workspace_id: int, *, replace: bool = False
) -> dict[str, Any]:
    store = templates.put if replace else templates.create
    stored_name, checked = _checked_name(name), _checked_config(config)
    try:
        with ctx.db.begin() as tx:
            is_there = replace and templates.one(tx, stored_name) is not None
            if is_there:
                right = Right.UPDATE_TEMPLATES
                require_things(ctx, caller, right, "template", [stored_name])
            else:
                require_in(caller, Right.CREATE_TEMPLATES, workspace_id or 1)
            parts = _seal_config(ctx, tx, stored_name, checked)
            config = {"config": parts.shown, "sealed": parts.secrets}
            store(tx, stored_name, workspace_id or 1, caller.id, **config)
            return _read_template(ctx, tx, caller, stored_name)
    except Violated as e:
        raise _refusal(e, name, workspace_id) from e


def check(name: str, config: Any) -> dict[str, Any]:
    """Return the template that would be stored, without storing it."""
    return {"name": _checked_name(name), "config": _checked_config(config)}


def set_config(ctx: Context, caller: User, name: str, config: Any) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        parts = _seal_config(ctx, tx, name, _checked_config(config))
        templates.change(tx, name, config=parts.shown, sealed=parts.secrets)
        return _read_template(ctx, tx, caller, name)


def rename(ctx: Context, caller: User, name: str, to: str) -> dict[str, Any]:
    try:
        with ctx.db.begin() as tx:
            _read_template(ctx, tx, caller, name)
            templates.change(tx, name, name=_checked_name(to))
            return _read_template(ctx, tx, caller, to.strip())
    except Violated as e:
        raise _refusal(e, to, 0) from e


def delete(ctx: Context, name: str) -> None:
    with ctx.db.begin() as tx:
        if not templates.remove(tx, name):
            raise _missing_error(name)


def _read_template(ctx: Context, tx: Tx, caller: User, name: str) -> dict[str, Any]:
    """Return a template. Its owner sees environment variables, if it is not a task that asks."""
    view, row = templates.one(tx, name), templates.stored(tx, name)
    if view is None or row is None:
        raise _missing_error(name)
    if not caller.is_person(row.user_id):
        return view
    return {**view, "config": sealing.as_seen_by_owner(ctx, row.config, row.sealed)}


def _seal_config(ctx: Context, tx: Tx, name: str, config: dict[str, Any]) -> sealing.Sealed:
    """Encrypt the secrets of a configuration. A masked value keeps its stored secret."""
    row = templates.stored(tx, name)
    earlier = None if row is None else sealing.unsealed(ctx, row.config, row.sealed)
    try:
        return sealing.seal(ctx, sealing.completed(config, earlier))
    except InvalidConfig as e:
        raise InvalidConfig(e.problems, what=_WHAT) from e


def _missing_error(name: str) -> Missing:
    return Missing(f"template '{name}' not found: see 'det template list'")


def _checked_name(name: str) -> str:
    if not name.strip():
        raise Invalid("a template's name must not be blank")
    return name.strip()


def _checked_config(config: Any) -> dict[str, Any]:
    """Return the configuration of a template, which may be given as YAML."""
    if isinstance(config, str):
        config = load_yaml(config, what=_WHAT)
    problems = list(json_problems(config))
    if not isinstance(config, dict):
        problems = [Problem("config", "a template is an object, like a configuration")]
    problems = problems or configs.fragment_problems(config)
    if problems:
        raise InvalidConfig(problems, what=_WHAT)
    checked: dict[str, Any] = config
    return checked


def _refusal(e: Violated, name: str, workspace_id: int) -> Missing | Taken:
    if e.constraint == "templates_workspace_id_fkey":
        return Missing(f"workspace {workspace_id} not found")
    return Taken(f"template '{name}' already exists: choose another name, or change that one")
