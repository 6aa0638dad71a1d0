"""Run containers with a Docker engine. Their labels identify them after a restart of the agent."""

import contextlib
import logging
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import docker
import urllib3
from det_controlplane.core.agent_protocol import ContainerSpec, Slot
from docker.errors import APIError, DockerException, NotFound

from det_agent import exit_reason
from det_agent.docker_engine import Engine, engine_of
from det_agent.docker_options import (
    LABEL,
    create_options,
    files_archive,
    is_owned,
    key_from,
    labels,
    needs_archive,
    ports_from,
    slot_ids_from,
)
from det_agent.docker_output import read_output
from det_agent.docker_pull import ensure_image
from det_agent.docker_usage import read_usage
from det_agent.environment import RUN_DIR
from det_agent.harness_mount import Payload, find_payload
from det_agent.host_address import HostAddresses, cgroup_parent
from det_agent.runtime import (
    ContainerKey,
    Exit,
    GatewayAddress,
    OutputLine,
    Runtime,
    Say,
    Started,
    StartFailed,
    Stream,
    Usage,
)

ENGINE_AWAY_S = 1.0
CONNECTIONS = 256
CLIENT_TIMEOUT_S = 120
NAME_PREFIX = "det-"
LOOPBACK = "127.0.0.1"
# docker's own libraries raise their own errors for broken connections. The errors of requests are OSErrors.
EngineAway = (OSError, urllib3.exceptions.HTTPError)

_log = logging.getLogger(__name__)


def connect_docker(
    agent_id: str, owner: str, cluster_id: Callable[[], str], slots: Sequence[Slot], required: bool
) -> Runtime | None:
    """Connect to the engine. Return None if no engine answers and it is not required."""
    try:
        client = docker.from_env(max_pool_size=CONNECTIONS, timeout=CLIENT_TIMEOUT_S)
        client.ping()
    except (DockerException, *EngineAway) as e:
        if required:
            raise StartFailed(
                "agent_error",
                f"no Docker engine answers ({e}): start it, or use --runtime process",
            ) from e
        return None
    return DockerRuntime(client, agent_id, cluster_id, slots, find_payload(), owner)


