"""What a person's web pages remember: settings, and the projects looked at last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from det_controlplane.db.engine import as_json
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing
from det_controlplane.services.organization.projects import PROJECT, PROJECT_FROM

_SETTINGS = text("SELECT settings FROM users WHERE id = :id")
_KEEP = text("""
    UPDATE users SET settings = settings || jsonb_build_object(cast(:place AS text),
        coalesce(settings->:place, '{}') || jsonb_build_object(cast(:key AS text), cast(:value AS jsonb)))
    WHERE id = :id
""")
_RESET = text("UPDATE users SET settings = '{}' WHERE id = :id")
_SAW = text("""
    INSERT INTO project_views (user_id, project_id, viewed_at) SELECT :user_id, id, :now FROM projects WHERE id = :project_id
    ON CONFLICT (user_id, project_id) DO UPDATE SET viewed_at = excluded.viewed_at
""")
_RECENT = text(f"""
    SELECT coalesce(json_agg(x.item), '[]'::json) FROM (
        SELECT {PROJECT} AS item FROM {PROJECT_FROM} JOIN project_views v ON v.project_id = p.id
        WHERE v.user_id = :user_id ORDER BY v.viewed_at DESC LIMIT :limit) x
""")


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    storage_path: str
    value: str  # JSON, the client's own


def settings(ctx: Context, user_id: int) -> list[dict[str, Any]]:
    with ctx.db.begin() as tx:
        stored = tx.execute(_SETTINGS, {"id": user_id}).scalar() or {}
    return [
        {"key": key, "storagePath": place, "value": value}
        for place, values in sorted(stored.items())
        for key, value in sorted(values.items())
    ]


def keep(ctx: Context, user_id: int, settings: Sequence[Setting]) -> None:
    with ctx.db.begin() as tx:
        for s in settings:
            value = as_json(s.value)
            tx.execute(
                _KEEP, {"id": user_id, "place": s.storage_path, "key": s.key, "value": value}
            )


def reset(ctx: Context, user_id: int) -> None:
    with ctx.db.begin() as tx:
        tx.execute(_RESET, {"id": user_id})


def saw_project(ctx: Context, user_id: int, project_id: int) -> None:
    with ctx.db.begin() as tx:
        if not tx.execute(
            _SAW, {"user_id": user_id, "project_id": project_id, "now": ctx.now()}
        ).rowcount:
            raise Missing(f"project {project_id} not found")


def recent_projects(ctx: Context, user_id: int, limit: int) -> Any:
    with ctx.db.begin() as tx:
        return tx.execute(_RECENT, {"user_id": user_id, "limit": limit}).scalar()
