"""Find, before anything is made, the causes that would fail a deployment on AWS or keep it from renting machines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.deployment import aws_service_roles
from det_cli.errors import CommandError
from det_cli.render import Say

# Quotas of EC2 count virtual processors, for a letter of types: on demand, spot.
_QUOTAS = {
    "g": ("L-DB2E81BA", "L-3819A6DF"), "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"), "p5": ("L-417A185B", "L-C4BD4855"),
    "trn": ("L-2C3B7624", "L-6B0D517C"), "inf": ("L-1945791B", "L-B5D1601B"),
}  # fmt: skip
_STANDARD = ("L-1216C47A", "L-34B43A08")
_CONCURRENCY_QUOTA = "L-B99A9384"
_CONCURRENCY = 50  # of the API, unless a variable of the stack says otherwise
_LEFT_FOR_OTHERS = 100  # AWS lets the functions of an account reserve all but these
_WORKERS = 6  # reserved for the functions beside the API
_FUNCTIONS = ("api", "tick", "provision", "migrate", "keys")
_ACTIONS = (
    "ec2:CreateVpc", "ec2:CreateSecurityGroup", "lambda:CreateFunction", "lambda:PutFunctionRecursionConfig",
    "s3:CreateBucket", "secretsmanager:CreateSecret", "scheduler:CreateSchedule", "logs:CreateLogGroup",
)  # fmt: skip
# By the kind of thing of the cluster that they are needed on: an administrator may give them for its names alone.
_IAM_ACTIONS = {
    "role": ("iam:CreateRole", "iam:PutRolePolicy", "iam:PassRole"),
    "instance-profile": ("iam:CreateInstanceProfile",),
}
_DATABASES = {"aurora": "rds:CreateDBCluster", "rds": "rds:CreateDBInstance"}
_RESTORED = {
    "aurora": "rds:RestoreDBClusterFromSnapshot",
    "rds": "rds:RestoreDBInstanceFromDBSnapshot",
}
# All parts of an HTTP API are made by the same right.
_ADDRESSES = {"function_url": "lambda:CreateFunctionUrlConfig", "api_gateway": "apigateway:POST"}
_FOR_A_RELAY = (
    "cloudfront:CreateDistribution", "cloudfront:CreateVpcOrigin", "cloudfront:CreateFunction", "ec2:RunInstances",
    "ssm:GetParameter",
)  # fmt: skip
_FOR_NAT = ("ec2:CreateNatGateway", "ec2:AllocateAddress")

# Lambda still makes functions of them, the provider knows them, and Amazon Linux 2023 has packages of them for a relay.
_PYTHONS = ("python3.11", "python3.12", "python3.13")


class AccountQueries(Protocol):
    """List the questions to the operator's account."""

    region: str

    @property
    def account(self) -> str: ...

    def client(self, service: str) -> Any: ...

    def at(self, region: str) -> "AccountQueries":
        """Return queries about the same account in another region."""


@dataclass(frozen=True)
class Needed:
    """Hold rights that the caller needs on one thing, or on all."""

    actions: Sequence[str]
    on: str = "*"
    context: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Rental:
    """Hold one of the machines that a pool may rent."""

    pool: str
    region: str
    zone: str  # empty: any of the region
    instance_type: str
    is_spot: bool
    subnets_in: tuple[str, ...] = ()  # zones; empty: all

    @property
    def place(self) -> str:
        bounds = f" within zones={','.join(self.subnets_in)}" if self.subnets_in else ""
        return f"{self.zone or self.region}{bounds}"


def rentals_of(
    config: Mapping[str, Any], region: str = "", zones: Sequence[str] = ()
) -> list[Rental]:
    """Return all that the pools of a cluster's configuration may rent from AWS.

    Pools without subnets of their own use those of the cluster in its region, which are in these zones."""
    from det_controlplane.core.config.cluster import load_cluster

    own = {region: tuple(zones)}
    return [
        Rental(
            pool.pool_name, place, zone, priced.type.name, capacity.value == "spot",
            () if _has_subnets(section.settings) else own.get(place, ()),
        )
        for pool in load_cluster(config).resource_pools
        for section in pool.sections
        if section.provider == "aws"
        for place, zone in section.places
        for priced in section.types
        for capacity in section.capacities
    ]  # fmt: skip


def _has_subnets(settings: Mapping[str, Any]) -> bool:
    network = settings.get("network_interface") or {}
    return bool(network.get("subnet_id") or network.get("subnet_ids"))


