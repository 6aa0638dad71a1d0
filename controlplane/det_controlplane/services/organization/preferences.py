"""Store the settings of a user's web pages, and the projects that the user opened last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from det_controlplane.db.people import projects, users
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing, Oversized

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    storage_path: str
    value: str  # JSON, the client's own


def settings(ctx: Context, user_id: int) -> list[dict[str, Any]]:
    with ctx.db.autocommit() as tx:
        by_place = users.settings(tx, user_id)
    return [
        {"key": key, "storagePath": place, "value": value}
        for place, values in sorted(by_place.items())
        for key, value in sorted(values.items())
    ]


def keep(ctx: Context, user_id: int, settings: Sequence[Setting]) -> None:
    with ctx.db.begin() as tx:
        for s in settings:
            users.keep_setting(tx, user_id, s.storage_path, s.key, s.value)
        if users.settings_size(tx, user_id) > _MOST_BYTES:
            raise Oversized(
                f"what web pages keep of a user has {_MOST_BYTES >> 20} MiB at most: keep less,"
                " or forget all by POST /api/v1/users/setting/reset"
            )


def reset(ctx: Context, user_id: int) -> None:
    with ctx.db.begin() as tx:
        users.change(tx, user_id, settings={})


def saw_project(ctx: Context, user_id: int, project_id: int) -> None:
    with ctx.db.begin() as tx:
        if not projects.note_view(tx, project_id, user_id, ctx.now()):
            raise Missing(f"project {project_id} not found")


def recent_projects(ctx: Context, user_id: int, limit: int) -> list[dict[str, Any]]:
    with ctx.db.autocommit() as tx:
        return projects.viewed_last(tx, user_id, limit)
