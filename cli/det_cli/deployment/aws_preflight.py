"""Find, before anything is made, the causes that would fail a deployment on AWS or keep it from renting machines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from det_cli.errors import CommandError

Say = Callable[[str], None]
# Quotas of EC2 count virtual processors, for a letter of types: on demand, spot.
_QUOTAS = {
    "g": ("L-DB2E81BA", "L-3819A6DF"), "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"), "p5": ("L-417A185B", "L-C4BD4855"),
    "trn": ("L-2C3B7624", "L-6B0D517C"), "inf": ("L-1945791B", "L-B5D1601B"),
}  # fmt: skip
_STANDARD = ("L-1216C47A", "L-34B43A08")
_CONCURRENCY_QUOTA = "L-B99A9384"
_LEFT_FOR_OTHERS = 100  # AWS lets the functions of an account reserve all but these
_WORKERS = 6  # reserved for the functions beside the API
_ACTIONS = (
    "ec2:CreateVpc", "ec2:CreateSecurityGroup", "iam:CreateRole", "iam:PutRolePolicy", "iam:PassRole",
    "iam:CreateInstanceProfile", "lambda:CreateFunction", "rds:CreateDBCluster", "s3:CreateBucket",
    "secretsmanager:CreateSecret", "scheduler:CreateSchedule", "logs:CreateLogGroup",
)  # fmt: skip
ACTIONS_FOR_A_RELAY = (
    "cloudfront:CreateDistribution", "cloudfront:CreateVpcOrigin", "cloudfront:CreateFunction", "ec2:RunInstances",
    "ssm:GetParameter",
)  # fmt: skip

# The newer Pythons that Amazon Linux 2023 has packages of.
_PYTHONS_OF_A_RELAY = ("python3.11", "python3.12", "python3.13", "python3.14")


class Looking(Protocol):
    """List the questions to the operator's account."""

    region: str

    @property
    def account(self) -> str: ...

    def client(self, service: str) -> Any: ...


def check_place(aws: Looking, cluster_id: str, pools: Sequence[Mapping[str, Any]]) -> None:
    """Check that the region is there and has the machines, and that the name is free. Raises CommandError."""
    check_region(aws)
    check_name(aws, cluster_id)
    for section in _rented(aws, pools):
        check_offered(aws, str(section["instance_type"]))


def check_limits(
    aws: Looking, pools: Sequence[Mapping[str, Any]], concurrency: int, say: Say
) -> None:
    """Check what the account allows. Raises CommandError; what only keeps machines away is said."""
    check_rights(aws)
    check_concurrency(aws, concurrency)
    for section in _rented(aws, pools):
        for warning in quota_warnings(aws, section):
            say(f"warning: {warning}")


