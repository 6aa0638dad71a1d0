"""Restoring a removed cluster from a backup of its database, with fakes for Terraform and Google Cloud."""

import json
from typing import Any

import pytest
from det_cli.deployment import google_backups

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import FakeGoogle
from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.google_project import STATES, Project, cause, outputs, state

KEY = "the-key-of-the-former-cluster"
DATABASE = "det-lab-9z8y7x"
MODULE = "-target=module.database"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google_backups, "_LOOK_S", 0.0)


def database_state() -> dict[str, str]:
    """Return the state of a stack with a database."""
    user = {"instance": DATABASE, "name": "determined", "password": "of-this-cluster"}
    resource = {
        "mode": "managed", "module": "module.database", "type": "google_sql_user", "name": "this",
        "instances": [{"attributes": user}],
    }  # fmt: skip
    return {"out": json.dumps({"resources": [resource]})}


def keep_key(google: FakeGoogle, database: str = "det-lab") -> None:
    objects = google.buckets.setdefault(STATES, {})
    objects[f"secrets-keys/{database}"] = json.dumps({"secrets_key": KEY}).encode()


def kept_key(google: FakeGoogle, database: str = "det-lab") -> str:
    return str(json.loads(google.buckets[STATES][f"secrets-keys/{database}"])["secrets_key"])


def restore(project: Project, *more: str) -> Any:
    return project.up("--image", "img", "--db-backup", "b1", *more)


