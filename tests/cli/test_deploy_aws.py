"""`det deploy aws` with invalid input, and the order of a removal, with fakes for Terraform and AWS."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from det_controlplane.entry.aws import packaging
from moto.awslambda.models import LambdaFunction

from tests.cli.conftest import Det
from tests.support.aws_account import DATA_BUCKET, MADE, Account
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform, error_event

# The command with an instant build of the functions.
QUICKLY_BUILT = """
import sys
from pathlib import Path
from det_controlplane.entry.aws import packaging
from det_cli.deployment import aws_service_roles
from det_cli.main import main

def build(out, files):
    (out / "deployment.zip").write_bytes(b"zip")
    return out / "deployment.zip"

packaging.build = build
aws_service_roles.SETTLE_S = 0.0
sys.exit(main(sys.argv[1:]))
"""


# Database names must not end with a hyphen or contain two hyphens in a row.
@pytest.mark.parametrize("cluster_id", ["1_box", "box-", "my--box", "b" * 32])
def test_rejects_an_invalid_cluster_id_before_any_request(
    det: Det, account: Account, terraform: FakeTerraform, cluster_id: str
) -> None:
    result = det("deploy", "aws", "up", "--yes", *account.where, "--cluster-id", cluster_id)
    assert result.code == 2
    assert (
        "must be a letter followed by at most 30 letters, digits and single hyphens" in result.err
    )
    assert terraform.calls("init") == []


def test_reports_missing_credentials_with_a_hint(
    det: Det, account: Account, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert (result.code, "there are no AWS credentials" in result.err) == (1, True)
    assert "aws configure" in result.err
    assert terraform.calls("init") == []


def test_half_of_the_credentials_is_no_unreachable_region(
    det: Det, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert (result.code, "the AWS credentials are not complete" in result.err) == (1, True)
    assert "aws configure" in result.err


def test_reports_a_missing_terraform_with_a_hint(
    det: Det, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DET_TERRAFORM", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DET_TERRAFORM_RELEASES", "http://127.0.0.1:9")
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert (result.code, "Terraform is not installed" in result.err) == (1, True)
    assert "developer.hashicorp.com/terraform/install" in result.err


def test_reports_a_terraform_that_cannot_be_started(
    det: Det, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_TERRAFORM", "/nowhere/terraform")
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert "/nowhere/terraform cannot be started" in result.err


@pytest.mark.parametrize("version", ["1.5.7", "1.9.8"])
def test_rejects_an_old_terraform(
    det: Det, account: Account, terraform: FakeTerraform, version: str
) -> None:
    """Terraform 1.9 cannot lock a state in S3 with a file."""
    terraform.answers(version={"out": json.dumps({"terraform_version": version})})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert (result.code, f"Terraform {version} is too old" in result.err) == (1, True)
    assert "install 1.10 or newer" in result.err


def test_reports_the_cause_of_a_failed_apply(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    event = error_event("creating RDS Cluster", "api error\nDBClusterQuotaExceeded")
    terraform.answers(apply={"out": event, "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    (cause,) = [line for line in result.err.splitlines() if "terraform apply failed" in line]
    assert "creating RDS Cluster: api error DBClusterQuotaExceeded" in cause
    assert "run the same command again to continue" in result.err


def test_reuses_the_options_of_the_previous_run(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The previous run may have been interrupted before any change."""
    stacks: list[dict[str, Any]] = []

    def build(out: Path, files: dict[str, bytes]) -> Path:
        stacks.append(yaml.safe_load(files["cluster.yaml"]))
        (out / "deployment.zip").write_bytes(b"zip")
        return out / "deployment.zip"

    monkeypatch.setattr(packaging, "build", build)
    config = tmp_path / "master.yaml"
    config.write_text("cluster_name: lab\n")
    machines = ("--compute-agent-instance-type", "g5.xlarge", "--spot", "--config", config)
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    first = (*account.where, *machines, "--var", "database=rds")
    assert det("deploy", "aws", "up", "--yes", *first).code == 1
    config.unlink()
    result = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert result.code == 0, result.err
    assert (
        "Reusing options of the previous run: --compute-agent-instance-type, --spot, --config, --var database=rds"
        in result.err
    )
    assert stacks[0] == stacks[1]
    assert stacks[1]["cluster_name"] == "lab"
    assert stacks[1]["resource_pools"][0]["provider"]["instance_type"] == "g5.xlarge"
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["database"] == "rds"


