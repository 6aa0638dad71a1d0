"""People with accounts."""

from typing import Any

from sqlalchemy import text

from det_controlplane.db.views import USER
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

_BY_ID = text(f"SELECT {USER} FROM users u WHERE u.id = :id")


def get(ctx: Context, user_id: int) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        found: dict[str, Any] | None = tx.value(_BY_ID, {"id": user_id})
    if found is None:
        raise Missing(f"user {user_id} not found")
    return found
