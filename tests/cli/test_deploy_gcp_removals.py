"""`det deploy gcp down`: the order of removal, rejected removals and remaining resources, with a fake Google Cloud."""

from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.google_project import MADE, Project, cause, state


def test_continues_an_interrupted_removal_without_an_apply(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    terraform.answers(output={"out": "{}"}, state_pull={"out": '{"resources": []}'})
    result = project.down()
    assert result.code == 0, result.err
    assert terraform.calls("apply") == []
    assert terraform.calls("destroy")
    clusters = project.run("list")
    assert (clusters.out, "There are no clusters in project acme." in clusters.err) == ("", True)


def test_removes_a_cluster_with_machines_only_with_force(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    project.google.run_machine()
    terraform.answers(output={"out": "{}"})
    result = project.down()
    assert "1 machines of the cluster are running: us-west1-b/det-1-1" in cause(result)
    assert "--force" in result.err
    assert terraform.calls("apply", "destroy") == []


def test_force_removes_services_before_machines_and_other_resources(
    project: Project, terraform: FakeTerraform
) -> None:
    google = project.google
    google.has_cluster()
    google.run_machine()
    google.run_machine("det-2-1", cluster="other")
    google.peerings = ["servicenetworking-googleapis-com"]
    terraform.answers(state_pull=state(*MADE))
    result = project.down("--force")
    assert result.code == 0, result.err
    assert list(google.instances) == ["us-west1-b/det-2-1"], "machines of other clusters are kept"
    services, database, rest = terraform.calls("destroy")
    assert "-target=module.controlplane.google_cloud_run_v2_service.this" in services["words"]
    assert "-target=module.database" in database["words"]
    assert [word for word in rest["words"] if word.startswith("-target")] == []
    assert google.peerings == [], "a network with a peering cannot be removed"
    assert ["rm", "module.storage.google_storage_bucket.this"] in [
        call["words"] for call in terraform.calls("state")
    ]
    assert project.run("list").out == ""


def test_a_removal_first_applies_the_deletion_policy_of_the_database(
    project: Project, terraform: FakeTerraform
) -> None:
    """Terraform deletes with the settings of the last apply. PostgreSQL does not drop a database with connections."""
    project.google.has_cluster()
    database = ("module.database", "google_sql_database")
    terraform.answers(output={"out": "{}"}, state_pull=state(*MADE, database))
    result = project.down()
    assert result.code == 0, result.err
    (apply,) = terraform.calls("apply")
    assert "-target=module.database.google_sql_database.this" in apply["words"]


def test_reports_remaining_resources_with_the_clusters_label(
    project: Project, terraform: FakeTerraform
) -> None:
    google = project.google
    google.has_cluster()
    google.leftovers = {
        "items": [{"name": "det-lab-0a"}],
        "disks": [{"name": "det-1-1", "labels": {"det-cluster": "lab"}}],
        "services": [{"name": "projects/acme/locations/l/services/other", "labels": {}}],
    }
    terraform.answers(state_pull=state())
    result = project.down()
    assert (
        cause(result) == "these resources of the cluster remain: disk det-1-1, database det-lab-0a"
    )
    assert project.run("list").out.split() == ["lab"], (
        "a cluster with remaining resources must stay listed"
    )


def test_reports_a_subnet_that_cloud_run_still_uses(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    conflict = error_event(
        "Error deleting Subnetwork",
        "already being used by 'projects/acme/addresses/serverless-ipv4-17'",
    )
    terraform.answers(destroy={"out": conflict, "code": 1}, state_pull=state())
    result = project.down()
    assert "every billed resource is removed" in cause(result)
    assert "run the same command again after that time" in result.err


def test_describes_and_removes_a_cluster_with_an_invalid_name(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster("lab-")
    terraform.answers(output={"out": "{}"}, state_pull=state())
    assert "lab-" in project.run("status", "--cluster-id", "lab-").out
    result = project.run("down", "--yes", "--cluster-id", "lab-")
    assert result.code == 0, result.err
    assert project.run("list").out == ""


def test_rejects_the_removal_of_an_unknown_cluster(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    result = project.run("down", "--cluster-id", "lib")
    assert result.code == 3
    assert "there is no cluster lib in us-west1; clusters here: lab" in cause(result)
