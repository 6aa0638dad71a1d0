"""Restoring a removed cluster from a snapshot of its database, with fakes for Terraform and AWS."""

import json
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.entry.aws import packaging

from tests.cli.conftest import Det
from tests.support.aws_account import MADE, STATE_BUCKET, Account
from tests.support.fake_terraform import FakeTerraform, error_event

KEY = "the-key-of-the-former-cluster"
FINAL = "det-box-final20261124120000"


@pytest.fixture(autouse=True)
def quickly_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(out: Path, files: dict[str, bytes]) -> Path:
        (out / "deployment.zip").write_bytes(b"zip")
        return out / "deployment.zip"

    monkeypatch.setattr(packaging, "build", build)


def make_database(account: Account, name: str = "det-box", **settings: Any) -> None:
    arguments = {
        "Engine": "aurora-postgresql", "EngineVersion": "16.8", "MasterUsername": "determined",
        "MasterUserPassword": "not-this-one", "StorageEncrypted": True, **settings,
    }  # fmt: skip
    account.client("rds").create_db_cluster(DBClusterIdentifier=name, **arguments)


def leave_snapshot(
    account: Account, name: str = FINAL, database: str = "det-box", **settings: Any
) -> None:
    """Create a snapshot of a deleted database."""
    make_database(account, database, **settings)
    ids = {"DBClusterIdentifier": database, "DBClusterSnapshotIdentifier": name}
    account.client("rds").create_db_cluster_snapshot(**ids)
    account.client("rds").delete_db_cluster(DBClusterIdentifier=database, SkipFinalSnapshot=True)


def leave_instance_snapshot(account: Account) -> None:
    rds = account.client("rds")
    rds.create_db_instance(
        DBInstanceIdentifier="det-box", Engine="postgres", EngineVersion="16.8", AllocatedStorage=45,
        MasterUsername="determined", MasterUserPassword="not-this-one", StorageEncrypted=True,
        DBInstanceClass="db.t4g.micro",
    )  # fmt: skip
    rds.create_db_snapshot(DBInstanceIdentifier="det-box", DBSnapshotIdentifier=FINAL)
    rds.delete_db_instance(DBInstanceIdentifier="det-box", SkipFinalSnapshot=True)


def keep_key(account: Account, database: str = "det-box") -> None:
    account.make_bucket(STATE_BUCKET)
    name = f"secrets-keys/{database}"
    account.client("s3").put_object(Bucket=STATE_BUCKET, Key=name, Body=KEY.encode())


def kept_key(account: Account, database: str = "det-box") -> str:
    name = f"secrets-keys/{database}"
    response = account.client("s3").get_object(Bucket=STATE_BUCKET, Key=name)
    return str(response["Body"].read().decode())


def state_with_key(account: Account, *ids: str) -> None:
    """Store a Terraform state with a key of these parts, in reverse order."""
    instances = [{"index_key": i, "attributes": {"id": part}} for i, part in enumerate(ids)]
    key = {
        "mode": "managed", "type": "terraform_data", "name": "secrets_key", "instances": instances[::-1],
    }  # fmt: skip
    state = json.dumps({"resources": [key]}).encode()
    account.client("s3").put_object(Bucket=STATE_BUCKET, Key="box/state", Body=state)


def test_restores_a_snapshot_with_the_key_of_its_secrets(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account)
    keep_key(account)
    result = det("deploy", "aws", "up", "--dry-run", *account.where, "--db-snapshot", FINAL)
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    snapshot = plan["variables"]["database_snapshot"]
    assert snapshot["name"].endswith(f":cluster-snapshot:{FINAL}")
    assert snapshot["version"] == "16.8"
    assert plan["variables"]["secrets_key"] == KEY
    assert "warning: the key" not in result.err


