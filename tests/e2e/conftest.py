"""Local clusters for the end-to-end tests: one a runtime, shared by a file's tests."""

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import Cluster, local_cluster

RUNTIMES = ["process", pytest.param("docker", marks=pytest.mark.docker)]

# The start of a command does not depend on its runtime, so tests of it need one runtime.
in_processes = pytest.mark.parametrize("cluster", ["process"], indirect=True, scope="module")

# `make test` runs a test only in processes if other tests cover the differences of Docker.
REPEATED = pytest.mark.heavy("runs in Docker again what runs in processes")
in_docker_on_demand = pytest.mark.parametrize(
    "cluster",
    ["process", pytest.param("docker", marks=(pytest.mark.docker, REPEATED))],
    indirect=True,
    scope="module",
)


@dataclass(frozen=True)
class Layout:
    """The settings of a file's clusters."""

    agents: int = 1
    slots: int = 4
    task_defaults: Mapping[str, Any] = field(default_factory=lambda: {"image": "det-test:latest"})
    config: Mapping[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def layout() -> Layout:
    """A file with other clusters overrides this fixture."""
    return Layout()


Start = Callable[[str], Cluster]


@contextmanager
def default_clusters(folders: pytest.TempPathFactory) -> Iterator[Start]:
    """Return a cluster of each runtime with the default layout. It starts at its first use."""
    started_clusters: dict[str, Cluster] = {}
    with ExitStack() as ends:

        def start(runtime: str) -> Cluster:
            if runtime not in started_clusters:
                started_clusters[runtime] = ends.enter_context(_cluster(runtime, Layout(), folders))
            return started_clusters[runtime]

        yield start


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Share clusters between the files of a worker; a file that changes its cluster has a fixture of this name."""
    with default_clusters(tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="module", params=RUNTIMES)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, layout: Layout
) -> Iterator[Cluster]:
    """A cluster that runs containers as processes, and one that runs them in Docker."""
    if request.param == "docker":
        request.getfixturevalue("test_image")
    if layout == Layout():
        clusters: Start = request.getfixturevalue("clusters")
        yield clusters(request.param)
        return
    with _cluster(request.param, layout, tmp_path_factory) as running_cluster:
        yield running_cluster


@contextmanager
def _cluster(runtime: str, layout: Layout, folders: pytest.TempPathFactory) -> Iterator[Cluster]:
    config = yaml.safe_dump(
        {"task_container_defaults": dict(layout.task_defaults), **layout.config}
    )
    with local_cluster(
        folders.mktemp(runtime),
        runtime=runtime,
        agents=layout.agents,
        slots=layout.slots,
        config=config,
    ) as running_cluster:
        yield running_cluster


@pytest.fixture(scope="session")
def test_image() -> None:
    """The image of the tests, on an engine that runs."""
    from tests.support.docker import docker_engine
    from tests.support.docker_image import docker_image

    # The docker library leaves its sockets to the garbage collector.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        client = docker_engine()
        docker_image(client)
        client.close()
        del client
        gc.collect()


@pytest.fixture
def exact() -> Path:
    return Path(__file__).parent / "exact"


@dataclass(frozen=True)
class Held:
    """The training of `exact`, which waits after step 20 until `let_on()` or a preemption."""

    code: Path
    config: Path
    gate: Path

    def let_on(self) -> None:
        self.gate.touch()


@pytest.fixture
def held(exact: Path, tmp_path: Path) -> Held:
    # In every container the gate has the path that it has here.
    gate = tmp_path / "gate" / "open"
    gate.parent.mkdir()
    config = yaml.safe_load((exact / "single.yaml").read_text())
    config["environment"] = {"environment_variables": [f"EXACT_GATE={gate}"]}
    folder = str(gate.parent)
    config["bind_mounts"] = [{"host_path": folder, "container_path": folder}]
    path = tmp_path / "held.yaml"
    path.write_text(yaml.safe_dump(config))
    return Held(exact, path, gate)
