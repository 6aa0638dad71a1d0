"""Checks before a deployment on AWS: problems that would fail it or prevent it from renting machines."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from det_cli.deployment import aws_service_roles
from det_cli.errors import CommandError
from det_cli.render import Say

# EC2 quotas limit virtual processors per family of types. Values: quota codes for on-demand and for spot.
_QUOTAS = {
    "g": ("L-DB2E81BA", "L-3819A6DF"), "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"), "p5": ("L-417A185B", "L-C4BD4855"),
    "trn": ("L-2C3B7624", "L-6B0D517C"), "inf": ("L-1945791B", "L-B5D1601B"),
}  # fmt: skip
_STANDARD = ("L-1216C47A", "L-34B43A08")
_CONCURRENCY_QUOTA = "L-B99A9384"
_CONCURRENCY = 50  # default of the stack variable for the API's concurrency
_UNRESERVED = 100  # AWS requires that this concurrency stays unreserved in an account
_WORKERS = 6  # reserved concurrency of the functions other than the API
_FUNCTIONS = ("api", "tick", "provision", "migrate", "keys")
_ACTIONS = (
    "ec2:CreateVpc", "ec2:CreateSecurityGroup", "lambda:CreateFunction", "lambda:PutFunctionRecursionConfig",
    "s3:CreateBucket", "secretsmanager:CreateSecret", "scheduler:CreateSchedule", "logs:CreateLogGroup",
)  # fmt: skip
# Permissions by resource type. An administrator may grant them for the cluster's names only.
_IAM_ACTIONS = {
    "role": ("iam:CreateRole", "iam:PutRolePolicy", "iam:PassRole"),
    "instance-profile": ("iam:CreateInstanceProfile",),
}
_DATABASES = {"aurora": "rds:CreateDBCluster", "rds": "rds:CreateDBInstance"}
_RESTORED = {
    "aurora": "rds:RestoreDBClusterFromSnapshot",
    "rds": "rds:RestoreDBInstanceFromDBSnapshot",
}
# One permission covers all parts of an HTTP API.
_ADDRESSES = {"function_url": "lambda:CreateFunctionUrlConfig", "api_gateway": "apigateway:POST"}
_FOR_A_RELAY = (
    "cloudfront:CreateDistribution", "cloudfront:CreateVpcOrigin", "cloudfront:CreateFunction", "ec2:RunInstances",
    "ssm:GetParameter",
)  # fmt: skip
_FOR_NAT = ("ec2:CreateNatGateway", "ec2:AllocateAddress")

# Lambda, Terraform's provider and Amazon Linux 2023 (for the relay) support these versions.
_PYTHONS = ("python3.11", "python3.12", "python3.13")


class AccountQueries(Protocol):
    """The account calls that the checks need."""

    region: str

    @property
    def account(self) -> str: ...

    def client(self, service: str) -> Any: ...

    def at(self, region: str) -> "AccountQueries":
        """Return queries about the same account in another region."""


@dataclass(frozen=True)
class Needed:
    """Permissions that the caller needs on one resource or on all resources."""

    actions: Sequence[str]
    on: str = "*"
    context: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Rental:
    """A machine type in one region or zone that a pool may rent."""

    pool: str
    region: str
    zone: str  # '' means any zone of the region
    instance_type: str
    is_spot: bool
    subnets_in: tuple[str, ...] = ()  # the zones of the subnets; empty means all zones

    @property
    def place(self) -> str:
        bounds = f" within zones={','.join(self.subnets_in)}" if self.subnets_in else ""
        return f"{self.zone or self.region}{bounds}"


def rentals_of(
    config: Mapping[str, Any], region: str = "", zones: Sequence[str] = ()
) -> list[Rental]:
    """Return the machines that the pools of a configuration may rent on AWS.

    In the cluster's region, pools without their own subnets use the cluster's subnets, which are in these zones."""
    from det_controlplane.core.config.cluster import load_cluster

    cluster_zones = {region: tuple(zones)}
    return [
        Rental(
            pool.pool_name, place, zone, priced.type.name, capacity.value == "spot",
            () if _has_subnets(section.settings) else cluster_zones.get(place, ()),
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
    """Check that the regions exist and that each pool finds machines in them. Raises CommandError."""
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
    """Check the permissions and limits of the account. Raises CommandError.

    Limits that only prevent machines are printed as warnings. `variables` are the given stack variables."""
    role_permissions = [
        Needed(actions, f"arn:aws:iam::{aws.account}:{kind}/det-{cluster_id}-machine")
        for kind, actions in _IAM_ACTIONS.items()
    ]
    check_rights(aws, Needed(actions_of(variables)), *role_permissions)
    for role in roles_of(rentals, variables):
        check_service_role(aws, role)
    concurrency = int(variables.get("api_concurrency", _CONCURRENCY))
    check_concurrency(aws, concurrency, reserved(aws, cluster_id))
    for warning in quota_warnings(aws, rentals):
        say(f"warning: {warning}")


def check_region(aws: AccountQueries) -> None:
    with _unless_denied():
        params = {"Filters": [{"Name": "region-name", "Values": [aws.region]}], "AllRegions": True}
        regions = aws.client("ec2").describe_regions(**params)["Regions"]
        if not regions:
            raise CommandError(
                f"AWS has no region {aws.region}",
                "`aws ec2 describe-regions --query Regions[].RegionName` lists them",
            )
        if regions[0].get("OptInStatus") == "not-opted-in":
            raise CommandError(
                f"the account has not enabled the region {aws.region}",
                f"`aws account enable-region --region-name {aws.region}`, or give another --region",
            )


def actions_of(variables: Mapping[str, Any]) -> list[str]:
    """Return one permission for each part of the stack with these variables."""
    databases = _RESTORED if variables.get("database_snapshot") else _DATABASES
    actions = [
        *_ACTIONS,
        databases.get(variables.get("database", "aurora"), ""),
        _ADDRESSES.get(variables.get("endpoint", "function_url"), ""),
    ]
    if variables.get("relay"):
        actions += _FOR_A_RELAY
    if not variables.get("machine_external_ip", True):
        actions += _FOR_NAT
    if variables.get("alarm_topic_arn"):
        actions.append("cloudwatch:PutMetricAlarm")
    if variables.get("monthly_budget_usd"):
        actions.append("budgets:ModifyBudget")
    return [action for action in actions if action]


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
    """Simulate the caller's permissions, if the caller may do that. Raises CommandError."""
    with _unless_denied():
        caller = str(aws.client("sts").get_caller_identity()["Arn"])
        if caller.endswith(":root"):
            return
        source = _policy_source(aws, caller)
        denied = [
            action for rights in needed for action in _find_denied_actions(aws, source, rights)
        ]
        if denied:
            raise CommandError(
                f"{caller} may not {', '.join(denied)}",
                "ask an account administrator for these permissions (docs/guides/aws.md#rights has a policy), or set"
                " AWS_PROFILE to another identity; if you have them under conditions that this check does not"
                " simulate, add --no-preflight-checks",
            )


