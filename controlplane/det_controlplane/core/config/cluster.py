"""The cluster configuration. Its keys are the keys of Determined (docs/reference/cluster-config.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from det_controlplane.core.config.pipelines import PipelineTrust, read_pipelines
from det_controlplane.core.config.pools import (
    DEFAULT_POOL,
    DEFAULT_PRIORITY,
    Pool,
    Scheduler,
    read_pool,
    read_scheduler,
    with_fallback,
)
from det_controlplane.core.config.provider_defaults import with_defaults
from det_controlplane.core.config.reading import Reader
from det_controlplane.core.config.sign_in import (
    AccessTokens,
    SignInProvider,
    read_access_tokens,
    read_provider,
)
from det_controlplane.core.config.task_defaults import TaskContainerDefaults, read_task_defaults
from det_controlplane.core.config.telemetry import Telemetry, read_telemetry
from det_controlplane.core.config.text import json_problems, load_yaml
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.schedule.job_settings import HIGHEST_PRIORITY, LOWEST_PRIORITY

_TASK_DEFAULTS = TaskContainerDefaults()
_SCHEDULER = Scheduler()
WHAT = "cluster configuration"
_LEVELS = ("trace", "debug", "info", "warn", "warning", "error", "fatal")
_STORAGE_NEEDS = {
    "shared_fs": "host_path",
    "directory": "container_path",
    "s3": "bucket",
    "gcs": "bucket",
    "azure": "container",
}
# The database refuses to delete newer entries of the audit log (db/migrations, keep_audit_log).
LEAST_AUDIT_DAYS = 30
NO_DEFAULTS: Mapping[str, Mapping[str, Any]] = {}
# Keys of Determined's master that have no effect here.
_IGNORED = (
    "config_file", "db", "root", "cache", "enable_cors", "logging", "observability",
    "ui_customization", "hyperparameter_importance", "port_range",
    "tensorboard_storage", "grpc", "scim", "saml", "integrations", "__internal", "det_cloud",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClusterRetention:
    log_retention_days: int = -1  # forever
    task_retention_days: int = -1  # of tasks other than trials; 0 and -1: forever
    resource_retention_days: int = 30  # of measured resources; -1: forever
    schedule: str = ""


@dataclass(frozen=True, slots=True)
class Webhooks:
    signing_key: str = ""
    base_url: str = ""
    allow_private_targets: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    level: str = "info"
    color: bool = True


class Authz(Enum):
    """The ways to authorize users."""

    BASIC = "basic"  # everyone is an editor everywhere
    RBAC = "rbac"  # only roles give rights


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    scheduler: Scheduler = _SCHEDULER  # of pools without their own scheduler
    resource_pools: tuple[Pool, ...] = (Pool(task_container_defaults=_TASK_DEFAULTS),)
    default_compute_resource_pool: str = DEFAULT_POOL
    default_aux_resource_pool: str = DEFAULT_POOL
    task_container_defaults: TaskContainerDefaults = _TASK_DEFAULTS
    checkpoint_storage: Mapping[str, Any] | None = None
    cluster_name: str = ""
    port: int = 8080
    reserved_ports: frozenset[int] = frozenset()  # ports that trials must not use
    initial_user_password: str | None = None  # None: a random password
    allowed_host_paths: tuple[str, ...] | None = None  # None: all paths except system directories
    authz: Authz = Authz.BASIC
    launch_error: bool = True
    feature_switches: tuple[str, ...] = ()  # reported to clients; no behaviour depends on them
    notebook_timeout: float | None = None  # seconds; None: never
    tensorboard_timeout: float = 300.0
    retention_policy: ClusterRetention = ClusterRetention()
    webhooks: Webhooks = Webhooks()
    log: Log = Log()
    audit_retention_days: int = -1  # forever
    max_uploads_per_day: int = 20 << 30  # bytes of code per user within 24 hours
    max_streams_per_user: int = 256  # open streams in one API process
    max_connections_per_address: int = 1024  # in one API process; 0: no limit
    token: AccessTokens = field(default_factory=AccessTokens)
    oidc: SignInProvider | None = None  # the identity provider
    pipelines: tuple[
        PipelineTrust, ...
    ] = ()  # CI pipelines that sign in with a token of their service
    telemetry: Telemetry = field(default_factory=Telemetry)
    ignored: tuple[str, ...] = field(default=(), compare=False)  # keys without effect
    # The deployment's defaults for provider sections, and the pools as the configuration's file has them.
    provider_defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    written_pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.resource_pools if pool.pool_name == name), None)

    def pool_for(self, requested: str, slots: int) -> Pool | Problem:
        """Return the requested pool, or the default pool for work with or without slots."""
        default = self.default_compute_resource_pool if slots else self.default_aux_resource_pool
        pool = self.pool(requested or default)
        if pool is None:
            names = ", ".join(pool.pool_name for pool in self.resource_pools)
            message = f"{requested!r} does not exist; this cluster has: {names}"
            return Problem("resources.resource_pool", message)
        return pool

    @property
    def rents(self) -> bool:
        """Return whether any pool has machines that cost money."""
        return any(pool.offers for pool in self.resource_pools)

    def section_settings(self, pool_name: str, section: int) -> Mapping[str, Any]:
        """Return the settings of a pool's section, or {} if the configuration has changed and has no such section."""
        pool = self.pool(pool_name)
        sections = pool.sections if pool else ()
        return sections[section].settings if section < len(sections) else {}

    def scheduler_of(self, pool_name: str) -> Scheduler:
        pool = self.pool(pool_name)
        return pool.scheduler if pool else Scheduler()


