"""Resource pools and their schedulers, as the cluster configuration describes them.

See docs/reference/cluster-config.md#resource_pools."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from det_controlplane.core.config.reading import Reader
from det_controlplane.core.config.task_defaults import TaskContainerDefaults, read_task_defaults
from det_controlplane.core.provision.model import Limits
from det_controlplane.core.provision.offers import Offer

SchedulerType = Literal["priority", "fair_share", "round_robin"]
FittingPolicy = Literal["best", "worst"]

DEFAULT_POOL = "default"
_SCHEDULERS = ("priority", "fair_share", "round_robin")
_MOST = 2**31 - 1
_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Scheduler:
    type: SchedulerType = "priority"
    preemption: bool = False
    default_priority: int = 42
    fitting_policy: FittingPolicy = "best"
    allow_heterogeneous_fits: bool = False


@dataclass(frozen=True, slots=True)
class Provider:
    """Where the pool's machines come from. `settings` is the whole section, for the provisioner."""

    type: str
    settings: Mapping[str, Any]
    min_instances: int = 0
    max_instances: int = 5
    max_idle_agent_period: float = 1200.0  # durations are seconds
    max_agent_starting_period: float = 1200.0
    launch_error_timeout: float | None = None
    launch_error_retries: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a pool's configuration that rents from one provider, with one set of settings."""

    provider: str
    settings: Mapping[str, Any]
    regions: tuple[str, ...] = ()


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
    # What the pool rents: offers name their section by its index.
    sections: tuple[Section, ...] = ()
    offers: tuple[Offer, ...] = ()
    limits: Limits = _LIMITS


def read_pool(reader: Reader, scheduler: Scheduler) -> Pool:
    """A pool; its scheduler section, if any, replaces that of the resource manager."""
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
        provider=_provider(reader, reader.object("provider")) if reader.gives("provider") else None,
    )
    reader.ignore("kubernetes_namespace")
    reader.close()
    if not pool.pool_name:
        reader.refuse("pool_name", "is required")
    return pool


def read_scheduler(reader: Reader, inherited: Scheduler, given: bool) -> Scheduler:
    if not given:
        return inherited
    kind = cast(SchedulerType, reader.choice("type", _SCHEDULERS, "priority"))
    scheduler = Scheduler(
        type=kind,
        preemption=reader.flag("preemption", False),
        default_priority=reader.whole("default_priority", 42, 1, 99),
        fitting_policy=cast(
            FittingPolicy, reader.choice("fitting_policy", ("best", "worst"), "best")
        ),
        allow_heterogeneous_fits=reader.flag("allow_heterogeneous_fits", False),
    )
    reader.close()
    return scheduler


def with_fallback(pool: Pool, defaults: TaskContainerDefaults) -> Pool:
    """The pool with task defaults of its own: the cluster's, where it has none."""
    return pool if pool.task_container_defaults else replace(pool, task_container_defaults=defaults)


def _provider(parent: Reader, settings: Mapping[str, Any]) -> Provider:
    reader = parent.section("provider")
    provider = Provider(
        type=reader.text("type", ""),
        settings=settings,
        min_instances=reader.whole("min_instances", 0, 0, _MOST),
        max_instances=reader.whole("max_instances", 5, 0, _MOST),
        max_idle_agent_period=reader.seconds("max_idle_agent_period", 1200.0) or 0.0,
        max_agent_starting_period=reader.seconds("max_agent_starting_period", 1200.0) or 0.0,
        launch_error_timeout=reader.seconds("launch_error_timeout", None),
        launch_error_retries=reader.whole("launch_error_retries", 0, 0, _MOST),
    )
    if not provider.type:
        reader.refuse("type", "is required: the cloud of the machines, aws or gcp")
    if provider.min_instances > provider.max_instances:
        least, most = provider.min_instances, provider.max_instances
        reader.refuse("min_instances", f"({least}) is more than max_instances ({most})")
    return provider