def check_place(aws: AccountQueries, rentals: Sequence[Rental], say: Say) -> None:
    """Check that the regions are there and that each pool finds machines in them. Raises CommandError."""
    check_region(aws)
    for region in sorted({rental.region for rental in rentals} - {aws.region}):
        check_region(aws.at(region))
    check_offered(aws, rentals, say)


def check_limits(
    aws: AccountQueries,
    cluster_id: str,
    rentals: Sequence[Rental],
    variables: Mapping[str, Any],
    say: Say,
) -> None:
    """Check what the account allows. Raises CommandError; what only keeps machines away is said.

    The variables are those of the stack, as far as they are given."""
    own = [
        Needed(actions, f"arn:aws:iam::{aws.account}:{kind}/det-{cluster_id}-machine")
        for kind, actions in _IAM_ACTIONS.items()
    ]
    check_rights(aws, Needed(actions_of(variables)), *own)
    for role in roles_of(rentals, variables):
        check_service_role(aws, role)
    wanted = int(variables.get("api_concurrency", _CONCURRENCY))
    check_concurrency(aws, wanted, reserved(aws, cluster_id))
    for warning in quota_warnings(aws, rentals):
        say(f"warning: {warning}")


def check_region(aws: AccountQueries) -> None:
    with _unless_denied():
        asked = {"Filters": [{"Name": "region-name", "Values": [aws.region]}], "AllRegions": True}
        found = aws.client("ec2").describe_regions(**asked)["Regions"]
        if not found:
            raise CommandError(
                f"AWS has no region {aws.region}",
                "`aws ec2 describe-regions --query Regions[].RegionName` lists them",
            )
        if found[0].get("OptInStatus") == "not-opted-in":
            raise CommandError(
                f"the account has not enabled the region {aws.region}",
                f"`aws account enable-region --region-name {aws.region}`, or give another --region",
            )


def actions_of(variables: Mapping[str, Any]) -> list[str]:
    """Return rights of which each part of the stack needs one, by the variables that are given."""
    databases = _RESTORED if variables.get("database_snapshot") else _DATABASES
    found = [
        *_ACTIONS,
        databases.get(variables.get("database", "aurora"), ""),
        _ADDRESSES.get(variables.get("endpoint", "function_url"), ""),
    ]
    if variables.get("relay"):
        found += _FOR_A_RELAY
    if not variables.get("machine_external_ip", True):
        found += _FOR_NAT
    if variables.get("alarm_topic_arn"):
        found.append("cloudwatch:PutMetricAlarm")
    if variables.get("monthly_budget_usd"):
        found.append("budgets:ModifyBudget")
    return [action for action in found if action]


def roles_of(
    rentals: Sequence[Rental], variables: Mapping[str, Any]
) -> list[aws_service_roles.ServiceRole]:
    """Return the service-linked roles that a cluster needs in the account."""
    return aws_service_roles.needed(
        rents_spot=any(rental.is_spot for rental in rentals), has_relay=bool(variables.get("relay"))
    )


def check_service_role(aws: AccountQueries, role: aws_service_roles.ServiceRole) -> None:
    """Check that the account has a service-linked role, or that the caller may create it. Raises CommandError."""
    from botocore.exceptions import ClientError

    with _unless_denied():
        try:
            aws.client("iam").get_role(RoleName=role.name)
        except ClientError as e:
            if e.response["Error"]["Code"] != "NoSuchEntity":
                return
            service = {"ContextKeyName": "iam:AWSServiceName", "ContextKeyType": "string"}
            check_rights(
                aws,
                Needed(
                    ["iam:CreateServiceLinkedRole"],
                    f"arn:aws:iam::{aws.account}:role/aws-service-role/{role.service}/{role.name}",
                    [{**service, "ContextKeyValues": [role.service]}],
                ),
            )


def check_rights(aws: AccountQueries, *needed: Needed) -> None:
    """Ask AWS what the caller may do, as far as the caller may ask that. Raises CommandError."""
    with _unless_denied():
        caller = str(aws.client("sts").get_caller_identity()["Arn"])
        if caller.endswith(":root"):
            return
        source = _policy_source(aws, caller)
        denied = [action for rights in needed for action in _denied(aws, source, rights)]
        if denied:
            raise CommandError(
                f"{caller} may not {', '.join(denied)}",
                "ask an administrator of the account for these rights (docs/guides/aws.md#rights has a policy), or set"
                " AWS_PROFILE to another identity; if you have them under conditions that AWS does not try here:"
                " --no-preflight-checks",
            )


