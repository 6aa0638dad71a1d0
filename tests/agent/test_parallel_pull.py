"""Pulls of images with large layers, over several connections."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from det_agent import parallel_pull, registry_reader
from det_agent.docker_pull import ensure_image
from det_agent.main import main
from det_agent.registry_reader import Unsuitable, source_of, split_name
from det_agent.runtime import StartFailed
from det_controlplane.core.agent_protocol import ContainerSpec
from docker.errors import NotFound

from tests.support.agents import make_spec
from tests.support.large_registry import LargeRegistry, large_registry

LAYER_BYTES = 1_000_000


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers of these tests are large, so that they need no time."""
    monkeypatch.setattr(registry_reader, "RANGE_BYTES", 64 * 1024)
    monkeypatch.setattr(parallel_pull, "LARGE_LAYER_BYTES", LAYER_BYTES)


@pytest.fixture(params=[False, True], ids=["manifest", "index"])
def registry(request: pytest.FixtureRequest, docker_client: Any) -> Iterator[LargeRegistry]:
    with large_registry(LAYER_BYTES, index=request.param) as served:
        yield served
    forget(docker_client, served)


def forget(docker_client: Any, registry: LargeRegistry) -> None:
    try:
        docker_client.images.remove(f"{registry.image}:latest", force=True)
    except NotFound:
        pass


def pull(client: Any, registry: LargeRegistry, *, cancelled: bool = False) -> list[str]:
    messages: list[str] = []
    spec = ContainerSpec.from_json(make_spec("true", image=registry.image))
    ensure_image(client.api, spec, messages.append, lambda: cancelled)
    return messages


@pytest.mark.docker
def test_large_layer_is_downloaded_once_and_in_ranges(
    docker_client: Any, registry: LargeRegistry
) -> None:
    messages = pull(docker_client, registry)
    ranges = registry.ranges_of_layer()
    assert len(ranges) == len(set(ranges)) == -(-len(registry.blobs[registry.layer]) // (64 * 1024))
    assert all(ranges)
    assert messages[-1].startswith(f"Pulled image {registry.image} in ")


@pytest.mark.docker
def test_command_pulls_each_image_and_reports_the_missing_one(
    docker_client: Any, registry: LargeRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = "127.0.0.1:1/team/none"
    assert main(["pull", missing, registry.image]) == 1
    assert all(registry.ranges_of_layer())
    output = capsys.readouterr()
    assert f"cannot pull image {missing}" in output.err
    assert f"Pulled image {registry.image} in " in output.out


@pytest.mark.docker
def test_image_has_only_its_own_name_and_digest(
    docker_client: Any, registry: LargeRegistry
) -> None:
    pull(docker_client, registry)
    image = docker_client.images.get(registry.image)
    assert image.tags == [f"{registry.image}:latest"]
    assert image.attrs["RepoDigests"] == [f"{registry.image}@{registry.top}"]


@pytest.mark.docker
def test_manifest_is_requested_as_often_as_by_the_engine_alone(docker_client: Any) -> None:
    """Docker Hub limits requests of manifests."""
    with large_registry(LAYER_BYTES) as registry:
        pull(docker_client, registry)
        names = [name for name, _ in registry.requests if name in ("latest", registry.top)]
        forget(docker_client, registry)
    with large_registry(LAYER_BYTES // 2) as registry:
        docker_client.api.pull(registry.image, tag="latest")
        alone = [name for name, _ in registry.requests if name in ("latest", registry.top)]
        forget(docker_client, registry)
    assert len(names) == len(alone)


@pytest.mark.docker
def test_range_with_missing_bytes_is_repeated(docker_client: Any) -> None:
    with large_registry(LAYER_BYTES) as registry:
        registry.broken_ranges = 2
        pull(docker_client, registry)
        assert len(registry.ranges_of_layer()) == len(set(registry.ranges_of_layer())) + 2
        forget(docker_client, registry)


@pytest.mark.docker
def test_engine_pulls_alone_if_ranges_stay_broken(docker_client: Any) -> None:
    with large_registry(LAYER_BYTES) as registry:
        registry.broken_ranges = 10_000
        pull(docker_client, registry)
        assert "" in registry.ranges_of_layer()
        assert docker_client.images.get(registry.image).tags
        forget(docker_client, registry)


@pytest.mark.docker
def test_registry_without_ranges_sends_the_whole_layer(docker_client: Any) -> None:
    with large_registry(LAYER_BYTES) as registry:
        registry.ranges = False
        pull(docker_client, registry)
        assert docker_client.images.get(registry.image).tags
        forget(docker_client, registry)


@pytest.mark.docker
def test_token_of_the_registry_is_requested_once_for_all_ranges(docker_client: Any) -> None:
    with large_registry(LAYER_BYTES) as registry:
        registry.login = "needed"
        pull(docker_client, registry)
        assert all(registry.ranges_of_layer())
        # The engine's own pull of the name has tokens of its own: one for the tag and one for its digest.
        tokens = [name for name, _ in registry.requests if name.startswith("token")]
        assert 2 <= len(tokens) <= 4
        forget(docker_client, registry)


@pytest.mark.docker
def test_small_image_is_left_to_the_engine(docker_client: Any) -> None:
    with large_registry(LAYER_BYTES // 2) as registry:
        pull(docker_client, registry)
        assert registry.ranges_of_layer() == [""]
        forget(docker_client, registry)


@pytest.mark.docker
def test_kill_ends_a_pull_in_ranges(docker_client: Any) -> None:
    with large_registry(LAYER_BYTES) as registry:
        with pytest.raises(StartFailed) as error:
            pull(docker_client, registry, cancelled=True)
        assert error.value.failure == "aborted"
        forget(docker_client, registry)


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("ubuntu", ("docker.io", "library/ubuntu", "latest")),
        ("pytorch/pytorch:2.10", ("docker.io", "pytorch/pytorch", "2.10")),
        ("localhost/a", ("localhost", "a", "latest")),
        ("ghcr.io/a/b:1@sha256:ab", ("ghcr.io", "a/b", "sha256:ab")),
        ("10.0.0.1:5000/a", ("10.0.0.1:5000", "a", "latest")),
    ],
)
def test_names_have_the_engines_defaults(image: str, parts: tuple[str, str, str]) -> None:
    assert split_name(image) == parts


def info(**registries: dict[str, Any]) -> dict[str, Any]:
    return {"RegistryConfig": {"IndexConfigs": registries}}


def test_insecure_registry_of_the_engine_is_read_without_tls() -> None:
    settings = info(**{"reg:5000": {"Secure": False}})
    assert source_of("reg:5000/a", settings, None).url == "http://reg:5000"
    assert source_of("other:5000/a", settings, None).url == "https://other:5000"


def test_mirror_of_the_engine_is_left_to_the_engine() -> None:
    settings = info(**{"docker.io": {"Mirrors": ["https://mirror/"], "Secure": True}})
    with pytest.raises(Unsuitable, match="mirror"):
        source_of("ubuntu", settings, None)


def test_podman_pulls_by_itself() -> None:
    version = {"Components": [{"Name": "Podman Engine"}]}
    api = SimpleNamespace(base_url="http+docker://localhost", version=lambda: version)
    with (
        pytest.raises(Unsuitable, match="Podman"),
        parallel_pull.served(api, "ubuntu", None),
    ):
        pass


def test_engine_that_loads_layers_on_demand_is_left_alone() -> None:
    for driver in ("stargz", "soci"):
        with pytest.raises(Unsuitable, match=f"{driver} loads layers on demand"):
            source_of("ubuntu", {"Driver": driver}, None)
