"""The state of the cluster as gauges in Prometheus' text format, and where to find its agents.

The first six are Determined's, by name and labels; the others are ours: slots, queues, machines and money.
"""

import resource
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from det_controlplane.core.trials.start_phases import QUANTILES
from det_controlplane.db.cluster import gauges
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import budgets, costs
from det_controlplane.services.context import Context
from det_controlplane.services.machines import starts
from det_controlplane.services.maintenance.budgets import spent_of
from det_controlplane.services.money.costs import span

# Exporters that an operator runs on the agents' machines.
_CADVISOR, _DCGM = 8080, 9400


class Gauge(NamedTuple):
    """A gauge, or a counter: its name, its meaning, and its values by labels."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, Any], Any]]
    type: str = "gauge"


@dataclass(frozen=True, slots=True)
class Rented:
    """The machines of clouds that the cluster has not seen end, and the places that rent them out."""

    machines: int
    usd_per_hour: float
    places: tuple[str, ...]


def exposition(ctx: Context) -> str:
    """Return every gauge in the text format."""
    with ctx.db.begin() as tx:
        metrics = [
            *_relations(tx),
            *_control_plane(ctx, tx),
            *_slots(tx),
            *_work(ctx, tx),
            *_machines(ctx, tx),
            *_budgets(ctx, tx),
            *_starts(ctx, tx),
        ]
    return "".join(_lines(metrics))


def process_exposition() -> str:
    """Return the resources that this process has used, by the names that Prometheus' own clients have."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    cpu_s = round(used.ru_utime + used.ru_stime, 3)
    metrics = (
        Gauge(
            "process_cpu_seconds_total", "Processor time of this process.", [({}, cpu_s)], "counter"
        ),
        Gauge("process_resident_memory_max_bytes", "The most memory it has had.", [({}, peak)]),
    )
    return "".join(_lines(metrics))


def targets(ctx: Context) -> list[dict[str, Any]]:
    """Return the exporters of each agent in the form of Prometheus' HTTP service discovery."""
    with ctx.db.autocommit() as tx:
        agents = gauges.agents(tx)
    return [
        {
            "targets": [f"{_host(agent)}:{port}" for port in (_CADVISOR, _DCGM)],
            "labels": {"det_agent_id": agent["id"], "det_resource_pool": agent["pool"]},
        }
        for agent in agents
    ]


def records(ctx: Context) -> dict[str, int]:
    """Return how many experiments, checkpoints and users the database has."""
    with ctx.db.autocommit() as tx:
        return gauges.records(tx)


def rented(ctx: Context) -> Rented:
    """Return the number, price and places of the rented machines."""
    with ctx.db.autocommit() as tx:
        rows = gauges.machines(tx)
    places = dict.fromkeys(f"{row['provider']} {row['region']}" for row in rows)
    usd_per_hour = sum(float(row["usd_hour"]) for row in rows)
    return Rented(sum(row["machines"] for row in rows), usd_per_hour, tuple(places))


def _host(agent: Mapping[str, Any]) -> str:
    return str(next(iter(agent["addresses"] or ()), agent["hostname"] or agent["id"]))


def _relations(tx: Tx) -> Iterator[Gauge]:
    containers = gauges.containers(tx)
    yield _relation("det_container_id_allocation_id", containers, "container_id", "allocation_id")
    with_actor = [{**c, "task_actor": ""} for c in containers]
    yield _relation(
        "det_allocation_id_task_id_task_actor", with_actor, "allocation_id", "task_id", "task_actor", "job_id"
    )  # fmt: skip
    yield _relation(
        "det_container_id_runtime_container_id", containers, "container_runtime_id", "container_id"
    )
    with_experiment = [c for c in containers if c["experiment_id"] is not None]
    yield _relation("det_job_id_experiment_id", with_experiment, "job_id", "experiment_id")
    yield _relation("det_experiment_id_label", gauges.labels(tx), "experiment_id", "label")
    yield _relation("det_gpu_uuid_container_id", gauges.gpus(tx), "gpu_uuid", "container_id")
    yield Gauge("determined_healthy", "1: the control plane reaches its database.", [({}, 1)])


def _relation(name: str, rows: Iterable[Mapping[str, Any]], *labels: str) -> Gauge:
    """Return a gauge that is 1 for each combination of labels, so that queries can join by it."""
    pairs = dict.fromkeys(tuple(str(row[label]) for label in labels) for row in rows)
    samples = [(dict(zip(labels, values, strict=True)), 1) for values in pairs]
    return Gauge(name, f"Relates {', '.join(labels)}.", samples)


def _slots(tx: Tx) -> Iterator[Gauge]:
    slots, queued = gauges.slots(tx), gauges.queued(tx)
    yield Gauge("det_slots", "Slots of agents that are there.", _by_pool(slots, "slots"))
    yield Gauge("det_slots_used", "Slots that containers hold.", _by_pool(slots, "used"))
    yield Gauge("det_queued_allocations", "Allocations that wait.", _by_pool(queued, "allocations"))
    yield Gauge("det_queued_slots", "Slots that are waited for.", _by_pool(queued, "slots"))


