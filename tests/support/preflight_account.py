"""An AWS account for the checks before a deployment: tests can replace the answer of every call."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

Answer = Callable[..., Any]


def failure(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Operation")


TYPES = (
    "g5.xlarge", "g6.xlarge", "g4dn.xlarge", "p4d.24xlarge", "p3.2xlarge", "p5.48xlarge", "m5.large", "trn1.2xlarge",
)  # fmt: skip


def offerings(*offered: tuple[str, str]) -> dict[str, Any]:
    return {
        "InstanceTypeOfferings": [
            {"InstanceType": name, "Location": zone} for name, zone in offered
        ]
    }


# The part of boto3's model of a call that the checks read.
_KNOWN = SimpleNamespace(input_shape=SimpleNamespace(members={"InvokedViaFunctionUrl": None}))
_SDK = SimpleNamespace(service_model=SimpleNamespace(operation_model=lambda name: _KNOWN))


class Account:
    """An account with all rights, unless a test removes some."""

    account = "123456789012"
    meta = _SDK

    def __init__(self, region: str = "us-west-2") -> None:
        self.region = region
        self.elsewhere: dict[str, Account] = {}
        self.answers: dict[str, Any] = {
            "describe_regions": {"Regions": [{"OptInStatus": "opt-in-not-required"}]},
            "get_caller_identity": {"Arn": "arn:aws:iam::123456789012:user/ada"},
            "simulate_principal_policy": {"EvaluationResults": []},
            "get_role": failure("NoSuchEntity"),
            "get_account_settings": {"AccountLimit": {"UnreservedConcurrentExecutions": 1000}},
            "get_function_concurrency": failure("ResourceNotFoundException"),
            "describe_instance_type_offerings": offerings(
                *(
                    (name, f"us-west-2{zone}")
                    for name in ("g5.xlarge", "g6.xlarge")
                    for zone in "ab"
                )
            ),
            "describe_instance_types": {
                "InstanceTypes": [
                    {"InstanceType": name, "VCpuInfo": {"DefaultVCpus": 4}} for name in TYPES
                ]
            },
            "get_service_quota": {"Quota": {"Value": 64.0}},
            "get_account_plan_state": {"accountPlanType": "PAID", "accountPlanStatus": "ACTIVE"},
        }
        self.asked: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        return self

    def at(self, region: str) -> "Account":
        return self if region == self.region else self.elsewhere.setdefault(region, Account(region))

    def __getattr__(self, operation: str) -> Answer:
        answer = self.answers[operation]

        def call(**parameters: Any) -> Any:
            self.asked[operation] = parameters
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call
