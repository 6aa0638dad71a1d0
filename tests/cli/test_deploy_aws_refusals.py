"""Each cause that stops `det deploy aws` is told by a sentence with the next command, whatever call it meets."""

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
    """Make AWS answer one operation by an error."""
    real = boto3.session.Session.client

    def arrange(operation: str, code: str, message: str) -> None:
        def client(self: boto3.session.Session, *args: object, **kwargs: object) -> object:
            made = real(self, *args, **kwargs)

            def answer(model: object, **_: object) -> None:
                if getattr(model, "name", "") == operation:
                    raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

            made.meta.events.register("before-call", answer)
            return made

        monkeypatch.setattr(boto3.session.Session, "client", client)

    return arrange


@pytest.mark.parametrize(
    ("verb", "operation", "code", "told", "next_"),
    [
        ("up", "CreateBucket", "AccessDenied", "AWS denies CreateBucket: not for you", "ask an admin"),
        ("up", "PutObject", "AccessDenied", "AWS denies PutObject: not for you", "ask an admin"),
        ("up", "PutBucketVersioning", "ExpiredToken", "the session at AWS has expired", "sign in"),
        ("up", "CreateBucket", "TooManyBuckets", "refused CreateBucket: TooManyBuckets", "mend the"),
        ("down", "DescribeInstances", "UnauthorizedOperation", "denies DescribeInstances", "ask an"),
        ("status", "ListObjectsV2", "AccessDenied", "AWS denies ListObjectsV2", "ask an admin"),
    ],
)  # fmt: skip
def test_what_aws_refuses_is_a_sentence(
    det: Det, account: Account, terraform: FakeTerraform, refuses: Refuses,
    verb: str, operation: str, code: str, told: str, next_: str,
) -> None:  # fmt: skip
    if verb != "up":
        account.has_cluster()
    refuses(operation, code, "not for you")
    yes = ["--yes"] if verb != "status" else []
    ran = det("deploy", "aws", verb, *yes, *account.where)
    assert (ran.code, told in ran.err, next_ in ran.err) == (1, True, True), ran.err


def test_a_sign_in_that_expires_in_the_middle_is_told_as_that(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    event = error_event("creating VPC", "api error ExpiredToken: The provided token has expired")
    terraform.answers(apply={"out": event, "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert "the sign-in at the cloud expired in the middle of terraform apply" in ran.err
    assert "sign in again and run the same command: it goes on" in ran.err


def test_each_resource_is_told_as_it_is_made_and_each_minute_that_it_takes(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    events = [
        ("apply_start", "module.database.aws_db_instance.this[0]: Creating...", 0),
        *(("apply_progress", f"Still creating... [{s}s elapsed]", s) for s in (10, 60, 110, 120)),
        ("apply_errored", "module.database.aws_db_instance.this[0]: Creation errored after 2m2s", 122),
    ]  # fmt: skip
    told = [
        json.dumps({"type": kind, "@message": message, "hook": {"elapsed_seconds": elapsed_s}})
        for kind, message, elapsed_s in events
    ]
    terraform.answers(apply={"out": "\n".join(told), "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    made = [line for line in ran.err.splitlines() if "reating" in line or "errored" in line]
    assert made == [events[0][1], events[2][1], events[4][1], events[5][1]], ran.err


def test_a_dry_run_finds_what_would_fail(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    iam = account.client("iam")
    iam.create_role(RoleName="det-box-api", AssumeRolePolicyDocument="{}")
    ran = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert (ran.code, "the name box is taken" in ran.err) == (1, True)
    assert terraform.calls("plan") == []


@pytest.mark.parametrize("verb", ["up", "down"])
def test_what_another_program_made_is_not_replaced(
    det: Det, account: Account, terraform: FakeTerraform, verb: str
) -> None:
    """Determined's own command keeps its states in a bucket of the same name, on Google Cloud."""
    account.has_cluster()
    account.client("s3").delete_object(Bucket=STATE_BUCKET, Key="box/options.json")
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    ran = det("deploy", "aws", verb, "--yes", *account.where)
    assert ran.code == 1
    assert "the state of box was written by another program, which made 2 resources" in ran.err
    assert terraform.calls("apply", "destroy") == []


def test_ctrl_c_before_terraform_says_that_it_goes_on(
    account: Account, terraform: FakeTerraform
) -> None:
    """Terraform is stopped while it fetches providers, and says nothing itself."""
    terraform.answers(init={"waits": True})
    words = ["deploy", "aws", "down", "--yes", *account.where]
    account.has_cluster()
    begun = subprocess.Popen(
        [sys.executable, "-m", "det_cli.main", *words], stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ,
        # What runs in the background ignores Ctrl-C, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    terraform.until_called()
    os.killpg(begun.pid, signal.SIGINT)
    _, said = begun.communicate(timeout=120)
    assert begun.returncode == 1
    assert "det deploy aws down: stopped before its end" in said
    assert "run the same command again: it goes on" in said
