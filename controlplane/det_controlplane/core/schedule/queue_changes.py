"""Changes of the job queue: priority, weight, pool, ahead of or behind another job.

See docs/concepts/scheduling.md#changing-the-queue.

Updates are applied in order, and each sees the changes before it. A refused update changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal

from det_controlplane.core.config.policies import Policies, check_change
from det_controlplane.core.schedule import SchedulerType
from det_controlplane.core.schedule.job_settings import out_of_bounds

# A thousand moves into one gap of a second; numeric columns keep 16,383 digits after the point.
MINIMAL_STEP = Decimal("1e-300")
_EXACT = Context(prec=700, rounding=ROUND_HALF_EVEN)
_OPEN_END_STEP = Decimal(1)
_HEAD = Decimal(0)
NO_POLICIES = Policies()


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of the queue. `active` means that it has a waiting or running allocation.

    `slots_of_one_agent` is 0 if slots may be on several agents. `policies` are the config policies for its kind in
    its workspace."""

    id: str
    pool: str
    priority: int | None
    weight: float
    position: Decimal | int
    is_experiment: bool
    active: bool = True
    slots_of_one_agent: int = 0
    workspace_id: int = 0
    policies: Policies = NO_POLICIES


@dataclass(frozen=True, slots=True)
class QueuePool:
    scheduler: SchedulerType
    default_priority: int
    # Its slots, also of machines to come; None where it is not known.
    largest_agent: int | None = None
    reserved_for: frozenset[int] = frozenset()  # ids of workspaces; none: it is for everybody
    closed: str = ""  # why the caller may not move work there: "is restricted to …"


@dataclass(frozen=True, slots=True)
class QueueUpdate:
    """A change of a job; an empty anchor means no change of its place."""

    job_id: str
    priority: int | None = None
    weight: float | None = None
    resource_pool: str | None = None
    ahead_of: str | None = None
    behind_of: str | None = None


