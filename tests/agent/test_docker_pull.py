"""Pulling images, from a registry of the test's own."""

from collections.abc import Iterator
from typing import Any

import pytest
from det_agent.docker_pull import Progress, ensure_image
from det_agent.runtime import NoRoom, StartFailed
from det_controlplane.core.agent_protocol import ContainerSpec
from docker.errors import ImageNotFound, NotFound

from tests.support.agents import make_spec
from tests.support.registry import Registry


@pytest.fixture
def registry(docker_client: Any) -> Iterator[Registry]:
    private = Registry("ann", "s3cret")
    yield private
    private.close()
    try:
        docker_client.images.remove(f"{private.image}:latest")
    except NotFound:
        pass


def spec_of(image: str, **changes: Any) -> ContainerSpec:
    return ContainerSpec.from_json(make_spec("true", image=image, **changes))


AUTH = {"username": "ann", "password": "s3cret"}


@pytest.mark.docker
def test_private_image_is_pulled_with_the_tasks_credentials(
    docker_client: Any, registry: Registry
) -> None:
    messages: list[str] = []
    ensure_image(
        docker_client.api,
        spec_of(registry.image, registry_auth=AUTH),
        messages.append,
        lambda: False,
    )
    assert f"{registry.image}:latest" in docker_client.images.get(f"{registry.image}:latest").tags
    assert messages[0] == f"Pulling image {registry.image}"
    assert messages[-1].startswith(f"Pulled image {registry.image} in ")


@pytest.mark.docker
def test_existing_image_is_pulled_only_if_forced(docker_client: Any, registry: Registry) -> None:
    messages: list[str] = []
    ensure_image(
        docker_client.api,
        spec_of(registry.image, registry_auth=AUTH),
        lambda text: None,
        lambda: False,
    )
    ensure_image(docker_client.api, spec_of(registry.image), messages.append, lambda: False)
    assert messages == []
    with pytest.raises(StartFailed):
        ensure_image(
            docker_client.api,
            spec_of(registry.image, force_pull=True),
            messages.append,
            lambda: False,
        )


@pytest.mark.docker
def test_image_pinned_by_tag_and_digest_is_pulled_once(
    docker_client: Any, registry: Registry
) -> None:
    pinned = f"{registry.image}:latest@{registry.digest}"
    messages: list[str] = []
    for _ in range(2):
        ensure_image(
            docker_client.api, spec_of(pinned, registry_auth=AUTH), messages.append, lambda: False
        )
    assert messages[0] == f"Pulling image {pinned}"
    assert sum(line.startswith("Pulled image") for line in messages) == 1
    docker_client.images.remove(docker_client.images.get(pinned).id, force=True)


@pytest.mark.docker
@pytest.mark.parametrize("auth", [None, {"username": "ann", "password": "wrong"}])
def test_denied_pull_is_a_pull_failure_that_names_registry_auth(
    docker_client: Any, registry: Registry, auth: dict[str, str] | None
) -> None:
    with pytest.raises(StartFailed, match=r"environment\.registry_auth") as error:
        ensure_image(
            docker_client.api,
            spec_of(registry.image, registry_auth=auth),
            lambda text: None,
            lambda: False,
        )
    assert error.value.failure == "image_pull"
    assert "wrong" not in str(error.value).replace(registry.image, "")


@pytest.mark.docker
def test_missing_tag_is_reported(docker_client: Any, registry: Registry) -> None:
    with pytest.raises(StartFailed, match="nothing-here"):
        ensure_image(
            docker_client.api,
            spec_of(f"{registry.image}:nothing-here", registry_auth=AUTH),
            lambda text: None,
            lambda: False,
        )


@pytest.mark.docker
def test_kill_ends_a_pull(docker_client: Any, registry: Registry) -> None:
    with pytest.raises(StartFailed) as error:
        ensure_image(
            docker_client.api,
            spec_of(registry.image, registry_auth=AUTH),
            lambda text: None,
            lambda: True,
        )
    assert error.value.failure == "aborted"


class Engine:
    """An engine on another machine, without an image, and with a pull that ends with an error."""

    base_url = "http://10.0.0.1:2375"

    def __init__(self, words: str) -> None:
        self._words = words

    def inspect_image(self, name: str) -> None:
        raise ImageNotFound(name)

    def pull(self, name: str, **_: Any) -> Iterator[dict[str, str]]:
        yield {"status": "Extracting", "id": "a"}
        yield {"error": self._words}


@pytest.mark.parametrize(
    ("words", "kind", "remedy"),
    [
        ("write /var/lib/docker/tmp/GetImageBlob1: no space left on device", NoRoom, "no room"),
        ("failed to register layer: Error: mkdir /a: disk quota exceeded", NoRoom, "no room"),
        ("failed to register layer: Read-only file system", NoRoom, "no room"),
        ("read /var/lib/docker: input/output error", NoRoom, "no room"),
        ("manifest for team/x:latest not found", StartFailed, r"environment\.image"),
    ],
)
def test_distinguishes_full_disks_from_missing_images(
    words: str, kind: type[StartFailed], remedy: str
) -> None:
    with pytest.raises(StartFailed, match=f"{words} .*{remedy}") as error:
        ensure_image(Engine(words), spec_of("team/x"), lambda text: None, lambda: False)
    assert type(error.value) is kind
    assert error.value.failure == "image_pull"


def test_task_without_an_image_names_the_setting() -> None:
    with pytest.raises(StartFailed, match=r"set environment\.image"):
        ensure_image(None, spec_of(""), lambda text: None, lambda: False)


def test_progress_sums_all_layers() -> None:
    progress = Progress()
    for event in (
        {"status": "Pulling from team/private", "id": "latest"},
        {"status": "Pulling fs layer", "id": "a"},
        {"status": "Pulling fs layer", "id": "b"},
        {
            "status": "Downloading",
            "id": "a",
            "progressDetail": {"current": 2_000_000, "total": 8_000_000},
        },
        {
            "status": "Downloading",
            "id": "b",
            "progressDetail": {"current": 1_000_000, "total": 4_000_000},
        },
        {"status": "Pull complete", "id": "b"},
    ):
        progress.take(event)
    assert progress.line("x") == "Pulling x: 1 of 2 layers, 6 of 12 MB downloaded"
