"""The cluster as a whole: is it there, what does its operator want to say, how is it set up."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import text

from det_controlplane.core.durations import parse_duration
from det_controlplane.core.secrets import redacted
from det_controlplane.db.engine import DatabaseDown
from det_controlplane.db.views import time
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid
from det_controlplane.services.identity.principal import User
from det_controlplane.services.identity.rights import require_admin

MAX_MESSAGE = 250
LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_PING = text("SELECT 1")
_SHOWN = f"""json_build_object('message', message, 'startTime', {time("starts_at")}, 'endTime', {time("ends_at")},
    'createdTime', {time("created_at")})"""
_MESSAGE = text(f"""
    SELECT {_SHOWN} FROM cluster_message WHERE starts_at <= :now AND (ends_at IS NULL OR ends_at > :now)
""")
_PLANNED = text(f"SELECT {_SHOWN} FROM cluster_message WHERE ends_at IS NULL OR ends_at > :now")
_SET_MESSAGE = text("""
    INSERT INTO cluster_message (message, starts_at, ends_at, created_at) VALUES (:message, :starts_at, :ends_at, :now)
    ON CONFLICT (only_row) DO UPDATE SET message = excluded.message, starts_at = excluded.starts_at,
        ends_at = excluded.ends_at, created_at = excluded.created_at
""")
_CLEAR_MESSAGE = text("DELETE FROM cluster_message")
_LOG = text("SELECT log_level, log_color FROM cluster")
_SET_LEVEL = text("UPDATE cluster SET log_level = :value")
_SET_COLOR = text("UPDATE cluster SET log_color = :value")


def database_answers(ctx: Context) -> bool:
    try:
        with ctx.db.begin() as tx:
            tx.execute(_PING)
    except DatabaseDown:
        return False
    return True


def message(ctx: Context) -> Any:
    """What is to be shown now."""
    with ctx.db.begin() as tx:
        return tx.execute(_MESSAGE, {"now": ctx.now()}).scalar()


def planned_message(ctx: Context) -> Any:
    """Also one whose time is still to come."""
    with ctx.db.begin() as tx:
        return tx.execute(_PLANNED, {"now": ctx.now()}).scalar()


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
        values = {"message": message, "starts_at": start, "ends_at": end, "now": now}
        tx.execute(_SET_MESSAGE, values)


def clear_message(ctx: Context, caller: User) -> None:
    require_admin(caller, "clear the cluster message")
    with ctx.db.begin() as tx:
        tx.execute(_CLEAR_MESSAGE)


def configuration(ctx: Context, caller: User) -> dict[str, Any]:
    """What the cluster runs with, without its secrets."""
    require_admin(caller, "see the cluster's configuration")
    config: dict[str, Any] = redacted(asdict(ctx.config))
    config.pop("ignored", None)
    config["log"] = log_settings(ctx)
    return config


def log_settings(ctx: Context) -> dict[str, Any]:
    with ctx.db.begin() as tx:
        row = tx.execute(_LOG).first()
    given = ctx.config.log
    level, color = (None, None) if row is None else (row.log_level, row.log_color)
    configured = given.level.upper().replace("WARN", "WARNING").replace("WARNINGING", "WARNING")
    return {
        "level": (level or configured.replace("FATAL", "CRITICAL")).lower(),
        "color": given.color if color is None else color,
    }


def set_log(ctx: Context, caller: User, level: str | None, color: bool | None) -> None:
    """For every process of the control plane; they notice within a minute."""
    require_admin(caller, "change the cluster's configuration")
    if level is not None and level not in LEVELS:
        raise Invalid(f"log.level must be one of {', '.join(LEVELS)}, not {level!r}")
    with ctx.db.begin() as tx:
        if level is not None:
            tx.execute(_SET_LEVEL, {"value": level})
        if color is not None:
            tx.execute(_SET_COLOR, {"value": color})
