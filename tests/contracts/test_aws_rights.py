"""The policy evaluator of the tests rejects calls that IAM would reject."""

import pytest

from tests.support.aws_rights import Call, Policy

POLICY = Policy(
    {
        "Statement": [
            {
                "Effect": "Allow", "Action": ["ec2:RunInstances"], "Resource": "arn:aws:ec2:*:1:instance/*",
                "Condition": {"StringEquals": {"aws:RequestTag/determined-cluster": "box"}},
            },
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": ["arn:aws:s3:::data/*"]},
            {
                "Effect": "Deny", "Action": "s3:GetObject", "Resource": "*",
                "Condition": {"ArnLike": {"lambda:SourceFunctionArn": ["arn:aws:lambda:us-west-2:1:function:f*"]}},
            },
        ]
    }
)  # fmt: skip
INSTANCE = "arn:aws:ec2:us-west-2:1:instance/*"
TAGGED = {"aws:RequestTag/determined-cluster": "box"}


def test_call_with_matching_conditions_is_allowed() -> None:
    assert POLICY.allows(Call("r", "ec2:RunInstances", INSTANCE, TAGGED))
    assert POLICY.allows(Call("r", "s3:GetObject", "arn:aws:s3:::data/a/b"))
    condition = {"lambda:SourceFunctionArn": "arn:aws:lambda:us-west-2:1:function:other"}
    assert POLICY.allows(Call("r", "s3:GetObject", "arn:aws:s3:::data/a", condition))
    assert POLICY.actions() == {"ec2:RunInstances", "s3:GetObject"}


@pytest.mark.parametrize(
    "call",
    [
        Call("r", "ec2:RunInstances", INSTANCE),
        Call("r", "ec2:RunInstances", INSTANCE, {"aws:RequestTag/determined-cluster": "other"}),
        Call("r", "ec2:RunInstances", "arn:aws:ec2:us-west-2:2:instance/*", TAGGED),
        Call("r", "ec2:TerminateInstances", INSTANCE, TAGGED),
        Call("r", "s3:GetObject", "arn:aws:s3:::other/a"),
        Call("r", "s3:PutObject", "arn:aws:s3:::data/a"),
        Call(
            "r",
            "s3:GetObject",
            "arn:aws:s3:::data/a",
            {"lambda:SourceFunctionArn": "arn:aws:lambda:us-west-2:1:function:f"},
        ),
    ],
)
def test_rejects_denied_and_unlisted_actions_resources_and_tags(call: Call) -> None:
    assert not POLICY.allows(call)