def test_reports_the_cause_of_a_failed_init(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    output = "╷\n│ Error: Failed to query available provider packages\n│\n│ no such host\n╵"
    terraform.answers(init={"err": output, "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert "Failed to query available provider packages" in result.err
    assert "give this machine access to registry.terraform.io" in result.err
    assert "run the same command again" in result.err


def test_rejects_the_removal_of_an_unknown_cluster(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    result = det("deploy", "aws", "down", *account.where, "--cluster-id", "bix")
    assert result.code == 3
    assert "there is no cluster bix in us-west-2; clusters here: box" in result.err
    assert terraform.calls("destroy") == []


def test_lists_describes_and_removes_a_cluster_with_an_old_name(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster("my--box")
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    options = (*account.where, "--cluster-id", "my--box")
    assert det("deploy", "aws", "list", *account.where[2:]).out.split() == ["my--box"]
    assert "my--box" in det("deploy", "aws", "status", *options).out
    result = det("deploy", "aws", "down", "--yes", *options)
    assert result.code == 0, result.err
    assert det("deploy", "aws", "list", *account.where[2:]).out == ""


def test_removes_a_cluster_with_machines_only_with_force(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    machine = account.run_machine()
    terraform.answers(output={"out": "{}"})
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 1
    assert f"1 machines of the cluster are running: {machine}" in result.err
    assert "--force" in result.err
    assert terraform.calls("apply", "destroy") == []


def test_force_terminates_machines_before_the_other_resources(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    account.run_machine()
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", "down", "--yes", "--force", "--delete-data", *account.where)
    assert result.code == 0, result.err
    (reservation,) = account.client("ec2").describe_instances()["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "terminated"
    assert [call["verb"] for call in terraform.calls("apply", "state", "destroy")] == [
        "state", "apply", "destroy",
    ]  # fmt: skip
    (apply,) = terraform.calls("apply")
    assert "-target=module.storage.aws_s3_bucket.this" in apply["words"]
    assert "-target=module.database.aws_db_instance.this" in apply["words"]
    assert apply["variables"]["keep_data"] is False
    assert det("deploy", "aws", "list", *account.where[2:]).out == ""


def test_keeping_data_forgets_the_bucket_and_unprotects_the_database(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 0, result.err
    (apply,) = terraform.calls("apply")
    assert apply["variables"]["keep_data"] is True
    assert apply["variables"]["removal"].isdigit()
    words = terraform.calls("state")[-1]["words"]
    assert words == ["rm", "module.storage.aws_s3_bucket.this"]


def test_continues_an_interrupted_removal_without_an_apply(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    terraform.answers(output={"out": "{}"}, state_pull={"out": '{"resources": []}'})
    assert det("deploy", "aws", "down", "--yes", *account.where).code == 0
    assert terraform.calls("apply") == []
    assert len(terraform.calls("destroy")) == 1


def made_at(cluster: FakeCluster) -> dict[str, str]:
    """Return Terraform's answer for the outputs of a created cluster."""
    outputs = {
        "url": cluster.url, "functions": {"migrate": "det-box-migrate"},
        "initial_user_password": "Secret123",
    }  # fmt: skip
    return {"out": json.dumps({name: {"value": value} for name, value in outputs.items()})}


def test_continues_an_interrupted_apply_and_prints_the_first_password_once(
    account: Account,
    terraform: FakeTerraform,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account.make_bucket(DATA_BUCKET)
    account.make_functions()
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    terraform.answers(apply={"waits": True})
    command = [sys.executable, "-c", QUICKLY_BUILT, "deploy", "aws", "up", "--yes", *account.where]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ,
        # Background processes ignore Ctrl-C, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    assert any("database: Creating" in line for line in process.stderr)
    os.killpg(process.pid, signal.SIGINT)
    output = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 1
    assert "stopped during terraform apply" in output
    assert "run the same command again to continue" in output
    assert (terraform.folder / "stopped").exists(), "Terraform had no time to store its state"

    terraform.answers(output=made_at(cluster))
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "until you change it: Secret123" in result.stdout
    second_result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Secret123" not in second_result.stdout
    assert "admin still has the first password: `det user change-password" in second_result.stdout
    (import_block, *_) = (call["taken_over"] for call in terraform.calls("apply"))
    assert "to = module.storage.aws_s3_bucket.this\n" in import_block
    assert f'id = "{DATA_BUCKET}"\n' in import_block


def test_prints_a_password_again_that_could_not_be_printed(
    account: Account,
    terraform: FakeTerraform,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account.make_functions()
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    terraform.answers(output=made_at(cluster))
    command = [sys.executable, "-c", QUICKLY_BUILT, "deploy", "aws", "up", "--yes", *account.where]
    read_end, closed_pipe = os.pipe()
    os.close(read_end)
    subprocess.run(command, stdout=closed_pipe, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(closed_pipe)
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "until you change it: Secret123" in result.stdout, result.stderr


def test_lists_clusters_as_json(det: Det, account: Account, terraform: FakeTerraform) -> None:
    assert json.loads(det("deploy", "aws", "list", "--json", *account.where[2:]).out) == []
    account.has_cluster()
    assert json.loads(det("deploy", "aws", "list", "--json", *account.where[2:]).out) == ["box"]


def test_rejects_an_invalid_configuration_before_any_change(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    config.write_text("resource_pools: [{pool_name: gpus}, {pool_name: more}]\n")
    result = det("deploy", "aws", "up", "--yes", "--config", config, *account.where)
    assert result.code == 2
    assert "resource_manager.default_compute_resource_pool: is required" in result.err
    assert terraform.calls("apply") == []
    assert account.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read cluster.yaml: No such file or directory"),
        (b"pools: [", "cluster.yaml is not valid YAML: while parsing a flow node expected the node content"),
        (b"\xff\xfe", "cluster.yaml is not valid YAML: 'utf-8' codec can't decode byte 0xff in position 0"),
        (b"- pools", "cluster.yaml must contain a cluster configuration, like master.yaml"),
    ],
)  # fmt: skip
def test_reports_an_unreadable_configuration_in_one_line(
    det: Det, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("cluster.yaml").write_bytes(content)
    options = ("--cluster-id", "lab", "--region", "us-west-2", "--config", "cluster.yaml")
    result = det("deploy", "aws", "up", "--dry-run", *options)
    assert (result.code, message in result.err.splitlines()[0]) == (2, True), result.err


@pytest.mark.parametrize("form", ["provider", "offers"])
def test_the_deployment_completes_the_settings_of_pools(
    form: str, det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    section = {"type": "aws", "instance_type": "g5.xlarge"}
    pool = {"pool_name": "gpus", form: [section] if form == "offers" else section}
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    result = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert result.code == 0, result.err
    assert "gpus costs $1.01 per machine and hour (g5.xlarge, on-demand)" in result.out


def test_a_dry_run_prints_the_monthly_cost_and_changes_no_resource(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    result = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert result.code == 0, result.err
    assert (
        "Idle, the cluster costs about $0.52 per month: 1 secret $0.40, Aurora, paused"
        in result.out
    )
    assert "compute-pool costs $0.53 per machine and hour (g4dn.xlarge, on-demand)" in result.out
    cheaper = "above 231 hours per month of work, `--var database=rds` is cheaper"
    assert f"Aurora costs $0.06 per hour while work runs: {cheaper}" in result.out
    assert [call["verb"] for call in terraform.calls("plan", "apply")] == ["plan"]
    assert account.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        (
            "database=rds",
            "about $14.40 per month: 1 secret $0.40, RDS db.t4g.micro, always on $11.68",
        ),
        (
            "database=rds",
            "Aurora costs $0.06 per hour while work runs and pauses otherwise: below 231 hours per month",
        ),
        (
            "database_instance_class=db.t4g.small",
            "above 426 hours per month of work, `--var database=rds`",
        ),
        ("database_instance_class=db.m7g.large", "Aurora, paused"),
        ("machine_external_ip=false", "NAT gateway, always on $32.85, its address $3.65"),
        ("alarm_topic_arn=arn:aws:sns:us-east-1:1:alarms", "13 alarms $1.30"),
    ],
)
def test_a_dry_run_includes_the_price_of_each_option(
    det: Det, account: Account, terraform: FakeTerraform, variable: str, text: str
) -> None:
    result = det("deploy", "aws", "up", "--dry-run", "--var", variable, *account.where)
    assert result.code == 0, result.err
    assert text in result.out
    assert "unknown price" not in result.out


def test_reports_a_database_without_a_known_price(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    variables = ("--var", "database=rds", "--var", "database_instance_class=db.m7g.large")
    result = det("deploy", "aws", "up", "--dry-run", *variables, *account.where)
    cost = "at least $2.72 per month, plus db.m7g.large, which always runs and has an unknown price: 1 secret $0.40"
    assert f"Idle, the cluster costs {cost}" in result.out


LOCKED = """Error message: api error PreconditionFailed
Lock Info:
  ID:        3a5e
  Path:      determined-state-123456789012-us-west-2/box/state
  Operation: OperationTypeApply
  Who:       ada@laptop
  Version:   1.11.4
  Created:   2026-11-22 16:05:12.123456 +0000 UTC
"""


def test_reports_the_owner_of_a_concurrent_deployment(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    event = error_event("Error acquiring the state lock", LOCKED)
    terraform.answers(apply={"out": event, "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert (
        "another deployment of this cluster is running: ada@laptop since 2026-11-22 16:05:12"
        in result.err
    )
    assert "box/state.tflock" in result.err


def test_reports_a_state_of_a_newer_terraform(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    output = "Error: state snapshot was created by Terraform v1.14.2, which is newer than current v1.11.4"
    terraform.answers(state_pull={"err": output, "code": 1})
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert (result.code, "last deployed with Terraform 1.14.2" in result.err) == (1, True)
    assert "install Terraform 1.14.2 or newer" in result.err
