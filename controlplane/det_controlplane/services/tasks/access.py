"""The access token of a task's server: it is part of the address that the task's owner gets."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from det_controlplane.core.secrets import HIDDEN
from det_controlplane.services.context import Context

_HASH = (
    "sha256:"  # before it, tokens were made of the row and the bootstrap token, where there was one
)


def key_of(token: str) -> str:
    """Return the hash of a token, which is stored in the clear: a token can be compared with it, and not read from it."""
    return _HASH + hashlib.sha256(token.encode()).hexdigest()


def token_of(
    ctx: Context, task_id: str, config: Mapping[str, Any], access_key: str | None
) -> str | None:
    """Return the token of a task from its configuration with secrets; None where it cannot be read."""
    token = (config.get("_environment") or {}).get("DET_NOTEBOOK_TOKEN") or config.get("_token")
    if token and token != HIDDEN:
        return str(token)
    return _earlier(ctx, task_id, access_key)


def opens(ctx: Context, task_id: str, access_key: str | None, token: str) -> bool:
    """Return whether a token belongs to the task."""
    if not access_key or not token.isascii():
        return False
    if access_key.startswith(_HASH):
        return hmac.compare_digest(access_key, key_of(token))
    earlier = _earlier(ctx, task_id, access_key)
    return earlier is not None and hmac.compare_digest(earlier, token)


def _earlier(ctx: Context, task_id: str, access_key: str | None) -> str | None:
    """Return the token of a task from before tokens were random, unless readers of the database could make it, too."""
    if not access_key or access_key.startswith(_HASH) or not ctx.bootstrap_token:
        return None
    key = f"{ctx.bootstrap_token}{access_key}".encode()
    digest = hmac.digest(key, f"access to task {task_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