def _control_plane(ctx: Context, tx: Tx) -> Iterator[Gauge]:
    ticks, lines = gauges.ticks(tx, ctx.now()), gauges.log_lines(tx, ctx.now())
    if ticks.age_s is not None:
        age_s = float(ticks.age_s)
        yield Gauge("det_tick_age_seconds", "Time since the last tick.", [({}, age_s)])
    yield Gauge(
        "det_tick_due",
        "1: there is work or a machine, so ticks must run.",
        [({}, int(ticks.are_due))],
    )
    overdue_s = max(0.0, float(ticks.overdue_s or 0))
    yield Gauge(
        "det_outbox_overdue_seconds", "Delay of the effect that is due first.", [({}, overdue_s)]
    )
    yield Gauge(
        "det_log_lines", "Warnings and errors of the control plane in the last five minutes.",
        [({"level": level}, lines.get(level, 0)) for level in ("WARNING", "ERROR", "CRITICAL")],
    )  # fmt: skip


def _work(ctx: Context, tx: Tx) -> Iterator[Gauge]:
    agents = [
        ({"pool": row["pool"], "state": row["state"]}, row["agents"])
        for row in gauges.states_of_agents(tx)
    ]
    yield Gauge("det_agents", "Agents by state.", agents)
    rows = gauges.allocations(tx, ctx.now())
    yield Gauge(
        "det_running_allocations", "Allocations that have slots.", _by_pool(rows, "running")
    )
    queued = [row for row in rows if row["oldest_s"] is not None]
    yield Gauge(
        "det_queued_oldest_seconds", "Wait of the oldest queued allocation.", _by_pool(queued, "oldest_s")
    )  # fmt: skip


def _starts(ctx: Context, tx: Tx) -> Iterator[Gauge]:
    """Return the lengths and costs of the phases of starts in each pool."""
    seconds, usd = [], []
    for pool in ctx.config.resource_pools:
        for summary in starts.summaries(ctx, tx, pool.pool_name):
            for i, quantile in enumerate(QUANTILES):
                of = {"pool": pool.pool_name, "phase": summary.name, "quantile": quantile}
                seconds.append((of, round(summary.seconds[i], 1)))
                usd.append((of, round(summary.usd[i], 6)))
    yield Gauge(
        "det_start_phase_seconds", "Length of the phases of starts of the last month.", seconds
    )
    yield Gauge("det_start_phase_usd", "Cost of the phases of starts of the last month.", usd)


def _machines(ctx: Context, tx: Tx) -> Iterator[Gauge]:
    live = gauges.machines(tx)
    names = ("pool", "provider", "region", "capacity", "state")
    of = [({name: row[name] for name in names}, row) for row in live]
    yield Gauge(
        "det_instances", "Rented machines.", [(labels, row["machines"]) for labels, row in of]
    )
    yield Gauge(
        "det_instances_usd_per_hour", "Price of the rented machines.",
        [(labels, row["usd_hour"]) for labels, row in of],
    )  # fmt: skip
    yield Gauge(
        "det_instances_oldest_seconds", "Longest time of a rented machine in a state.",
        [
            ({name: row[name] for name in ("pool", "provider", "state")}, row["oldest_s"])
            for row in gauges.ages_of_machines(tx, ctx.now())
        ],
    )  # fmt: skip
    yield Gauge(
        "det_instances_unjoined", "Machines that ended in the last hour and never joined.",
        _by_pool(gauges.unjoined(tx, ctx.now()), "machines"),
    )  # fmt: skip
    pools = costs.by_pool(tx, span(ctx)) if ctx.config.rents else []
    spent = [({"pool": p.name}, p) for p in pools]
    yield Gauge(
        "det_pool_cost_usd", "Cost of a pool's machines since it rented the first.",
        [(labels, p.usd) for labels, p in spent],
    )  # fmt: skip
    yield Gauge(
        "det_pool_idle_cost_usd", "The part of it in which nothing held the slots.",
        [(labels, p.idle_usd) for labels, p in spent],
    )  # fmt: skip
    yield Gauge(
        "det_pool_slot_hours", "Hours that work held slots of the pool's machines.",
        [(labels, p.slot_hours) for labels, p in spent],
    )  # fmt: skip


def _budgets(ctx: Context, tx: Tx) -> Iterator[Gauge]:
    every = [
        ({"scope": b.scope.value, "name": b.scope_name, "period": b.period.value}, b)
        for b in budgets.every(tx)
    ]
    yield Gauge(
        "det_budget_limit_usd", "The amount of a budget.", [(labels, b.limit_usd) for labels, b in every]
    )  # fmt: skip
    yield Gauge(
        "det_budget_spent_usd", "What is spent of it.",
        [(labels, spent_of(ctx, tx, b)) for labels, b in every],
    )  # fmt: skip


def _by_pool(rows: Iterable[Mapping[str, Any]], of: str) -> list[tuple[Mapping[str, Any], Any]]:
    return [({"pool": row["pool"]}, row[of]) for row in rows]


def _lines(metrics: Iterable[Gauge]) -> Iterator[str]:
    for gauge in metrics:
        yield f"# HELP {gauge.name} {gauge.help}\n# TYPE {gauge.name} {gauge.type}\n"
        for labels, value in gauge.samples:
            label_text = ",".join(
                f'{name}="{_escape_label(text)}"' for name, text in labels.items()
            )
            yield (
                f"{gauge.name}{{{label_text}}} {float(value):.12g}\n"
                if label_text
                else f"{gauge.name} {value}\n"
            )


def _escape_label(value: Any) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
