"""The snapshot of a pool that a scheduling decision looks at, and the guarded writes that apply it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import UUID
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, text

from det_controlplane.core import schedule
from det_controlplane.core.lifecycle.allocation import AllocationState
from det_controlplane.core.placement.links import links_from, topology_of
from det_controlplane.core.placement.model import Agent, AnyCapacity, Placement
from det_controlplane.core.schedule import Growth, Job, Request, Running
from det_controlplane.core.schedule.model import NO_BLOCKED_AGENTS
from det_controlplane.db.engine.database import Tx, as_json
from det_controlplane.db.engine.errors import TryAgain

_NEXT, _ITEM = "\x1e", "\x1f"
_REMEMBERED_LINES = 20_000
_MOST_KNOWN = 50_000  # queued allocations
_TRIES = 10  # while other transactions change allocations between two statements

_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtextextended('pool:' || :pool, 0))")
_AGENTS = text("""
    SELECT a.id, a.enabled AND NOT a.leaving AS enabled, a.draining OR a.moves_to IS NOT NULL AS draining,
           coalesce(a.moves_to, '') AS moves_to, a.out_of_service, a.state::text AS state, a.links,
           coalesce(array_agg(s.slot_id ORDER BY s.slot_id) FILTER (WHERE s.enabled AND NOT s.draining
                    AND s.container_id IS NULL), '{}') AS free,
           count(*) FILTER (WHERE s.enabled AND NOT s.draining) AS slots,
           count(*) FILTER (WHERE s.enabled AND NOT s.draining AND s.container_id IS NOT NULL) AS used,
           (SELECT count(*) FROM containers c WHERE c.agent_id = a.id AND c.state <> 'TERMINATED'
            AND cardinality(c.slot_ids) = 0) AS aux_used,
           coalesce(max(i.provider || ' ' || i.region), '') AS place, coalesce(max(i.zone), '') AS zone,
           coalesce(max(i.capacity::text), '') AS capacity,
           (SELECT d.sets FROM data_caches d WHERE d.agent_id = a.id) AS data_sets
    FROM agents a LEFT JOIN slots s ON s.agent_id = a.id LEFT JOIN LATERAL (
        SELECT provider, region, zone, capacity FROM instances WHERE agent_id = a.id AND state NOT IN ('GONE', 'FAILED') LIMIT 1
    ) i ON true
    WHERE a.pool = :pool AND a.state = 'JOINED' GROUP BY a.id ORDER BY a.id
""")
# Thousands of allocations may wait. The statement returns one text with a line for each: its id, and the versions of its
# rows. Details are read only for lines that this process has not read before. Pending and running allocations are of one
# statement, so that a job is the same in both.
_JOB = """
    concat_ws(chr(9), a.job_id, coalesce(j.priority, :default_priority), trim_scale(j.position), j.weight,
        coalesce(j.max_slots::text, ''), date_part('epoch', j.submitted_at))
"""
_HOLDING = ", ".join(
    f"'{s.value}'"
    for s in AllocationState
    if s not in (AllocationState.QUEUED, AllocationState.TERMINATED)
)
# A row version is its transaction (xmin) and its place in the table (ctid): one transaction may write a row twice. The
# version of the job comes from a subquery, because PostgreSQL would read all jobs to join thousands of them.
_VERSION = """
    concat_ws(chr(9), a.id, a.xmin, a.ctid, (SELECT o.xmin || '/' || o.ctid FROM jobs o WHERE o.id = a.job_id), t.xmin,
        t.ctid)
"""
_QUEUED = """
    LEFT JOIN trials t ON t.id = a.trial_id AND t.blocked_agents <> '{}' AND t.ended_at IS NULL
    WHERE a.pool = :pool AND a.state = 'QUEUED' AND a.not_before IS NULL
