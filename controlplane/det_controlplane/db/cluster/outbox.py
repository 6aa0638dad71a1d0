"""Keep effects that are due after a commit, at least once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from det_controlplane.db import schema
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema.enums import EffectKind

_outbox = schema.outbox.c
_ADD = insert(schema.outbox).inline()
_CLAIM = text("""
    UPDATE outbox SET attempts = attempts + 1, due_at = cast(:now AS timestamptz) + make_interval(secs => least(15 * 2 ^ attempts, 900))
    WHERE id = (SELECT id FROM outbox WHERE due_at <= :now AND (kind = 'webhook') = :of_webhooks
                ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, kind, payload, attempts, due_at AS again_at
""")
_DELAY = text("""
    UPDATE outbox SET due_at = cast(:now AS timestamptz) + make_interval(secs => least(2 * attempts, 60)) WHERE id = :id
""")
_GO_ON = text("""
    UPDATE outbox SET attempts = 0, due_at = cast(:now AS timestamptz) + interval '1 second' WHERE id = :id
""")
_PLACES = (EffectKind.DELETE_PROJECT, EffectKind.DELETE_WORKSPACE)
_HASTEN_PLACES = (
    update(schema.outbox)
    .where(_outbox.kind.in_(_PLACES), _outbox.due_at > bindparam("now"))
    .values(due_at=bindparam("now"))
)
_HASTEN_AFTER_TASK = text("""
    UPDATE outbox SET due_at = :now WHERE due_at > :now AND (kind = 'delete_workspace' OR (
        kind = 'delete_experiment' AND payload->>'key' = (SELECT config->>'_key' FROM tasks WHERE id = :task_id)))
""")
# Effects with one `experiment_id` have not begun.
_GATHER = text("""
    WITH own AS (SELECT id, project_id, user_id FROM experiments WHERE id = :experiment_id),
    others AS (
        DELETE FROM outbox WHERE id = ANY(ARRAY(
            SELECT o.id FROM outbox o JOIN experiments e ON e.id = cast(o.payload->>'experiment_id' AS integer)
            JOIN own ON own.project_id = e.project_id AND own.user_id = e.user_id AND own.id <> e.id
            WHERE o.kind = 'delete_experiment' AND o.due_at <= :now ORDER BY o.id LIMIT :most FOR UPDATE OF o SKIP LOCKED))
        RETURNING cast(payload->>'experiment_id' AS integer) AS experiment_id)
    UPDATE outbox SET payload = jsonb_build_object('experiment_ids', to_jsonb(cast(:experiment_id AS integer)) || coalesce(
            (SELECT jsonb_agg(experiment_id ORDER BY experiment_id) FROM others), '[]'),
        'key', CASE WHEN EXISTS (SELECT 1 FROM others) THEN to_jsonb(cast(:key AS text)) ELSE payload->'key' END)
    WHERE id = :id RETURNING payload
""")
_PROMISED_LATER = text("""
    SELECT EXISTS (SELECT 1 FROM outbox o WHERE o.kind = 'delete_experiment'
        AND o.id > (SELECT max(id) FROM outbox WHERE kind = 'delete_experiment' AND payload->>'key' = :key)
        AND (o.payload->'experiment_ids' @> to_jsonb(cast(:experiment_id AS integer))
            OR o.payload->'experiment_id' = to_jsonb(cast(:experiment_id AS integer))))
""")
_REMOVE = delete(schema.outbox).where(_outbox.id == bindparam("id"))
_NEXT_DUE = select(func.min(_outbox.due_at)).where(
    (_outbox.kind == EffectKind.WEBHOOK) == bindparam("of_webhooks")
)


@dataclass(frozen=True, slots=True)
class Effect:
    id: int
    kind: EffectKind
    payload: dict[str, Any]
    attempts: int
    again_at: datetime  # when it comes back unless it is marked done


def add(tx: Tx, kind: EffectKind, payload: Mapping[str, object], now: datetime) -> None:
    tx.execute(_ADD, {"kind": kind, "payload": payload, "due_at": now, "created_at": now})


def claim(tx: Tx, now: datetime, *, of_webhooks: bool = False) -> Effect | None:
    """Return the next due effect; until it is marked done it comes back, later each time."""
    row = tx.execute(_CLAIM, {"now": now, "of_webhooks": of_webhooks}).first()
    return None if row is None else Effect(**{**row._mapping, "kind": EffectKind(row.kind)})


def delay(tx: Tx, effect_id: int, now: datetime) -> None:
    """Retry an effect soon. It has not failed; it waits for another change."""
    tx.execute(_DELAY, {"id": effect_id, "now": now})


def continue_later(tx: Tx, effect_id: int, now: datetime) -> None:
    """Continue an effect in a second: a part of it is done."""
    tx.execute(_GO_ON, {"id": effect_id, "now": now})


def gather_deletions(tx: Tx, effect: Effect, key: str, most: int, now: datetime) -> Effect:
    """Let the deletion of an experiment include other due deletions of the same project and owner.

    Only deletions that have not begun are included. All get the same key."""
    values = {
        "id": effect.id, "experiment_id": effect.payload["experiment_id"], "key": key,
        "most": most, "now": now,
    }  # fmt: skip
    return replace(effect, payload=tx.execute(_GATHER, values).scalar_one())


def has_later_deletion(tx: Tx, experiment_id: int, key: str) -> bool:
    """Return whether a user has asked again for the deletion of an experiment, after the deletion with the key."""
    values = {"experiment_id": experiment_id, "key": key}
    return bool(tx.execute(_PROMISED_LATER, values).scalar())


def hasten_places(tx: Tx, now: datetime) -> None:
    """Try the deletions of projects and workspaces now, because experiments of one of them were deleted."""
    tx.execute(_HASTEN_PLACES, {"now": now})


def retry_deletions_of_task(tx: Tx, task_id: str, now: datetime) -> bool:
    """Try the deletions now that may wait for the end of a task; return whether there are any.

    Experiments wait for the task that deletes their files. Workspaces wait for all their tasks."""
    return tx.execute(_HASTEN_AFTER_TASK, {"task_id": task_id, "now": now}).rowcount > 0


def remove(tx: Tx, effect_id: int) -> None:
    tx.execute(_REMOVE, {"id": effect_id})


def next_due(tx: Tx, *, of_webhooks: bool = False) -> datetime | None:
    return tx.execute(_NEXT_DUE, {"of_webhooks": of_webhooks}).scalar()