def load_cluster(
    source: str | Mapping[str, Any],
    own_keys: Sequence[str] = (),
    provider_defaults: Mapping[str, Mapping[str, Any]] = NO_DEFAULTS,
) -> ClusterConfig:
    """Read the configuration. Raises InvalidConfig with all problems.

    `own_keys` are keys that the caller reads itself. A message about an unknown key lists them, too.
    `provider_defaults` fill in missing keys of the pools' provider sections."""
    written: Any = (
        load_yaml(source, what=WHAT) if isinstance(source, str) and source.strip() else source or {}
    )
    problems = list(json_problems(written))
    if problems:
        raise InvalidConfig(problems, what=WHAT)
    has_defaults = any(provider_defaults.values())
    raw = with_defaults(written, provider_defaults) if has_defaults else written
    reader = Reader(raw, "", problems)
    reader.gives(*own_keys)
    config = _cluster(reader)
    if problems:
        raise InvalidConfig(problems, what=WHAT)
    pools = {pool["pool_name"]: pool for pool in written.get("resource_pools") or ()}
    return replace(config, provider_defaults=provider_defaults, written_pools=pools)


def _sign_in(reader: Reader, security: Reader) -> tuple[SignInProvider | None, list[str]]:
    """Read the identity provider. Determined has this section at the top level, which is accepted too."""
    if reader.gives("oidc") and security.gives("oidc"):
        reader.refuse("oidc", "is given as security.oidc, too: leave one of them away")
    return read_provider((security if security.gives("oidc") else reader).section("oidc"))


def _cluster(reader: Reader) -> ClusterConfig:
    security, resource_manager = reader.section("security"), reader.section("resource_manager")
    defaults = read_task_defaults(reader.section("task_container_defaults"))
    scheduler = _scheduler(reader, resource_manager)
    pools = _pools(reader, scheduler, defaults)
    host_paths = security.texts("allowed_host_paths")
    authz, ignored_authz = _authz(security.section("authz"))
    oidc, ignored_oidc = _sign_in(reader, security)
    telemetry, ignored_telemetry = read_telemetry(reader.section("telemetry"))
    config = ClusterConfig(
        scheduler=scheduler,
        resource_pools=pools,
        default_compute_resource_pool=_default_pool(resource_manager, pools, "compute", "gpu"),
        default_aux_resource_pool=_default_pool(resource_manager, pools, "aux", "cpu"),
        task_container_defaults=defaults,
        checkpoint_storage=_storage(reader.section("checkpoint_storage"), reader),
        cluster_name=reader.text("cluster_name", ""),
        port=reader.whole("port", 8080, 1, 65535, "http_port"),
        reserved_ports=frozenset(reader.wholes("reserved_ports", 1, 65535)),
        initial_user_password=security.text_or_none("initial_user_password"),
        allowed_host_paths=host_paths if security.gives("allowed_host_paths") else None,
        authz=authz,
        launch_error=reader.flag("launch_error", True),
        feature_switches=reader.texts("feature_switches"),
        notebook_timeout=reader.seconds("notebook_timeout", None),
        tensorboard_timeout=reader.seconds("tensorboard_timeout", 300.0) or 300.0,
        retention_policy=_retention(reader.section("retention_policy")),
        webhooks=_webhooks(reader.section("webhooks")),
        log=_log(reader.section("log")),
        audit_retention_days=_audit_retention(security),
        max_uploads_per_day=security.size("max_uploads_per_day", 20 << 30),
        max_streams_per_user=security.whole("max_streams_per_user", 256, 1, 100_000),
        max_connections_per_address=security.whole("max_connections_per_address", 1024, 0, 100_000),
        token=read_access_tokens(security.section("token")),
        oidc=oidc,
        pipelines=read_pipelines(reader.items("pipelines")),
        telemetry=telemetry,
    )
    ignored = [
        *(key for pool in pools if pool.provider for key in pool.provider.ignored),
        *reader.ignore(*_IGNORED),
        *security.ignore("default_task", "tls", "ssh", "initial_admin_password"),
        *ignored_authz,
        *ignored_oidc,
        *ignored_telemetry,
        *resource_manager.ignore(
            "no_default_resource_pools", "require_authentication", "client_ca"
        ),
    ]
    for section in (reader, security, resource_manager):
        section.close()
    return replace(config, ignored=tuple(ignored))