def _denied(aws: AccountQueries, source: str, rights: Needed) -> list[str]:
    told = aws.client("iam").simulate_principal_policy(
        PolicySourceArn=source,
        ActionNames=list(rights.actions),
        ResourceArns=[rights.on],
        ContextEntries=list(rights.context),
    )
    return [
        r["EvalActionName"] for r in told["EvaluationResults"] if r["EvalDecision"] != "allowed"
    ]


def check_name(aws: AccountQueries, cluster_id: str) -> None:
    """Refuse a name whose roles another cluster has. Roles belong to the account, so it may be in another region."""
    iam = aws.client("iam")
    role = f"det-{cluster_id}-api"
    with _unless_denied():
        iam.get_role(RoleName=role)
        raise CommandError(
            f"the name {cluster_id} is taken: the account has a role {role}, of a cluster in another region"
            " or of one that was half removed",
            "give another --cluster-id, or find that cluster by `det deploy aws list --region …`",
        )


def check_python(runtime: str) -> None:
    """Check that functions can have the Python that this command packs for. Raises CommandError."""
    if runtime not in _PYTHONS:
        raise CommandError(
            f"the functions cannot run in {runtime}, in which this command runs: AWS or its provider does not take it",
            f"install det with one of {', '.join(_PYTHONS)}",
        )


def check_budget(variables: Mapping[str, Any]) -> None:
    """Check that the budget of AWS, where there is one, has readers. Raises CommandError."""
    if variables.get("monthly_budget_usd") and not variables.get("budget_emails"):
        raise CommandError(
            "monthly_budget_usd makes a budget that tells nobody",
            "name its readers, too: --var 'budget_emails=[ada@example.com]'",
        )


def check_keypair(aws: AccountQueries, name: str) -> None:
    with _unless_denied():
        asked = {"Filters": [{"Name": "key-name", "Values": [name]}]}
        if not aws.client("ec2").describe_key_pairs(**asked)["KeyPairs"]:
            raise CommandError(
                f"{aws.region} has no key pair {name}",
                f"`aws ec2 describe-key-pairs --region {aws.region}` lists those it has; or leave --keypair out",
            )


def check_subnets(aws: AccountQueries, config: Mapping[str, Any]) -> None:
    """Check that the subnets which sections of pools name are there. Raises CommandError."""
    from det_controlplane.core.config.cluster import load_cluster

    for section in (s for p in load_cluster(config).resource_pools for s in p.sections):
        network = section.settings.get("network_interface") or {}
        named = {*(network.get("subnet_ids") or ()), network.get("subnet_id")} - {None, ""}
        if section.provider != "aws" or not named:
            continue
        asked = {"Filters": [{"Name": "subnet-id", "Values": sorted(named)}]}
        with _unless_denied():
            for region in section.regions:
                told = aws.at(region).client("ec2").describe_subnets(**asked)["Subnets"]
                named -= {subnet["SubnetId"] for subnet in told}
            if named:
                where = ", ".join(section.regions)
                raise CommandError(
                    f"{where} has no subnet {', '.join(sorted(named))}",
                    f"`aws ec2 describe-subnets --region {section.regions[0]}` lists those it has",
                )


def reserved(aws: AccountQueries, cluster_id: str) -> int:
    """Return the concurrency that the functions of an existing cluster have reserved already."""
    functions, found = aws.client("lambda"), 0
    for name in _FUNCTIONS:
        with _unless_denied():
            told = functions.get_function_concurrency(FunctionName=f"det-{cluster_id}-{name}")
            found += int(told.get("ReservedConcurrentExecutions", 0))
    return found


def check_concurrency(aws: AccountQueries, wanted: int, held: int = 0) -> None:
    if wanted < 0:
        return
    with _unless_denied():
        limits = aws.client("lambda").get_account_settings()["AccountLimit"]
        free = int(limits["UnreservedConcurrentExecutions"]) + held
        needed = wanted + _WORKERS
        if free - needed < _LEFT_FOR_OTHERS:
            raise CommandError(
                f"the account may run {free} functions at once and must leave {_LEFT_FOR_OTHERS} of them unreserved:"
                f" {needed} cannot be reserved",
                "reserve none by `--var api_concurrency=-1`, or ask for more:"
                f" {_request('lambda', _CONCURRENCY_QUOTA, 1000, aws.region)}",
            )