class DockerRuntime:
    kind: Literal["docker", "process"] = "docker"

    def __init__(
        self,
        client: Any,
        agent_id: str,
        cluster_id: Callable[[], str],
        slots: Sequence[Slot],
        payload: Payload,
        owner: str = "",
    ) -> None:
        self._client = client
        self._owner = owner
        self._agent_id = agent_id
        self._cluster_id = cluster_id
        self._slots = slots
        self._payload = payload
        self._host_addresses = HostAddresses(client)

    @cached_property
    def _engine(self) -> Engine:
        try:
            return engine_of(self._client)
        except (DockerException, *EngineAway) as e:
            raise _start_failure(e) from e

    @cached_property
    def _host_parent(self) -> str:
        try:
            return cgroup_parent(self._client)
        except (DockerException, *EngineAway) as e:
            raise _start_failure(e) from e

    def is_isolated(self, network: str) -> bool:
        return network != "host" or bool(self._host_parent)

    def host_address(self, network: str, gateway: GatewayAddress) -> str:
        return self._host_addresses.of(network, gateway)

    def check(self, gateway: GatewayAddress) -> None:
        self._host_addresses.check(gateway)

    def prepare(self, spec: ContainerSpec, say: Say, cancelled: Callable[[], bool]) -> None:
        ensure_image(self._client.api, spec, say, cancelled)

    def start(self, spec: ContainerSpec, env: Mapping[str, str]) -> Started:
        key = ContainerKey.of(spec)
        self._require_paths(spec)
        options = create_options(spec, env, self._slots, self._payload, self._host_parent)
        ports = (*spec.ports, *spec.local_ports)
        try:
            container = self._client.containers.create(
                name=_name(key),
                labels=labels(
                    key, self._agent_id, self._cluster_id(), ports, self._owner, spec.slot_ids
                ),
                **options,
            )
        except (DockerException, *EngineAway) as e:
            raise _start_failure(e) from e
        try:
            if needs_archive(spec):
                container.put_archive("/", files_archive(spec))
            container.start()
            container.reload()
        except (DockerException, *EngineAway) as e:
            self.remove(key)
            raise _start_failure(e, spec) from e
        host_ports = _host_ports(spec.network, ports, container)
        return Started(key, container.id, host_ports, spec.slot_ids)

    def _require_paths(self, spec: ContainerSpec) -> None:
        """Reject missing paths if the engine would create them, as Docker does. A new data folder would be empty."""
        missing = [m.host_path for m in spec.mounts if not os.path.exists(m.host_path)]
        if missing and self._engine.makes_missing_paths:
            words = f"this machine has no {missing[0]}, which the task mounts"
            raise StartFailed("container_failed", f"the container could not be made: {words}")

    def kill(self, key: ContainerKey) -> None:
        with contextlib.suppress(APIError, *EngineAway):
            # 404 and 409 mean that it is not running. The loop repeats the kill otherwise.
            self._client.api.kill(_name(key), "SIGKILL")

    def wait(self, started: Started) -> Exit:
        while True:
            try:
                self._client.api.wait(started.runtime_id, timeout=None)
                container = self._client.api.inspect_container(started.runtime_id)
                state = container["State"]
            except NotFound:
                return Exit(None, "the container was removed from the Docker engine")
            except (APIError, *EngineAway) as e:
                _log.debug("the Docker engine is away: %s", e)
                time.sleep(ENGINE_AWAY_S)
                continue
            if state["Status"] == "created":
                return Exit(None, "the agent was restarted before the container began")
            if not state["Running"]:
                return self._exit(started, int(state["ExitCode"]), container)

    def _exit(self, started: Started, code: int, container: Mapping[str, Any]) -> Exit:
        reason = self._exit_reason(started.runtime_id) if code else ""
        if code == exit_reason.NOT_FOUND and not reason and not self._has_begun(started.runtime_id):
            reason = exit_reason.no_python(container["Config"]["Image"])
        return Exit(code, _why(container["State"]), reason)

    def _exit_reason(self, docker_id: str) -> str:
        try:
            parts, _ = self._client.api.get_archive(docker_id, exit_reason.PATH)
            return exit_reason.of_archive(parts)
        except (APIError, tarfile.TarError, *EngineAway):
            return ""  # most tasks write no reason

    def _has_begun(self, docker_id: str) -> bool:
        """Return whether the harness ran in a container. It writes its files before anything else."""
        try:
            parts, _ = self._client.api.get_archive(docker_id, f"{RUN_DIR}/info")
            parts.close()
        except NotFound:
            return False
        except (APIError, *EngineAway):
            return True
        return True

    def output(self, started: Started, stream: Stream, cursor: str) -> Iterator[OutputLine]:
        api, docker_id = self._client.api, started.runtime_id
        while True:
            try:
                running = api.inspect_container(docker_id)["State"]["Running"]
                for line in read_output(api, docker_id, stream, cursor, follow=running):
                    cursor = line.cursor
                    yield line
                if not running:
                    return
            except NotFound:
                return
            except (APIError, *EngineAway) as e:
                _log.debug("the output of %s broke off: %s", started.key.id, e)
                time.sleep(ENGINE_AWAY_S)

    def addresses(self, started: Started, port: int) -> Sequence[tuple[str, int]]:
        """Return the container's own address first. It refuses closed ports, while the engine's proxy accepts them."""
        mapped = started.host_ports.get(port)
        if mapped is None:
            return []
        try:
            settings = self._client.api.inspect_container(started.runtime_id)["NetworkSettings"]
        except (APIError, *EngineAway):
            return []
        networks = (settings.get("Networks") or {}).values()
        own_addresses = [(n["IPAddress"], port) for n in networks if n.get("IPAddress")]
        return [*own_addresses, (LOOPBACK, mapped)]

    def usage(self, started: Started) -> Usage | None:
        try:
            return read_usage(self._client.api, started.runtime_id)
        except (DockerException, *EngineAway) as e:
            _log.debug("container %s cannot be measured now: %s", started.key.id, e)
            return None

    def adoptable(self, cluster_id: str) -> Sequence[Started]:
        mine = [f"{LABEL}agent_id={self._agent_id}", f"{LABEL}cluster_id={cluster_id}"]
        containers = self._client.containers.list(
            all=True, ignore_removed=True, filters={"label": mine}
        )
        # A restored cluster has the ids of the original cluster, which may use the same engine.
        return [
            _read_started(container)
            for container in containers
            if is_owned(container.labels, self._owner)
        ]

    def remove_leftovers(self) -> None:
        """Do nothing. The engine also lists containers that never started, and `adoptable` returns them."""

    def remove(self, key: ContainerKey) -> None:
        with contextlib.suppress(APIError, *EngineAway):
            self._client.api.remove_container(_name(key), v=True, force=True)


def _name(key: ContainerKey) -> str:
    return NAME_PREFIX + key.place


def _read_started(container: Any) -> Started:
    key = key_from(container.labels, container.attrs["Config"]["Env"] or [])
    ports = ports_from(container.labels)
    if ports is None:
        exposed = container.attrs["Config"].get("ExposedPorts") or {}
        ports = tuple(int(p.partition("/")[0]) for p in exposed)
    network = container.attrs["HostConfig"]["NetworkMode"]
    host_ports = _host_ports(network, ports, container)
    return Started(key, container.id, host_ports, slot_ids_from(container.labels))


def _host_ports(network: str, ports: Sequence[int], container: Any) -> dict[int, int]:
    if network == "host":
        return {port: port for port in ports}
    bound = container.attrs["NetworkSettings"]["Ports"] or {}
    mapped = {port: bound.get(f"{port}/tcp") for port in ports}
    return {port: int(hosts[0]["HostPort"]) for port, hosts in mapped.items() if hosts}


def _why(state: Mapping[str, Any]) -> str:
    if state.get("OOMKilled"):
        return "it ran out of memory and was killed by the kernel"
    return str(state.get("Error") or "")


def _start_failure(error: Exception, spec: ContainerSpec | None = None) -> StartFailed:
    """Blame the task's settings (paths, devices, commands) for the engine's 4xx, and this machine for other errors."""
    message = str(getattr(error, "explanation", "") or error)
    if spec is not None and "python3" in message and "not found" in message:
        return StartFailed("container_failed", exit_reason.no_python(spec.image))
    if isinstance(error, APIError) and error.status_code in (400, 404):
        return StartFailed("container_failed", f"the container could not be made: {message}")
    return StartFailed("agent_error", f"the Docker engine could not start the container: {message}")