def _find_denied_actions(aws: AccountQueries, source: str, rights: Needed) -> list[str]:
    response = aws.client("iam").simulate_principal_policy(
        PolicySourceArn=source,
        ActionNames=list(rights.actions),
        ResourceArns=[rights.on],
        ContextEntries=list(rights.context),
    )
    return [
        r["EvalActionName"] for r in response["EvaluationResults"] if r["EvalDecision"] != "allowed"
    ]


def check_name(aws: AccountQueries, cluster_id: str) -> None:
    """Raise CommandError if another cluster has roles with this name. It may be in another region."""
    iam = aws.client("iam")
    role = f"det-{cluster_id}-api"
    with _unless_denied():
        iam.get_role(RoleName=role)
        raise CommandError(
            f"the name {cluster_id} is taken: the account has a role {role}, from a cluster in another region"
            " or from an incomplete removal",
            "give another --cluster-id, or find that cluster with `det deploy aws list --region …`",
        )


def check_python(runtime: str) -> None:
    """Check that Lambda supports this Python version. Raises CommandError."""
    if runtime not in _PYTHONS:
        raise CommandError(
            f"this command runs in {runtime}, which AWS or Terraform's provider does not support for functions",
            f"install det with one of {', '.join(_PYTHONS)}",
        )


def check_budget(variables: Mapping[str, Any]) -> None:
    """Check that an AWS budget has recipients. Raises CommandError."""
    if variables.get("monthly_budget_usd") and not variables.get("budget_emails"):
        raise CommandError(
            "monthly_budget_usd creates a budget without recipients",
            "add recipients: --var 'budget_emails=[ada@example.com]'",
        )


