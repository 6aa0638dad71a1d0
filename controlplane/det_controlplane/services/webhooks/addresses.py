"""Addresses of webhooks: their secret parts are stored sealed, and shown to callers that may set them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.people.roles import OPEN, Right
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.secrets import HIDDEN
from det_controlplane.core.webhooks import shown_address
from det_controlplane.ports.cipher import CannotOpen
from det_controlplane.services.context import Context
from det_controlplane.services.principal import User


@dataclass(frozen=True, slots=True)
class SealedAddress:
    """An address as it is stored; `sealed` is empty where `shown` is all of it."""

    shown: str
    sealed: str = ""


def seal(ctx: Context, url: str) -> SealedAddress:
    public_address = shown_address(url)
    if public_address == url:
        return SealedAddress(url)
    if ctx.cipher is None:
        message = "has a secret, and this cluster has no key to keep it with: set DET_SECRETS_KEY"
        raise InvalidConfig([Problem("url", message)], what="webhook")
    return SealedAddress(public_address, ctx.cipher.seal(url.encode()))


def unsealed(ctx: Context, url: str, sealed: str | None) -> str:
    """Return the whole address; raises CannotOpen.

    Older versions store the address unencrypted in `url`, beside an earlier encrypted one or none. Then `url` is
    newer."""
    if not sealed or HIDDEN not in url:
        return url
    if ctx.cipher is None:
        raise CannotOpen("DET_SECRETS_KEY is not set")
    return ctx.cipher.open(sealed).decode()


def as_seen_by(
    ctx: Context, caller: User, webhook: dict[str, Any], owners: Mapping[int, int]
) -> dict[str, Any]:
    """Return a webhook with its address or only the host. `owners` are the owners of workspaces."""
    view = {name: value for name, value in webhook.items() if name != "sealed"}
    if not _may_set(caller, webhook["workspaceId"], owners):
        failure = view["lastFailure"] if view["workspaceId"] else None
        return {**view, "url": shown_address(view["url"]), "lastFailure": failure}
    try:
        return {**view, "url": unsealed(ctx, webhook["url"], webhook["sealed"])}
    except CannotOpen:
        return view


def _may_set(caller: User, workspace_id: int, owners: Mapping[int, int]) -> bool:
    """Return whether the caller may read a webhook's address.

    Without roles all may change webhooks, but not read them.
    """
    if caller.allocation_id is not None or not workspace_id:
        return caller.admin and caller.allocation_id is None
    if caller.grants is OPEN:
        return caller.admin or owners.get(workspace_id) == caller.id
    return caller.grants.has(Right.EDIT_WEBHOOKS, workspace_id)
