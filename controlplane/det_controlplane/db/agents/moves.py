"""Changes of the pool of agents that are not rented: the choice of an administrator, which an agent's restart keeps."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, exists, func, select, update

from det_controlplane.core.lifecycle.agent import AgentState
from det_controlplane.core.lifecycle.allocation import ContainerState
from det_controlplane.core.lifecycle.machine import MachineState
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.schema import agents, containers, instances

_a = agents.c
_IS_RENTED = exists().where(
    instances.c.agent_id == _a.id,
    instances.c.state.not_in((MachineState.GONE, MachineState.FAILED)),
)
_HAS_WORK = exists().where(
    containers.c.agent_id == _a.id, containers.c.state != ContainerState.TERMINATED
)


@dataclass(frozen=True, slots=True)
class MovableAgent:
    id: str
    pool: str
    moves_to: str | None
    is_rented: bool
    has_work: bool


def locked(tx: Tx, agent_id: str) -> MovableAgent | None:
    """Lock a connected agent and return it."""
    row = tx.execute(
        select(_a.id, _a.pool, _a.moves_to, _IS_RENTED, _HAS_WORK)
        .where(_a.id == agent_id, _a.state != AgentState.LOST)
        .with_for_update()
    ).first()
    return None if row is None else MovableAgent(*row)


def plan(tx: Tx, agent_ids: Sequence[str], pool: str | None) -> None:
    """Have agents take no new work and move when theirs has ended; None calls a move off."""
    tx.execute(update(agents).where(_a.id.in_(agent_ids)).values(moves_to=pool))


def planned_from(tx: Tx) -> list[str]:
    """Return the pools from which agents without work are about to move."""
    due = select(_a.pool).distinct().where(_a.moves_to.is_not(None), ~_HAS_WORK)
    return list(tx.execute(due.order_by(_a.pool)).scalars())


def idle(tx: Tx, pools: Sequence[str]) -> list[str]:
    """Lock and return the agents of some pools that are about to move and have no work left."""
    due = select(_a.id).where(_a.moves_to.is_not(None), _a.pool.in_(pools), ~_HAS_WORK)
    return list(tx.execute(due.order_by(_a.id).with_for_update(skip_locked=True)).scalars())


def carry_out(tx: Tx, agent_ids: Sequence[str]) -> list[str]:
    """Move agents to the pools that are planned for them. Return these pools."""
    option = func.coalesce(_a.option_pool, _a.pool)
    row = (
        update(agents)
        .where(_a.id.in_(agent_ids), _a.moves_to.is_not(None))
        .values(
            pool=_a.moves_to,
            option_pool=option,
            chosen_pool=case((_a.moves_to == option, None), else_=_a.moves_to),
            moves_to=None,
        )
        .returning(_a.pool)
    )
    return sorted(set(tx.execute(row).scalars()))


def chosen(tx: Tx, agent_id: str, option: str) -> str | None:
    """Return the pool that an administrator chose for an agent, if its own option is the same as then."""
    row = select(_a.chosen_pool).where(_a.id == agent_id, _a.option_pool == option)
    return tx.execute(row).scalar()


def forget(tx: Tx, agent_id: str) -> None:
    """Let an agent's own option decide again."""
    row = update(agents).where(_a.id == agent_id, _a.option_pool.is_not(None))
    tx.execute(row.values(chosen_pool=None, option_pool=None, moves_to=None))


def in_pool(tx: Tx, pool: str) -> list[str]:
    """Return the connected agents of a pool that are not rented."""
    row = select(_a.id).where(_a.pool == pool, _a.state != AgentState.LOST, ~_IS_RENTED)
    return list(tx.execute(row.order_by(_a.id)).scalars())


def to_pool(tx: Tx, pool: str) -> list[str]:
    """Return the agents that move to a pool after their work."""
    row = select(_a.id).where(_a.moves_to == pool, _a.state != AgentState.LOST)
    return list(tx.execute(row.order_by(_a.id)).scalars())


def release_pool(tx: Tx, pool: str) -> None:
    """Drop the choices of a pool that is deleted. Lost agents that return use their own option."""
    own = update(agents).where(_a.chosen_pool == pool)
    tx.execute(own.values(chosen_pool=None, option_pool=None))
    tx.execute(update(agents).where(_a.moves_to == pool).values(moves_to=None))