def test_restores_a_backup_with_the_key_of_its_secrets(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    google = project.google
    google.leave_backup(instanceSettings={"settings": {"dataDiskSizeGb": "25"}})
    keep_key(google)
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    result = restore(project)
    assert result.code == 0, result.err
    assert google.restored == {DATABASE: "projects/acme/backups/b1"}
    assert google.passwords == {f"{DATABASE}/determined": "of-this-cluster"}
    database, rest = terraform.calls("apply")
    assert MODULE in database["words"], "the restore must run before services use the database"
    assert MODULE not in rest["words"]
    for apply in (database, rest):
        assert apply["variables"]["secrets_key"] == KEY
        assert apply["variables"]["database_disk_gb"] == 25
    assert "warning" not in result.err


def test_the_next_up_keeps_the_restored_database(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """This includes other options and a backup that was deleted in the meantime."""
    google = project.google
    google.leave_backup()
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    restore(project)
    google.restored, google.backups = {}, []
    google.leftovers["items"] = [{"name": DATABASE}]
    for options in (("--spot",), ("--db-backup", "b1"), ("--forget-options", "--db-backup", "b1")):
        result = project.up("--image", "img", *options)
        assert result.code == 0, result.err
    assert google.restored == {}


def test_restores_a_deleted_database_again(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """An interrupted removal may have deleted the database but not the stored options."""
    google = project.google
    google.leave_backup()
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    restore(project)
    google.restored = {}
    assert project.up("--image", "img").code == 0
    assert google.restored == {DATABASE: "projects/acme/backups/b1"}


def test_continues_an_interrupted_restore_without_the_option(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    google = project.google
    google.leave_backup()
    terraform.answers(apply={"out": error_event("failed", "it did"), "code": 1})
    assert restore(project).code == 1
    google.leftovers["items"] = [{"name": DATABASE}]  # the database exists but is empty
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    result = project.up("--image", "img")
    assert result.code == 0, result.err
    assert google.restored == {DATABASE: "projects/acme/backups/b1"}


def test_waits_for_a_running_restore(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    google = project.google
    google.leave_backup()
    google.operations["operation-0"] = {
        "name": "operation-0", "operationType": "RESTORE_VOLUME", "status": "RUNNING",
    }  # fmt: skip
    real = google.answer

    def finish_when_polled(method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if path.endswith("/operations/operation-0"):
            google.operations["operation-0"]["status"] = "DONE"
        return real(method, path, query, body)

    google.answer = finish_when_polled  # type: ignore[method-assign]
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    result = restore(project)
    assert result.code == 0, result.err
    assert google.restored == {}
    assert list(google.passwords) == [f"{DATABASE}/determined"]


def test_reports_a_failed_restore_that_can_be_repeated(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    google = project.google
    google.leave_backup()
    google.restoring_ends = {
        "error": {"errors": [{"code": "INTERNAL", "message": "disk too small"}]}
    }
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    result = restore(project)
    assert cause(result) == "Cloud SQL: disk too small"
    assert len(terraform.calls("apply")) == 1, "services would find an empty database"
    google.restoring_ends, google.restored = {}, {}
    assert restore(project).code == 0
    assert google.restored == {DATABASE: "projects/acme/backups/b1"}


def test_a_backup_never_replaces_a_database(project: Project, terraform: FakeTerraform) -> None:
    google = project.google
    google.has_cluster()
    google.leave_backup()
    google.leftovers["items"] = [{"name": DATABASE}]
    result = restore(project)
    assert (result.code, terraform.calls("init")) == (2, [])
    assert cause(result) == "the cluster lab already has a database, and a backup cannot replace it"


def test_an_unknown_backup_lists_the_existing_ones(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.leave_backup("b7")
    project.google.leave_backup("b8", instance="wordpress")
    result = restore(project)
    assert (result.code, terraform.calls("init")) == (3, [])
    assert "backups of clusters: b7 (det-lab-0a1b2c)" in cause(result)


@pytest.mark.parametrize(
    ("backup", "message"),
    [
        ({"databaseVersion": "POSTGRES_15"}, "is from det-lab-0a1b2c with POSTGRES_15"),
        ({"instance": "wordpress"}, "is from wordpress with POSTGRES_16"),
        ({"state": "RUNNING"}, "is not complete: it is RUNNING"),
    ],
)
def test_rejects_a_backup_that_is_not_from_a_cluster(
    project: Project, terraform: FakeTerraform, backup: dict[str, str], message: str
) -> None:
    project.google.leave_backup(**backup)
    result = restore(project)
    assert message in cause(result)
    assert terraform.calls("init") == []


def test_warns_about_a_missing_key_and_another_clusters_bucket(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.leave_backup(instance="det-other-0a1b2c")
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    result = restore(project)
    assert "warning: the key of det-other is not stored here" in result.err
    assert "det-other are in the bucket of that cluster" in result.err


def test_a_cluster_with_another_name_stores_the_restored_key(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.leave_backup(instance="det-other-0a1b2c")
    keep_key(project.google, "det-other")
    terraform.answers(output=outputs(cluster), state_pull=database_state())
    restore(project)
    assert kept_key(project.google) == KEY


def test_a_dry_run_does_not_restore(project: Project, terraform: FakeTerraform) -> None:
    project.google.leave_backup(instanceSettings={"settings": {"dataDiskSizeGb": "25"}})
    result = restore(project, "--dry-run")
    assert result.code == 0, result.err
    (plan,) = terraform.calls("plan")
    assert plan["variables"]["database_disk_gb"] == 25
    assert project.google.restored == {}


def removed(project: Project, terraform: FakeTerraform, *more: str) -> Any:
    """Remove a cluster with a key in its state. The state lists the parts of the key in reverse order."""
    google = project.google
    google.has_cluster()
    instances = [{"index_key": i, "attributes": {"id": part * 36}} for i, part in enumerate("ab")]
    key = {
        "mode": "managed",
        "type": "terraform_data",
        "name": "secrets_key",
        "instances": instances[::-1],
    }
    google.buckets[STATES]["lab/default.tfstate"] = json.dumps({"resources": [key]}).encode()
    google.leave_backup("b1")
    google.leave_backup("b2", instance="det-lab-1b2c3d")
    google.leave_backup("b3", instance="det-lab-2-1b2c3d")
    google.leave_backup("b4", type="AUTOMATED")
    terraform.answers(output={"out": "{}"}, state_pull=state())
    return project.down(*more)


def test_a_removal_stores_the_key_and_prints_the_restore_command(
    project: Project, terraform: FakeTerraform
) -> None:
    result = removed(project, terraform)
    assert result.code == 0, result.err
    assert kept_key(project.google) == "a" * 36 + "b" * 36
    command = "det deploy gcp up --cluster-id lab --project-id acme --region us-west1"
    assert f"{command} --keypath {project.key} --db-backup b2\n" in result.out
    assert project.run("list").out == ""


def test_a_removal_with_all_data_stores_no_key_and_prints_no_restore_command(
    project: Project, terraform: FakeTerraform
) -> None:
    result = removed(project, terraform, "--delete-data")
    assert (result.code, "--db-backup" in result.out) == (0, False), result.err
    assert "secrets-keys/det-lab" not in project.google.buckets[STATES]