"""
_ALLOCATIONS = text(f"""
    SELECT (SELECT string_agg({_VERSION}, chr(10)) FROM allocations a {_QUEUED} AND a.job_id IS NOT NULL) AS pending, (
        SELECT string_agg(concat_ws(chr(30), {_JOB}, a.id, a.slots, date_part('epoch', a.requested_at), a.preemptible,
                a.killed OR a.preempt_at IS NOT NULL, c.agents, c.held, j.in_queue, CASE WHEN a.max_slots > a.slots THEN
                concat_ws(chr(9), a.max_slots, a.single_agent, a.strict_topology,
                    CASE WHEN a.ready AND a.started_at IS NOT NULL THEN date_part('epoch', a.started_at) ELSE -1 END,
                    coalesce((SELECT array_to_string(b.blocked_agents, chr(31)) FROM trials b WHERE b.id = a.trial_id), '')) ELSE '' END), chr(10))
        FROM allocations a JOIN jobs j ON j.id = a.job_id CROSS JOIN LATERAL (
            SELECT string_agg(c.agent_id, chr(31) ORDER BY c.rank) AS agents, string_agg(
                (SELECT count(*) FROM slots s WHERE s.container_id = c.id AND s.enabled AND NOT s.draining)::text, chr(31)
                ORDER BY c.rank) AS held
            FROM containers c WHERE c.allocation_id = a.id AND c.epoch = a.epoch AND c.state <> 'TERMINATED') c
        WHERE a.pool = :pool AND a.state IN ({_HOLDING}) AND c.agents IS NOT NULL
    ) AS running
""")
_DETAILS = text(f"""
    SELECT string_agg(concat_ws(chr(30), {_VERSION}, {_JOB}, a.id, a.slots, date_part('epoch', a.requested_at),
            coalesce(a.min_slots::text, ''), a.single_agent, a.preemptible, coalesce(array_to_string(t.blocked_agents, chr(31)), ''), a.strict_topology, coalesce(a.capacity, ''),
            array_to_string(a.data_sets, chr(31)), j.in_queue,
            coalesce(CASE WHEN a.wait_reason IS NULL THEN a.wait_reason_id END::text, ''),
            coalesce(a.wait_code::text, ''),
            encode(sha256(convert_to(concat_ws(' ', a.machine_code, a.machine_reason), 'UTF8')), 'hex')), chr(10))
    FROM allocations a JOIN jobs j ON j.id = a.job_id {_QUEUED} AND a.id = ANY(cast(:ids AS text[]))
""")
# A pass changes allocations of many experiments. Their reports lock them in another order, so a pass skips locked ones.
_ASSIGN = text("""
    WITH x AS (
        SELECT s.* FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS s (id text, slots integer, backfilled boolean, ports jsonb, data_reason text)
        JOIN allocations f ON f.id = s.id WHERE f.state = 'QUEUED' FOR UPDATE OF f SKIP LOCKED)
    UPDATE allocations a SET state = 'ASSIGNED', epoch = epoch + 1, assigned_at = :now, backfilled = x.backfilled, data_reason = x.data_reason,
        slots = CASE WHEN a.min_slots IS NULL THEN a.slots ELSE x.slots END, ports = x.ports, wait_code = NULL, wait_reason = NULL, wait_reason_id = NULL, wait_since = NULL
    FROM x WHERE a.id = x.id RETURNING a.id, a.epoch, a.task_id
""")
_INSERT_CONTAINERS = text("""
    INSERT INTO containers (id, allocation_id, agent_id, epoch, rank, slot_ids, state, assigned_at)
    SELECT x.id, x.allocation_id, x.agent_id, x.epoch, x.rank, x.slot_ids, 'ASSIGNED', :now
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS x (id uuid, allocation_id text, agent_id text, epoch integer,
         rank integer, slot_ids integer[])
""")
_PORTS = text(
    "SELECT ports FROM allocations WHERE state NOT IN ('QUEUED', 'TERMINATED') AND ports <> '{}'"
)
_PORTS_ON = text("""
    SELECT c.agent_id, a.ports FROM containers c JOIN allocations a ON a.id = c.allocation_id
    WHERE c.agent_id = ANY(cast(:agents AS text[])) AND c.state <> 'TERMINATED' AND a.ports <> '{}'
