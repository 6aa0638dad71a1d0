"""The state of a cluster for its screen, built from API responses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_cli.live.charts import moment, number
from det_cli.render import state_text

_TRIAL = re.compile(r"Trial (\d+) \(Experiment (\d+)\)")
_STARTING = {"REQUESTED": "REQUESTED", "LAUNCHED": "BOOTING"}


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    scheduler: str
    slots: int
    used: int
    agents: int
    max_machines: "int | None" = None  # None: the pool does not rent machines
    hold: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    subject: str
    name: str
    owner: str
    pool: str
    state: str
    urgency: str
    allocated: int
    requested: int
    ahead: int
    submitted: "float | None"
    progress: "float | None"
    reason: str = ""

    @property
    def queued(self) -> bool:
        return self.state == "QUEUED"

    @property
    def missing_slots(self) -> int:
        """Return the number of missing slots. A search may run and wait at the same time."""
        return max(self.requested - self.allocated, 0)

    @property
    def waits(self) -> bool:
        return self.queued or self.missing_slots > 0


@dataclass(frozen=True, slots=True)
class Machine:
    id: str
    pool: str
    state: str
    slots: int
    used: int
    offer: str = ""
    price_usd_hour: "float | None" = None
    running: str = ""


@dataclass(frozen=True, slots=True)
class Money:
    today_usd: float
    month_usd: float
    budgets: tuple[str, ...] = ()  # budgets that warn or are spent


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    user: str
    pools: tuple[Pool, ...]
    jobs: tuple[Job, ...]
    machines: tuple[Machine, ...]
    hidden: tuple[str, ...] = ()
    money: "Money | None" = field(default=None, compare=False)

    def missing_slots(self, pool: Pool) -> int:
        return sum(job.missing_slots for job in self.jobs if job.pool == pool.name)

    @property
    def price_usd_hour(self) -> float:
        return sum(m.price_usd_hour or 0.0 for m in self.machines)

    @property
    def rents(self) -> bool:
        return any(p.max_machines is not None for p in self.pools) or self.price_usd_hour > 0


def pool_of(pool: Mapping[str, Any], rented: "Mapping[str, Any] | None") -> Pool:
    scheduler = str(pool.get("schedulerType") or "").removeprefix("SCHEDULER_TYPE_").lower()
    hold = (rented or {}).get("hold") or {}
    return Pool(
        name=str(pool["name"]),
        scheduler=scheduler,
        slots=int(pool.get("slotsAvailable") or 0),
        used=int(pool.get("slotsUsed") or 0),
        agents=int(pool.get("numAgents") or 0),
        max_machines=int(rented["maxInstances"]) if rented else None,
        hold=str(hold.get("sentence") or (rented or {}).get("spentBudget") or ""),
    )


def job_of(job: Mapping[str, Any], pool: Pool, reason: str) -> Job:
    summary = job.get("summary") or {}
    kind = str(job.get("type") or "").removeprefix("TYPE_").lower()
    entity = str(job.get("entityId") or "")
    urgency = f"{number(job.get('weight')) or 0:g}" if pool.scheduler == "fair_share" else ""
    return Job(
        id=str(job["jobId"]),
        subject=f"{kind} {entity[:8] if kind != 'experiment' else entity}".strip(),
        name=str(job.get("name") or ""),
        owner=str(job.get("username") or ""),
        pool=str(job.get("resourcePool") or pool.name),
        state=_job_state(summary),
        urgency=urgency or str(job.get("priority") or ""),
        allocated=int(job.get("allocatedSlots") or 0),
        requested=int(job.get("requestedSlots") or 0),
        ahead=int(summary.get("jobsAhead", -1)),
        submitted=moment(job.get("submissionTime")),
        progress=number(job.get("progress")),
        reason=reason,
    )


def _job_state(summary: Mapping[str, Any]) -> str:
    state = state_text(summary.get("state"))
    return {"SCHEDULED": "RUNNING", "SCHEDULED_BACKFILLED": "BACKFILLED"}.get(state, state)


def machines_of(
    agents: Iterable[Mapping[str, Any]],
    instances: Iterable[Mapping[str, Any]],
    allocations: Iterable[Mapping[str, Any]],
) -> list[Machine]:
    """Join agents with their rented machines. Machines without an agent come last."""
    rented = {i.get("agentId") or f" {i['id']}": i for i in instances}
    running = _group_tasks_by_agent(allocations)
    machines = [_of_agent(a, rented.pop(a["id"], None), running) for a in agents]
    return machines + [_of_instance(i, running) for i in rented.values()]


def _of_agent(
    agent: Mapping[str, Any],
    instance: "Mapping[str, Any] | None",
    running: Mapping[str, Sequence[str]],
) -> Machine:
    slots = list((agent.get("slots") or {}).values())
    used = sum(bool(slot.get("container")) for slot in slots)
    return Machine(
        id=str(agent["id"]),
        pool=", ".join(agent.get("resourcePools") or ()),
        state=_agent_state(agent, instance, busy=used > 0),
        slots=len(slots),
        used=used,
        offer=_offer(instance),
        price_usd_hour=None if instance is None else number(instance.get("priceUsdHour")),
        running=str(agent.get("outOfService") or "") or _task_text(running.get(agent["id"], ())),
    )


def _agent_state(
    agent: Mapping[str, Any], instance: "Mapping[str, Any] | None", *, busy: bool
) -> str:
    if instance is not None and instance["state"] in ("DRAINING", "TERMINATING"):
        return str(instance["state"])
    if agent.get("draining"):
        return "DRAINING"
    if agent.get("outOfService"):
        return "OUT OF SERVICE"
    if not agent.get("enabled", True):
        return "DISABLED"
    return "BUSY" if busy else "IDLE"


def _of_instance(instance: Mapping[str, Any], running: Mapping[str, Sequence[str]]) -> Machine:
    state = str(instance["state"])
    return Machine(
        id=str(instance.get("agentId") or instance.get("cloudId") or instance["id"]),
        pool=str(instance.get("pool") or ""),
        state=_STARTING.get(state, state),
        slots=int(instance.get("slots") or 0),
        used=0,
        offer=_offer(instance),
        price_usd_hour=number(instance.get("priceUsdHour")),
        running=str(instance.get("reason") or "") or _task_text(running.get(instance["id"], ())),
    )


def _offer(instance: "Mapping[str, Any] | None") -> str:
    if instance is None:
        return ""
    names = ("machineType", "capacity", "zone")
    return " ".join(str(instance[name]) for name in names if instance.get(name))


def _group_tasks_by_agent(allocations: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the names of the tasks on each agent."""
    names: dict[str, list[str]] = {}
    for allocation in allocations:
        name = str(allocation.get("name") or allocation.get("taskId") or "")
        for resources in allocation.get("resources") or ():
            for agent in resources.get("agentDevices") or ():
                names.setdefault(agent, []).append(name)
    return names


def _task_text(names: Sequence[str]) -> str:
    """Return the names of tasks as one text. The trials of an experiment are grouped."""
    trials: dict[str, list[int]] = {}
    others = []
    for name in dict.fromkeys(names):
        match = _TRIAL.fullmatch(name)
        if match:
            trials.setdefault(match[2], []).append(int(match[1]))
        else:
            others.append(name)
    phrases = [
        f"experiment {id}: {'trial' if len(ids) == 1 else 'trials'} {', '.join(map(str, sorted(ids)))}"
        for id, ids in trials.items()
    ]
    return "; ".join([*phrases, *others])
