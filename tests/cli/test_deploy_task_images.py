"""`det deploy aws|gcp up` checks the default task images in their registries before it creates resources."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from det_cli.deployment import registry
from det_cli.deployment.registry import BadImageName, Existence, ImageName, Login
from det_controlplane.core.config.environment import CUDA_IMAGE, ROCM_IMAGE

from tests.cli.conftest import Det
from tests.support.aws_account import Account
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_registry import DIGEST, FakeRegistry, Style, fake_registry
from tests.support.fake_terraform import FakeTerraform
from tests.support.google_project import MADE, Project, cause, outputs, state
from tests.support.ports import free_port

OTHER_DIGEST = "sha256:" + "6" * 64


@pytest.fixture
def images() -> Iterator[FakeRegistry]:
    with fake_registry() as fake:
        fake.add("team/train:1")
        yield fake


def ask(images: FakeRegistry, name: str, login: Login | None = None) -> registry.Lookup:
    return registry.look_up(ImageName.parse(f"{images.host}/{name}"), login)


@pytest.mark.parametrize("style", ["hub", "ghcr", "acr", "open"])
def test_registries_return_the_digest_of_a_public_image_to_anonymous_callers(style: Style) -> None:
    with fake_registry(style) as images:
        images.add("team/train:1")
        lookup = ask(images, "team/train:1")
        assert (lookup.existence, lookup.digest) == (Existence.FOUND, DIGEST)
        assert ask(images, f"team/train@{DIGEST}").existence is Existence.FOUND
        assert ask(images, f"team/train:moved@{DIGEST}").existence is Existence.FOUND


def test_downloads_no_manifest(images: FakeRegistry) -> None:
    ask(images, "team/train:1")
    assert [method for method, path in images.requests if "/manifests/" in path] == ["HEAD", "HEAD"]


@pytest.mark.parametrize("style", ["hub", "ghcr", "acr", "open"])
def test_a_missing_tag_or_digest_does_not_exist(style: Style) -> None:
    with fake_registry(style) as images:
        images.add("team/train:1")
        for name in ("team/train:2", f"team/train@{OTHER_DIGEST}"):
            missing = ask(images, name)
            assert missing.existence is Existence.MISSING
            assert missing.reason == f"{images.host} answers 404"


@pytest.mark.parametrize("style", ["hub", "ghcr", "basic"])
def test_a_private_repository_is_denied_without_a_login(style: Style) -> None:
    with fake_registry(style) as images:
        images.add("team/secret:1", login="ann:s3cret")
        response = ask(images, "team/secret:1")
        assert response.existence is Existence.DENIED
        assert response.reason.endswith("the repository does not exist, or needs a login")
        assert ask(images, "team/secret:1", Login("ann", "s3cret")).existence is Existence.FOUND


def test_a_missing_repository_looks_like_a_private_repository(images: FakeRegistry) -> None:
    assert ask(images, "team/none:1").existence is Existence.DENIED


def test_a_rate_limit_or_an_unreachable_registry_gives_an_unknown_result(
    images: FakeRegistry,
) -> None:
    images.rate_limited = True
    limited = ask(images, "team/train:1")
    assert limited.existence is Existence.UNKNOWN
    assert "answers 429: too many requests" in limited.reason
    dead = registry.look_up(ImageName.parse(f"127.0.0.1:{free_port()}/team/train:1"))
    assert dead.existence is Existence.UNKNOWN
    assert "cannot be reached" in dead.reason


def test_does_not_send_the_login_to_the_host_of_a_redirect(images: FakeRegistry) -> None:
    with fake_registry("basic") as other_registry:
        other_registry.add("team/train:1", login="ann:s3cret")
        images.redirects_to = other_registry.url
        assert ask(images, "team/train:1", Login("ann", "s3cret")).existence is Existence.DENIED


@pytest.mark.parametrize(
    ("name", "registry_", "repository", "reference"),
    [
        ("ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("pytorch/pytorch:2.1", "docker.io", "pytorch/pytorch", "2.1"),
        ("docker.io/ubuntu:24.04", "docker.io", "library/ubuntu", "24.04"),
        ("localhost:5000/a/b:c", "localhost:5000", "a/b", "c"),
        ("europe-docker.pkg.dev/p/r/i:1", "europe-docker.pkg.dev", "p/r/i", "1"),
        (f"quay.io/a/b:c@{DIGEST}", "quay.io", "a/b", DIGEST),
    ],
)
def test_completes_image_names_as_container_engines_do(
    name: str, registry_: str, repository: str, reference: str
) -> None:
    parsed = ImageName.parse(name)
    assert (parsed.registry, parsed.repository) == (registry_, repository)
    assert parsed.manifest_url.endswith(f"/v2/{repository}/manifests/{reference}")


@pytest.mark.parametrize(
    "name", ["Team/train:1", "team/train:", "team/train@sha256:12", "a//b", ""]
)
def test_rejects_image_names_that_container_engines_reject(name: str) -> None:
    with pytest.raises(BadImageName):
        ImageName.parse(name)


@pytest.mark.parametrize("image", [CUDA_IMAGE, ROCM_IMAGE])
def test_the_built_in_defaults_are_pinned_by_tag_and_digest(image: str) -> None:
    name = ImageName.parse(image)
    assert name.tag
    assert name.digest.startswith("sha256:")


def test_up_reports_a_missing_image_with_a_hint(
    det: Det, account: Account, terraform: FakeTerraform, images: FakeRegistry
) -> None:
    image = f"{images.host}/team/train:gone"
    result = det("deploy", "aws", "up", "--yes", *account.where, "--gpu-env-image", image)
    assert result.code == 1
    assert (
        f"tasks of compute-pool would use the image {image}, which does not exist: {images.host} answers 404"
        in result.err
    )
    assert "--cpu-env-image and --gpu-env-image" in result.err
    assert terraform.calls("init") == []


def test_a_dry_run_shows_which_registry_has_the_images(
    det: Det, account: Account, terraform: FakeTerraform, images: FakeRegistry
) -> None:
    image = f"{images.host}/team/train:1"
    result = det("deploy", "aws", "up", "--dry-run", *account.where, "--cpu-env-image", image)
    assert result.code == 0, result.err
    assert f"Tasks of compute-pool and aux-pool use the image {image}; {images.host}" in result.err
    assert f"Tasks of compute-pool use the image {CUDA_IMAGE}; docker.io has it" in result.err


def test_disabled_checks_send_no_requests_to_registries(
    det: Det, account: Account, terraform: FakeTerraform, images: FakeRegistry
) -> None:
    image_option = ("--cpu-env-image", f"{images.host}/team/train:gone")
    result = det(
        "deploy", "aws", "up", "--dry-run", "--no-preflight-checks", *account.where, *image_option
    )
    assert result.code == 0, result.err
    assert images.requests == []


def test_warns_about_an_image_that_cannot_be_checked(
    project: Project, terraform: FakeTerraform, cluster: FakeCluster, images: FakeRegistry
) -> None:
    images.rate_limited = True
    image = f"{images.host}/team/train:1"
    terraform.answers(output=outputs(cluster), state_pull=state(MADE[0]))
    result = project.up("--image", "img", "--cpu-env-image", image)
    assert result.code == 0, result.err
    assert f"warning: the image {image} could not be checked" in result.err


def test_a_missing_image_stops_a_deployment_on_google_cloud(
    project: Project, terraform: FakeTerraform, images: FakeRegistry
) -> None:
    result = project.up("--image", "img", "--cpu-env-image", f"{images.host}/team/train:2")
    assert cause(result).endswith(f"which does not exist: {images.host} answers 404")
    assert terraform.calls("init") == []


def test_a_default_image_that_left_docker_hub_stops_a_deployment(
    det: Det, account: Account, terraform: FakeTerraform, images: FakeRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Docker Hub answers 401 for a repository that does not exist. Machines pull without a login."""
    monkeypatch.setenv("DET_DOCKER_HUB", images.url)
    result = det("deploy", "aws", "up", "--yes", *account.where)
    assert result.code == 1
    assert f"tasks of compute-pool and aux-pool cannot pull the image {CUDA_IMAGE}" in result.err
    assert "docker.io answers 401: the repository does not exist, or needs a login" in result.err
    assert "--cpu-env-image and --gpu-env-image" in result.err
    assert "registry_auth" in result.err
    assert terraform.calls("init") == []


