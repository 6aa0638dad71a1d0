"""Errors that stop `det deploy aws` have a clear cause and the next command, for every AWS call."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.cli.conftest import Det
from tests.support.aws_account import MADE, STATE_BUCKET, Account
from tests.support.fake_terraform import FakeTerraform, error_event

Refuses = Callable[[str, str, str], None]


@pytest.fixture
def refuses(monkeypatch: pytest.MonkeyPatch) -> Refuses:
    """Return a function that makes AWS answer one operation with an error."""
    real = boto3.session.Session.client

    def arrange(operation: str, code: str, message: str) -> None:
        def client(self: boto3.session.Session, *args: object, **kwargs: object) -> object:
            result = real(self, *args, **kwargs)

            def answer(model: object, **_: object) -> None:
                if getattr(model, "name", "") == operation:
                    raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

            result.meta.events.register("before-call", answer)
            return result

        monkeypatch.setattr(boto3.session.Session, "client", client)

    return arrange


@pytest.mark.parametrize(
    ("verb", "operation", "code", "message", "next_"),
    [
        ("up", "CreateBucket", "AccessDenied", "AWS denies CreateBucket: not for you", "ask an account"),
        ("up", "PutObject", "AccessDenied", "AWS denies PutObject: not for you", "ask an account"),
        ("up", "PutBucketVersioning", "ExpiredToken", "the session at AWS has expired", "sign in"),
        ("up", "CreateBucket", "TooManyBuckets", "rejected CreateBucket: TooManyBuckets", "fix the"),
        ("down", "DescribeInstances", "UnauthorizedOperation", "denies DescribeInstances", "ask an"),
        ("status", "ListObjectsV2", "AccessDenied", "AWS denies ListObjectsV2", "ask an account"),
    ],
)  # fmt: skip
def test_reports_aws_errors_with_a_hint(
    det: Det, account: Account, terraform: FakeTerraform, refuses: Refuses,
    verb: str, operation: str, code: str, message: str, next_: str,
) -> None:  # fmt: skip
    if verb != "up":
        account.has_cluster()
    refuses(operation, code, "not for you")
    yes = ["--yes"] if verb != "status" else []
    result = det("deploy", "aws", verb, *yes, *account.where)
    assert (result.code, message in result.err, next_ in result.err) == (1, True, True), result.err


def test_reports_credentials_that_expire_during_an_apply(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    event = error_event("creating VPC", "api error ExpiredToken: The provided token has expired")
    terraform.answers(apply={"out": event, "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert "the cloud credentials expired during terraform apply" in result.err
    assert "sign in again and run the same command again to continue" in result.err


def test_prints_each_resource_and_its_progress_once_per_minute(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    events = [
        ("apply_start", "module.database.aws_db_instance.this[0]: Creating...", 0),
        *(("apply_progress", f"Still creating... [{s}s elapsed]", s) for s in (10, 60, 110, 120)),
        ("apply_errored", "module.database.aws_db_instance.this[0]: Creation errored after 2m2s", 122),
    ]  # fmt: skip
    output = [
        json.dumps({"type": kind, "@message": message, "hook": {"elapsed_seconds": elapsed_s}})
        for kind, message, elapsed_s in events
    ]
    terraform.answers(apply={"out": "\n".join(output), "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    lines = [line for line in result.err.splitlines() if "reating" in line or "errored" in line]
    assert lines == [events[0][1], events[2][1], events[4][1], events[5][1]], result.err


def test_a_dry_run_reports_problems(det: Det, account: Account, terraform: FakeTerraform) -> None:
    iam = account.client("iam")
    iam.create_role(RoleName="det-box-api", AssumeRolePolicyDocument="{}")
    result = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert (result.code, "the name box is taken" in result.err) == (1, True)
    assert terraform.calls("plan") == []


@pytest.mark.parametrize("verb", ["up", "down"])
def test_does_not_replace_resources_of_another_program(
    det: Det, account: Account, terraform: FakeTerraform, verb: str
) -> None:
    """On Google Cloud, Determined's own command stores its states in a bucket with the same name."""
    account.has_cluster()
    account.client("s3").delete_object(Bucket=STATE_BUCKET, Key="box/options.json")
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", verb, "--yes", *account.where)
    assert result.code == 1
    assert "the state of box belongs to another program, which created 2 resources" in result.err
    assert terraform.calls("apply", "destroy") == []


def test_ctrl_c_before_the_apply_explains_how_to_continue(
    account: Account, terraform: FakeTerraform
) -> None:
    """Terraform is stopped while it downloads providers, and prints no message itself."""
    terraform.answers(init={"waits": True})
    words = ["deploy", "aws", "down", "--yes", *account.where]
    account.has_cluster()
    process = subprocess.Popen(
        [sys.executable, "-m", "det_cli.main", *words], stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ,
        # Background processes ignore Ctrl-C, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    terraform.until_called()
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "det deploy aws down: stopped before it was complete" in output
    assert "run the same command again to continue" in output
