"""Remove clusters by `det deploy gcp down`: in which order, and what is refused or left; Google is a stand-in."""

from tests.support.fake_terraform import FakeTerraform, error_event
from tests.support.google_project import MADE, Project, cause, state


def test_a_removal_that_was_half_done_makes_nothing_again(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    terraform.answers(output={"out": "{}"}, state_pull={"out": '{"resources": []}'})
    ran = project.down()
    assert ran.code == 0, ran.err
    assert terraform.calls("apply") == []
    assert terraform.calls("destroy")
    listed = project.run("list")
    assert (listed.out, "There are no clusters in project acme." in listed.err) == ("", True)


def test_a_cluster_with_machines_is_not_removed_without_force(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    project.google.run_machine()
    terraform.answers(output={"out": "{}"})
    ran = project.down()
    assert "1 machines of the cluster are running: us-west1-b/det-1-1" in cause(ran)
    assert "--force" in ran.err
    assert terraform.calls("apply", "destroy") == []


def test_by_force_services_go_first_then_machines_then_the_rest(
    project: Project, terraform: FakeTerraform
) -> None:
    google = project.google
    google.has_cluster()
    google.run_machine()
    google.run_machine("det-2-1", cluster="other")
    google.peerings = ["servicenetworking-googleapis-com"]
    terraform.answers(state_pull=state(*MADE))
    ran = project.down("--force")
    assert ran.code == 0, ran.err
    assert list(google.instances) == ["us-west1-b/det-2-1"], "a machine of another cluster ended"
    services, database, rest = terraform.calls("destroy")
    assert "-target=module.controlplane.google_cloud_run_v2_service.this" in services["words"]
    assert "-target=module.database" in database["words"]
    assert [word for word in rest["words"] if word.startswith("-target")] == []
    assert google.peerings == [], "a network with a peering cannot be removed"
    assert ["rm", "module.storage.google_storage_bucket.this"] in [
        call["words"] for call in terraform.calls("state")
    ]
    assert project.run("list").out == ""


def test_a_removal_first_stores_that_the_database_is_deleted_with_its_instance(
    project: Project, terraform: FakeTerraform
) -> None:
    """Terraform deletes by the state of the last apply. PostgreSQL does not drop a database with connections."""
    project.google.has_cluster()
    database = ("module.database", "google_sql_database")
    terraform.answers(output={"out": "{}"}, state_pull=state(*MADE, database))
    ran = project.down()
    assert ran.code == 0, ran.err
    (apply,) = terraform.calls("apply")
    assert "-target=module.database.google_sql_database.this" in apply["words"]


def test_what_is_left_with_the_cluster_s_label_is_told(
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
    ran = project.down()
    assert cause(ran) == "of the cluster is left: disk det-1-1, database det-lab-0a"
    assert project.run("list").out.split() == ["lab"], (
        "a cluster of which something is left is forgotten"
    )


def test_a_subnet_that_cloud_run_still_holds_is_told_with_the_time(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster()
    held = error_event(
        "Error deleting Subnetwork",
        "already being used by 'projects/acme/addresses/serverless-ipv4-17'",
    )
    terraform.answers(destroy={"out": held, "code": 1}, state_pull=state())
    ran = project.down()
    assert "all that costs money is removed" in cause(ran)
    assert "run the same command again after that" in ran.err


def test_what_is_there_is_described_and_removed_whatever_its_name(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.has_cluster("lab-")
    terraform.answers(output={"out": "{}"}, state_pull=state())
    assert "lab-" in project.run("status", "--cluster-id", "lab-").out
    ran = project.run("down", "--yes", "--cluster-id", "lab-")
    assert ran.code == 0, ran.err
    assert project.run("list").out == ""


def test_an_unknown_cluster_cannot_be_removed(project: Project, terraform: FakeTerraform) -> None:
    project.google.has_cluster()
    ran = project.run("down", "--cluster-id", "lib")
    assert ran.code == 3
    assert "there is no cluster lib in us-west1; clusters here: lab" in cause(ran)
