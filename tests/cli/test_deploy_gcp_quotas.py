"""Look at quotas of Google Cloud before anything is made there."""

import pytest
from det_cli.deployment import google_checks
from det_controlplane.core.provision import catalog_gcp

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state


def test_a_quota_of_zero_stops_before_anything_is_made(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.quotas["NVIDIA_T4_GPUS"] = 0.0
    ran = project.up()
    assert (
        "the quota NVIDIA_T4_GPUS of us-west1 is 0, and a machine of compute-pool needs 1"
        in cause(ran)
    )
    assert "console.cloud.google.com/iam-admin/quotas?project=acme" in ran.err
    assert terraform.calls("init") == []


def test_spot_machines_have_a_quota_of_their_own(project: Project) -> None:
    project.google.quotas = {"NVIDIA_T4_GPUS": 4.0, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0.0}
    assert "the quota PREEMPTIBLE_NVIDIA_T4_GPUS" in cause(project.up("--spot"))


def test_the_quota_over_all_regions_counts_too(project: Project) -> None:
    project.google.quotas_everywhere = {"GPUS_ALL_REGIONS": 0.0}
    assert "the quota GPUS_ALL_REGIONS" in cause(project.up())


@pytest.fixture
def h100(project: Project) -> tuple[str, ...]:
    """Let the region have machines with eight H100; gives the options that ask for them."""
    project.google.types["a3-highgpu-8g"] = ["us-west1-a"]
    project.google.own_gpus["a3-highgpu-8g"] = ("nvidia-h100-80gb", 8)
    project.google.quotas_everywhere = {"GPUS_ALL_REGIONS": 16.0}
    return ("--compute-agent-instance-type", "a3-highgpu-8g")


FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region of NVIDIA_H100"


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({}, 0),
        ({("NVIDIA_H100", ""): 0, ("NVIDIA_H100_MEGA", ""): 64}, 0),
        ({("NVIDIA_H100", ""): 64, ("NVIDIA_H100", "us-west1"): 4}, 4),
        ({("NVIDIA_H100", ""): 4, ("NVIDIA_H100", "us-east1"): 64}, 4),
    ],
)
def test_newer_gpus_have_a_quota_of_their_family(
    project: Project, h100: tuple[str, ...], limits: dict[tuple[str, str], int], told: int
) -> None:
    project.google.families = limits
    assert cause(project.up(*h100)) == (
        f"the quota {FAMILY} of us-west1 is {told}, and a machine of compute-pool needs 8"
    )


@pytest.mark.parametrize("limit", [8, -1])  # -1: without limit
def test_newer_gpus_may_be_rented_within_their_quota(
    project: Project,
    h100: tuple[str, ...],
    limit: int,
    terraform: FakeTerraform,
    cluster: FakeCluster,
) -> None:
    project.google.families = {("NVIDIA_H100", "us-west1"): limit}
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    ran = project.up("--image", "img", *h100)
    assert ran.code == 0, ran.err


def test_spot_machines_of_newer_gpus_have_a_quota_of_their_own_too(
    project: Project, h100: tuple[str, ...]
) -> None:
    project.google.quotas["PREEMPTIBLE_NVIDIA_H100_GPUS"] = 0.0
    project.google.families = {("NVIDIA_H100", "us-west1"): 8}
    told = cause(project.up("--spot", *h100))
    assert "the quota PREEMPTIBLE_NVIDIA_H100_GPUS of us-west1 is 0" in told


def test_a_quota_that_may_not_be_read_is_told_and_stops_nothing(
    project: Project, h100: tuple[str, ...], terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.tells_families = False
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    ran = project.up("--image", "img", *h100)
    assert ran.code == 0, ran.err
    assert "warning: the quota of NVIDIA_H100 in us-west1 cannot be read" in ran.err


def test_each_gpu_of_the_catalog_has_a_quota_that_is_looked_at() -> None:
    known = {*google_checks._GPU_QUOTAS, *google_checks._GPU_FAMILIES}
    assert set(catalog_gcp.ATTACHED) <= known
    own = {gpu for _, _, gpu, *_ in catalog_gcp._GPU_TYPES}
    assert own == {"NVIDIA L4", "NVIDIA A100", "NVIDIA H100"}, "its quota is to be looked at too"


def test_checks_can_be_left_out(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.quotas["NVIDIA_T4_GPUS"] = 0.0
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    ran = project.up("--image", "img", "--no-preflight-checks")
    assert ran.code == 0, ran.err