def test_restores_an_rds_instance_with_the_same_disk_size(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_instance_snapshot(account)
    options = ("--db-snapshot", FINAL, "--var", "database=rds")
    result = det("deploy", "aws", "up", "--dry-run", *account.where, *options)
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["database_snapshot"]["disk_gb"] == 45


def test_continues_an_interrupted_restore_with_its_snapshot(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """This includes a run without a database yet and without a repeated option."""
    leave_snapshot(account)
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    first = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert "Restoring the database from the snapshot det-box-final" in first.err
    det("deploy", "aws", "up", "--yes", *account.where)
    assert [bool(c["variables"].get("database_snapshot")) for c in terraform.calls("apply")] == [
        True, True,
    ]  # fmt: skip


def test_a_repeated_restore_keeps_the_database(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """The snapshot may have been deleted in the meantime."""
    account.has_cluster(db_snapshot=FINAL)
    make_database(account)
    result = det("deploy", "aws", "up", "--dry-run", *account.where, "--db-snapshot", FINAL)
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    assert "database_snapshot" not in plan["variables"]


def test_a_snapshot_never_replaces_a_database(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    make_database(account)
    result = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert result.code == 2
    assert (
        "the cluster already has a database, det-box, and a snapshot cannot replace it"
        in result.err
    )
    assert terraform.calls("apply", "import") == []
    assert "db_snapshot" not in account.options()


def test_an_unknown_snapshot_lists_the_existing_ones(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account)
    result = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", "det-bix-final1")
    assert result.code == 3
    assert (
        f"there is no snapshot det-bix-final1 in us-west-2; snapshots here: {FINAL}" in result.err
    )
    assert terraform.calls("init") == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"Engine": "aurora-mysql"}, "is from aurora-mysql 16.8, but a cluster's database is PostgreSQL 16"),
        ({"EngineVersion": "15.4"}, "is from aurora-postgresql 15.4"),
        ({"MasterUsername": "postgres"}, "has the database user postgres"),
        ({"StorageEncrypted": False}, f"the snapshot {FINAL} is not encrypted"),
    ],
)  # fmt: skip
def test_rejects_a_snapshot_that_is_not_from_a_cluster(
    det: Det, account: Account, terraform: FakeTerraform, settings: dict[str, Any], message: str
) -> None:
    leave_snapshot(account, **settings)
    result = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert (result.code, message in result.err) == (2, True), result.err
    assert terraform.calls("init") == []


def test_rejects_a_snapshot_of_the_other_kind_of_database(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_instance_snapshot(account)
    result = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert result.code == 2
    assert "is from an instance of RDS, but the new database is Aurora" in result.err
    assert "give --var database=rds" in result.err


def test_rejects_an_incomplete_snapshot(
    det: Det, account: Account, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from det_cli.deployment import aws_snapshots

    leave_snapshot(account)
    original = aws_snapshots._read
    monkeypatch.setattr(
        aws_snapshots,
        "_read",
        lambda item, prefix: original({**item, "Status": "creating"}, prefix),
    )
    result = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert (result.code, "is not complete: it is creating" in result.err) == (1, True), result.err


def test_warns_about_a_missing_key_and_another_clusters_bucket(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account, "by-hand", "det-other")
    result = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", "by-hand")
    assert "warning: the key of det-other is not stored here" in result.err
    assert "det-other are in the bucket of that cluster" in result.err


def test_a_cluster_with_another_name_stores_the_restored_key(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account, "by-hand", "det-other")
    keep_key(account, "det-other")
    det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", "by-hand")
    assert kept_key(account) == KEY


def test_a_removal_stores_the_key_and_prints_the_restore_command(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    leave_snapshot(account)
    leave_snapshot(
        account, "det-box-final-final20261125120000", "det-box-final"
    )  # a snapshot of another cluster
    state_with_key(account, "a" * 36, "b" * 36)
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert result.code == 0, result.err
    assert kept_key(account) == "a" * 36 + "b" * 36
    assert (
        f"det deploy aws up --cluster-id box --region us-west-2 --db-snapshot {FINAL}\n"
        in result.out
    )
    assert det("deploy", "aws", "list", *account.where[2:]).out == ""


def test_the_restore_command_of_an_rds_instance_includes_its_kind(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster(var=["database=rds"])
    leave_instance_snapshot(account)
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", "down", "--yes", *account.where)
    assert f"--db-snapshot {FINAL} --var database=rds\n" in result.out, result.err


def test_a_removal_with_all_data_prints_no_restore_command(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    leave_snapshot(account)
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    result = det("deploy", "aws", "down", "--yes", "--delete-data", *account.where)
    assert (result.code, "--db-snapshot" in result.out) == (0, False), result.err


def test_ignores_an_incomplete_key(det: Det, account: Account, terraform: FakeTerraform) -> None:
    account.has_cluster()
    state_with_key(account, "a" * 36)
    result = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    assert "secrets_key" not in plan["variables"]
