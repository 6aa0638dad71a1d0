"""Create, change and try webhooks."""

from collections.abc import Sequence
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any

from det_controlplane.core.people.roles import Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.webhooks import (
    NewWebhook,
    Trigger,
    WebhookMode,
    name_problems,
    problems_of,
    shown_address,
    trigger_problems,
    url_problems,
)
from det_controlplane.core.webhooks import test_event as event_of_test
from det_controlplane.db.cluster import webhooks
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.errors import Violated
from det_controlplane.db.people import workspaces
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing, Taken, WrongState
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.identity.route_rights import require_in
from det_controlplane.services.principal import User
from det_controlplane.services.webhooks import addresses, delivery

_TESTS = BoundedSemaphore(2)


def listed(ctx: Context, caller: User, within: Sequence[int] | None) -> list[dict[str, Any]]:
    """Return the webhooks of some workspaces. None stands for all webhooks, including the webhooks of the cluster."""
    with ctx.db.autocommit() as tx:
        rows, owners = webhooks.listed(tx, within), workspaces.owners(tx)
    return [addresses.as_seen_by(ctx, caller, webhook, owners) for webhook in rows]


def get(ctx: Context, caller: User, webhook_id: int) -> dict[str, Any]:
    with ctx.db.autocommit() as tx:
        require_in(caller, Right.EDIT_WEBHOOKS, _workspace_of(tx, webhook_id))
        return _as_seen_by(ctx, tx, caller, webhook_id)


def deliveries(ctx: Context, caller: User, webhook_id: int) -> list[dict[str, Any]]:
    """Return the last delivery attempts. The reason of a failure may reveal the address."""
    with ctx.db.autocommit() as tx:
        _check_right(caller, _workspace_of(tx, webhook_id))
        return webhooks.deliveries(tx, webhook_id)


def create(ctx: Context, caller: User, new: NewWebhook) -> dict[str, Any]:
    _check_right(caller, new.workspace_id)
    _refuse(problems_of(new))
    _refuse(delivery.target_problems(ctx, new.url))
    address = addresses.seal(ctx, new.url)
    row = replace(new, url=address.shown)
    try:
        with ctx.db.begin() as tx:
            _refuse_taken(tx, new.name, new.workspace_id)
            webhook_id = webhooks.create(tx, row, address.sealed, ctx.now())
            ctx.recorder.add_objects(f"webhook {webhook_id}")
            return {**_read_webhook(tx, webhook_id), "url": new.url}
    except Violated as e:
        raise Missing(f"workspace {new.workspace_id} not found") from e


def edit(
    ctx: Context,
    caller: User,
    webhook_id: int,
    *,
    url: str | None = None,
    name: str | None = None,
    triggers: Sequence[Trigger] | None = None,
    enabled: bool | None = None,
) -> dict[str, Any]:
    """Change the given fields. `triggers` replaces all triggers."""
    with ctx.db.autocommit() as tx:
        workspace_id = _workspace_of(tx, webhook_id)
        _check_right(caller, workspace_id)
        earlier = _read_webhook(tx, webhook_id)
    columns: dict[str, Any] = {} if enabled is None else {"enabled": enabled}
    if url is not None and url != shown_address(earlier["url"]):
        _refuse(url_problems(url))
        _refuse(delivery.target_problems(ctx, url))
        address = addresses.seal(ctx, url)
        columns |= {"url": address.shown, "sealed": address.sealed}
    if name is not None:
        _refuse(name_problems(name))
        columns["name"] = name.strip()
    if triggers is not None:
        mode = WebhookMode(earlier["mode"].removeprefix("WEBHOOK_MODE_"))
        _refuse(trigger_problems(triggers, mode))
    with ctx.db.begin() as tx:
        if name is not None:
            _refuse_taken(tx, name, workspace_id, webhook_id)
        if columns:
            webhooks.change(tx, webhook_id, **columns)
        if triggers is not None:
            webhooks.replace_triggers(tx, webhook_id, triggers)
        changed = _as_seen_by(ctx, tx, caller, webhook_id)
    return {**changed, "url": url} if "url" in columns else changed


def delete(ctx: Context, caller: User, webhook_id: int) -> None:
    with ctx.db.begin() as tx:
        _check_right(caller, _workspace_of(tx, webhook_id))
        webhooks.remove(tx, webhook_id)


def test(ctx: Context, caller: User, webhook_id: int) -> None:
    """Send an example now; raises Invalid where the target does not take it."""
    with ctx.db.autocommit() as tx:
        _check_right(caller, _workspace_of(tx, webhook_id))
        target = webhooks.target(tx, webhook_id)
    if target is None:
        raise _missing_error(webhook_id)
    payload = event_of_test(str(ctx.random.uuid()), int(ctx.now().timestamp()))
    # A slow target holds the thread that answers requests.
    if not _TESTS.acquire(blocking=False):
        raise WrongState("other webhooks are being tested: try again in a few seconds")
    try:
        delivery.send_now(ctx, target, payload)
    except Unsent as e:
        raise Invalid(
            f"webhook {webhook_id} ({target.name}) did not accept the test message: {e}"
        ) from e
    finally:
        _TESTS.release()


def _as_seen_by(ctx: Context, tx: Tx, caller: User, webhook_id: int) -> dict[str, Any]:
    row = _row(tx, webhook_id)
    return addresses.as_seen_by(ctx, caller, row, workspaces.owners(tx))


def _read_webhook(tx: Tx, webhook_id: int) -> dict[str, Any]:
    return {k: v for k, v in _row(tx, webhook_id).items() if k != "sealed"}


def _row(tx: Tx, webhook_id: int) -> dict[str, Any]:
    row = webhooks.one(tx, webhook_id)
    if row is None:
        raise _missing_error(webhook_id)
    return row


def _workspace_of(tx: Tx, webhook_id: int) -> int | None:
    exists, workspace_id = webhooks.workspace_of(tx, webhook_id)
    if not exists:
        raise _missing_error(webhook_id)
    return workspace_id


def _refuse_taken(tx: Tx, name: str, workspace_id: int | None, but_not: int = 0) -> None:
    """Refuse a second webhook of a name: experiments choose by it. Any number of webhooks may have no name."""
    if not name.strip():
        return
    other = webhooks.of_name(tx, name, workspace_id, but_not)
    if other is not None:
        where = "the cluster" if workspace_id is None else f"workspace {workspace_id}"
        raise Taken(
            f"webhook {other} of {where} is called {name.strip()!r} already: choose another name, or change that one"
        )


def _missing_error(webhook_id: int) -> Missing:
    return Missing(f"webhook {webhook_id} not found: see 'det webhook list'")


def _check_right(caller: User, workspace_id: int | None) -> None:
    if workspace_id is None:
        require_admin(caller, "manage webhooks of the whole cluster; name a workspace")
    require_in(caller, Right.EDIT_WEBHOOKS, workspace_id)


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise InvalidConfig(problems, what="webhook")
