"""The monthly list price of a cluster, idle and with full pools, without discounts, credits or taxes.

docs/cost.md uses the same prices and parts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from det_cli.deployment.pool_checks import as_rented

if TYPE_CHECKING:
    from det_controlplane.core.config.pools import Pool
    from det_controlplane.core.provision.warm import WarmPolicy

HOURS = 730  # hours per month
DATABASE_GB, BUCKET_GB = 1.0, 1.0  # assumed sizes of a new cluster
AWAKE_ACU = 0.5  # the minimum of an awake Aurora, assumed to be sufficient for 100 agents

# The number of alarms in the AWS stack, if an SNS topic is set.
ALARMS_OF_FUNCTIONS = 12
ALARMS_OF_DATABASE: Mapping[str, int] = {"aurora": 1, "rds": 2}

# Published list prices in US dollars for us-east-1 and us-central1, without free allowances.
PRICES_OF = "June 2025"
PRICES: Mapping[str, tuple[float, str]] = {
    "lambda_gb_s": (0.0000166667, "AWS Lambda, x86, a GB and second"),
    "lambda_request": (0.0000002, "AWS Lambda, a request"),
    "aurora_acu_h": (0.12, "Aurora Serverless v2 (PostgreSQL), an ACU and hour"),
    "aurora_io": (0.0000002, "Aurora, a write of up to 4 KB, or a page read from its storage"),
    "aurora_gb_month": (0.10, "Aurora, a GB of data and month"),
    "db.t4g.micro": (0.016, "RDS db.t4g.micro, an hour"),
    "db.t4g.small": (0.032, "RDS db.t4g.small, an hour"),
    "db.t4g.medium": (0.065, "RDS db.t4g.medium, an hour"),
    "db.t4g.large": (0.129, "RDS db.t4g.large, an hour"),
    "rds_gb_month": (0.115, "RDS gp3, a GB and month"),
    "t3.nano": (0.0052, "EC2 t3.nano, an hour"),
    "gp3_gb_month": (0.08, "EC2 gp3, a GB and month"),
    "nat_h": (0.045, "NAT gateway, an hour; its traffic is not counted"),
    "ipv4_h": (0.005, "a public IPv4 address, an hour"),
    "alarm_month": (0.10, "CloudWatch, an alarm and month"),
    "secret_month": (0.40, "Secrets Manager, a secret and month"),
    "s3_gb_month": (0.023, "S3 Standard, a GB and month"),
    "logs_gb": (0.50, "CloudWatch Logs, a GB taken in"),
    "logs_gb_month": (0.03, "CloudWatch Logs, a GB kept and month"),
    "run_vcpu_s": (0.000024, "Cloud Run, a vCPU and second of requests"),
    "run_gib_s": (0.0000025, "Cloud Run, a GiB and second of requests"),
    "run_request": (0.0000004, "Cloud Run, a request"),
    "db-f1-micro": (0.0105, "Cloud SQL db-f1-micro, an hour"),
    "db-g1-small": (0.035, "Cloud SQL db-g1-small, an hour"),
    "sql_vcpu_h": (0.0413, "Cloud SQL, a vCPU and hour of a custom tier"),
    "sql_gib_h": (0.007, "Cloud SQL, a GiB of memory and hour of a custom tier"),
    "sql_ssd_gb_month": (0.17, "Cloud SQL SSD, a GB and month"),
    "sql_backup_gb_month": (0.08, "Cloud SQL backups, a GB and month"),
    "scheduler_job_month": (0.10, "Cloud Scheduler, a job and month"),
    "secret_version_month": (0.06, "Secret Manager, a version and month"),
    "gcs_gb_month": (0.02, "Cloud Storage Standard, a GB and month"),
}


def price(name: str) -> float:
    return PRICES[name][0]


@dataclass(frozen=True, slots=True)
class AwsStack:
    """The parts of the AWS stack that cost money while idle. Tests compare the defaults with infra/terraform."""

    database: str = "aurora"
    database_instance_class: str = "db.t4g.micro"
    rds_gb: int = 20
    secrets: int = 1
    log_retention_days: int = 30
    relay: bool = False
    relay_gb: int = 4
    machine_external_ip: bool = True
    alarm_topic_arn: str | None = None


@dataclass(frozen=True, slots=True)
class GcpStack:
    """The parts of the Google stack that cost money while idle. Tests compare the defaults with infra/terraform."""

    database_tier: str = "db-f1-micro"
    database_highly_available: bool = False
    database_disk_gb: int = 10
    schedules: int = 2
    secrets: int = 5


@dataclass(frozen=True, slots=True)
class IdleMonth:
    """The cost of an idle month by part, and the part without a known price."""

    parts: Mapping[str, float]
    unknown: str = ""

    @property
    def usd(self) -> float:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class ControlPlaneCost:
    """The hourly cost of the control plane in US dollars."""

    idle: float
    busy: float  # while machines run


def control_plane(idle: IdleMonth, awake_usd_hour: float) -> ControlPlaneCost:
    """Return the hourly cost of a control plane. `awake_usd_hour` is added while machines run."""
    return ControlPlaneCost(idle.usd / HOURS, idle.usd / HOURS + awake_usd_hour)


NO_MACHINES: Mapping[str, float] = {}


def aws_idle(stack: AwsStack, machines: Mapping[str, float] = NO_MACHINES) -> IdleMonth:
    """Return the monthly cost without jobs. RDS always runs. Aurora runs while machines exist, because they poll."""
    hourly = PRICES.get(stack.database_instance_class)
    if stack.database == "aurora":
        data = DATABASE_GB * price("aurora_gb_month")
        database = (
            {
                "Aurora, awake while machines run": HOURS * awake_usd_hour(),
                f"{DATABASE_GB:g} GB of data": data,
            }
            if machines
            else {f"Aurora, paused: {DATABASE_GB:g} GB of data": data}
        )
    else:
        database = {
            f"RDS {stack.database_instance_class}, always on": HOURS * (hourly[0] if hourly else 0),
            f"its disk, {stack.rds_gb} GB": stack.rds_gb * price("rds_gb_month"),
        }
    parts = {
        **machines,
        f"{stack.secrets} secret": stack.secrets * price("secret_month"),
        **_alarms(stack),
        **database,
        f"bucket: {BUCKET_GB:g} GB of code and checkpoints": BUCKET_GB * price("s3_gb_month"),
        f"logs of the last {stack.log_retention_days} days: none": 0.0,
        **({} if stack.machine_external_ip else _nat_gateway()),
        **(
            {
                f"disk of the relay, stopped, {stack.relay_gb} GB": stack.relay_gb
                * price("gp3_gb_month")
            }
            if stack.relay
            else {}
        ),
        "functions, schedules, network: not used": 0.0,
    }
    is_unknown = stack.database != "aurora" and hourly is None
    return IdleMonth(parts, stack.database_instance_class if is_unknown else "")


def awake_usd_hour() -> float:
    """Return the hourly price of Aurora while it is not paused, without its storage requests."""
    return AWAKE_ACU * price("aurora_acu_h")


def hours_for_rds(stack: AwsStack) -> float:
    """Return the monthly hours of work above which an RDS instance is cheaper than Aurora."""
    always, pausing = replace(stack, database="rds"), replace(stack, database="aurora")
    return (aws_idle(always).usd - aws_idle(pausing).usd) / awake_usd_hour()


def choice_of_database(stack: AwsStack) -> Iterator[str]:
    """Yield a line with the amount of work at which the other database type is cheaper."""
    if stack.database_instance_class not in PRICES:
        return
    hours, awake = (
        f"{hours_for_rds(stack):.0f} hours per month",
        f"${awake_usd_hour():.2f} per hour",
    )
    if stack.database == "aurora":
        yield f"Aurora costs {awake} while work runs: above {hours} of work, `--var database=rds` is cheaper"
    else:
        yield f"Aurora costs {awake} while work runs and pauses otherwise: below {hours} of work, it is cheaper"


def _alarms(stack: AwsStack) -> dict[str, float]:
    if not stack.alarm_topic_arn:
        return {"alarms: none without a topic": 0.0}
    count = ALARMS_OF_FUNCTIONS + ALARMS_OF_DATABASE.get(stack.database, 0)
    return {f"{count} alarms": count * price("alarm_month")}


def _nat_gateway() -> dict[str, float]:
    return {
        "NAT gateway, always on": HOURS * price("nat_h"),
        "its address": HOURS * price("ipv4_h"),
    }


def gcp_idle(stack: GcpStack, machines: Mapping[str, float] = NO_MACHINES) -> IdleMonth:
    """Return the monthly cost without jobs. The Cloud SQL instance always runs."""
    hourly, instances = _tier(stack.database_tier), 1 + stack.database_highly_available
    parts = {
        **machines,
        f"Cloud SQL {stack.database_tier}, always on": HOURS * instances * (hourly or 0.0),
        f"its disk, {stack.database_disk_gb} GB": instances
        * stack.database_disk_gb
        * price("sql_ssd_gb_month"),
        f"backups: {DATABASE_GB / 4:g} GB": DATABASE_GB / 4 * price("sql_backup_gb_month"),
        f"{stack.schedules} schedules, paused": stack.schedules * price("scheduler_job_month"),
        f"{stack.secrets} secrets": stack.secrets * price("secret_version_month"),
        f"bucket: {BUCKET_GB:g} GB": BUCKET_GB * price("gcs_gb_month"),
        "Cloud Run: no request, no instance": 0.0,
    }
    return IdleMonth(parts, stack.database_tier if hourly is None else "")


def run_instance_usd_hour() -> float:
    """Return the hourly price of a serving Cloud Run instance with one processor and 1 GiB."""
    return 3600 * (price("run_vcpu_s") + price("run_gib_s"))


def gcp_busy() -> Iterator[str]:
    """Yield a line with the price of the control plane while agents poll it."""
    yield (
        f"While machines run, they keep one instance of the API active: ${run_instance_usd_hour():.2f} per hour"
        " for up to about 200 machines"
    )


def _tier(name: str) -> float | None:
    """Return the hourly price of a Cloud SQL tier, or None if it is unknown."""
    custom = re.fullmatch(r"db-custom-(\d+)-(\d+)", name)
    if custom:
        return int(custom[1]) * price("sql_vcpu_h") + int(custom[2]) / 1024 * price("sql_gib_h")
    return PRICES[name][0] if name in PRICES else None


def always_rented(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the monthly cost of the machines that pools keep without work, at each pool's cheapest offer."""
    from det_controlplane.core.config.cluster import load_cluster

    costs = {}
    for pool in map(as_rented, load_cluster(config).resource_pools):
        limits = pool.limits
        number = min(max(limits.min_instances, limits.warm_instances), limits.max_instances)
        if not (number and pool.offers):
            continue
        offer = min(pool.offers, key=lambda offer: offer.price_usd_hour)
        if limits.max_hourly_cost is not None and offer.price_usd_hour:
            number = min(number, int(limits.max_hourly_cost / offer.price_usd_hour))
        usd = float(number * offer.price_usd_hour * HOURS)
        costs[f"{number} {offer.machine_type}, always kept by {pool.pool_name}"] = usd
    return costs


