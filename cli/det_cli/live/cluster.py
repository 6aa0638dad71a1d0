"""The state of a cluster as its picture needs it, read out of the API's answers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from det_cli.live.pictures import moment, number
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
    most: "int | None" = None  # machines that it may rent
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
    def wanted(self) -> int:
        """Return how many slots it waits for; a search may run and wait at the same time."""
        return max(self.requested - self.allocated, 0)

    @property
    def waits(self) -> bool:
        return self.queued or self.wanted > 0


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
    budgets: tuple[str, ...] = ()  # those that warn, or are spent


@dataclass(frozen=True, slots=True)
class Cluster:
    name: str
    user: str
    pools: tuple[Pool, ...]
    jobs: tuple[Job, ...]
    machines: tuple[Machine, ...]
    hidden: tuple[str, ...] = ()
    money: "Money | None" = field(default=None, compare=False)

    def wanted(self, pool: Pool) -> int:
        return sum(job.wanted for job in self.jobs if job.pool == pool.name)

    @property
    def price_usd_hour(self) -> float:
        return sum(m.price_usd_hour or 0.0 for m in self.machines)

    @property
    def rents(self) -> bool:
        return any(p.most is not None for p in self.pools) or self.price_usd_hour > 0


def pool_of(told: Mapping[str, Any], rented: "Mapping[str, Any] | None") -> Pool:
    scheduler = str(told.get("schedulerType") or "").removeprefix("SCHEDULER_TYPE_").lower()
    hold = (rented or {}).get("hold") or {}
    return Pool(
        name=str(told["name"]),
        scheduler=scheduler,
        slots=int(told.get("slotsAvailable") or 0),
        used=int(told.get("slotsUsed") or 0),
        agents=int(told.get("numAgents") or 0),
        most=int(rented["maxInstances"]) if rented else None,
        hold=str(hold.get("sentence") or (rented or {}).get("spentBudget") or ""),
    )


def job_of(told: Mapping[str, Any], pool: Pool, reason: str) -> Job:
    summary = told.get("summary") or {}
    kind = str(told.get("type") or "").removeprefix("TYPE_").lower()
    entity = str(told.get("entityId") or "")
    urgency = f"{number(told.get('weight')) or 0:g}" if pool.scheduler == "fair_share" else ""
    return Job(
        id=str(told["jobId"]),
        subject=f"{kind} {entity[:8] if kind != 'experiment' else entity}".strip(),
        name=str(told.get("name") or ""),
        owner=str(told.get("username") or ""),
        pool=str(told.get("resourcePool") or pool.name),
        state=_job_state(summary),
        urgency=urgency or str(told.get("priority") or ""),
        allocated=int(told.get("allocatedSlots") or 0),
        requested=int(told.get("requestedSlots") or 0),
        ahead=int(summary.get("jobsAhead", -1)),
        submitted=moment(told.get("submissionTime")),
        progress=number(told.get("progress")),
        reason=reason,
    )


def _job_state(summary: Mapping[str, Any]) -> str:
    told = state_text(summary.get("state"))
    return {"SCHEDULED": "RUNNING", "SCHEDULED_BACKFILLED": "BACKFILLED"}.get(told, told)


def machines_of(
    agents: Iterable[Mapping[str, Any]],
    instances: Iterable[Mapping[str, Any]],
    allocations: Iterable[Mapping[str, Any]],
) -> list[Machine]:
    """Join agents with the machines rented for them; those without an agent yet come last."""
    rented = {i.get("agentId") or f" {i['id']}": i for i in instances}
    running = _running(allocations)
    found = [_of_agent(a, rented.pop(a["id"], None), running) for a in agents]
    return found + [_of_instance(i, running) for i in rented.values()]


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
        running=str(agent.get("outOfService") or "") or _told(running.get(agent["id"], ())),
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
        running=str(instance.get("reason") or "") or _told(running.get(instance["id"], ())),
    )


def _offer(instance: "Mapping[str, Any] | None") -> str:
    if instance is None:
        return ""
    names = ("machineType", "capacity", "zone")
    return " ".join(str(instance[name]) for name in names if instance.get(name))


def _running(allocations: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the names of what runs on each agent."""
    found: dict[str, list[str]] = {}
    for allocation in allocations:
        name = str(allocation.get("name") or allocation.get("taskId") or "")
        for resources in allocation.get("resources") or ():
            for agent in resources.get("agentDevices") or ():
                found.setdefault(agent, []).append(name)
    return found


def _told(names: Sequence[str]) -> str:
    """Return the names of what holds slots, with the trials of an experiment in one phrase."""
    trials: dict[str, list[int]] = {}
    others = []
    for name in dict.fromkeys(names):
        found = _TRIAL.fullmatch(name)
        if found:
            trials.setdefault(found[2], []).append(int(found[1]))
        else:
            others.append(name)
    told = [
        f"experiment {id}: {'trial' if len(ids) == 1 else 'trials'} {', '.join(map(str, sorted(ids)))}"
        for id, ids in trials.items()
    ]
    return "; ".join([*told, *others])
