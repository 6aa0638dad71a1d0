"""A cluster that was removed comes back from the snapshot of its database; Terraform and AWS are stand-ins."""

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
    given = {
        "Engine": "aurora-postgresql", "EngineVersion": "16.8", "MasterUsername": "determined",
        "MasterUserPassword": "not-this-one", "StorageEncrypted": True, **settings,
    }  # fmt: skip
    account.client("rds").create_db_cluster(DBClusterIdentifier=name, **given)


def leave_snapshot(
    account: Account, name: str = FINAL, database: str = "det-box", **settings: Any
) -> None:
    """Make a snapshot of a database that is gone."""
    make_database(account, database, **settings)
    asked = {"DBClusterIdentifier": database, "DBClusterSnapshotIdentifier": name}
    account.client("rds").create_db_cluster_snapshot(**asked)
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
    found = account.client("s3").get_object(Bucket=STATE_BUCKET, Key=name)
    return str(found["Body"].read().decode())


def state_with_key(account: Account, *ids: str) -> None:
    """Let the state of the cluster have made a key of these parts, told out of order."""
    made = [{"index_key": i, "attributes": {"id": part}} for i, part in enumerate(ids)]
    key = {
        "mode": "managed", "type": "terraform_data", "name": "secrets_key", "instances": made[::-1],
    }  # fmt: skip
    state = json.dumps({"resources": [key]}).encode()
    account.client("s3").put_object(Bucket=STATE_BUCKET, Key="box/state", Body=state)


def test_a_cluster_begins_from_a_snapshot_and_has_the_key_of_its_secrets(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account)
    keep_key(account)
    ran = det("deploy", "aws", "up", "--dry-run", *account.where, "--db-snapshot", FINAL)
    assert ran.code == 0, ran.err
    (plan,) = terraform.calls("plan")
    told = plan["variables"]["database_snapshot"]
    assert told["name"].endswith(f":cluster-snapshot:{FINAL}")
    assert told["version"] == "16.8"
    assert plan["variables"]["secrets_key"] == KEY
    assert "warning: no key" not in ran.err


def test_an_instance_of_rds_begins_from_its_snapshot_with_a_disk_as_large(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_instance_snapshot(account)
    given = ("--db-snapshot", FINAL, "--var", "database=rds")
    ran = det("deploy", "aws", "up", "--dry-run", *account.where, *given)
    assert ran.code == 0, ran.err
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["database_snapshot"]["disk_gb"] == 45


def test_an_interrupted_restoring_goes_on_with_its_snapshot(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """Also before there is a database, and where the option is not given again."""
    leave_snapshot(account)
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    first = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert "The database begins from the snapshot det-box-final" in first.err
    det("deploy", "aws", "up", "--yes", *account.where)
    assert [bool(c["variables"].get("database_snapshot")) for c in terraform.calls("apply")] == [
        True, True,
    ]  # fmt: skip


def test_a_repeated_restoring_leaves_the_database_as_it_is(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    """The snapshot may be deleted by then."""
    account.has_cluster(db_snapshot=FINAL)
    make_database(account)
    ran = det("deploy", "aws", "up", "--dry-run", *account.where, "--db-snapshot", FINAL)
    assert ran.code == 0, ran.err
    (plan,) = terraform.calls("plan")
    assert "database_snapshot" not in plan["variables"]


def test_a_snapshot_never_takes_a_databases_place(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    make_database(account)
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert ran.code == 2
    assert "the cluster has a database, det-box, which no snapshot replaces" in ran.err
    assert terraform.calls("apply", "import") == []
    assert "db_snapshot" not in account.options()


def test_an_unknown_snapshot_is_answered_by_those_there_are(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account)
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", "det-bix-final1")
    assert ran.code == 3
    assert f"there is no snapshot det-bix-final1 in us-west-2; snapshots here: {FINAL}" in ran.err
    assert terraform.calls("init") == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"Engine": "aurora-mysql"}, "is of aurora-mysql 16.8, and a cluster's database is PostgreSQL 16"),
        ({"EngineVersion": "15.4"}, "is of aurora-postgresql 15.4"),
        ({"MasterUsername": "postgres"}, "is of a database of the user postgres"),
        ({"StorageEncrypted": False}, f"the snapshot {FINAL} is not encrypted"),
    ],
)  # fmt: skip
def test_a_snapshot_that_is_of_no_cluster_is_refused(
    det: Det, account: Account, terraform: FakeTerraform, settings: dict[str, Any], told: str
) -> None:
    leave_snapshot(account, **settings)
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert (ran.code, told in ran.err) == (2, True), ran.err
    assert terraform.calls("init") == []


def test_a_snapshot_of_the_other_kind_of_database_names_the_option(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_instance_snapshot(account)
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert ran.code == 2
    assert "is of an instance of RDS, and this database would be Aurora" in ran.err
    assert "give --var database=rds" in ran.err


def test_a_snapshot_in_the_making_is_waited_for_by_the_operator(
    det: Det, account: Account, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from det_cli.deployment import aws_snapshots

    leave_snapshot(account)
    read = aws_snapshots._read
    monkeypatch.setattr(
        aws_snapshots, "_read", lambda told, prefix: read({**told, "Status": "creating"}, prefix)
    )
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", FINAL)
    assert (ran.code, "is not complete: it is creating" in ran.err) == (1, True), ran.err


def test_a_lost_key_and_another_clusters_bucket_are_told(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account, "by-hand", "det-other")
    ran = det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", "by-hand")
    assert "warning: no key of det-other is kept here" in ran.err
    assert "det-other lie in the bucket of that cluster" in ran.err


def test_a_cluster_of_another_name_keeps_the_key_that_it_took_over(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    leave_snapshot(account, "by-hand", "det-other")
    keep_key(account, "det-other")
    det("deploy", "aws", "up", "--yes", *account.where, "--db-snapshot", "by-hand")
    assert kept_key(account) == KEY


def test_a_removal_keeps_the_key_and_tells_how_the_cluster_comes_back(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    leave_snapshot(account)
    leave_snapshot(
        account, "det-box-final-final20261125120000", "det-box-final"
    )  # of another cluster
    state_with_key(account, "a" * 36, "b" * 36)
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    ran = det("deploy", "aws", "down", "--yes", *account.where)
    assert ran.code == 0, ran.err
    assert kept_key(account) == "a" * 36 + "b" * 36
    assert (
        f"det deploy aws up --cluster-id box --region us-west-2 --db-snapshot {FINAL}\n" in ran.out
    )
    assert det("deploy", "aws", "list", *account.where[2:]).out == ""


def test_the_way_back_of_an_instance_of_rds_names_its_kind(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster(var=["database=rds"])
    leave_instance_snapshot(account)
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    ran = det("deploy", "aws", "down", "--yes", *account.where)
    assert f"--db-snapshot {FINAL} --var database=rds\n" in ran.out, ran.err


def test_a_removal_with_all_data_tells_no_way_back(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    leave_snapshot(account)
    terraform.answers(output={"out": "{}"}, state_pull={"out": json.dumps(MADE)})
    ran = det("deploy", "aws", "down", "--yes", "--delete-data", *account.where)
    assert (ran.code, "--db-snapshot" in ran.out) == (0, False), ran.err


def test_half_a_key_of_an_interrupted_cluster_is_none(
    det: Det, account: Account, terraform: FakeTerraform
) -> None:
    account.has_cluster()
    state_with_key(account, "a" * 36)
    ran = det("deploy", "aws", "up", "--dry-run", *account.where)
    assert ran.code == 0, ran.err
    (plan,) = terraform.calls("plan")
    assert "secrets_key" not in plan["variables"]
