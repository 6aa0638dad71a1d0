"""The cluster as a whole: its health, its operators' message, its configuration and log level."""

from datetime import datetime, timedelta
from typing import Any

from det_controlplane.core.config.cluster_document import document
from det_controlplane.core.numerals import parse_duration
from det_controlplane.core.secrets import redacted
from det_controlplane.db.cluster import cluster
from det_controlplane.db.engine.errors import DatabaseDown
from det_controlplane.db.logs import master_log
from det_controlplane.db.schema.enums import LogLevel
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.identity.rights import require_admin
from det_controlplane.services.principal import User

MAX_MESSAGE = 250
WRITES_TRUSTED = timedelta(seconds=10)
FULL_TRUSTED = timedelta(minutes=1)
LEVELS = tuple(LogLevel.__members__)


def database_answers(ctx: Context) -> bool:
    """Return whether the database reads and writes."""
    # PostgreSQL may be able to update a row in place even if the disk has no room for new rows.
    if (
        ctx.memory.database_health.full_at is not None
        and ctx.now() - ctx.memory.database_health.full_at < FULL_TRUSTED
    ):
        return False
    try:
        with ctx.db.begin() as tx:
            cluster.answers(tx)
            # Strangers may ask often, so reuse the result of a recent write.
            written = (
                ctx.memory.database_health.wrote_at is not None
                and ctx.now() - ctx.memory.database_health.wrote_at < WRITES_TRUSTED
            )
            if not written:
                cluster.takes_writes(tx)
    except DatabaseDown:
        return False
    if not written:
        ctx.memory.database_health.wrote_at = ctx.now()
    return True


def message(ctx: Context) -> Any:
    """Return the cluster message that is to be shown now."""
    with ctx.db.begin() as tx:
        return cluster.message(tx, ctx.now(), planned=False)


def planned_message(ctx: Context, caller: User) -> Any:
    """Return the message, also if it begins later. Other users see it only when it begins."""
    require_admin(caller, "see the planned cluster message")
    with ctx.db.begin() as tx:
        return cluster.message(tx, ctx.now(), planned=True)


def set_message(
    ctx: Context,
    caller: User,
    message: str,
    starts_at: datetime | None,
    ends_at: datetime | None,
    duration: str,
) -> None:
    require_admin(caller, "set the cluster message")
    if not message.strip() or len(message) > MAX_MESSAGE:
        raise Invalid(f"message must have 1 to {MAX_MESSAGE} characters, not {len(message)}")
    now = ctx.now()
    start, end = starts_at or now, ends_at
    if duration:
        life = parse_duration(duration)
        if life is None:
            raise Invalid(f"duration {duration!r} must be a length of time such as '90m' or '36h'")
        if end is not None:
            raise Invalid("give endTime or duration, not both")
        end = start + life
    if end is not None and end <= max(start, now):
        raise Invalid("endTime must be after startTime and in the future")
    with ctx.db.begin() as tx:
        cluster.set_message(tx, message, start, end, now)


def clear_message(ctx: Context, caller: User) -> None:
    require_admin(caller, "clear the cluster message")
    with ctx.db.begin() as tx:
        cluster.clear_message(tx)


def configuration(ctx: Context, caller: User) -> dict[str, Any]:
    """Return the cluster's configuration without its secrets."""
    require_admin(caller, "see the cluster's configuration")
    settings: dict[str, Any] = redacted(document(ctx.config))
    return {**settings, "log": log_settings(ctx)}


def log_settings(ctx: Context) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        level, color = master_log.settings(tx)
    settings = ctx.config.log
    configured = settings.level.upper().replace("WARN", "WARNING").replace("WARNINGING", "WARNING")
    return {
        "level": (level.value if level else configured.replace("FATAL", "CRITICAL")).lower(),
        "color": settings.color if color is None else color,
    }


def set_log(ctx: Context, caller: User, level: str | None, color: bool | None) -> None:
    """Set the log of every process of the control plane; they notice within a minute."""
    require_admin(caller, "change the cluster's configuration")
    if level is not None and level not in LEVELS:
        raise Invalid(f"log.level must be one of {', '.join(LEVELS)}, not {level!r}")
    with ctx.db.begin() as tx:
        if level is not None:
            master_log.set_level(tx, LogLevel(level))
        if color is not None:
            master_log.set_color(tx, color)
