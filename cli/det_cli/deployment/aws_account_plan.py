"""The plan of the account: AWS's free plan allows neither the database of a cluster nor its GPU machines."""

from det_cli.deployment.aws_preflight import AccountQueries
from det_cli.errors import CommandError
from det_cli.render import Say

_REGION = "us-east-1"  # answers for the account, wherever its clusters are
_WITHOUT_PLANS = ("cn-", "us-gov-")  # regions of partitions that have no free plan
UPGRADE = "`aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1`"


def check(aws: AccountQueries, say: Say) -> None:
    """Refuse an account with the free plan. Raises CommandError; warns if AWS does not name the plan."""
    from botocore.exceptions import BotoCoreError, ClientError

    if aws.region.startswith(_WITHOUT_PLANS):
        return
    try:
        plan = aws.at(_REGION).client("freetier").get_account_plan_state()
    except ClientError as e:
        code = str(e.response.get("Error", {}).get("Code", ""))
        if code != "ResourceNotFoundException":  # an account that is older than the plans
            _warn(say, code)
        return
    except BotoCoreError as e:  # also a boto3 without this service
        _warn(say, str(e))
        return
    except AttributeError:
        _warn(say, "boto3 before July 2025 does not know the call")
        return
    if plan.get("accountPlanType") == "FREE":
        raise CommandError(
            "the account has AWS's free plan, with which RDS and EC2 refuse the cluster's database and its machines",
            f"upgrade the plan: {UPGRADE}, or the billing console; unused credits stay",
        )


def _warn(say: Say, cause: str) -> None:
    say(
        f"warning: the account's plan is not known ({cause}): with AWS's free plan, RDS and EC2 refuse the cluster."
        " The right freetier:GetAccountPlanState lets this command look"
    )