def check_keypair(aws: AccountQueries, name: str) -> None:
    with _unless_denied():
        params = {"Filters": [{"Name": "key-name", "Values": [name]}]}
        if not aws.client("ec2").describe_key_pairs(**params)["KeyPairs"]:
            raise CommandError(
                f"{aws.region} has no key pair {name}",
                f"`aws ec2 describe-key-pairs --region {aws.region}` lists the key pairs; or leave --keypair out",
            )


def check_subnets(aws: AccountQueries, config: Mapping[str, Any]) -> None:
    """Check that the subnets of the pools exist. Raises CommandError."""
    from det_controlplane.core.config.cluster import load_cluster

    for section in (s for p in load_cluster(config).resource_pools for s in p.sections):
        network = section.settings.get("network_interface") or {}
        missing = {*(network.get("subnet_ids") or ()), network.get("subnet_id")} - {None, ""}
        if section.provider != "aws" or not missing:
            continue
        params = {"Filters": [{"Name": "subnet-id", "Values": sorted(missing)}]}
        with _unless_denied():
            for region in section.regions:
                subnets = aws.at(region).client("ec2").describe_subnets(**params)["Subnets"]
                missing -= {subnet["SubnetId"] for subnet in subnets}
            if missing:
                where = ", ".join(section.regions)
                raise CommandError(
                    f"{where} has no subnet {', '.join(sorted(missing))}",
                    f"`aws ec2 describe-subnets --region {section.regions[0]}` lists the subnets",
                )


def reserved(aws: AccountQueries, cluster_id: str) -> int:
    """Return the concurrency that the functions of an existing cluster already reserve."""
    functions, total = aws.client("lambda"), 0
    for name in _FUNCTIONS:
        with _unless_denied():
            response = functions.get_function_concurrency(FunctionName=f"det-{cluster_id}-{name}")
            total += int(response.get("ReservedConcurrentExecutions", 0))
    return total


def check_concurrency(aws: AccountQueries, requested: int, reserved: int = 0) -> None:
    if requested < 0:
        return
    with _unless_denied():
        limits = aws.client("lambda").get_account_settings()["AccountLimit"]
        free = int(limits["UnreservedConcurrentExecutions"]) + reserved
        needed = requested + _WORKERS
        if free - needed < _UNRESERVED:
            raise CommandError(
                f"the account may run {free} functions at once and must keep {_UNRESERVED} of them unreserved:"
                f" {needed} cannot be reserved",
                "reserve none with `--var api_concurrency=-1`, or request a higher quota:"
                f" {_request('lambda', _CONCURRENCY_QUOTA, 1000, aws.region)}",
            )


def check_offered(aws: AccountQueries, rentals: Sequence[Rental], say: Say) -> None:
    """Raise CommandError for a pool without any available machine type. Warn about unavailable types of other pools."""
    offered = {
        region: _read_offered_types(aws.at(region), types) for region, types in _types(rentals)
    }
    missing = [r for r in rentals if not _is_offered(r, offered[r.region])]
    for pool in dict.fromkeys(rental.pool for rental in rentals):
        absent = [rental for rental in missing if rental.pool == pool]
        problems = list(
            dict.fromkeys(f"{r.place} has no machines of type {r.instance_type}" for r in absent)
        )
        if problems and len(absent) == sum(rental.pool == pool for rental in rentals):
            raise CommandError(
                f"the pool {pool} cannot rent machines: {'; '.join(problems)}",
                "give another type or --region; `aws ec2 describe-instance-type-offerings --region"
                f" {absent[0].region}` lists the available types",
            )
        for sentence in problems:
            say(f"warning: {sentence}: {pool} rents its other types")