@dataclass(frozen=True, slots=True)
class QueueChange:
    """The new values of a job; None: as before."""

    job_id: str
    priority: int | None = None
    weight: float | None = None
    pool: str | None = None
    position: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The refusal of all changes, with its reason; `is_missing`: a job or pool that is named does not exist."""

    reason: str
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class QueueAnswer:
    """`changes` has one entry for each update that changes something, in order."""

    changes: tuple[QueueChange, ...]
    refused: Refused | None


def change_queue(
    jobs: Iterable[QueuedJob],
    pools: Mapping[str, QueuePool],
    updates: Sequence[QueueUpdate],
    now_us: int,
) -> QueueAnswer:
    """Return the changes that updates make; the reasons of all that are refused are joined."""
    queue = _Queue({job.id: job for job in jobs}, pools, Decimal(now_us))
    changes: list[QueueChange] = []
    refusals: list[Refused] = []
    for update in updates:
        answer = queue.update(update)
        if isinstance(answer, Refused):
            refusals.append(answer)
        elif answer != QueueChange(update.job_id):
            changes.append(answer)
            queue.apply(answer)
    if not refusals:
        return QueueAnswer(tuple(changes), None)
    reasons, is_missing = "; ".join(r.reason for r in refusals), all(r.is_missing for r in refusals)
    return QueueAnswer(tuple(changes), Refused(reasons, is_missing))


class _Queue:
    def __init__(
        self, jobs: dict[str, QueuedJob], pools: Mapping[str, QueuePool], now: Decimal
    ) -> None:
        self._jobs = jobs
        self._pools = pools
        self._now = now

    def apply(self, change: QueueChange) -> None:
        job = self._jobs[change.job_id]
        changes = {f.name: getattr(change, f.name) for f in fields(change) if f.name != "job_id"}
        self._jobs[job.id] = replace(job, **{k: v for k, v in changes.items() if v is not None})

    def update(self, update: QueueUpdate) -> QueueChange | Refused:
        job = self._jobs.get(update.job_id)
        if job is None:
            return _no_job(update.job_id)
        match update:
            case QueueUpdate(_, int(priority), None, None, None, None):
                return self._set_priority(job, priority)
            case QueueUpdate(_, None, float() | int() as weight, None, None, None):
                return self._set_weight(job, weight)
            case QueueUpdate(_, None, None, str(pool), None, None):
                return self._move_to_pool(job, pool)
            case QueueUpdate(_, None, None, None, str(anchor), None):
                return self._move_beside(job, anchor, ahead=True)
            case QueueUpdate(_, None, None, None, None, str(anchor)):
                return self._move_beside(job, anchor, ahead=False)
        choices = "priority, weight, resource pool, ahead-of or behind-of"
        return Refused(f"job {job.id}: an update changes exactly one of {choices}")

    def _scheduler(self, job: QueuedJob) -> SchedulerType | None:
        pool = self._pools.get(job.pool)
        return pool.scheduler if pool else None

    def _wrong_scheduler(self, job: QueuedJob, what: str, scheduler: SchedulerType) -> Refused:
        actual = self._scheduler(job) or "unknown"
        return Refused(
            f"job {job.id}: {what} needs the {scheduler} scheduler; "
            f"resource pool {job.pool!r} has the {actual} scheduler"
        )

    def _set_priority(self, job: QueuedJob, priority: int) -> QueueChange | Refused:
        if self._scheduler(job) != "priority":
            return self._wrong_scheduler(job, "a priority", "priority")
        if refusal := _not_allowed(job, "priority", priority):
            return refusal
        return QueueChange(job.id, priority=None if priority == job.priority else priority)

    def _set_weight(self, job: QueuedJob, weight: float) -> QueueChange | Refused:
        if self._scheduler(job) != "fair_share":
            return self._wrong_scheduler(job, "a weight", "fair_share")
        if refusal := _not_allowed(job, "weight", weight):
            return refusal
        return QueueChange(job.id, weight=None if weight == job.weight else weight)

    def _move_to_pool(self, job: QueuedJob, pool: str) -> QueueChange | Refused:
        if pool not in self._pools:
            pool_names = ", ".join(sorted(self._pools))
            reason = f"job {job.id}: resource pool {pool!r} not found; there are: {pool_names}"
            return Refused(reason, is_missing=True)
        if not job.is_experiment:
            return Refused(
                f"job {job.id}: only experiments can move to another resource pool; "
                "start the task again in that pool"
            )
        reserved_for = self._pools[pool].reserved_for
        if reserved_for and job.workspace_id not in reserved_for:
            return Refused(f"job {job.id}: resource pool {pool!r} is reserved for other workspaces")
        if pool != job.pool and (closed := self._pools[pool].closed):
            return Refused(f"job {job.id}: resource pool {pool!r} {closed}")
        if refusal := _against_policies(job, "resource_pool", pool):
            return refusal
        largest = self._pools[pool].largest_agent
        if largest is not None and job.slots_of_one_agent > largest:
            return Refused(
                f"job {job.id}: asks for {job.slots_of_one_agent} slots of one agent (is_single_node), "
                f"but the largest of resource pool {pool!r} has {largest}; choose another pool"
            )
        return QueueChange(job.id, pool=None if pool == job.pool else pool)

    def _move_beside(self, job: QueuedJob, anchor_id: str, *, ahead: bool) -> QueueChange | Refused:
        if self._scheduler(job) != "priority":
            return self._wrong_scheduler(job, "a place in the queue", "priority")
        if anchor_id in ("", job.id):
            return QueueChange(job.id)
        anchor = self._jobs.get(anchor_id)
        if anchor is None:
            return _no_job(anchor_id)
        if not anchor.active or anchor.pool != job.pool or not job.active:
            return Refused(
                f"job {job.id}: it and job {anchor_id} must both be active "
                f"in one resource pool ({job.pool!r})"
            )
        priority = self._priority(anchor)
        level = self._level(anchor)
        neighbour = _neighbour(level, anchor, ahead=ahead)
        if neighbour is not None and neighbour.id == job.id:
            return QueueChange(job.id)
        others = [other for other in level if other.id != job.id]
        position = self._between(anchor, _neighbour(others, anchor, ahead=ahead), ahead=ahead)
        if position is None:
            side = "ahead of" if ahead else "behind"
            return Refused(
                f"job {job.id}: there is no room {side} job {anchor_id}; "
                "move it beside another job, or change its priority"
            )
        new_priority = None if self._priority(job) == priority else priority
        if new_priority is not None and (
            refusal := _against_policies(job, "priority", new_priority)
        ):
            return refusal
        return QueueChange(job.id, priority=new_priority, position=position)

    def _priority(self, job: QueuedJob) -> int:
        return self._pools[job.pool].default_priority if job.priority is None else job.priority

    def _level(self, anchor: QueuedJob) -> list[QueuedJob]:
        """Return the active jobs of the anchor's pool and priority, in scheduler order."""
        priority = self._priority(anchor)
        level = [
            job
            for job in self._jobs.values()
            if job.active and job.pool == anchor.pool and self._priority(job) == priority
        ]
        return sorted(level, key=lambda job: (job.position, job.id))

    def _between(
        self, anchor: QueuedJob, neighbour: QueuedJob | None, *, ahead: bool
    ) -> Decimal | None:
        """Return the middle between the two, or the queue's head or tail without a neighbour; None without room."""
        own = Decimal(anchor.position)
        end = _HEAD if ahead else self._now
        other = end if neighbour is None else Decimal(neighbour.position)
        middle = _EXACT.divide(_EXACT.add(own, other), Decimal(2)).quantize(
            MINIMAL_STEP, context=_EXACT
        )
        if _is_beyond(middle, own, ahead=ahead) and middle != other:
            return _plain(middle)
        # The clock may be behind the anchor, or the gap too small to halve.
        step = MINIMAL_STEP if neighbour else _OPEN_END_STEP
        beside = _EXACT.subtract(own, step) if ahead else _EXACT.add(own, step)
        if neighbour is None or _is_beyond(other, beside, ahead=ahead):
            return _plain(beside)
        return None


def _no_job(job_id: str) -> Refused:
    reason = f"job {job_id} not found: `det job list` shows the live ones"
    return Refused(reason, is_missing=True)


def _not_allowed(job: QueuedJob, name: str, value: float) -> Refused | None:
    if wrong := out_of_bounds(name, value):
        return Refused(f"job {job.id}: {wrong}")
    return _against_policies(job, name, value)


def _against_policies(job: QueuedJob, name: str, value: object) -> Refused | None:
    broken = check_change(name, value, job.policies)
    return Refused(f"job {job.id}: {'; '.join(map(str, broken))}") if broken else None


def _neighbour(level: list[QueuedJob], anchor: QueuedJob, *, ahead: bool) -> QueuedJob | None:
    at = level.index(anchor) + (-1 if ahead else 1)
    return level[at] if 0 <= at < len(level) else None


def _is_beyond(position: Decimal, anchor: Decimal, *, ahead: bool) -> bool:
    return position < anchor if ahead else position > anchor


def _plain(position: Decimal) -> Decimal:
    """Return the number without trailing zeros and without an exponent."""
    shortest = position.normalize(_EXACT)
    if shortest == shortest.to_integral_value():
        return Decimal(int(shortest))
    return shortest