def check_offered(aws: AccountQueries, rentals: Sequence[Rental], say: Say) -> None:
    """Refuse a pool that finds no machine of its types anywhere; say which of several are missing where."""
    offered = {region: _offered(aws.at(region), types) for region, types in _types(rentals)}
    missing = [r for r in rentals if not _is_offered(r, offered[r.region])]
    for pool in dict.fromkeys(rental.pool for rental in rentals):
        absent = [rental for rental in missing if rental.pool == pool]
        told = list(
            dict.fromkeys(f"{r.place} has no machines of type {r.instance_type}" for r in absent)
        )
        if told and len(absent) == sum(rental.pool == pool for rental in rentals):
            raise CommandError(
                f"the pool {pool} finds no machines: {'; '.join(told)}",
                "give another type or --region; `aws ec2 describe-instance-type-offerings --region"
                f" {absent[0].region}` lists what it has",
            )
        for sentence in told:
            say(f"warning: {sentence}: {pool} rents its others")


def _types(rentals: Sequence[Rental]) -> Iterator[tuple[str, list[str]]]:
    for region in sorted({rental.region for rental in rentals}):
        yield region, sorted({r.instance_type for r in rentals if r.region == region})


def _offered(aws: AccountQueries, types: Sequence[str]) -> set[tuple[str, str]] | None:
    """Return types with the zones that have them; None where that is not told."""
    asked: dict[str, Any] = {
        "LocationType": "availability-zone",
        "Filters": [{"Name": "instance-type", "Values": list(types)}],
    }
    found: set[tuple[str, str]] = set()
    offered = None
    with _unless_denied():
        while offered is None:
            page = aws.client("ec2").describe_instance_type_offerings(**asked)
            found |= {(o["InstanceType"], o["Location"]) for o in page["InstanceTypeOfferings"]}
            asked["NextToken"] = page.get("NextToken")
            offered = None if asked["NextToken"] else found
    return offered


def _is_offered(rental: Rental, offered: set[tuple[str, str]] | None) -> bool:
    return offered is None or any(
        name == rental.instance_type
        and rental.zone in ("", zone)
        and (not rental.subnets_in or zone in rental.subnets_in)
        for name, zone in offered
    )


def quota_warnings(aws: AccountQueries, rentals: Sequence[Rental]) -> Iterator[str]:
    """Warn of quotas that are too small for a single machine of a kind."""
    wanted = dict.fromkeys((r.region, r.instance_type, r.is_spot) for r in rentals)
    processors = {
        (region, name): count
        for region, types in _types(rentals)
        for name, count in _processors(aws.at(region), types).items()
    }
    quotas: dict[tuple[str, str], int | None] = {}
    for region, name, is_spot in wanted:
        code = _quota_of(name)[is_spot]
        if (region, code) not in quotas:
            quotas[region, code] = _quota(aws.at(region), code)
        allowed, needed = quotas[region, code], processors.get((region, name), 0)
        if allowed is not None and allowed < needed:
            kind = "spot" if is_spot else "on demand"
            yield (
                f"the account may run {allowed} processors of {name} ({kind}) in {region}, and one machine has"
                f" {needed}: ask for more by {_request('ec2', code, needed, region)}"
            )


def _processors(aws: AccountQueries, types: Sequence[str]) -> dict[str, int]:
    """Return the number of processors of each type that the region has."""
    found: list[Any] = []
    with _unless_denied():
        filters = [{"Name": "instance-type", "Values": list(types)}]
        found = aws.client("ec2").describe_instance_types(Filters=filters)["InstanceTypes"]
    return {str(t["InstanceType"]): int(t["VCpuInfo"]["DefaultVCpus"]) for t in found}


def _quota(aws: AccountQueries, code: str) -> int | None:
    told: dict[str, Any] = {}
    with _unless_denied():
        told = aws.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)
    return int(told["Quota"]["Value"]) if told else None


def _quota_of(instance_type: str) -> tuple[str, str]:
    family = instance_type.partition(".")[0]
    letters = "".join(c for c in family[:3] if c.isalpha())
    for known in (family[:2], letters, letters[:1]):
        if known in _QUOTAS:
            return _QUOTAS[known]
    return _STANDARD


def _request(service: str, code: str, value: int, region: str) -> str:
    return (
        f"`aws service-quotas request-service-quota-increase --service-code {service}"
        f" --quota-code {code} --desired-value {value} --region {region}`"
    )


def _policy_source(aws: AccountQueries, caller: str) -> str:
    """Return whose policies hold: of a session, its role's."""
    _, _, rest = caller.partition(":assumed-role/")
    if not rest:
        return caller
    return str(aws.client("iam").get_role(RoleName=rest.split("/")[0])["Role"]["Arn"])


@contextmanager
def _unless_denied() -> Iterator[None]:
    """Ignore errors that say that the caller may not look, or that there is no such thing."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (BotoCoreError, ClientError, ResponseParserError):
        return