def _types(rentals: Sequence[Rental]) -> Iterator[tuple[str, list[str]]]:
    for region in sorted({rental.region for rental in rentals}):
        yield region, sorted({r.instance_type for r in rentals if r.region == region})


def _read_offered_types(aws: AccountQueries, types: Sequence[str]) -> set[tuple[str, str]] | None:
    """Return pairs of type and zone that are available, or None if the list cannot be read."""
    params: dict[str, Any] = {
        "LocationType": "availability-zone",
        "Filters": [{"Name": "instance-type", "Values": list(types)}],
    }
    pairs: set[tuple[str, str]] = set()
    offered = None
    with _unless_denied():
        while offered is None:
            page = aws.client("ec2").describe_instance_type_offerings(**params)
            pairs |= {(o["InstanceType"], o["Location"]) for o in page["InstanceTypeOfferings"]}
            params["NextToken"] = page.get("NextToken")
            offered = None if params["NextToken"] else pairs
    return offered


def _is_offered(rental: Rental, offered: set[tuple[str, str]] | None) -> bool:
    return offered is None or any(
        name == rental.instance_type
        and rental.zone in ("", zone)
        and (not rental.subnets_in or zone in rental.subnets_in)
        for name, zone in offered
    )


def quota_warnings(aws: AccountQueries, rentals: Sequence[Rental]) -> Iterator[str]:
    """Yield a warning for each quota that is too small for one machine."""
    kinds = dict.fromkeys((r.region, r.instance_type, r.is_spot) for r in rentals)
    processors = {
        (region, name): count
        for region, types in _types(rentals)
        for name, count in _processors(aws.at(region), types).items()
    }
    quotas: dict[tuple[str, str], int | None] = {}
    for region, name, is_spot in kinds:
        code = _quota_of(name)[is_spot]
        if (region, code) not in quotas:
            quotas[region, code] = _quota(aws.at(region), code)
        allowed, needed = quotas[region, code], processors.get((region, name), 0)
        if allowed is not None and allowed < needed:
            kind = "spot" if is_spot else "on-demand"
            yield (
                f"the account may run {allowed} processors of {name} ({kind}) in {region}, but one machine has"
                f" {needed}: request a higher quota with {_request('ec2', code, needed, region)}"
            )


def _processors(aws: AccountQueries, types: Sequence[str]) -> dict[str, int]:
    """Return the number of virtual processors of each type in the region."""
    types_info: list[Any] = []
    with _unless_denied():
        filters = [{"Name": "instance-type", "Values": list(types)}]
        types_info = aws.client("ec2").describe_instance_types(Filters=filters)["InstanceTypes"]
    return {str(t["InstanceType"]): int(t["VCpuInfo"]["DefaultVCpus"]) for t in types_info}


def _quota(aws: AccountQueries, code: str) -> int | None:
    response: dict[str, Any] = {}
    with _unless_denied():
        response = aws.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)
    return int(response["Quota"]["Value"]) if response else None


def _quota_of(instance_type: str) -> tuple[str, str]:
    family = instance_type.partition(".")[0]
    letters = "".join(c for c in family[:3] if c.isalpha())
    for key in (family[:2], letters, letters[:1]):
        if key in _QUOTAS:
            return _QUOTAS[key]
    return _STANDARD


def _request(service: str, code: str, value: int, region: str) -> str:
    return (
        f"`aws service-quotas request-service-quota-increase --service-code {service}"
        f" --quota-code {code} --desired-value {value} --region {region}`"
    )


def _policy_source(aws: AccountQueries, caller: str) -> str:
    """Return the ARN that has the caller's policies. For a session, this is its role."""
    _, _, rest = caller.partition(":assumed-role/")
    if not rest:
        return caller
    return str(aws.client("iam").get_role(RoleName=rest.split("/")[0])["Role"]["Arn"])


@contextmanager
def _unless_denied() -> Iterator[None]:
    """Ignore AWS errors, because the caller may lack the permission or the object may not exist."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (BotoCoreError, ClientError, ResponseParserError):
        return
