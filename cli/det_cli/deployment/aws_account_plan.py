"""The plan of the AWS account. The free plan does not allow the database and GPU machines of a cluster."""

from det_cli.deployment.aws_preflight import AccountQueries
from det_cli.errors import CommandError
from det_cli.render import Say

_REGION = "us-east-1"  # serves the account in all regions
_WITHOUT_PLANS = ("cn-", "us-gov-")  # partitions without a free plan
UPGRADE = "`aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1`"


def check(aws: AccountQueries, say: Say) -> None:
    """Raise CommandError for an account with the free plan. Warn if the plan is unknown."""
    from botocore.exceptions import BotoCoreError, ClientError

    if aws.region.startswith(_WITHOUT_PLANS):
        return
    try:
        plan = aws.at(_REGION).client("freetier").get_account_plan_state()
    except ClientError as e:
        code = str(e.response.get("Error", {}).get("Code", ""))
        if code != "ResourceNotFoundException":  # accounts that are older than the plans
            _warn(say, code)
        return
    except BotoCoreError as e:  # includes a boto3 version without this service
        _warn(say, str(e))
        return
    except AttributeError:
        _warn(say, "boto3 before July 2025 does not know the call")
        return
    if plan.get("accountPlanType") == "FREE":
        raise CommandError(
            "the account has AWS's free plan, which does not allow the cluster's database and machines",
            f"upgrade the plan with {UPGRADE} or in the billing console; unused credits remain",
        )


def _warn(say: Say, cause: str) -> None:
    say(
        f"warning: the account's plan is unknown ({cause}). AWS's free plan does not allow the cluster."
        " This check needs the permission freetier:GetAccountPlanState"
    )
