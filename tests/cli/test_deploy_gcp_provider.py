"""Each deployment uses the same Terraform provider for Google Cloud, with a fake Terraform."""

import json
import re

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, STATES, Project, cause, outputs, state
from tests.support.terraform import INFRA

PLACE = "lab/provider-lock.json"


def pinned() -> str:
    (version,) = re.findall(
        r'^ +version += "([\d.]+)"$', (INFRA / "gcp/versions.tf").read_text(), re.M
    )
    return str(version)


def lock(version: str, checksum: str = "zh:1") -> str:
    """Return a lock file as `terraform init` writes it."""
    provider = (
        f'  version     = "{version}"\n  constraints = "{version}"\n  hashes = ["{checksum}"]'
    )
    return f'provider "registry.terraform.io/hashicorp/google" {{\n{provider}\n}}\n'


def test_the_next_deployment_uses_the_provider_of_the_first_one(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(
        init={"locks": lock(pinned())}, output=outputs(cluster), state_pull=state(MADE[0])
    )
    for _ in range(2):
        result = project.up("--image", "img")
        assert result.code == 0, result.err
    assert [call["lock"] for call in terraform.calls("init")] == ["", lock(pinned())]


def test_stores_the_checksums_of_additional_platforms(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    google = project.google
    google.has_cluster()
    google.buckets[STATES][PLACE] = json.dumps({"content": lock(pinned())}).encode()
    more = lock(pinned(), "h1:of-this-platform")
    terraform.answers(init={"locks": more}, output=outputs(cluster), state_pull=state(MADE[0]))
    assert project.up("--image", "img").code == 0
    assert json.loads(google.buckets[STATES][PLACE])["content"] == more


def test_a_lock_of_an_older_pinned_version_does_not_stop_an_upgrade(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    google = project.google
    google.has_cluster()
    google.buckets[STATES][PLACE] = json.dumps({"content": lock("8.0.0")}).encode()
    terraform.answers(
        init={"locks": lock(pinned())}, output=outputs(cluster), state_pull=state(MADE[0])
    )
    result = project.up("--image", "img")
    assert result.code == 0, result.err
    assert terraform.calls("init")[0]["lock"] == ""
    assert json.loads(google.buckets[STATES][PLACE])["content"] == lock(pinned())


def test_rejects_a_provider_with_another_checksum(
    project: Project, terraform: FakeTerraform
) -> None:
    error = (
        "Error: Required plugins are not installed. registry.terraform.io/hashicorp/google: the cached package"
        " for registry.terraform.io/hashicorp/google does not match any of the checksums recorded in the"
        " dependency lock file"
    )
    terraform.answers(init={"err": error, "code": 1})
    result = project.up("--image", "img")
    assert "the Terraform provider has another checksum" in cause(result)
    assert "provider-lock.json" in result.err


def test_a_removed_cluster_leaves_no_lock(project: Project, terraform: FakeTerraform) -> None:
    google = project.google
    google.has_cluster()
    google.buckets[STATES][PLACE] = json.dumps({"content": lock(pinned())}).encode()
    terraform.answers(output={"out": "{}"}, state_pull=state())
    result = project.down()
    assert result.code == 0, result.err
    assert PLACE not in google.buckets[STATES]
