"""The screen of a cluster: costs, pools, the queue with reasons, and machines with their tasks."""

from typing import Any

from det_cli.live import charts
from det_cli.live.charts import money, span
from det_cli.live.cluster import Cluster, Job, Machine, Pool
from det_cli.live.experiment_screen import ahead
from det_cli.live.text import Column, Line, Segment, apart, fitted, line, state, table, wrapped

_JOBS, _MACHINES = 20, 40  # maximum rows; a footer names the command that lists all
_STYLES = {
    "BUSY": "busy", "BACKFILLED": "busy", "BOOTING": "warn", "REQUESTED": "warn", "TERMINATING": "warn",
    "OUT OF SERVICE": "bad",
}  # fmt: skip


def lines(cluster: Cluster, room: int, now: float) -> list[Line]:
    """Return all lines of the screen. The caller shows the part that fits."""
    title = line(Segment(cluster.name or "cluster", "bold"), _totals(cluster))
    user = line(Segment(f"as {cluster.user}" if cluster.user else "", "dim"))
    out = [apart(title, user, room)]
    out += _money_lines(cluster)
    out += [line(Segment(f"not shown: {part}", "dim")) for part in cluster.hidden]
    parts = [
        _pool_lines(cluster, room),
        _queue_lines(cluster, room, now),
        _machine_lines(cluster, room),
    ]
    out += [one for part in parts if part for one in [line(""), *part]]
    return [fitted(one, room) for one in out]


def _totals(cluster: Cluster) -> str:
    used, slots = sum(p.used for p in cluster.pools), sum(p.slots for p in cluster.pools)
    missing = sum(job.missing_slots for job in cluster.jobs)
    queued = sum(job.queued for job in cluster.jobs)
    more = f", {missing} more wanted" if missing else ""
    running = len(cluster.jobs) - queued
    return f"  {used} of {slots} slots used{more}  {running} running  {queued} waiting"


def _money_lines(cluster: Cluster) -> list[Line]:
    costs = cluster.money
    if not cluster.rents and not (costs and costs.month_usd):
        return []
    parts: list[str | Segment] = [
        Segment("cost   ", "dim"), Segment(f"{money(cluster.price_usd_hour)} per hour", "bold"),
    ]  # fmt: skip
    if costs is not None:
        parts.append(f"  {money(costs.today_usd)} today  {money(costs.month_usd)} this month")
    budgets = () if costs is None else costs.budgets
    warnings = [line(Segment("budget ", "dim"), Segment(text, "warn")) for text in budgets]
    return [line(*parts), *warnings]


def _pool_lines(cluster: Cluster, room: int) -> list[Line]:
    width = 16 if room >= 80 else 8

    def bar(pool: Pool) -> Segment:
        return Segment(charts.bar(pool.used / pool.slots if pool.slots else 0.0, width), "busy")

    columns = (
        Column("pool", lambda p: p.name, least=8),
        Column("slots", bar, least=width, most=width),
        Column("", lambda p: f"{p.used}/{p.slots}", least=3, right=True),
        Column("machines", lambda p: _count(p), least=3, right=True),
        Column("wanted", lambda p: str(cluster.missing_slots(p)), right=True),
        Column("scheduler", lambda p: p.scheduler, drop=1),
        Column("held because", lambda p: Segment(p.hold, "warn"), drop=2, least=12, most=80),
    )
    return table(columns, cluster.pools, room)


def _count(pool: Pool) -> str:
    return (
        str(pool.agents) if pool.max_machines is None else f"{pool.agents} of {pool.max_machines}"
    )