""")


class Queued(NamedTuple):
    """A queued allocation with what its rows say about its waiting."""

    request: Request
    in_queue: bool  # as its job's row says
    reason_id: int | None
    wait_code: str
    machine_digest: str  # SHA-256 of why it has no machine


# By database and default priority. A version of a row never changes, so earlier results stay right.
_KNOWN: WeakKeyDictionary[Engine, dict[int, dict[str, Queued]]] = WeakKeyDictionary()


@dataclass(slots=True)
class PoolRows:
    """The rows of a pool that a scheduling decision needs."""

    agents: tuple[Agent, ...]
    pending: tuple[Request, ...]
    running: tuple[Running, ...]
    reasons: dict[str, int | None] = field(
        default_factory=dict
    )  # ids in wait_reasons, by allocation
    # Jobs in the queue without the mark of that on their rows.
    unmarked_jobs: set[str] = field(default_factory=set)

    @property
    def job_ids(self) -> set[str]:
        return {r.job.id for r in self.pending} | {r.job.id for r in self.running}


def try_lock(tx: Tx, pool: str) -> bool:
    """Lock the pool for a pass, if no other pass has it."""
    return bool(tx.execute(_TRY_LOCK, {"pool": pool}).scalar())


def load(tx: Tx, pool: str, aux_limit: int, default_priority: int) -> PoolRows:
    agent_rows = tx.execute(_AGENTS, {"pool": pool}).all()
    pending, running = _allocations(tx, {"pool": pool, "default_priority": default_priority})
    return PoolRows(
        agents=tuple(
            Agent(
                r.id, r.slots, r.used, aux_limit, r.aux_used, r.enabled, r.draining, r.out_of_service, r.place, r.zone,
                tuple(r.free), topology_of(links_from(r.links)), r.capacity,
                tuple((held["source"], held["bytes"]) for held in r.data_sets or ()),
                r.moves_to,
            )
            for r in agent_rows
        ),
        pending=tuple([queued.request for queued in pending]),
        running=tuple([allocation for allocation, _ in running]),
        reasons={queued.request.allocation_id: queued.reason_id for queued in pending},
        unmarked_jobs={queued.request.job.id for queued in pending if not queued.in_queue}
        | {allocation.job.id for allocation, in_queue in running if not in_queue},
    )  # fmt: skip


def queued(tx: Tx, pool: str, default_priority: int) -> list[Queued]:
    """Return the queued allocations of a pool in the order of its queue."""
    queue, _ = _allocations(tx, {"pool": pool, "default_priority": default_priority})
    return sorted(
        queue, key=lambda q: (q.request.job, q.request.requested_at, q.request.allocation_id)
    )


def growing(tx: Tx, pool: str, default_priority: int) -> list[Running]:
    """Return the running elastic gangs that lack slots."""
    _, running = _allocations(tx, {"pool": pool, "default_priority": default_priority})
    return [gang for gang, _ in running if gang.growth and not gang.releasing]


def _allocations(
    tx: Tx, params: Mapping[str, Any]
) -> tuple[list[Queued], list[tuple[Running, bool]]]:
    """Return the queued allocations of a pool, and those that hold slots, with whether their jobs are marked as queued."""
    cache = _get_cache(tx.engine, params["default_priority"])
    for _ in range(_TRIES):
        lines = tx.execute(_ALLOCATIONS, params).one()
        versions = lines.pending.split("\n") if lines.pending else []
        new = [version.partition("\t")[0] for version in versions if version not in cache]
        if new:
            details = tx.execute(_DETAILS, {**params, "ids": new}).scalar()
            cache.update(_parse_queued(line) for line in (details.split("\n") if details else ()))
        pending = [cache[version] for version in versions if version in cache]
        if len(pending) == len(versions):
            running = (
                [_parse_running(line) for line in lines.running.split("\n")]
                if lines.running
                else []
            )
            return pending, running
    raise TryAgain(f"the queue of pool {params['pool']} changes while it is read")


def _get_cache(engine: Engine, default_priority: int) -> dict[str, Queued]:
    """Return the queued allocations that were read before, by the versions of their rows."""
    cache = _KNOWN.setdefault(engine, {}).setdefault(default_priority, {})
    if len(cache) > _MOST_KNOWN:
        cache.clear()
    return cache


def _parse_queued(line: str) -> tuple[str, Queued]:
    version, job, id, slots, requested_at, least, single, preemptible, blocked, strict, capacity, data_sets, in_queue, reason, *more = line.split(_NEXT)  # fmt: skip
    request = Request(
        id, _job(job), int(slots), float(requested_at), single == "t", preemptible == "t",
        _agent_ids(blocked), strict == "t", int(least) if least else None, cast(AnyCapacity, capacity),
        tuple(data_sets.split(_ITEM)) if data_sets else (),
    )  # fmt: skip
    return version, Queued(request, in_queue == "t", int(reason) if reason else None, *more)


# A line has every value that its result depends on, so an earlier result is as good as a new one.
@lru_cache(maxsize=_REMEMBERED_LINES)
def _parse_running(line: str) -> tuple[Running, bool]:
    """Return an allocation that holds slots, and whether its job's row says that it is in the queue."""
    job, id, slots, requested_at, preemptible, releasing, agents, slot_counts, in_queue, growth = (
        line.split(_NEXT)
    )
    placements = tuple(
        Placement(agent, int(n))
        for agent, n in zip(agents.split(_ITEM), slot_counts.split(_ITEM), strict=True)
    )
    running = Running(
        id, _job(job), int(slots), placements, preemptible == "t", releasing == "t", float(requested_at),
        _growth(growth) if growth else None,
    )  # fmt: skip
    return running, in_queue == "t"


