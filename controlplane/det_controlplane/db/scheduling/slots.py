"""Rows of slots: which container holds which."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ARRAY, all_, any_, bindparam, func, literal_column, select, text, update

from det_controlplane.db import schema
from det_controlplane.db.engine.database import Database, Tx, as_json

_s, _c = schema.slots.c, schema.containers.c
_RELEASE = (
    update(schema.slots)
    .where(_s.container_id.in_(select(_c.id).where(_c.allocation_id == bindparam("allocation_id"))))
    .values(container_id=None)
)
_RELEASE_ONE = (
    update(schema.slots).where(_s.container_id == bindparam("id")).values(container_id=None)
)
_AGENTS = (
    select(_c.agent_id)
    .distinct()
    .where(
        _c.allocation_id == any_(bindparam("ids", type_=ARRAY(_c.allocation_id.type))),
        _c.state != literal_column("'TERMINATED'"),
    )
)
_COUNT = (
    select(func.count())
    .select_from(schema.slots.join(schema.agents))
    .where(
        schema.agents.c.pool == bindparam("pool"), schema.agents.c.state != literal_column("'LOST'")
    )
)
# Slots of agents that accept new work, as a scheduling pass counts them.
_FREE = text("""
    SELECT count(*) FROM agents a JOIN slots s ON s.agent_id = a.id
    WHERE a.pool = :pool AND a.state = 'JOINED' AND a.enabled AND NOT a.leaving AND NOT a.draining
        AND a.moves_to IS NULL AND a.out_of_service = '' AND s.enabled AND NOT s.draining AND s.container_id IS NULL
""")
_LARGEST = (
    select(func.count().label("slots"))
    .select_from(schema.slots.join(schema.agents))
    .where(
        schema.agents.c.pool == bindparam("pool"), schema.agents.c.state != literal_column("'LOST'")
    )
    .group_by(schema.agents.c.id)
    .order_by(func.count().desc())
    .limit(1)
)
_LEFT = _COUNT.where(
    schema.agents.c.id != all_(bindparam("blocked", type_=ARRAY(schema.agents.c.id.type)))
)
_HOLD = text("""
    UPDATE slots s SET container_id = x.container_id
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (agent_id text, slot_id integer, container_id uuid)
    WHERE s.agent_id = x.agent_id AND s.slot_id = x.slot_id AND s.container_id IS NULL AND s.enabled AND NOT s.draining
""")
_FREE_FOR = text("""
    SELECT s.slot_id FROM slots s LEFT JOIN containers c ON c.id = s.container_id
    WHERE s.agent_id = :agent AND s.slot_id = ANY(cast(:ids AS integer[]))
      AND (s.container_id IS NULL OR c.allocation_id = ANY(cast(:allocations AS text[])))
    ORDER BY s.slot_id FOR UPDATE OF s
""")
_HOLD_AGAIN = text("""
    UPDATE slots SET container_id = :container WHERE agent_id = :agent AND slot_id = ANY(cast(:ids AS integer[]))
""")


def release(tx: Tx, allocation_id: str) -> None:
    tx.execute(_RELEASE, {"allocation_id": allocation_id})


def release_container(tx: Tx, container_id: object) -> None:
    tx.execute(_RELEASE_ONE, {"id": container_id})


def agents_of(tx: Tx, allocation_ids: Sequence[str]) -> list[str]:
    """Return the agents that run containers of the allocations."""
    return list(tx.execute(_AGENTS, {"ids": list(allocation_ids)}).scalars())


def count(db: Database, pool: str) -> int:
    """Return how many slots the pool's agents have."""
    return int(db.read(_COUNT, {"pool": pool})[0][0])


def count_free(tx: Tx, pool: str) -> int:
    """Return how many slots of a pool new work can have."""
    return int(tx.execute(_FREE, {"pool": pool}).scalar_one())


def of_largest_agent(db: Database, pool: str) -> int:
    """Return the slots of the pool's largest agent."""
    rows = db.read(_LARGEST, {"pool": pool})
    return int(rows[0][0]) if rows else 0


def left(tx: Tx, pool: str, blocked: Sequence[str]) -> int:
    """Return how many slots the pool's agents have without the blocked ones."""
    return int(tx.execute(_LEFT, {"pool": pool, "blocked": list(blocked)}).scalar_one())


def hold(tx: Tx, containers: Sequence[tuple[UUID, str, list[int]]]) -> bool:
    """Give containers (id, agent, slots) their slots; False when one of those is no longer free."""
    rows = [
        {"agent_id": agent_id, "slot_id": slot_id, "container_id": container_id}
        for container_id, agent_id, slot_ids in containers
        for slot_id in slot_ids
    ]
    return not rows or tx.execute(_HOLD, {"rows": as_json(rows)}).rowcount == len(rows)


def free_for(tx: Tx, agent_id: str, slot_ids: Sequence[int], allocation_ids: Sequence[str]) -> int:
    """Return how many of an agent's slots are free, or held by these allocations, and lock them."""
    params = {"agent": agent_id, "ids": list(slot_ids), "allocations": list(allocation_ids)}
    return len(tx.execute(_FREE_FOR, params).all())


def reassign(tx: Tx, agent_id: str, container_id: UUID, slot_ids: Sequence[int]) -> None:
    """Assign the slots to a container that continues, even if the slots accept no new work."""
    params = {"agent": agent_id, "ids": list(slot_ids), "container": container_id}
    tx.execute(_HOLD_AGAIN, params)