def _queue_lines(cluster: Cluster, room: int, now: float) -> list[Line]:
    """List the jobs in queue order, with the reason below each waiting job."""
    jobs = cluster.jobs[:_JOBS]
    if not jobs:
        return [line(Segment("No jobs yet", "dim"))]
    several = len(cluster.pools) > 1
    columns = (
        Column("#", lambda j: str(j.ahead + 1) if j.ahead >= 0 else "", least=2, right=True),
        Column("job", lambda j: j.subject, least=12, most=24),
        Column("name", lambda j: j.name, least=8, most=40, drop=1),
        Column("user", lambda j: j.owner, least=6, most=16, drop=3),
        Column("pool", lambda j: j.pool if several else "", least=6, most=16, drop=2),
        Column("state", lambda j: _state(j.state), least=7),
        Column("slots", lambda j: f"{j.allocated}/{j.requested}", least=7, right=True),
        Column("done", lambda j: _done(j), drop=4, right=True),
        Column("prio", lambda j: j.urgency, drop=6, right=True),
        Column("since", lambda j: _age(j, now), drop=5, least=7, right=True),
    )
    heading, *rows = table(columns, jobs, room)
    out = [heading]
    for job, row in zip(jobs, rows, strict=True):
        out.append(row)
        reason = job.reason or (ahead(job.ahead) if job.queued and job.ahead >= 0 else "")
        if reason:
            out += [line(Segment(text, "dim")) for text in wrapped(reason, room, "    ")[:3]]
    return out + _more(len(cluster.jobs) - len(jobs), "jobs", "det job list")


def _state(name: str) -> Segment:
    return Segment(name, _STYLES[name]) if name in _STYLES else state(name)


def _done(job: Job) -> str:
    return "" if job.progress is None else f"{job.progress:.0%}"


def _age(job: Job, now: float) -> str:
    return "" if job.submitted is None else span(now - job.submitted)


def _machine_lines(cluster: Cluster, room: int) -> list[Line]:
    machines = cluster.machines[:_MACHINES]
    if not machines:
        return [line(Segment("No machines yet", "dim"))]
    several = len(cluster.pools) > 1
    columns = (
        Column("machine", lambda m: m.id, least=12, most=36),
        Column("pool", lambda m: m.pool if several else "", least=6, most=16, drop=2),
        Column("state", lambda m: _state(m.state), least=7),
        Column("slots", lambda m: f"{m.used}/{m.slots}", least=5, right=True),
        Column("$/hour", lambda m: _price(m), least=6, right=True),
        Column("offer", lambda m: m.offer, least=16, most=40, drop=3),
        Column("running", lambda m: m.running, least=16, most=90, drop=1),
    )
    rest = _more(len(cluster.machines) - len(machines), "machines", "det agent list")
    return table(columns, machines, room) + rest


def _price(machine: Machine) -> str:
    return "" if machine.price_usd_hour is None else f"{machine.price_usd_hour:.3f}"


def _more(count: int, noun: str, command: str) -> list[Line]:
    return [line(Segment(f"… and {count} more {noun}: `{command}`", "dim"))] if count > 0 else []


def one_line(cluster: Cluster) -> str:
    """Return the state in one line, for output that is not a terminal."""
    parts = [_totals(cluster).strip().replace("  ", ", ")]
    if cluster.rents:
        parts.append(f"{money(cluster.price_usd_hour)} per hour")
    waiting = [f"{j.subject} waits: {j.reason}" for j in cluster.jobs if j.reason]
    return "; ".join([*parts, *waiting])


def as_data(cluster: Cluster) -> dict[str, Any]:
    """Return the state for JSON output."""
    costs = cluster.money
    return {
        "cluster": cluster.name,
        "priceUsdHour": cluster.price_usd_hour,
        "todayUsd": None if costs is None else costs.today_usd,
        "monthUsd": None if costs is None else costs.month_usd,
        "notShown": list(cluster.hidden),
        "pools": [
            {"name": p.name, "slots": p.slots, "used": p.used, "wanted": cluster.missing_slots(p), "hold": p.hold}
            for p in cluster.pools
        ],
        "jobs": [
            {
                "jobId": j.id, "subject": j.subject, "name": j.name, "username": j.owner, "pool": j.pool,
                "state": j.state, "allocatedSlots": j.allocated, "requestedSlots": j.requested,
                "jobsAhead": j.ahead, "progress": j.progress, "reason": j.reason,
            }
            for j in cluster.jobs
        ],
        "machines": [
            {
                "id": m.id, "pool": m.pool, "state": m.state, "slots": m.slots, "used": m.used,
                "priceUsdHour": m.price_usd_hour, "offer": m.offer, "running": m.running,
            }
            for m in cluster.machines
        ],
    }  # fmt: skip
