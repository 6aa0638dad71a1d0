"""Try `det deploy aws` with bad input, and the order of its removal; Terraform and AWS are stand-ins."""

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

# The command, with a zip that takes no time.
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


# Databases take no hyphen at the end, and no two together.
@pytest.mark.parametrize("cluster_id", ["1_box", "box-", "my--box", "b" * 32])
def test_a_bad_cluster_id_is_refused_before_anything_is_asked(
    det: Det, account: Account, terraform: FakeTerraform, cluster_id: str
) -> None:
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--cluster-id", cluster_id)
    assert ran.code == 2
    assert "must be a letter, then at most 30 letters, digits and hyphens" in ran.err
    assert terraform.calls("init") == []


def test_without_credentials_up_says_how_to_get_some(
    det: Det, account: Account, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert (ran.code, "there are no AWS credentials" in ran.err) == (1, True)
    assert "aws configure" in ran.err
    assert terraform.calls("init") == []


def test_without_terraform_up_says_where_to_get_it(
    det: Det, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DET_TERRAFORM", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DET_TERRAFORM_RELEASES", "http://127.0.0.1:9")
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert (ran.code, "Terraform is not installed" in ran.err) == (1, True)
    assert "developer.hashicorp.com/terraform/install" in ran.err


def test_a_terraform_that_cannot_be_started_is_named(
    det: Det, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_TERRAFORM", "/nowhere/terraform")
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 1
    assert "/nowhere/terraform cannot be started" in ran.err


@pytest.mark.parametrize("version", ["1.5.7", "1.9.8"])
def test_a_terraform_that_is_too_old_is_refused(
    det: Det, account: Account, terraform: FakeTerraform, version: str
) -> None:
    """Terraform 1.9 cannot lock a state in S3 by a file."""
    terraform.answers(version={"out": json.dumps({"terraform_version": version})})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert (ran.code, f"Terraform {version} is too old" in ran.err) == (1, True)
    assert "install 1.10 or newer" in ran.err


def test_a_failed_apply_names_the_cause_and_the_next_command(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    event = error_event("creating RDS Cluster", "api error\nDBClusterQuotaExceeded")
    terraform.answers(apply={"out": event, "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 1
    (cause,) = [line for line in ran.err.splitlines() if "terraform apply failed" in line]
    assert "creating RDS Cluster: api error DBClusterQuotaExceeded" in cause
    assert "run the same command again: it goes on" in ran.err


def test_what_is_not_given_stays_as_the_last_time(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last time may have been interrupted, or have made nothing."""
    built: list[dict[str, Any]] = []

    def build(out: Path, files: dict[str, bytes]) -> Path:
        built.append(yaml.safe_load(files["cluster.yaml"]))
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
    ran = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert ran.code == 0, ran.err
    assert (
        "As the last time: --compute-agent-instance-type, --spot, --config, --var database=rds"
        in ran.err
    )
    assert built[0] == built[1]
    assert built[1]["cluster_name"] == "lab"
    assert built[1]["resource_pools"][0]["provider"]["instance_type"] == "g5.xlarge"
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["database"] == "rds"


def test_a_failed_init_names_the_cause(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    told = "╷\n│ Error: Failed to query available provider packages\n│\n│ no such host\n╵"
    terraform.answers(init={"err": told, "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 1
    assert "Failed to query available provider packages" in ran.err
    assert "let this machine reach registry.terraform.io" in ran.err
    assert "run the same command again" in ran.err


def test_an_unknown_cluster_cannot_be_removed(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    ran = det("deploy", "aws", "down", *account.where, "--cluster-id", "bix")
    assert ran.code == 3
    assert "there is no cluster bix in us-west-2; clusters here: box" in ran.err
    assert terraform.calls("destroy") == []


def test_what_an_earlier_version_took_for_a_name_is_listed_described_and_removed(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster("my--box")
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    named = (*account.where, "--cluster-id", "my--box")
    assert det("deploy", "aws", "list", *account.where[2:]).out.split() == ["my--box"]
    assert "my--box" in det("deploy", "aws", "status", *named).out
    ran = det("deploy", "aws", "down", "--yes", *named)
    assert ran.code == 0, ran.err
    assert det("deploy", "aws", "list", *account.where[2:]).out == ""


def test_a_cluster_with_machines_is_not_removed_without_force(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    machine = account.run_machine()
    terraform.answers(output={"out": "{}"})
    ran = det("deploy", "aws", "down", "--yes", *account.where)
    assert ran.code == 1
    assert f"1 machines of the cluster are running: {machine}" in ran.err
    assert "--force" in ran.err
    assert terraform.calls("apply", "destroy") == []


def test_by_force_machines_end_before_the_rest_and_the_cluster_is_forgotten(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    account.run_machine()
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    ran = det("deploy", "aws", "down", "--yes", "--force", "--delete-data", *account.where)
    assert ran.code == 0, ran.err
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


def test_data_that_is_kept_leaves_the_bucket_and_ends_the_protection_of_the_database(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    ran = det("deploy", "aws", "down", "--yes", *account.where)
    assert ran.code == 0, ran.err
    (apply,) = terraform.calls("apply")
    assert apply["variables"]["keep_data"] is True
    assert apply["variables"]["removal"].isdigit()
    forgotten = terraform.calls("state")[-1]["words"]
    assert forgotten == ["rm", "module.storage.aws_s3_bucket.this"]


def test_a_removal_that_was_half_done_makes_nothing_again(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    terraform.answers(output={"out": "{}"}, state_pull={"out": '{"resources": []}'})
    assert det("deploy", "aws", "down", "--yes", *account.where).code == 0
    assert terraform.calls("apply") == []
    assert len(terraform.calls("destroy")) == 1


def made_at(cluster: FakeCluster) -> dict[str, str]:
    """Return what Terraform answers for the outputs of a cluster that was made."""
    outputs = {
        "url": cluster.url, "functions": {"migrate": "det-box-migrate"},
        "initial_user_password": "Secret123",
    }  # fmt: skip
    return {"out": json.dumps({name: {"value": value} for name, value in outputs.items()})}


def test_an_interrupted_apply_goes_on_and_shows_the_password_that_was_kept(
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
    begun = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ,
        # What runs in the background ignores Ctrl-C, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert begun.stderr is not None
    assert any("database: Creating" in line for line in begun.stderr)
    os.killpg(begun.pid, signal.SIGINT)
    said = begun.stderr.read()
    begun.stderr.close()
    assert begun.wait(30) == 1
    assert "stopped in the middle of terraform apply" in said
    assert "run the same command again: it goes on" in said
    assert (terraform.folder / "stopped").exists(), "Terraform was not left to store its state"

    terraform.answers(output=made_at(cluster))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "until you change it: Secret123" in done.stdout
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "Secret123" not in again.stdout
    assert "admin still has the first password: `det user change-password" in again.stdout
    (taken, *_) = (call["taken_over"] for call in terraform.calls("apply"))
    assert "to = module.storage.aws_s3_bucket.this\n" in taken
    assert f'id = "{DATA_BUCKET}"\n' in taken


def test_a_password_that_could_not_be_printed_is_printed_by_the_next_up(
    account: Account,
    terraform: FakeTerraform,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account.make_functions()
    monkeypatch.setattr(LambdaFunction, "invoke", lambda *_: b"[]")
    terraform.answers(output=made_at(cluster))
    command = [sys.executable, "-c", QUICKLY_BUILT, "deploy", "aws", "up", "--yes", *account.where]
    unread, written = os.pipe()
    os.close(unread)
    subprocess.run(command, stdout=written, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(written)
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "until you change it: Secret123" in again.stdout, again.stderr


def test_clusters_are_listed_for_programs_too(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    assert json.loads(det("deploy", "aws", "list", "--json", *account.where[2:]).out) == []
    account.has_cluster()
    assert json.loads(det("deploy", "aws", "list", "--json", *account.where[2:]).out) == ["box"]


def test_a_bad_cluster_configuration_is_refused_before_anything_is_made(
    det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    config.write_text("resource_pools: [{pool_name: gpus}, {pool_name: more}]\n")
    ran = det("deploy", "aws", "up", "--yes", "--config", config, *account.where)
    assert ran.code == 2
    assert "resource_manager.default_compute_resource_pool: is required" in ran.err
    assert terraform.calls("apply") == []
    assert account.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot read cluster.yaml: No such file or directory"),
        (b"pools: [", "cluster.yaml is no YAML: while parsing a flow node expected the node content"),
        (b"\xff\xfe", "cluster.yaml is no YAML: 'utf-8' codec can't decode byte 0xff in position 0"),
        (b"- pools", "cluster.yaml must hold the configuration of a cluster, as master.yaml does"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_read_is_told_in_one_line(
    det: Det, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("cluster.yaml").write_bytes(content)
    where = ("--cluster-id", "lab", "--region", "us-west-2", "--config", "cluster.yaml")
    ran = det("deploy", "aws", "up", "--dry-run", *where)
    assert (ran.code, told in ran.err.splitlines()[0]) == (2, True), ran.err


@pytest.mark.parametrize("form", ["provider", "offers"])
def test_pools_may_leave_out_what_the_deployment_knows(
    form: str, det: Det, account: Account, terraform: FakeTerraform, tmp_path: Path
) -> None:
    config = tmp_path / "master.yaml"
    section = {"type": "aws", "instance_type": "g5.xlarge"}
    pool = {"pool_name": "gpus", form: [section] if form == "offers" else section}
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    ran = det("deploy", "aws", "up", "--dry-run", "--config", config, *account.where)
    assert ran.code == 0, ran.err
    assert "gpus costs $1.01 an hour and machine (g5.xlarge, on-demand)" in ran.out


def test_a_dry_run_tells_what_a_month_costs_and_makes_nothing(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    ran = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert ran.code == 0, ran.err
    assert "A month idle costs about $0.52: 1 secret $0.40, Aurora, paused" in ran.out
    assert "compute-pool costs $0.53 an hour and machine (g4dn.xlarge, on-demand)" in ran.out
    cheaper = "for more than 231 hours a month of it `--var database=rds` is cheaper"
    assert f"Aurora costs $0.06 an hour while work runs: {cheaper}" in ran.out
    assert [call["verb"] for call in terraform.calls("plan", "apply")] == ["plan"]
    assert account.client("s3").list_buckets()["Buckets"] == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("database=rds", "about $14.40: 1 secret $0.40, RDS db.t4g.micro, always on $11.68"),
        (
            "database=rds",
            "Aurora, which pauses and costs $0.06 an hour while work runs, is cheaper for less than 231",
        ),
        (
            "database_instance_class=db.t4g.small",
            "for more than 426 hours a month of it `--var database=rds`",
        ),
        ("database_instance_class=db.m7g.large", "Aurora, paused"),
        ("machine_external_ip=false", "NAT gateway, always on $32.85, its address $3.65"),
        ("alarm_topic_arn=arn:aws:sns:us-east-1:1:alarms", "13 alarms $1.30"),
    ],
)
def test_a_dry_run_prices_what_is_asked_for(
    det: Det, account: Account, terraform: FakeTerraform, given: str, told: str
) -> None:
    ran = det("deploy", "aws", "up", "--dry-run", "--var", given, *account.where)
    assert ran.code == 0, ran.err
    assert told in ran.out
    assert "not known here" not in ran.out


def test_a_database_without_a_price_is_told(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    given = ("--var", "database=rds", "--var", "database_instance_class=db.m7g.large")
    ran = det("deploy", "aws", "up", "--dry-run", *given, *account.where)
    told = "at least $2.72, plus db.m7g.large, which runs always and whose price is not known here: 1 secret $0.40"
    assert f"A month idle costs {told}" in ran.out


@pytest.fixture
def pool_on_google(tmp_path: Path) -> Path:
    provider = {
        "type": "gcp", "project": "acme", "region": "us-central1",
        "instance_type": {"machine_type": "g2-standard-8"},
    }  # fmt: skip
    path = tmp_path / "master.yaml"
    pools = [{"pool_name": "default", "provider": provider}]
    path.write_text(json.dumps({"resource_pools": pools}))
    return path


def test_pools_on_google_need_a_way_to_sign_in_there(
    det: Det, account: Account, terraform: FakeTerraform, pool_on_google: Path
) -> None:
    ran = det("deploy", "aws", "up", "--yes", "--config", pool_on_google, *account.where)
    assert ran.code == 2
    assert "a pool rents machines from Google Cloud, and functions cannot sign in" in ran.err
    assert "--google-credentials FILE" in ran.err
    assert terraform.calls("init") == []


def test_a_key_of_an_account_does_not_get_into_functions(
    det: Det, account: Account, terraform: FakeTerraform, pool_on_google: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"type": "service_account", "private_key": "-----BEGIN"}')
    given = ("--config", pool_on_google, "--google-credentials", key)
    ran = det("deploy", "aws", "up", "--yes", *given, *account.where)
    assert (ran.code, "is no configuration of workload identity federation" in ran.err) == (2, True)


def test_the_function_that_rents_gets_the_client_of_google_and_the_others_do_not(
    det: Det,
    account: Account,
    terraform: FakeTerraform,
    pool_on_google: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: dict[str, Any] = {}

    def build(out: Path, files: dict[str, bytes], *, google: bool = False) -> Path:
        built.update(files=files, google=google)
        for name in ("deployment.zip", "provision.zip"):
            (out / name).write_bytes(b"zip")
        return out / "deployment.zip"

    monkeypatch.setattr(packaging, "build", build)
    federation = tmp_path / "federation.json"
    federation.write_text('{"type": "external_account"}')
    given = ("--config", pool_on_google, "--google-credentials", federation)
    ran = det("deploy", "aws", "up", "--dry-run", *given, *account.where)
    assert ran.code == 0, ran.err
    assert built["google"] is True
    assert built["files"]["gcp-credentials.json"] == federation.read_bytes()
    (plan,) = terraform.calls("plan")
    told = plan["variables"]
    names = [Path(told[name]).name for name in ("zip", "provision_zip", "keys_zip")]
    assert names == ["deployment.zip", "provision.zip", "keys.zip"]
    assert told["google_credentials"] == "/var/task/gcp-credentials.json"
    assert told["google_project"] == "acme"
    (pool,) = yaml.safe_load(built["files"]["cluster.yaml"])["resource_pools"]
    assert "ubuntu-accelerator" in pool["provider"]["boot_disk_source_image"]
    assert "warning: machines of pool default on Google Cloud have no credentials" in ran.err


LOCKED = """Error message: api error PreconditionFailed
Lock Info:
  ID:        3a5e
  Path:      determined-state-123456789012-us-west-2/box/state
  Operation: OperationTypeApply
  Who:       ada@laptop
  Version:   1.11.4
  Created:   2026-11-22 16:05:12.123456 +0000 UTC
"""


def test_a_second_deployment_at_once_is_told_whose_is_at_work(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    event = error_event("Error acquiring the state lock", LOCKED)
    terraform.answers(apply={"out": event, "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert ran.code == 1
    assert (
        "another deployment of this cluster is at work: ada@laptop since 2026-11-22 16:05:12"
        in ran.err
    )
    assert "box/state.tflock" in ran.err


def test_a_state_of_a_newer_terraform_names_its_version(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    told = "Error: state snapshot was created by Terraform v1.14.2, which is newer than current v1.11.4"
    terraform.answers(state_pull={"err": told, "code": 1})
    ran = det("deploy", "aws", "up", "--yes", *account.where)
    assert (ran.code, "last deployed with Terraform 1.14.2" in ran.err) == (1, True)
    assert "install Terraform 1.14.2 or newer" in ran.err