def _rented(aws: Looking, pools: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for pool in pools:
        section = pool.get("provider") or {}
        here = section.get("region", aws.region) == aws.region
        if section.get("type") == "aws" and here and section.get("instance_type"):
            yield section


def check_region(aws: Looking) -> None:
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


def check_rights(aws: Looking, actions: Sequence[str] = _ACTIONS) -> None:
    """Ask AWS what the caller may do, as far as the caller may ask that."""
    with _unless_denied():
        caller = str(aws.client("sts").get_caller_identity()["Arn"])
        if caller.endswith(":root"):
            return
        answer = aws.client("iam").simulate_principal_policy(
            PolicySourceArn=_policy_source(aws, caller), ActionNames=list(actions)
        )
        denied = [
            result["EvalActionName"]
            for result in answer["EvaluationResults"]
            if result["EvalDecision"] != "allowed"
        ]
        if denied:
            raise CommandError(
                f"{caller} may not {', '.join(denied)}",
                "ask an administrator of the account for these rights, or set AWS_PROFILE to another identity",
            )


def check_name(aws: Looking, cluster_id: str) -> None:
    """Roles belong to the account, so a name can be taken by a cluster in another region."""
    iam = aws.client("iam")
    role = f"det-{cluster_id}-api"
    with _unless_denied():
        iam.get_role(RoleName=role)
        raise CommandError(
            f"the name {cluster_id} is taken: the account has a role {role}, of a cluster in another region"
            " or of one that was half removed",
            "give another --cluster-id, or find that cluster by `det deploy aws list --region …`",
        )


def check_python_of_a_relay(runtime: str) -> None:
    """Check that the relay's machine can install the Python that its program is built for. Raises CommandError."""
    if runtime not in _PYTHONS_OF_A_RELAY:
        raise CommandError(
            f"the relay's machine has no package of {runtime}, with which this command runs",
            f"install det with one of {', '.join(_PYTHONS_OF_A_RELAY)}, or give --var relay=false",
        )


def check_budget(variables: Mapping[str, Any]) -> None:
    """Check that the budget of AWS, where there is one, has readers. Raises CommandError."""
    if variables.get("monthly_budget_usd") and not variables.get("budget_emails"):
        raise CommandError(
            "monthly_budget_usd makes a budget that tells nobody",
            "name its readers, too: --var 'budget_emails=[ada@example.com]'",
        )


def check_keypair(aws: Looking, name: str) -> None:
    with _unless_denied():
        asked = {"Filters": [{"Name": "key-name", "Values": [name]}]}
        if not aws.client("ec2").describe_key_pairs(**asked)["KeyPairs"]:
            raise CommandError(
                f"{aws.region} has no key pair {name}",
                f"`aws ec2 describe-key-pairs --region {aws.region}` lists those it has; or leave --keypair out",
            )


def check_concurrency(aws: Looking, wanted: int) -> None:
    if wanted < 0:
        return
    with _unless_denied():
        limits = aws.client("lambda").get_account_settings()["AccountLimit"]
        free = int(limits["UnreservedConcurrentExecutions"])
        needed = wanted + _WORKERS
        if free - needed < _LEFT_FOR_OTHERS:
            raise CommandError(
                f"the account may run {free} functions at once and must leave {_LEFT_FOR_OTHERS} of them unreserved:"
                f" {needed} cannot be reserved",
                "reserve none by `--var api_concurrency=-1`, or ask for more:"
                f" {_request('lambda', _CONCURRENCY_QUOTA, 1000, aws.region)}",
            )


def check_offered(aws: Looking, instance_type: str) -> None:
    with _unless_denied():
        answer = aws.client("ec2").describe_instance_type_offerings(
            LocationType="region", Filters=[{"Name": "instance-type", "Values": [instance_type]}]
        )
        if not answer["InstanceTypeOfferings"]:
            raise CommandError(
                f"{aws.region} has no machines of type {instance_type}",
                "give another type or --region; `aws ec2 describe-instance-type-offerings --region"
                f" {aws.region}` lists what it has",
            )


def quota_warnings(aws: Looking, section: Mapping[str, Any]) -> Iterator[str]:
    """Tell of a quota that lets not one machine of a pool run."""
    name, spot = str(section["instance_type"]), bool(section.get("spot"))
    code = _quota_of(name)[spot]
    with _unless_denied():
        quota = aws.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)
        types = aws.client("ec2").describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
        needed = int(types[0]["VCpuInfo"]["DefaultVCpus"])
        allowed = int(quota["Quota"]["Value"])
        if allowed < needed:
            kind = "spot" if spot else "on demand"
            yield (
                f"the account may run {allowed} processors of {name} ({kind}) in {aws.region}, and one machine has"
                f" {needed}: ask for more by {_request('ec2', code, needed, aws.region)}"
            )


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


def _policy_source(aws: Looking, caller: str) -> str:
    """Return whose policies hold: of a session, its role's."""
    _, _, rest = caller.partition(":assumed-role/")
    if not rest:
        return caller
    return str(aws.client("iam").get_role(RoleName=rest.split("/")[0])["Role"]["Arn"])


@contextmanager
def _unless_denied() -> Iterator[None]:
    """Pass over what AWS does not tell: the caller may not look, or there is no such thing."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except (BotoCoreError, ClientError, ResponseParserError):
        return
