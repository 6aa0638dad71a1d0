"""Read which projects, models and model versions there are, and which have changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import TextClause, text

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time

# PostgreSQL's number of the transaction that wrote a row last: no change leaves it as it was.
_SEQ = "{0}.xmin::text::bigint"


@dataclass(frozen=True, slots=True)
class RowKind:
    """A kind of rows: the table `r` with the join that gives its workspace, and the columns that subscriptions name."""

    tables: str
    workspace: str
    filters: Mapping[str, str]
    fields: str

    def numbers(self) -> TextClause:
        condition = " OR ".join(
            f"{column} = ANY(cast(:{name} AS integer[]))" for name, column in self.filters.items()
        )
        return text(f"""
            SELECT r.id, {_SEQ.format("r")} AS seq FROM {self.tables}
            WHERE (cast(:within AS integer[]) IS NULL OR {self.workspace} = ANY(cast(:within AS integer[])))
              AND (:every OR {condition})
        """)

    def rows(self) -> TextClause:
        return text(f"""
            SELECT json_build_object('seq', {_SEQ.format("r")}, 'workspace_id', {self.workspace}, {self.fields})::text
            FROM {self.tables} WHERE r.id = ANY(cast(:ids AS integer[]))
              AND (cast(:within AS integer[]) IS NULL OR {self.workspace} = ANY(cast(:within AS integer[])))
            ORDER BY r.id
        """)


def _same(*names: str) -> str:
    return ", ".join(f"'{name}', r.{name}" for name in names)


_TIMES = f"'creation_time', {time('r.created_at')}, 'last_updated_time', {time('r.updated_at')}"
KINDS: Mapping[str, RowKind] = {
    "projects": RowKind(
        "projects r",
        "r.workspace_id",
        {"workspace_ids": "r.workspace_id", "project_ids": "r.id"},
        # Determined's client rejects a message with a further field.
        f"""{_same("id", "name", "key", "description", "notes", "user_id", "archived", "immutable")},
            'state', coalesce(r.state::text, 'UNSPECIFIED'), 'created_at', {time("r.created_at")}""",
    ),
    "models": RowKind(
        "models r",
        "r.workspace_id",
        {"workspace_ids": "r.workspace_id", "model_ids": "r.id", "user_ids": "r.user_id"},
        f"{_same('id', 'name', 'description', 'metadata', 'labels', 'notes', 'user_id', 'archived')}, {_TIMES}",
    ),
    "modelversions": RowKind(
        "model_versions r JOIN models m ON m.id = r.model_id",
        "m.workspace_id",
        {"model_ids": "r.model_id", "model_version_ids": "r.id", "user_ids": "r.user_id"},
        f"""{_same("id", "version", "name", "comment", "notes", "metadata", "labels", "model_id", "user_id")},
            'checkpoint_uuid', r.checkpoint_uuid, {_TIMES}""",
    ),
}
_NUMBERS = {name: kind.numbers() for name, kind in KINDS.items()}
_ROWS = {name: kind.rows() for name, kind in KINDS.items()}


def numbers(
    tx: Tx, kind: str, within: Sequence[int] | None, chosen: Mapping[str, Sequence[int]]
) -> dict[int, int]:
    """Return the number of the last change of each row that is subscribed to, by its id; no choice means every row."""
    filters = {name: list(chosen.get(name, ())) for name in KINDS[kind].filters}
    every = not any(filters.values())
    workspace_ids = None if within is None else list(within)
    rows = tx.execute(_NUMBERS[kind], {"within": workspace_ids, "every": every, **filters})
    return {row.id: row.seq for row in rows}


def rows(tx: Tx, kind: str, ids: Sequence[int], within: Sequence[int] | None) -> list[str]:
    """Return rows as JSON, except rows that have left the workspaces meanwhile."""
    if not ids:
        return []
    workspace_ids = None if within is None else list(within)
    return [
        str(row[0]) for row in tx.execute(_ROWS[kind], {"ids": list(ids), "within": workspace_ids})
    ]


def filters_of(kind: str) -> Sequence[str]:
    return tuple(KINDS[kind].filters)
