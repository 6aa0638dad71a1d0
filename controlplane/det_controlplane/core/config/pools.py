"""Resource pools and their schedulers in the cluster configuration.

See docs/reference/cluster-config.md#resource_pools."""

from dataclasses import dataclass, replace
from typing import Literal, cast

from det_controlplane.core.config.providers import Provider, Section, expand, read_provider
from det_controlplane.core.config.reading import Reader
from det_controlplane.core.config.task_defaults import TaskContainerDefaults, read_task_defaults
from det_controlplane.core.provision.model import Limits
from det_controlplane.core.provision.offers import Offer
from det_controlplane.core.schedule.job_settings import HIGHEST_PRIORITY, LOWEST_PRIORITY

SchedulerType = Literal["priority", "fair_share", "round_robin"]
FittingPolicy = Literal["best", "worst"]

DEFAULT_POOL = "default"
_SCHEDULERS = ("priority", "fair_share", "round_robin")
_MOST = 2**31 - 1
_LIMITS = Limits()
DEFAULT_PRIORITY = 42  # of jobs without a priority in their configuration and pool


@dataclass(frozen=True, slots=True)
class Scheduler:
    type: SchedulerType = "priority"
    preemption: bool = False
    default_priority: int = DEFAULT_PRIORITY
    fitting_policy: FittingPolicy = "best"
    allow_heterogeneous_fits: bool = False


@dataclass(frozen=True, slots=True)
class Pool:
    pool_name: str = DEFAULT_POOL
    description: str = ""
    scheduler: Scheduler = Scheduler()
    max_aux_containers_per_agent: int = 100
    task_container_defaults: TaskContainerDefaults | None = None
    agent_reattach_enabled: bool = True
    agent_reconnect_wait: float = 25.0  # seconds
    provider: Provider | None = None
    # The machines that the pool can rent. Each offer has the index of its section.
    sections: tuple[Section, ...] = ()
    offers: tuple[Offer, ...] = ()
    limits: Limits = _LIMITS
    is_stored: bool = False  # it is in the database (core/config/stored_pools.py)
    is_leaving: bool = False  # it takes no new work, and is deleted when its work has ended
    problem: str = ""  # why its stored settings cannot be read, so that it rents no machines


def read_pool(reader: Reader, scheduler: Scheduler) -> Pool:
    """Read a pool. Its own scheduler section replaces the default scheduler."""
    pool = Pool(
        pool_name=reader.text("pool_name", ""),
        description=reader.text("description", ""),
        scheduler=read_scheduler(reader.section("scheduler"), scheduler, reader.gives("scheduler")),
        max_aux_containers_per_agent=reader.whole(
            "max_aux_containers_per_agent", 100, 0, _MOST, "max_cpu_containers_per_agent"
        ),
        task_container_defaults=read_task_defaults(reader.section("task_container_defaults"))
        if reader.gives("task_container_defaults")
        else None,
        agent_reattach_enabled=reader.flag("agent_reattach_enabled", True),
        agent_reconnect_wait=reader.seconds("agent_reconnect_wait", 25.0) or 0.0,
        provider=read_provider(reader),
    )
    reader.ignore("kubernetes_namespace")
    reader.close()
    if not pool.pool_name:
        reader.refuse("pool_name", "is required")
    return pool if pool.provider is None else _add_provider(pool, pool.provider)


def _add_provider(pool: Pool, provider: Provider) -> Pool:
    """Return the pool with its sections, offers and limits."""
    return replace(
        pool,
        sections=provider.sections,
        offers=expand(provider),
        limits=_limits(provider, pool.scheduler, pool.max_aux_containers_per_agent),
    )


def _limits(provider: Provider, scheduler: Scheduler, max_aux_containers: int) -> Limits:
    return Limits(
        min_instances=provider.min_instances,
        max_instances=provider.max_instances,
        warm_instances=provider.warm_instances,
        warm_policy=provider.warm_policy,
        max_idle_s=provider.max_idle_agent_period,
        max_starting_s=provider.max_agent_starting_period,
        max_hourly_cost=provider.max_hourly_cost,
        max_aux_containers=max_aux_containers,
        allow_heterogeneous_fits=scheduler.allow_heterogeneous_fits,
        fitting_policy=scheduler.fitting_policy,
        # Only the priority scheduler without preemption lets a job block the jobs behind it.
        preemption=scheduler.preemption or scheduler.type != "priority",
    )


def read_scheduler(reader: Reader, inherited: Scheduler, is_given: bool) -> Scheduler:
    if not is_given:
        return inherited
    kind = cast(SchedulerType, reader.choice("type", _SCHEDULERS, "priority"))
    scheduler = Scheduler(
        type=kind,
        preemption=reader.flag("preemption", False),
        default_priority=reader.whole(
            "default_priority", DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY
        ),
        fitting_policy=cast(
            FittingPolicy, reader.choice("fitting_policy", ("best", "worst"), "best")
        ),
        allow_heterogeneous_fits=reader.flag("allow_heterogeneous_fits", False),
    )
    reader.close()
    return scheduler


def with_fallback(pool: Pool, defaults: TaskContainerDefaults) -> Pool:
    """Return the pool with task defaults: its own or the cluster's."""
    return pool if pool.task_container_defaults else replace(pool, task_container_defaults=defaults)