def _authz(reader: Reader) -> tuple[Authz, list[str]]:
    authz = Authz(reader.choice("type", tuple(kind.value for kind in Authz), Authz.BASIC.value))
    ignored = reader.ignore("fallback", "rbac_ui_enabled", "workspace_creator_assign_role")
    reader.close()
    return authz, list(ignored)


def _scheduler(reader: Reader, resource_manager: Reader) -> Scheduler:
    """Read the default scheduler. `default_priority` and `preemption` at the top level are a short form."""
    resource_manager.choice("type", ("agent",), "agent")
    short = Scheduler(
        preemption=reader.flag("preemption", False),
        default_priority=reader.whole(
            "default_priority", DEFAULT_PRIORITY, HIGHEST_PRIORITY, LOWEST_PRIORITY
        ),
    )
    # Before version 0.15.5, the scheduler was at the top level.
    for holder in (resource_manager, reader):
        if holder.gives("scheduler"):
            return read_scheduler(holder.section("scheduler"), short, is_given=True)
    holder.raw("scheduler")
    return short


def _pools(
    reader: Reader, scheduler: Scheduler, defaults: TaskContainerDefaults
) -> tuple[Pool, ...]:
    pools = [read_pool(item, scheduler) for item in reader.items("resource_pools")]
    names = [pool.pool_name for pool in pools if pool.pool_name]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.refuse("resource_pools", f"has the pool name {name!r} twice; names must differ")
    if not pools:
        pools = [Pool(scheduler=scheduler)]
    return tuple(with_fallback(pool, defaults) for pool in pools)


def _default_pool(resource_manager: Reader, pools: tuple[Pool, ...], use: str, old: str) -> str:
    key = f"default_{use}_resource_pool"
    names = [pool.pool_name for pool in pools if pool.pool_name]
    fallback = names[0] if len(names) == 1 else DEFAULT_POOL
    is_given = resource_manager.gives(key, old_key := f"default_{old}_resource_pool")
    name = resource_manager.text(key, fallback, old_key)
    if name not in names:
        choices = ", ".join(names) or "none"
        message = (
            f"{name!r} is not one of the pools: {choices}"
            if is_given
            else f"is required; the pools are {choices}"
        )
        resource_manager.refuse(key, message)
    return name


def _storage(storage: Reader, reader: Reader) -> dict[str, Any] | None:
    raw = reader.object("checkpoint_storage")
    if not raw:
        return None
    kind = storage.choice("type", tuple(_STORAGE_NEEDS), "")
    key = _STORAGE_NEEDS.get(kind)
    if not storage.gives("type"):
        storage.refuse("type", f"is required; one of {', '.join(_STORAGE_NEEDS)}")
    elif key and not storage.text(key, ""):
        storage.refuse(key, f"is required for {kind}")
    return raw


def _retention(reader: Reader) -> ClusterRetention:
    days = reader.whole("log_retention_days", -1, -1, 32767)
    of_tasks = reader.whole("task_retention_days", -1, -1, 32767)
    of_resources = reader.whole("resource_retention_days", 30, -1, 32767)
    schedule = reader.raw("schedule")
    reader.close()
    words = "" if schedule is None else str(schedule)
    return ClusterRetention(days, of_tasks, of_resources, words)


def _audit_retention(security: Reader) -> int:
    days = security.whole("audit_retention_days", -1, -1, 32767)
    if 0 <= days < LEAST_AUDIT_DAYS:
        security.refuse("audit_retention_days", f"must be {LEAST_AUDIT_DAYS} at least, or -1")
    return days


def _webhooks(reader: Reader) -> Webhooks:
    webhooks = Webhooks(
        reader.text("signing_key", ""),
        reader.text("base_url", ""),
        reader.flag("allow_private_targets", False),
    )
    reader.close()
    return webhooks


def _log(reader: Reader) -> Log:
    log = Log(reader.choice("level", _LEVELS, "info"), reader.flag("color", True))
    reader.close()
    return log