def _growth(line: str) -> Growth:
    max_slots, single, strict, started_at, blocked = line.split("\t")
    seconds = float(started_at)
    since = None if seconds < 0 else seconds
    return Growth(int(max_slots), since, single == "t", _agent_ids(blocked), strict == "t")


def _agent_ids(joined: str) -> frozenset[str]:
    return frozenset(joined.split(_ITEM)) if joined else NO_BLOCKED_AGENTS


@lru_cache(maxsize=_REMEMBERED_LINES)
def _job(line: str) -> Job:
    id, priority, position, weight, max_slots, submitted_at = line.split("\t")
    limit = int(max_slots) if max_slots else None
    return Job(int(priority), _position(position), id, float(weight), limit, float(submitted_at))


def _position(value: str) -> Decimal | int:
    """Return whole numbers as such, as nearly all are: they compare several times faster."""
    return int(value) if value.isdigit() else Decimal(value)


@dataclass(frozen=True, slots=True)
class Assigned:
    epoch: int
    task_id: str


@dataclass(frozen=True, slots=True)
class NewContainer:
    id: UUID
    allocation_id: str
    agent_id: str
    epoch: int
    rank: int
    slot_ids: list[int]


def assign(
    tx: Tx, starts: Sequence[schedule.Start], ports: Sequence[dict[str, int]], now: datetime
) -> dict[str, Assigned]:
    """Assign the next epochs to queued allocations. The result omits allocations that are no longer queued or that
    another transaction has locked."""
    rows = [
        {
            "id": start.allocation_id,
            "slots": sum(p.slots for p in start.placements),
            "backfilled": start.backfilled,
            "ports": own,
            "data_reason": start.data_reason,
        }
        for start, own in zip(starts, ports, strict=True)
    ]
    result = tx.execute(_ASSIGN, {"rows": as_json(rows), "now": now}).all()
    return {r.id: Assigned(r.epoch, r.task_id) for r in result}


def insert_containers(tx: Tx, containers: Sequence[NewContainer], now: datetime) -> None:
    tx.execute(_INSERT_CONTAINERS, {"rows": as_json([asdict(c) for c in containers]), "now": now})


def ports_in_use(tx: Tx) -> set[int]:
    return {int(p) for r in tx.execute(_PORTS).all() for p in r[0].values()}


def ports_on(tx: Tx, agents: Collection[str]) -> dict[str, set[int]]:
    """Return the ports that allocations on these agents use."""
    ports: dict[str, set[int]] = {agent: set() for agent in agents}
    for r in tx.execute(_PORTS_ON, {"agents": list(agents)}).all():
        ports[r.agent_id].update(map(int, r.ports.values()))
    return ports
