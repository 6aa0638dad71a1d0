"""Images of machines and of the control plane, and new projects, with fakes for Terraform and Google Cloud."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from det_cli.deployment.pool_checks import GPU_IMAGE

from tests.support.fake_cluster import FakeCluster
from tests.support.fake_google import TAG, built_digest
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import DATA, MADE, Project, cause, outputs, state
from tests.support.google_refusals import Refusal, source_unreadable

BASE = "python:3.12-slim"
BASE_1, BASE_2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@pytest.fixture
def slept(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of the command while it waits for permissions, in seconds."""
    pauses: list[float] = []
    monkeypatch.setattr("det_cli.deployment.image.time.sleep", pauses.append)
    return pauses


def test_a_pool_without_an_image_gets_the_default_image(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster, tmp_path: Path
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    own = "projects/acme/global/images/family/determined-agent"
    sections = [{"type": "gcp"}, {"type": "gcp", "boot_disk_source_image": own}]
    pool = {"pool_name": "gpus", "offers": sections}
    config = tmp_path / "master.yaml"
    config.write_text(yaml.safe_dump({"resource_pools": [pool]}))
    result = project.up("--image", "img", "--no-preflight-checks", "--config", config)
    assert result.code == 0, result.err
    (apply,) = terraform.calls("apply")
    (gpus,) = yaml.safe_load(apply["variables"]["cluster_config"])["resource_pools"]
    assert [o["boot_disk_source_image"] for o in gpus["offers"]] == [GPU_IMAGE, own]


@pytest.mark.parametrize("gpu", ["nvidia-tesla-v100", "nvidia-tesla-p100", "nvidia-tesla-p4"])
def test_rejects_a_gpu_that_the_default_image_does_not_support(project: Project, gpu: str) -> None:
    """NVIDIA's open kernel modules in the image need Turing or newer, so the machine would never join."""
    result = project.up("--gpu-type", gpu)
    assert (result.code, f"the default image does not support {gpu}" in cause(result)) == (2, True)
    assert "--environment-image" in result.err
    assert project.google.buckets == {}


def test_accepts_an_older_gpu_with_another_image(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    own = ("--environment-image", "projects/acme/global/images/family/proprietary")
    result = project.up(
        "--image", "img", "--no-preflight-checks", "--gpu-type", "nvidia-tesla-v100", *own
    )
    assert result.code == 0, result.err


def test_a_build_waits_until_its_new_account_can_read_the_source(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """Cloud Build reads the source in `builds.create` and answers 400 until the grant takes effect."""
    project.google.buckets[DATA] = {}
    refusal = Refusal(403, "The caller does not have permission")
    project.google.build_refusals = [*(source_unreadable() for _ in range(20)), refusal]
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up()
    assert result.code == 0, result.err
    assert len(project.google.builds) == 1
    assert (
        "det-lab-build@acme.iam.gserviceaccount.com does not have its permissions yet" in result.err
    )


def test_a_build_without_permissions_fails_after_five_minutes(
    project: Project, terraform: FakeTerraform, slept: list[float]
) -> None:
    project.google.buckets[DATA] = {}
    project.google.build_refusals = [source_unreadable() for _ in range(99)]
    terraform.answers(state_pull=state(MADE[0]))
    result = project.up()
    assert "does not have storage.objects.get access" in cause(result)
    assert "--image IMAGE" in result.err
    assert sum(slept) == 300


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """Return a fake Docker Hub with the base image of the control plane."""
    with fake_registry() as registry:
        monkeypatch.setenv("DET_DOCKER_HUB", registry.url)
        registry.add(f"library/{BASE}", BASE_1)
        yield registry


@pytest.fixture
def ready(project: Project, terraform: FakeTerraform, cluster: FakeCluster) -> FakeTerraform:
    """Prepare a project with an existing cluster."""
    project.google.buckets[DATA] = {}
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    return terraform


def test_rebuilds_the_image_when_its_base_changes(
    project: Project, ready: FakeTerraform, hub: FakeRegistry
) -> None:
    """The base image gets security fixes while the sources stay the same."""
    for digest, builds in ((BASE_1, 1), (BASE_1, 1), (BASE_2, 2), (BASE_2, 2), (BASE_1, 2)):
        hub.add(f"library/{BASE}", digest)
        result = project.up("--no-preflight-checks")
        assert (result.code, len(project.google.builds)) == (0, builds), result.err
    (step,) = project.google.builds[-1]["steps"]
    assert f"BASE={BASE}@{BASE_2}" in step["args"]
    assert images_of_applies(ready) == [built_digest(number) for number in (1, 1, 2, 2, 1)]


def test_a_build_has_two_valid_tags(
    project: Project, ready: FakeTerraform, hub: FakeRegistry
) -> None:
    """`docker build` creates both tags, and Cloud Build pushes them."""
    assert project.up("--no-preflight-checks").code == 0
    (build,) = project.google.builds
    (step,) = build["steps"]
    names = [word for before, word in pairwise(step["args"]) if before == "-t"]
    assert names == build["images"]
    tags = [name.rpartition(":")[2] for name in names]
    assert len(set(tags)) == 2
    assert all(re.fullmatch(TAG, tag) for tag in tags)


def test_an_unreachable_registry_does_not_stop_an_up_with_an_image(
    project: Project, ready: FakeTerraform, hub: FakeRegistry
) -> None:
    hub.add(f"library/{BASE}", BASE_2)
    assert project.up("--no-preflight-checks").code == 0
    hub.close()
    result = project.up("--no-preflight-checks")
    assert (result.code, len(project.google.builds)) == (0, 1), result.err
    (warning,) = [line for line in result.err.splitlines() if BASE in line]
    assert warning.startswith(
        f"warning: cannot check whether the base image {BASE} changed: docker.io cannot be reached"
    )
    assert images_of_applies(ready) == [built_digest(1), built_digest(1)]


def test_a_registry_that_limits_requests_does_not_stop_the_first_build(
    project: Project, ready: FakeTerraform, hub: FakeRegistry
) -> None:
    """Cloud Build pulls the base image from another address than the operator's."""
    hub.rate_limited = True
    result = project.up("--no-preflight-checks")
    assert result.code == 0, result.err
    (build,) = project.google.builds
    assert "--build-arg" not in build["steps"][0]["args"]
    assert "changed: docker.io answers 429" in result.err
    hub.rate_limited = False
    assert project.up("--no-preflight-checks").code == 0
    assert len(project.google.builds) == 2, "the first build may have had an older base"


def images_of_applies(terraform: FakeTerraform) -> list[str]:
    """Return the digest of the control plane's image in each apply of the complete stack."""
    applies = [
        call
        for call in terraform.calls("apply")
        if not any(word.startswith("-target") for word in call["words"])
    ]
    return [call["variables"]["image"].rpartition("@")[2] for call in applies]


def test_a_build_uses_the_uploaded_generation_despite_later_writes(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """Cloud Build uses one generation of an object and rejects the request if this generation was deleted."""
    google = project.google
    google.buckets[DATA] = {}
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up()
    assert result.code == 0, result.err
    (build,) = google.builds
    source = build["source"]["storageSource"]
    place = f"{source['bucket']}/{source['object']}"
    assert source["generation"] == str(google.generations[place])


def test_does_not_repeat_an_invalid_build_request(
    project: Project, terraform: FakeTerraform, slept: list[float]
) -> None:
    project.google.buckets[DATA] = {}
    project.google.build_refusals = [Refusal(400, "invalid build: build step must not be empty")]
    terraform.answers(state_pull=state(MADE[0]))
    assert "invalid build: build step must not be empty" in cause(project.up())
    assert slept == []


def test_repeats_a_build_that_may_not_push_yet(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    project.google.buckets[DATA] = {}
    project.google.builds_without_rights = 2
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up()
    assert result.code == 0, result.err
    assert len(project.google.builds) == 3


def test_waits_for_newly_enabled_apis(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster
) -> None:
    """Google's servers know some minutes late that an API is enabled, and Terraform would fail until then."""
    new = {"run", "sqladmin", "cloudresourcemanager", "compute", "cloudbuild"}
    project.google.apis -= new
    project.google.late = 2
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img")
    assert result.code == 0, result.err
    assert set(project.google._refuses.values()) == {0}


def test_reports_an_api_that_stays_disabled(
    project: Project, terraform: FakeTerraform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_cli.deployment.google._ENABLED_S", 0.0)
    project.google.apis.discard("cloudresourcemanager")
    project.google.late = 99
    result = project.up()
    assert cause(result) == "the API cloudresourcemanager is disabled in project acme"
    assert "apis/library/cloudresourcemanager.googleapis.com?project=acme" in result.err
    assert "gcloud" not in result.err
