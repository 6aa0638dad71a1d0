"""Webhooks, and the messages that they have to send."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from det_controlplane.core.webhooks import NewWebhook, Trigger, TriggerType, WebhookType
from det_controlplane.db import schema
from det_controlplane.db.cluster import outbox
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.engine.views import time

_webhooks, _triggers = schema.webhooks.c, schema.webhook_triggers.c
_SHOWN = text(f"""
    SELECT json_build_object('id', w.id, 'name', w.name, 'url', w.url, 'sealed', w.sealed, 'webhookType', 'WEBHOOK_TYPE_' || w.type,
        'mode', 'WEBHOOK_MODE_' || w.mode, 'enabled', w.enabled, 'workspaceId', coalesce(w.workspace_id, 0), 'triggers', (
            SELECT coalesce(json_agg(json_build_object('id', t.id, 'webhookId', t.webhook_id,
                'triggerType', 'TRIGGER_TYPE_' || t.type, 'condition', t.condition) ORDER BY t.id), '[]'::json)
            FROM webhook_triggers t WHERE t.webhook_id = w.id),
        'lastArrivedAt', {time("w.arrived_at")}, 'lastFailedAt', {time("w.failed_at")},
        'lastFailure', w.failure,
        'waitingMessages', (
            SELECT count(*) FROM outbox o WHERE o.kind = 'webhook' AND cast(o.payload ->> 'webhook_id' AS integer) = w.id))
    FROM webhooks w
    WHERE (cast(:id AS integer) IS NULL OR w.id = :id)
      AND (cast(:within AS integer[]) IS NULL OR w.workspace_id = any(:within))
    ORDER BY w.id
