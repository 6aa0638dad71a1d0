"""The identity of the cluster, and its built-in accounts at first start."""

from dataclasses import dataclass

from sqlalchemy import text

from det_controlplane.db.engine import Tx

_IDENTITY = text("SELECT cluster_id::text FROM cluster")
_WITHOUT_PASSWORD = text("""
    SELECT count(*) FROM users WHERE id IN (1, 2) AND password_hash IS NULL AND NOT remote
""")
_SET_PASSWORD = text("""
    UPDATE users SET password_hash = :hash
    WHERE id IN (1, 2) AND password_hash IS NULL AND NOT remote
""")

_AGENTS = text("""
    SELECT a.id, a.pool, a.runtime, count(s.slot_id) AS slots
    FROM agents a LEFT JOIN slots s ON s.agent_id = a.id
    WHERE a.state = 'JOINED' GROUP BY a.id ORDER BY a.id
""")


@dataclass(frozen=True, slots=True)
class JoinedAgent:
    id: str
    pool: str
    runtime: str
    slots: int


def identity(tx: Tx) -> str:
    return str(tx.execute(_IDENTITY).scalar())


def awaits_first_password(tx: Tx) -> bool:
    return bool(tx.execute(_WITHOUT_PASSWORD).scalar())


def set_first_password(tx: Tx, password_hash: str) -> int:
    """Give it to the built-in accounts that have none yet; how many those were."""
    return tx.execute(_SET_PASSWORD, {"hash": password_hash}).rowcount


def joined_agents(tx: Tx) -> list[JoinedAgent]:
    return [JoinedAgent(r.id, r.pool, r.runtime, r.slots) for r in tx.execute(_AGENTS).all()]
