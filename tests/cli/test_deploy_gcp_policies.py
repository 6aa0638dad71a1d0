"""`up` checks the policies of an organisation before it creates resources, with a fake Google Cloud."""

from typing import Any

import pytest

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state

Rules = list[dict[str, Any]]
NO_ADDRESSES = ("--var", "machine_external_ip=false")
BASTION = "projects/acme/zones/us-west1-a/instances/bastion"
NVIDIA = "projects/ubuntu-os-accelerator-images"
PLACED = ("--var", "secret_location=us-west1")


def allowed(*values: str) -> Rules:
    return [{"values": {"allowedValues": list(values)}}]


def denied(*values: str) -> Rules:
    return [{"values": {"deniedValues": list(values)}}]


@pytest.mark.parametrize(
    ("constraint", "rules", "problem"),
    [
        ("run.managed.requireInvokerIam", [{"enforce": True}], "without a Google Cloud account"),
        ("compute.vmExternalIpAccess", [{"denyAll": True}], "--var machine_external_ip=false"),
        ("compute.vmExternalIpAccess", allowed(BASTION), "aux-pool, compute-pool"),
        ("compute.trustedImageProjects", allowed("projects/debian-cloud"), "ubuntu-os-accelerator-images: give an"),
        ("compute.trustedImageProjects", denied("projects/ubuntu-os-cloud"), "machines of aux-pool"),
        ("gcp.resourceLocations", allowed("in:europe-locations", "global"), "it allows no resources in us-west1"),
        ("gcp.resourceLocations", allowed("in:us-east1-locations", "global"), "it allows no resources in us-west1"),
        ("gcp.resourceLocations", allowed("in:us-locations"), "--var secret_location=us-west1"),
    ],
)  # fmt: skip
def test_reports_a_policy_that_prevents_the_cluster(
    project: Project, terraform: FakeTerraform, constraint: str, rules: Rules, problem: str
) -> None:
    project.google.policies[constraint] = rules
    result = project.up()
    assert cause(result).startswith(
        f"the policy {constraint} of the organisation prevents the cluster: "
    )
    assert problem in cause(result)
    assert "--no-preflight-checks" in result.err
    assert terraform.calls("init") == []


@pytest.mark.parametrize(
    ("constraint", "rules", "options"),
    [
        ("run.managed.requireInvokerIam", [{"enforce": False}], ()),
        ("compute.vmExternalIpAccess", [{"denyAll": True}], NO_ADDRESSES),
        ("compute.trustedImageProjects", allowed("is:projects/ubuntu-os-cloud", NVIDIA), ()),
        ("compute.trustedImageProjects", allowed("under:organizations/1"), ()),
        ("gcp.resourceLocations", allowed("in:us-locations", "global"), ()),
        ("gcp.resourceLocations", allowed("us-west1"), PLACED),
        ("gcp.resourceLocations", allowed("in:us-west1-locations"), PLACED),
        ("gcp.resourceLocations", allowed("in:low-carbon-locations"), PLACED),
    ],
)  # fmt: skip
def test_accepts_a_policy_that_allows_the_cluster(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster,
    constraint: str, rules: Rules, options: tuple[str, ...],
) -> None:  # fmt: skip
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    project.google.policies[constraint] = rules
    result = project.up("--image", "img", *options)
    assert result.code == 0, result.err


def test_warns_about_policies_that_cannot_be_checked(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    project.google.policies["compute.vmExternalIpAccess"] = [
        {"denyAll": True, "condition": {"expression": "resource.matchTag('acme/env', 'prod')"}}
    ]
    result = project.up("--image", "img")
    assert "warning: the policy compute.vmExternalIpAccess depends on tags" in result.err
    project.google.permissions_missing = {"orgpolicy.policy.get"}
    result = project.up("--image", "img")
    assert (result.code, "warning: policies of the organisation cannot be read" in result.err) == (
        0,
        True,
    )