""")
# Webhooks that receive events of an experiment `e`: those of its workspace and of the cluster, unless the experiment
# opts out, and the webhooks that it names.
_CHOSEN = """
    w.enabled AND (w.workspace_id IS NULL OR w.workspace_id = p.workspace_id) AND CASE w.mode
        WHEN 'WORKSPACE' THEN coalesce(e.config #>> '{integrations,webhooks,exclude}', 'false') <> 'true'
        ELSE (e.config #> '{integrations,webhooks,webhook_id}')::jsonb @> to_jsonb(w.id)
          OR (e.config #> '{integrations,webhooks,webhook_name}')::jsonb @> to_jsonb(w.name) END
"""
# The event is about one experiment, or about none, of one workspace or of the whole cluster.
_PROMISE = text(f"""
    INSERT INTO outbox (kind, payload, due_at, created_at)
    SELECT 'webhook', jsonb_build_object(
        'webhook_id', w.id,
        'experiment', about.experiment,
        'event', jsonb_build_object(
            'event_id', gen_random_uuid(), 'event_type', t.type,
            'timestamp', floor(date_part('epoch', cast(:now AS timestamptz)))::bigint,
            'condition', t.condition,
            'event_data', CASE WHEN :with_experiment THEN jsonb_build_object('experiment', about.experiment)
                               ELSE '{{}}'::jsonb END || :data)),
        cast(:now AS timestamptz), cast(:now AS timestamptz)
    FROM (SELECT cast(:experiment_id AS integer) AS id) asked LEFT JOIN experiments e ON e.id = asked.id
    LEFT JOIN projects p ON p.id = e.project_id LEFT JOIN workspaces ws ON ws.id = p.workspace_id
    LEFT JOIN jobs j ON j.id = e.job_id
    JOIN webhooks w ON CASE WHEN asked.id IS NOT NULL THEN {_CHOSEN}
        ELSE w.enabled AND w.mode = 'WORKSPACE' AND (w.workspace_id IS NULL OR w.workspace_id = :workspace_id) END
    JOIN webhook_triggers t ON t.webhook_id = w.id
    CROSS JOIN LATERAL (SELECT CASE WHEN e.id IS NOT NULL THEN jsonb_build_object(
        'id', e.id, 'state', e.state, 'name', e.name, 'resource_pool', j.pool,
        'duration', floor(date_part('epoch', coalesce(e.ended_at, cast(:now AS timestamptz)) - e.started_at))::bigint,
        'slots_per_trial', coalesce((e.config #>> '{{resources,slots_per_trial}}')::integer, 1),
        'workspace', ws.name, 'project', p.name) || :more END AS experiment) about
    WHERE asked.id IS NOT DISTINCT FROM e.id AND t.type = cast(:type AS trigger_type)
      AND coalesce(t.condition ->> 'subject', '') = :subject
      AND (cast(:trigger_id AS integer) IS NULL OR t.id = :trigger_id)
      AND (t.type <> 'EXPERIMENT_STATE_CHANGE' OR t.condition ->> 'state' = e.state::text)
""").bindparams(bindparam("data", type_=JSONB), bindparam("more", type_=JSONB))  # fmt: skip
_LOG_TRIGGERS = text(f"""
    SELECT t.id AS trigger_id, t.condition ->> 'regex' AS regex, e.id AS experiment_id, trials.id AS trial_id
    FROM webhook_triggers t JOIN webhooks w ON w.id = t.webhook_id
    CROSS JOIN tasks JOIN trials ON trials.id = tasks.trial_id JOIN experiments e ON e.id = trials.experiment_id
    JOIN projects p ON p.id = e.project_id
    WHERE t.type = 'TASK_LOG' AND tasks.id = :task_id AND {_CHOSEN}
      AND NOT EXISTS (SELECT FROM webhook_log_matches m WHERE m.task_id = :task_id AND m.trigger_id = t.id)
    ORDER BY t.id
""")
_MATCHED = text("""
    INSERT INTO webhook_log_matches (task_id, trigger_id)
    SELECT :task_id, id FROM webhook_triggers WHERE id = :trigger_id
    ON CONFLICT DO NOTHING
""")


# Names are compared and kept in one go, also by requests that come together.
_LOCK_NAMES = text("SELECT pg_advisory_xact_lock(hashtextextended('names of webhooks', 0))")
_NOTE = text("""
    INSERT INTO webhook_deliveries (webhook_id, at, event_id, event_type, experiment_id, attempt, failure, next_at)
    SELECT id, :at, :event_id, :event_type, :experiment_id, :attempt, :failure, :next_at FROM webhooks WHERE id = :webhook_id
""")
_FORGET = text("""
    DELETE FROM webhook_deliveries WHERE webhook_id = :webhook_id AND id <= (
        SELECT id FROM webhook_deliveries WHERE webhook_id = :webhook_id ORDER BY id DESC OFFSET :most LIMIT 1)
""")
_DELIVERIES = text(f"""
    SELECT json_build_object('id', d.id, 'at', {time("d.at")}, 'eventId', d.event_id, 'eventType', d.event_type,
        'experimentId', d.experiment_id, 'attempt', d.attempt, 'arrived', d.failure IS NULL, 'failure', d.failure,
        'nextAt', {time("d.next_at")})
    FROM webhook_deliveries d WHERE d.webhook_id = :webhook_id ORDER BY d.id DESC
""")
MOST_DELIVERIES = 100


@dataclass(frozen=True, slots=True)
class Delivery:
    """A try to deliver a message."""

    at: datetime
    event_id: str
    event_type: str
    experiment_id: int | None
    attempt: int
    failure: str | None = None  # None: it arrived
    next_at: datetime | None = None  # None: it is not tried again


@dataclass(frozen=True, slots=True)
class Target:
    """The address of a message; `sealed` has it where `url` does not have all of it."""

    name: str
    url: str
    sealed: str | None
    type: WebhookType


@dataclass(frozen=True, slots=True)
class LogTrigger:
    """A trigger that waits for a line of a task's log."""

    trigger_id: int
    regex: str
    experiment_id: int
    trial_id: int


def listed(tx: Tx, within: Sequence[int] | None) -> list[dict[str, Any]]:
    params = {"id": None, "within": None if within is None else list(within)}
    return list(tx.execute(_SHOWN, params).scalars())


def one(tx: Tx, webhook_id: int) -> dict[str, Any] | None:
    webhook: dict[str, Any] | None = tx.execute(_SHOWN, {"id": webhook_id, "within": None}).scalar()
    return webhook


def workspace_of(tx: Tx, webhook_id: int) -> tuple[bool, int | None]:
    """Return whether the webhook exists, and its workspace."""
    row = tx.execute(select(_webhooks.workspace_id).where(_webhooks.id == webhook_id)).first()
    return row is not None, None if row is None else row.workspace_id


def of_name(tx: Tx, name: str, workspace_id: int | None, but_not: int = 0) -> int | None:
    """Return the webhook with a name in a workspace or in the cluster, and lock the name."""
    tx.execute(_LOCK_NAMES)
    query = select(_webhooks.id).where(
        _webhooks.name == name.strip(),
        _webhooks.workspace_id.is_not_distinct_from(workspace_id),
        _webhooks.id != but_not,
    )
    webhook_id: int | None = tx.execute(query.limit(1)).scalar()
    return webhook_id


def create(tx: Tx, new: NewWebhook, sealed: str, now: datetime) -> int:
    values = {
        "name": new.name.strip(), "url": new.url, "sealed": sealed, "type": new.type, "mode": new.mode,
        "workspace_id": new.workspace_id, "created_at": now,
    }  # fmt: skip
    statement = insert(schema.webhooks).values(values).returning(_webhooks.id)
    webhook_id = int(tx.execute(statement).scalar_one())
    _add_triggers(tx, webhook_id, new.triggers)
    return webhook_id


def _add_triggers(tx: Tx, webhook_id: int, triggers: Sequence[Trigger]) -> None:
    rows = [
        {"webhook_id": webhook_id, "type": t.type, "condition": dict(t.condition)} for t in triggers
    ]
    tx.execute(insert(schema.webhook_triggers), rows)


def replace_triggers(tx: Tx, webhook_id: int, triggers: Sequence[Trigger]) -> None:
    """Replace the triggers of a webhook. Unchanged triggers keep their ids, because tasks remember sent messages by
    them."""
    query = select(_webhooks.id).where(_webhooks.id == webhook_id).with_for_update()
    if tx.execute(query).first() is None:
        return
    of_it = select(_triggers.id, _triggers.type, _triggers.condition).where(
        _triggers.webhook_id == webhook_id
    )
    new_triggers, old_ids = list(triggers), []
    for row in tx.execute(of_it.order_by(_triggers.id)):
        trigger = Trigger(row.type, row.condition)
        if trigger in new_triggers:
            new_triggers.remove(trigger)
        else:
            old_ids.append(row.id)
    tx.execute(delete(schema.webhook_triggers).where(_triggers.id.in_(old_ids)))
    if new_triggers:
        _add_triggers(tx, webhook_id, new_triggers)


def change(tx: Tx, webhook_id: int, **columns: Any) -> None:
    tx.execute(update(schema.webhooks).where(_webhooks.id == webhook_id).values(columns))


def remove(tx: Tx, webhook_id: int) -> bool:
    return tx.execute(delete(schema.webhooks).where(_webhooks.id == webhook_id)).rowcount == 1


def target(tx: Tx, webhook_id: int) -> Target | None:
    query = select(_webhooks.name, _webhooks.url, _webhooks.sealed, _webhooks.type).where(
        _webhooks.id == webhook_id
    )
    row = tx.execute(query).first()
    return None if row is None else Target(*row)


def unknown(
    tx: Tx, ids: Sequence[int], names: Sequence[str], workspace_id: int
) -> tuple[list[int], list[str]]:
    """Return which of these no experiment of the workspace may choose."""
    own = _webhooks.workspace_id.is_(None) | (_webhooks.workspace_id == workspace_id)
    rows = tx.execute(select(_webhooks.id, _webhooks.name).where(own)).all()
    known_ids, known_names = {row.id for row in rows}, {row.name for row in rows}
    return [i for i in ids if i not in known_ids], [n for n in names if n not in known_names]


def queue_messages(
    tx: Tx,
    type: TriggerType,
    experiment_id: int | None,
    now: datetime,
    *,
    workspace_id: int | None = None,
    subject: str = "",
    data: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    trigger_id: int | None = None,
) -> int:
    """Queue an event of an experiment, or else of a workspace, for the webhooks that listen; return how many do."""
    values = {
        "type": type.value, "experiment_id": experiment_id, "now": now, "data": data or {}, "more": more or {},
        "trigger_id": trigger_id, "subject": subject, "workspace_id": workspace_id,
        "with_experiment": type is not TriggerType.TASK_LOG and experiment_id is not None,
    }  # fmt: skip
    return tx.execute(_PROMISE, values).rowcount


def queue_messages_of_line(
    tx: Tx, trigger: LogTrigger, task_id: str, data: Mapping[str, Any], now: datetime
) -> int:
    """Write the messages about the first line of a task that a trigger waits for; return their number."""
    result = tx.execute(_MATCHED, {"task_id": task_id, "trigger_id": trigger.trigger_id})
    if result.rowcount == 0:
        return 0
    return queue_messages(
        tx, TriggerType.TASK_LOG, trigger.experiment_id, now,
        data={"task_log": data}, more={"trial_id": trigger.trial_id}, trigger_id=trigger.trigger_id,
    )  # fmt: skip


def log_triggers(tx: Tx, task_id: str) -> list[LogTrigger]:
    return [LogTrigger(*row) for row in tx.execute(_LOG_TRIGGERS, {"task_id": task_id})]


def note_arrival(tx: Tx, webhook_id: int, delivery: Delivery) -> None:
    change(tx, webhook_id, arrived_at=delivery.at)
    _note(tx, webhook_id, delivery)


def note_failure(tx: Tx, webhook_id: int, delivery: Delivery, why: str) -> None:
    change(tx, webhook_id, failed_at=delivery.at, failure=why)
    _note(tx, webhook_id, delivery)


def _note(tx: Tx, webhook_id: int, delivery: Delivery) -> None:
    """Keep a try among the last of its webhook, which may just have been deleted."""
    values = {"webhook_id": webhook_id, "most": MOST_DELIVERIES, **asdict(delivery)}
    if tx.execute(_NOTE, values).rowcount:
        tx.execute(_FORGET, values)


def deliveries(tx: Tx, webhook_id: int) -> list[dict[str, Any]]:
    """Return the last tries of a webhook, newest first."""
    return list(tx.execute(_DELIVERIES, {"webhook_id": webhook_id}).scalars())


def due(tx: Tx, now: datetime) -> outbox.Effect | None:
    return outbox.claim(tx, now, of_webhooks=True)


def next_due(tx: Tx) -> datetime | None:
    return outbox.next_due(tx, of_webhooks=True)
