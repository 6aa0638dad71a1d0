"""The token that opens what a task serves: it is in the address that the task's owner is told."""

import base64
import hmac

from det_controlplane.services.context import Context


def token_of(ctx: Context, task_id: str, access_key: str | None) -> str:
    """Return the token of a task; nobody makes it without the cluster's secret, though the database has the rest."""
    key = f"{ctx.bootstrap_token}{access_key}".encode()
    digest = hmac.digest(key, f"access to task {task_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def opens(ctx: Context, task_id: str, access_key: str | None, token: str) -> bool:
    """Return whether a token is that of the task."""
    own = token_of(ctx, task_id, access_key)
    return bool(access_key) and token.isascii() and hmac.compare_digest(own, token)
