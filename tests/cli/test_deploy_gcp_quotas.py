"""`up` checks the quotas of Google Cloud before it creates resources."""

import pytest
from det_cli.deployment import google_quotas
from det_controlplane.core.provision import catalog_gcp

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state


def test_rejects_a_quota_of_zero_before_any_change(
    project: Project, terraform: FakeTerraform
) -> None:
    project.google.quotas["NVIDIA_T4_GPUS"] = 0.0
    result = project.up()
    assert (
        "the quota NVIDIA_T4_GPUS of us-west1 is 0, but a machine of compute-pool needs 1"
        in cause(result)
    )
    assert "console.cloud.google.com/iam-admin/quotas?project=acme" in result.err
    assert terraform.calls("init") == []


@pytest.mark.parametrize(
    ("standard", "preemptible", "message"),
    [
        (1.0, 0.0, ""),
        (0.0, 0.0, "the quota NVIDIA_T4_GPUS of us-west1 is 0"),
        (0.0, 1.0, ""),
        (4.0, 1.0, "the quota PREEMPTIBLE_NVIDIA_T4_GPUS of us-west1 is 1"),
    ],
)
def test_spot_machines_use_the_standard_quota_without_a_preemptible_quota(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster,
    standard: float, preemptible: float, message: str,
) -> None:  # fmt: skip
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    project.google.quotas |= {
        "NVIDIA_T4_GPUS": standard,
        "PREEMPTIBLE_NVIDIA_T4_GPUS": preemptible,
    }
    number = 4 if preemptible and message else 1
    result = project.up("--image", "img", "--spot", "--gpu-num", number)
    assert (message in cause(result)) if message else result.code == 0, result.err


@pytest.mark.parametrize(
    ("quota", "limit", "needed"),
    [
        ("SSD_TOTAL_GB", 250, "300 together"),
        ("IN_USE_ADDRESSES", 1, "2 together"),
        ("CPUS", 8, "12 together"),
    ],
)
def test_one_machine_of_each_pool_must_fit_into_the_quotas_of_the_region(
    project: Project, terraform: FakeTerraform, quota: str, limit: int, needed: str
) -> None:
    project.google.quotas[quota] = float(limit)
    result = project.up()
    assert cause(result) == (
        f"the quota {quota} of us-west1 is {limit}, but one machine of each pool"
        f" (compute-pool, aux-pool) needs {needed}"
    )
    assert terraform.calls("init") == []


def test_processors_are_counted_over_all_regions(project: Project) -> None:
    project.google.quotas_everywhere["CPUS_ALL_REGIONS"] = 8.0
    assert "the quota CPUS_ALL_REGIONS is 8, but one machine of each pool" in cause(project.up())


@pytest.mark.parametrize(
    ("quota", "limit", "options", "hint"),
    [
        ("SSD_TOTAL_GB", 250, ("--disk-size", "110"), "use smaller disks (--disk-size)"),
        ("SSD_TOTAL_GB", 250, ("--disk-type", "pd-standard"), "--disk-size"),
        ("IN_USE_ADDRESSES", 1, ("--var", "machine_external_ip=false"), "machine_external_ip=false"),
    ],
)  # fmt: skip
def test_the_hint_on_a_quota_solves_the_problem(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster,
    quota: str, limit: int, options: tuple[str, ...], hint: str,
) -> None:  # fmt: skip
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    project.google.quotas[quota] = float(limit)
    assert hint in project.up("--image", "img").err
    result = project.up("--image", "img", *options)
    assert result.code == 0, result.err