def test_a_private_image_of_docker_hub_needs_a_configured_login(
    det: Det, account: Account, terraform: FakeTerraform, images: FakeRegistry, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("DET_DOCKER_HUB", images.url)
    images.add("team/secret:1", login="ann:s3cret")
    config = tmp_path / "master.yaml"
    up = ("deploy", "aws", "up", "--dry-run", *account.where, "--config", config)
    image = "image: team/secret:1"
    config.write_text(f"task_container_defaults: {{{image}}}")
    assert "cannot pull the image team/secret:1" in det(*up).err
    # The check cannot use a login in this form, but machines can.
    config.write_text(
        f"task_container_defaults: {{{image}, registry_auth: {{auth: YW5uOnMzY3JldA==}}}}"
    )
    result = det(*up)
    assert (result.code, "could not be checked" in result.err) == (0, True), result.err


def test_uses_the_configured_login_only_for_its_registry(
    det: Det, account: Account, terraform: FakeTerraform, images: FakeRegistry, tmp_path: Path
) -> None:
    images.add("team/secret:1", login="ann:s3cret")
    config = tmp_path / "master.yaml"
    login = "{username: ann, password: s3cret, serveraddress: SERVER}"
    text = (
        f"task_container_defaults: {{image: {images.host}/team/secret:1, registry_auth: {login}}}"
    )
    config.write_text(text.replace("SERVER", images.host))
    up = ("deploy", "aws", "up", "--dry-run", *account.where, "--config", config)
    assert f"{images.host} has it" in det(*up).err
    config.write_text(text.replace("SERVER", "registry.example.com"))
    assert "needs a login" in det(*up).err
