"""Find the addresses at which containers reach this machine, and prove them with a container.

A single source is not enough: a new engine may report no gateway for its bridge, a rootless engine has its own network
namespace, and Docker Desktop runs containers in a virtual machine.
"""

import contextlib
import fcntl
import ipaddress
import logging
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, NotFound

from det_agent.docker_engine import (
    HOST_GATEWAY_NAME,
    NO_INIT,
    Reached,
    Unproven,
    Unreachable,
    probe,
)
from det_agent.identity import address_towards
from det_agent.runtime import GatewayAddress, StartFailed

DEFAULT_NETWORK = "bridge"
_BRIDGE_OPTION = "com.docker.network.bridge.name"
_SIOCGIFADDR = 0x8915
# No packet is sent to this address. The kernel only selects the interface to other machines.
_ELSEWHERE = "192.0.2.1"

_log = logging.getLogger(__name__)


class HostAddresses:
    """The proven address of this machine for each Docker network. Addresses are cached."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._proven: dict[tuple[str, GatewayAddress], str] = {}

    def of(self, network: str, gateway: GatewayAddress) -> str:
        """Return the proven address. Raises StartFailed if no container on the network reaches the gateway."""
        with self._lock:
            if (network, gateway) not in self._proven:
                self._proven[network, gateway] = self._prove(network, gateway)
            return self._proven[network, gateway]

    def check(self, gateway: GatewayAddress) -> str:
        """Prove the default network again. Raises StartFailed."""
        with self._lock:
            self._proven.clear()
        return self.of(self._default_network(), gateway)

    def _default_network(self) -> str:
        """Return the bridge, or the host's network if the engine has no bridge."""
        try:
            self._client.api.inspect_network(DEFAULT_NETWORK)
        except NotFound:
            networks = {n["Name"] for n in self._client.api.networks()}
            return "host" if "host" in networks and "podman" not in networks else DEFAULT_NETWORK
        except (DockerException, OSError) as e:
            raise StartFailed("agent_error", f"the Docker engine does not answer: {e}") from e
        return DEFAULT_NETWORK

    def _prove(self, network: str, gateway: GatewayAddress) -> str:
        addresses = [gateway.host] if gateway.host else candidates(self._client.api, network)
        try:
            result = probe(self._client, network, addresses, gateway)
        except (DockerException, OSError) as e:
            cause = str(getattr(e, "explanation", "") or e)
            remedy = "; install catatonit" if NO_INIT in cause else ""
            raise StartFailed(
                "agent_error", f"the Docker engine could not start a container: {cause}{remedy}"
            ) from e
        match result:
            case Reached(address):
                # Keep the operator's spelling, because it may be the name in a certificate.
                _log.info("containers on network %s reach this agent at %s", network, address)
                return gateway.host or address
            case Unproven(reason):
                _log.warning("cannot prove that containers reach %s: %s", addresses[0], reason)
                return addresses[0]
            case Unreachable():
                raise StartFailed("agent_error", _unreachable(network, gateway, result))


def candidates(api: Any, network: str) -> list[str]:
    """Return addresses at which containers may reach this machine, most likely first."""
    own = address_towards(_ELSEWHERE)
    if network == "host":
        return ["127.0.0.1", own]
    if sys.platform == "darwin":
        return [HOST_GATEWAY_NAME]
    addresses = [*_named_by_engine(api, network), own]
    return list(dict.fromkeys(address for address in addresses if not address.startswith("127.")))


def _named_by_engine(api: Any, network: str) -> Iterator[str]:
    try:
        description = api.inspect_network(network)
    except (APIError, OSError):
        yield HOST_GATEWAY_NAME
        return
    configs = (description.get("IPAM") or {}).get("Config") or []
    for config in configs:
        gateway = str(config.get("Gateway") or "").partition("/")[0]
        if gateway and ":" not in gateway:
            yield gateway
    yield HOST_GATEWAY_NAME
    bridge = (description.get("Options") or {}).get(
        _BRIDGE_OPTION
    ) or f"br-{description['Id'][:12]}"
    with contextlib.suppress(OSError):
        yield _address_of_interface(bridge)
    for config in configs:
        with contextlib.suppress(ValueError, KeyError, StopIteration):
            subnet = ipaddress.IPv4Network(config["Subnet"], strict=False)
            yield str(next(subnet.hosts()))


def _address_of_interface(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        request = struct.pack("256s", name.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)[20:24])


def _unreachable(network: str, gateway: GatewayAddress, result: Unreachable) -> str:
    return (
        f"no container on the Docker network {network} reaches this agent at port {gateway.port} ({result}):"
        f" let this machine's firewall accept TCP port {gateway.port} from containers,"
        " or set container_master_host to an address that they reach"
    )


SLICE = Path("/run/determined-slice")


def cgroup_parent(client: Any) -> str:
    """Return the control group in which the engine must start containers in the host's network.

    It is '' if these containers may reach the metadata service. Raises DockerException or OSError."""
    try:
        slice_name = SLICE.read_text().strip()
    except FileNotFoundError:
        return ""
    info = client.info()
    if str(info.get("CgroupVersion")) != "2":
        return ""  # only cgroup v2 can distinguish sockets
    return slice_name if info.get("CgroupDriver") == "systemd" else f"/{slice_name}"
