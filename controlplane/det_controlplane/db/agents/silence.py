"""The times of ticks, and the deadlines that an interruption of the control plane moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import exists, literal_column, select, text, update

from det_controlplane.core.lifecycle import agent as states
from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.schema import agents, cluster

_LAST_TICK = select(
    cluster.c.ticked_at,
    cluster.c.watched_since,
    exists(select(1).where(agents.c.state == literal_column(f"'{AgentState.SUSPECT.value}'"))),
).with_for_update(key_share=True, skip_locked=True, of=cluster)
_CONTACT = text("""
    SELECT probed_at, reached_at,
        EXISTS (SELECT FROM agents WHERE state <> 'LOST'),
        EXISTS (SELECT FROM agents WHERE state <> 'LOST' AND lease_until <= :now)
            OR EXISTS (SELECT FROM instances WHERE state = 'LAUNCHED')
            OR EXISTS (SELECT FROM trials t JOIN experiments e ON e.id = t.experiment_id
                WHERE e.unmanaged AND t.ended_at IS NULL AND t.heartbeat_at <= :overdue),
        EXISTS (SELECT FROM agents WHERE last_seen_at > :fresh)
    FROM cluster
""")
_STORE_PROBE = text("""
    UPDATE cluster SET probed_at = :now, reached_at = CASE WHEN :is_answered THEN :now ELSE reached_at END
""")
# How long an agent of a pool is waited for after its lease, in seconds.
RECONNECT_WAIT = """make_interval(secs =>
    coalesce((cast(:waits AS jsonb)->>a.pool)::double precision, :default_wait))"""
_SUSPECT_AGENTS = text(f"""
    UPDATE agents a SET state = 'SUSPECT', lost_after = cast(:lease_until AS timestamptz) + {RECONNECT_WAIT}
    WHERE a.state <> 'LOST' AND a.lease_until <= :now
""")
_POSTPONE_KILLS = text("""
    UPDATE allocations SET kill_at = greatest(kill_at, :lease_until) WHERE state <> 'TERMINATED' AND kill_at IS NOT NULL
""")
_POSTPONE_POLLS = text("""
    UPDATE allocations SET poll_by = greatest(poll_by, :lease_until) WHERE state <> 'TERMINATED' AND poll_by IS NOT NULL
""")
_POSTPONE_AWAITED = text(f"""
    UPDATE allocations a SET awaited_until = greatest(a.awaited_until, cast(:lease_until AS timestamptz) + {RECONNECT_WAIT})
    WHERE a.state <> 'TERMINATED' AND a.awaited_until IS NOT NULL
""")
_RESTART_IDLE_TIMES = text("""
    UPDATE tasks SET active_at = :now WHERE idle_timeout_s IS NOT NULL AND ended_at IS NULL AND active_at IS NOT NULL
""")
_RESTART_HEARTBEATS = text("""
    UPDATE trials t SET heartbeat_at = :now FROM experiments e
    WHERE e.id = t.experiment_id AND e.unmanaged AND t.ended_at IS NULL AND t.heartbeat_at IS NOT NULL
""")


@dataclass(frozen=True, slots=True)
class LastTick:
    ticked_at: datetime | None
    watched_since: datetime | None  # since then ticks have followed each other closely
    is_watching: bool  # an agent was suspect


def lock_last_tick(tx: Tx) -> LastTick | None:
    """Return when the last tick ran; None while another process counts its own."""
    row = tx.execute(_LAST_TICK).first()
    return None if row is None else LastTick(*row)


def contact(tx: Tx, now: datetime) -> states.Contact:
    times = {"now": now, "overdue": now - states.LEASE, "fresh": now - states.FRESH}
    return states.Contact(*tx.execute(_CONTACT, times).one())


def store_probe(tx: Tx, now: datetime, *, is_answered: bool) -> None:
    tx.execute(_STORE_PROBE, {"now": now, "is_answered": is_answered})


def store_tick(tx: Tx, now: datetime, watched_since: datetime, *, after_interruption: bool) -> None:
    answering = {"answering_since": now} if after_interruption else {}
    tx.execute(update(cluster).values(ticked_at=now, watched_since=watched_since, **answering))


def restart_deadlines(
    tx: Tx, now: datetime, lease_until: datetime, waits: Mapping[str, float], default_wait: float
) -> None:
    """Restart all deadlines that depend on silence, because no request could arrive during the interruption."""
    tx.execute(_RESTART_HEARTBEATS, {"now": now})
    tx.execute(_RESTART_IDLE_TIMES, {"now": now})
    tx.execute(_POSTPONE_KILLS, {"lease_until": lease_until})
    tx.execute(_POSTPONE_POLLS, {"lease_until": lease_until})
    params = {"waits": as_json(waits), "default_wait": default_wait}
    tx.execute(_POSTPONE_AWAITED, {"lease_until": lease_until, **params})
    tx.execute(_SUSPECT_AGENTS, {"now": now, "lease_until": lease_until, **params})
