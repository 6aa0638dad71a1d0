"""The address of the agent for containers: reports of engines differ by version, network and age."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from det_agent.docker_engine import Reached, Unreachable, probe
from det_agent.host_address import HostAddresses, candidates
from det_agent.identity import address_towards
from det_agent.runtime import GatewayAddress, StartFailed
from docker.errors import APIError, NotFound

from tests.support.threaded import serving

OWN = address_towards("192.0.2.1")
TOKEN = "ping-token"


class Engine:
    """Answers `docker network inspect` as an engine would."""

    def __init__(self, *configs: dict[str, str], **options: str) -> None:
        self._described = {
            "Id": "0123456789abcdef",
            "IPAM": {"Config": list(configs)},
            "Options": options,
        }

    def inspect_network(self, network: str) -> dict[str, Any]:
        if network == "missing":
            raise NotFound("no such network")
        return self._described


def test_gateway_of_a_restarted_engine_is_the_first_candidate() -> None:
    engine = Engine({"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"})
    assert candidates(engine, "bridge")[0] == "172.17.0.1"


def test_subnet_gives_a_candidate_without_a_gateway() -> None:
    addresses = candidates(Engine({"Subnet": "172.30.0.0/16"}), "bridge")
    assert addresses == ["host.docker.internal", "172.30.0.1", OWN]


def test_address_of_the_bridge_interface_is_a_candidate() -> None:
    name = next(name for _, name in socket.if_nameindex() if name != "lo" and _has_address(name))
    addresses = candidates(Engine(**{"com.docker.network.bridge.name": name}), "bridge")
    assert addresses[0] == "host.docker.internal"
    assert len(addresses) >= 2


def test_gateway_with_a_prefix_length_is_an_address() -> None:
    engine = Engine({"Gateway": "10.88.0.1/16"}, {"Gateway": "fd00::1"})
    assert candidates(engine, "podman")[0] == "10.88.0.1"


def test_undescribed_network_is_tried_by_name_and_own_address() -> None:
    assert candidates(Engine(), "missing") == ["host.docker.internal", OWN]


def test_host_network_uses_loopback_or_own_address() -> None:
    assert candidates(Engine(), "host") == ["127.0.0.1", OWN]


def test_docker_desktop_has_a_name_for_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert candidates(Engine({"Gateway": "172.17.0.1"}), "bridge") == ["host.docker.internal"]


def test_missing_catatonit_of_podman_is_reported_with_the_remedy() -> None:
    """Tasks would meet the same failure, which is podman's: no file of this machine is missing."""
    words = "container-init binary not found on the host: stat /usr/libexec/podman/catatonit: no such file or directory"

    class Containers:
        def create(self, image: str, **options: Any) -> None:
            assert options["init"]
            raise APIError("500", explanation=words)

    client = SimpleNamespace(containers=Containers(), images=SimpleNamespace(get=str))
    with pytest.raises(StartFailed, match="install catatonit"):
        HostAddresses(client).of("bridge", GatewayAddress(1, TOKEN, host=OWN))


def _has_address(name: str) -> bool:
    from det_agent.host_address import _address_of_interface

    try:
        return bool(_address_of_interface(name))
    except OSError:
        return False


@pytest.fixture
def gateway() -> Iterator[GatewayAddress]:
    """A server on every address of this machine that answers pings as a gateway does."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(TOKEN.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Log no lines."""

    with HTTPServer(("0.0.0.0", 0), Answering) as server, serving(server):
        yield GatewayAddress(server.server_address[1], TOKEN)


@pytest.mark.docker
def test_containers_reach_the_agent_on_every_network(
    docker_client: Any, gateway: GatewayAddress
) -> None:
    addresses = HostAddresses(docker_client)
    network = docker_client.networks.create("det-test-host-address", driver="bridge")
    try:
        for name in ("bridge", "host", "det-test-host-address"):
            address = addresses.of(name, gateway)
            assert probe(docker_client, name, [address], gateway) == Reached(address)
    finally:
        network.remove()


@pytest.mark.docker
def test_containers_reach_the_agent_without_a_reported_gateway(
    docker_client: Any, gateway: GatewayAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspect = docker_client.api.inspect_network

    def without_gateway(name: str) -> dict[str, Any]:
        description: dict[str, Any] = inspect(name)
        for config in description["IPAM"]["Config"]:
            config.pop("Gateway", None)
        return description

    monkeypatch.setattr(docker_client.api, "inspect_network", without_gateway)
    address = HostAddresses(docker_client).of("bridge", gateway)
    assert probe(docker_client, "bridge", [address], gateway) == Reached(address)


@pytest.mark.docker
def test_closed_port_is_reported_with_the_remedy(docker_client: Any) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        closed = GatewayAddress(bound.getsockname()[1], TOKEN)
        with pytest.raises(
            StartFailed, match=r"no container on the Docker network bridge reaches"
        ) as error:
            HostAddresses(docker_client).of("bridge", closed)
    assert f"TCP port {closed.port}" in str(error.value)
    assert "container_master_host" in str(error.value)


@pytest.mark.docker
def test_another_program_at_the_port_is_not_the_gateway(
    docker_client: Any, gateway: GatewayAddress
) -> None:
    result = probe(docker_client, "bridge", [OWN], GatewayAddress(gateway.port, "another token"))
    assert isinstance(result, Unreachable)
    assert "another program answers there" in str(result)


@pytest.mark.docker
def test_configured_address_is_checked_and_used_unchanged(
    docker_client: Any, gateway: GatewayAddress
) -> None:
    addresses = HostAddresses(docker_client)
    assert addresses.of("bridge", GatewayAddress(gateway.port, TOKEN, host=OWN)) == OWN
    with pytest.raises(StartFailed, match=r"198[.]51[.]100[.]1"):
        addresses.of("bridge", GatewayAddress(gateway.port, TOKEN, host="198.51.100.1"))


@pytest.mark.docker
def test_probes_remove_their_containers(docker_client: Any, gateway: GatewayAddress) -> None:
    HostAddresses(docker_client).check(gateway)
    filters = {"label": "ai.determined.type=probe", "status": "exited"}
    assert docker_client.containers.list(all=True, filters=filters) == []