def month(idle: IdleMonth, config: Mapping[str, Any], choices: Iterable[str] = ()) -> Iterator[str]:
    """Yield lines with the monthly cost of a cluster, idle and busy, and cheaper choices."""
    from det_controlplane.core.config.cluster import load_cluster

    parts = ", ".join(f"{part} ${usd:,.2f}" for part, usd in idle.parts.items() if usd)
    costs = f"about ${idle.usd:,.2f} per month"
    if idle.unknown:
        costs = f"at least ${idle.usd:,.2f} per month, plus {idle.unknown}, which always runs and has an unknown price"
    yield f"Idle, the cluster costs {costs}: {parts}"
    pools = load_cluster(config).resource_pools
    yield from (_busy(pool) for pool in pools if pool.offers)
    yield from (
        _warm(pool.pool_name, pool.limits.warm_policy) for pool in pools if pool.limits.warm_policy
    )
    yield from choices
    yield f"List prices of {PRICES_OF}, without disks, traffic and logs. `det budget` limits the cost of work"


def _warm(pool: str, policy: "WarmPolicy") -> str:
    return (
        f"Warm machines of {pool} cost at most ${policy.max_usd_day:,.2f} per day, and nothing while no work starts:"
        " the pool chooses their number from its recent starts"
    )


def _busy(pool: "Pool") -> str:
    """Return a line with the cost of a busy pool."""
    pool, machines = as_rented(pool), pool.limits.max_instances
    if not pool.offers:
        return f"Busy, {pool.pool_name} can rent no machines within its limits"
    cheapest = min(pool.offers, key=lambda offer: offer.price_usd_hour)
    most = max(offer.price_usd_hour for offer in pool.offers) * machines
    if pool.limits.max_hourly_cost is not None:
        most = min(most, pool.limits.max_hourly_cost)
    return (
        f"Busy, {pool.pool_name} costs ${cheapest.price_usd_hour:.2f} per machine and hour"
        f" ({cheapest.machine_type}, {cheapest.capacity.value}), at most ${most:.2f} per hour with"
        f" {machines} machines: ${most * Decimal(HOURS):,.0f} for a full month"
    )