@pytest.mark.parametrize(("preemptible", "fits"), [(0, True), (12, True), (4, False)])
def test_processors_of_spot_machines_use_the_preemptible_quota_if_it_is_set(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster, preemptible: int, fits: bool
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    project.google.quotas["PREEMPTIBLE_CPUS"] = float(preemptible)
    result = project.up("--image", "img", "--spot")
    assert (result.code == 0) is fits, result.err
    if not fits:
        assert "the quota PREEMPTIBLE_CPUS of us-west1 is 4" in cause(result)


def test_checks_the_quota_for_all_regions(project: Project) -> None:
    project.google.quotas_everywhere = {"GPUS_ALL_REGIONS": 0.0}
    assert "the quota GPUS_ALL_REGIONS" in cause(project.up())


@pytest.fixture
def h100(project: Project) -> tuple[str, ...]:
    """Add machines with eight H100 to the region, and return the options that select them."""
    project.google.types["a3-highgpu-8g"] = ["us-west1-a"]
    project.google.own_gpus["a3-highgpu-8g"] = ("nvidia-h100-80gb", 8)
    project.google.quotas_everywhere = {"GPUS_ALL_REGIONS": 16.0, "CPUS_ALL_REGIONS": 300.0}
    return ("--compute-agent-instance-type", "a3-highgpu-8g")


FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region of NVIDIA_H100"


@pytest.mark.parametrize(
    ("limits", "quota"),
    [
        ({}, 0),
        ({("NVIDIA_H100", ""): 0, ("NVIDIA_H100_MEGA", ""): 64}, 0),
        ({("NVIDIA_H100", ""): 64, ("NVIDIA_H100", "us-west1"): 4}, 4),
        ({("NVIDIA_H100", ""): 4, ("NVIDIA_H100", "us-east1"): 64}, 4),
    ],
)
def test_newer_gpus_have_a_quota_of_their_family(
    project: Project, h100: tuple[str, ...], limits: dict[tuple[str, str], int], quota: int
) -> None:
    project.google.families = limits
    assert cause(project.up(*h100)) == (
        f"the quota {FAMILY} of us-west1 is {quota}, but a machine of compute-pool needs 8"
    )


@pytest.mark.parametrize("limit", [8, -1])  # -1: unlimited
def test_accepts_newer_gpus_within_their_quota(
    project: Project,
    h100: tuple[str, ...],
    limit: int,
    terraform: FakeTerraform,
    cluster: FakeCluster,
) -> None:
    project.google.families = {("NVIDIA_H100", "us-west1"): limit}
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img", *h100)
    assert result.code == 0, result.err


def test_spot_machines_of_newer_gpus_can_have_their_own_quota(
    project: Project, h100: tuple[str, ...]
) -> None:
    project.google.quotas["PREEMPTIBLE_NVIDIA_H100_GPUS"] = 4.0
    project.google.families = {("NVIDIA_H100", "us-west1"): 8}
    message = cause(project.up("--spot", *h100))
    assert "the quota PREEMPTIBLE_NVIDIA_H100_GPUS of us-west1 is 4" in message
    project.google.quotas["PREEMPTIBLE_NVIDIA_H100_GPUS"] = 0.0
    project.google.families = {("NVIDIA_H100", "us-west1"): 2}
    assert f"the quota {FAMILY} of us-west1 is 2" in cause(project.up("--spot", *h100))


def test_warns_about_a_quota_that_cannot_be_read(
    project: Project, h100: tuple[str, ...], terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.tells_families = False
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img", *h100)
    assert result.code == 0, result.err
    assert "warning: the quota of NVIDIA_H100 in us-west1 cannot be read" in result.err


def test_every_gpu_of_the_catalog_has_a_known_quota() -> None:
    names = {*google_quotas.GPU_QUOTAS, *google_quotas.GPU_FAMILIES}
    assert set(catalog_gcp.ATTACHED) <= names
    included = {gpu for _, _, gpu, *_ in catalog_gcp._GPU_TYPES}
    assert included == {"NVIDIA L4", "NVIDIA A100", "NVIDIA H100"}, "add the quota of the new GPU"


def test_no_preflight_checks_skips_the_checks(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.quotas["NVIDIA_T4_GPUS"] = 0.0
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img", "--no-preflight-checks")
    assert result.code == 0, result.err
