"""List the audit log for administrators, and delete expired entries."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from det_controlplane.core.numerals import parse_duration
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.cluster import audit
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.principal import User


def listed(
    ctx: Context, caller: User, page: Page, sort: Sort, filters: dict[str, Any]
) -> Iterator[str]:
    require_admin(caller, "read the audit log")
    return audit.listed(ctx.db, page, sort, filters)


def time_of(ctx: Context, name: str, value: str) -> datetime | None:
    """Return the time that a caller means: `24h` ago, or a date with or without a time of day."""
    if not value:
        return None
    try:
        ago = parse_duration(value)
        if ago is not None:
            return ctx.now() - ago
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
        time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        return time.astimezone(timezone.utc)
    except (ValueError, OverflowError) as e:
        raise Invalid(f"{name} must be a time such as 2026-01-31T08:00:00Z, or 24h ago") from e


def forget_old(ctx: Context) -> None:
    days = ctx.config.audit_retention_days
    if days >= 0:
        with ctx.db.begin() as tx:
            audit.forget_before(tx, ctx.now() - timedelta(days=days))
