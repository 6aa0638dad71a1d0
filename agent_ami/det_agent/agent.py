"""The agent process: it creates the parts of the agent and runs until it is stopped."""

import logging
import queue
import secrets
import socket
import subprocess
import threading
import time
import uuid
from urllib.parse import urlsplit

from det_controlplane.core.agent_protocol import ContainerSpec, JoinAnswer, JoinRequest
from det_controlplane.core.interface import INTERFACE_VERSION, PRODUCT_VERSION
from determined.common.blocking import hearing_signals
from determined.common.connections import Connections
from determined.common.http import Session

from det_agent import other_cloud
from det_agent.boot_spans import BootSpans
from det_agent.client import ControlPlane
from det_agent.containers import ContainerDependencies, Containers
from det_agent.data_cache import DataCache
from det_agent.data_sets import DataSets, NoDataSets
from det_agent.data_stores import StoreDependencies
from det_agent.data_web import Web
from det_agent.environment import AgentEnvironment
from det_agent.gateway import Gateway, GatewayDependencies
from det_agent.gpus import LOOK_S, GpuNotices, Gpus
from det_agent.harness_mount import find_payload, link_payload
from det_agent.health import Health
from det_agent.identity import StateDirectory, address_towards
from det_agent.links import read_links
from det_agent.log_limits import LogLimits
from det_agent.loop import AgentReplaced, ControlPlaneSilent, Loop, LoopDependencies
from det_agent.notices import Signals, SignalSource, machine_is_stopping
from det_agent.process_runtime import ProcessRuntime
from det_agent.proofs import proof_of
from det_agent.relay import RelayConnection
from det_agent.replicas import Replicas
from det_agent.report_delivery import ReportDelivery
from det_agent.resources import ResourceMeter
from det_agent.runtime import ContainerKey, ContainerSessions, GatewayAddress, Runtime
from det_agent.settings import Settings
from det_agent.shipper import LogShipper
from det_agent.slots import discover
from det_agent.spool import Spool, SpoolFull
from det_agent.task_logs import agent_line
from det_agent.trial_reports import TrialReports

LOOPBACK = "127.0.0.1"
# How long the report of a container's end waits for the delivery of its last log lines.
LAST_WORDS_S = 10.0
FLUSH_S = 2.0  # the same for an agent that is stopping
KILL_S = 5.0

_log = logging.getLogger(__name__)


class Agent:
    def __init__(self, settings: Settings, sources: tuple[SignalSource, ...] = ()) -> None:
        self._settings = settings
        self._is_rented = bool(sources)
        self._state = StateDirectory(settings.state_dir)
        self._state.claim()
        slots = discover(settings.slots, settings.visible_gpus, exclude_gpus=settings.exclude_gpus)
        self._gpu_links = read_links(slots)
        self._slots = self._gpu_links.with_nodes(slots)
        self._cluster = (self._state.read("cluster_id"), self._state.read("master_id"))
        self._changed = threading.Event()
        self._ends: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        session = Session(settings.master_url, retries=0, **settings.trust)
        self._control_plane = ControlPlane(session)
        self._sessions = ContainerSessions()
        self._spool = Spool(self._state.folder("spool"))
        self._logs = LogLimits(
            self._spool, settings.agent_id, settings.log_lines_s, settings.log_bytes_s
        )
        self._shipper = LogShipper(self._spool, self._control_plane)
        self._upstream = Connections(settings.master_url, **settings.trust)
        delivery = ReportDelivery(self._upstream, lambda: self._control_plane.token)
        self._reports = TrialReports(self._state.folder("reports"), delivery, self._log_refusal)
        self._lent = other_cloud.credentials_of(settings)
        self._leaving = False
        self._replicas = Replicas(self._state.agent_key_hash())
        self._runtime = self._make_runtime()
        self._data = self._make_data()
        self._ping_token = secrets.token_urlsafe(16)
        self._gateway = self._make_gateway()
        self._gpus = Gpus(self._slots)
        self._health = Health(
            self._check_runtime,
            self._changed.set,
            look=self._gpus.check if self._gpus.are_checked else None,
            look_s=LOOK_S,
        )
        if (
            sources and self._gpus.are_checked
        ):  # other machines can take over the work of a rented machine
            sources = (*sources, GpuNotices(self._gpus, self._health))
        self._signals = Signals(sources, self._changed.set)
        self._address = self._find_address()
        self._containers = Containers(
            self._container_dependencies(), settings.agent_id, self._changed.set
        )
        self._meter = ResourceMeter(self._runtime, self._containers.running, self._slots)
        self._relay = RelayConnection(
            settings.master_url,
            settings.trust,
            lambda: self._control_plane.token,
            self._containers.addresses,
        )
        self._loop = Loop(self._loop_dependencies(), self._changed)

    def run(self) -> None:
        """Run until `stop` is called. Call this on the main thread, which receives signals.

        Raises AgentReplaced if another process took over, ControlPlaneSilent after too long without an answer."""
        self._shipper.start()
        self._reports.start()
        # Do this before the gateway starts, because the gateway rejects unknown containers.
        self._adopt()
        self._gateway.start()
        self._health.check()
        self._health.start()
        self._signals.start()
        self._meter.start()
        threading.Thread(target=self._converse, name="loop", daemon=True).start()
        ended = hearing_signals(self._ends.get)
        if isinstance(ended, ControlPlaneSilent):
            self._connection_lost()
        elif not isinstance(ended, AgentReplaced):
            self._leave()
        self._loop.stop()
        self._meter.stop()
        self._relay.stop()
        self._health.stop()
        self._gateway.stop()
        self._reports.stop()
        self._data.close()
        if ended is not None:
            raise ended

    def stop(self) -> None:
        """End `run`. Signal handlers and other threads may call this."""
        self._ends.put(None)

    def _converse(self) -> None:
        try:
            self._loop.run()
        except BaseException as e:
            self._ends.put(e)

    def _leave(self) -> None:
        self._leaving = True
        kill = self._settings.on_stop == "kill"
        if kill or machine_is_stopping():
            grace_s = self._settings.stop_grace
            self._signals.raise_shutdown(within_s=grace_s)
            if self._loop.in_contact:
                # The cluster asks the trials to save a checkpoint and exit.
                self._containers.wait_until_ended(grace_s)
        if kill:
            self._containers.kill_all("the agent is being stopped")
            self._containers.wait_until_ended(KILL_S)
            self._replicas.drop(self._replicas.tasks())
        if self._signals.current():
            gone = kill and self._is_done()
            if gone:  # the control plane would reject later polls, and the agent would join again
                self._loop.stop()
            self._loop.last_report(gone=gone)
        self._signals.stop()
        self._shipper.stop(FLUSH_S)

    def _is_done(self) -> bool:
        """Return whether no container runs and all logs are sent.

        This is never true on a rented machine. The end of a process does not end such a machine."""
        return (
            not self._is_rented
            and not self._containers.live()
            and self._loop.in_contact
            and self._shipper.flush(FLUSH_S)
        )

    def _connection_lost(self) -> None:
        command = self._settings.on_connection_lost
        if command:
            _log.error("the cluster is silent: running %s", command[0])
            subprocess.run(command, check=False)

    def _adopt(self) -> None:
        self._runtime.remove_leftovers()
        cluster_id = self._cluster[0]
        if cluster_id:
            adoptable = self._runtime.adoptable(cluster_id)
            self._data.keep([started.key for started in adoptable])
            for started in adoptable:
                self._containers.adopt(started)

    def _log_refusal(self, key: ContainerKey, text: str) -> None:
        try:
            self._spool.append([agent_line(key, self._settings.agent_id, text, "ERROR")])
        except SpoolFull as e:
            _log.error("the log of container %s lacks this line (%s): %s", key.id, e, text)

    def _on_joined(self, answer: JoinAnswer) -> None:
        self._cluster = (answer.cluster_id, answer.master_id)
        self._state.write("cluster_id", answer.cluster_id)
        self._state.write("master_id", answer.master_id)

    def _make_runtime(self) -> Runtime:
        from det_agent.docker_runtime import connect_docker

        if self._settings.runtime != "process":
            docker = connect_docker(
                self._settings.agent_id,
                self._state.agent_key_hash(),
                lambda: self._cluster[0],
                self._slots,
                required=self._settings.runtime == "docker",
            )
            if docker is not None:
                return docker
        links = link_payload(find_payload(), self._state.folder("payload", 0o755))
        containers = self._state.folder("containers", 0o711)
        return ProcessRuntime(
            containers, lambda: self._cluster[0], self._slots, *links, self._settings.task_python
        )

    def _make_data(self) -> DataSets | NoDataSets:
        settings = self._settings
        if settings.data_cache_size == 0:
            return NoDataSets("data_cache_size of this agent is 0")
        web = Web(may_use_loopback=self._runtime.kind == "process")
        may_use_buckets = settings.identity == "token" or settings.container_credentials != "none"
        stores = StoreDependencies(web, self._lent, may_use_buckets)
        try:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
            settings.data_dir.chmod(0o711)
            cache = DataCache(settings.data_dir.absolute(), settings.data_cache_size or 0)
        except OSError as e:
            _log.error("this agent has no data cache: %s", e)
            return NoDataSets(f"this agent has no data cache: {e}")
        return DataSets(cache, stores, self._changed.set)

    def _make_gateway(self) -> Gateway:
        dependencies = GatewayDependencies(
            self._settings.agent_id,
            self._sessions,
            self._logs,
            self._reports,
            self._upstream,
            self._ping_token,
            self._lent,
            data=self._data,
        )
        bind_ip = self._settings.bind_ip or (
            LOOPBACK if self._runtime.kind == "process" else "0.0.0.0"
        )
        # Running containers use the port of the previous agent process.
        previous_port = int(self._state.read("gateway_port") or 0)
        gateway = _listen(dependencies, bind_ip, self._settings.bind_port, previous_port)
        self._state.write("gateway_port", str(gateway.port))
        return gateway

    def _find_address(self) -> str:
        towards_master = address_towards(urlsplit(self._settings.master_url).hostname or LOOPBACK)
        if self._runtime.kind == "docker" and towards_master.startswith("127."):
            # A container cannot reach its host's loopback, so use the address for other machines.
            return address_towards("8.8.8.8")
        return towards_master

    def _gateway_address(self) -> GatewayAddress:
        settings = self._settings
        port = settings.container_master_port or self._gateway.port
        return GatewayAddress(port, self._ping_token, settings.container_master_host)

    def _check_runtime(self) -> None:
        self._gpus.check()
        self._runtime.check(self._gateway_address())

    def _environment(self, spec: ContainerSpec) -> AgentEnvironment:
        host = self._runtime.host_address(spec.network, self._gateway_address())
        return AgentEnvironment(
            agent_id=self._settings.agent_id,
            runtime=self._runtime.kind,
            master_host=host,
            master_port=self._gateway_address().port,
            slots=self._slots,
            cluster_id=self._cluster[0],
            master_id=self._cluster[1],
            proxies=self._settings.proxies,
            shared_credentials=self._shared_credentials(spec),
        )

    def _shared_credentials(self, spec: ContainerSpec) -> tuple[str, ...]:
        """Return the clouds for which a container may request credentials, except a cloud that it reaches directly."""
        reached = "" if self._runtime.is_isolated(spec.network) else self._settings.identity
        return tuple(cloud for cloud in self._lent if cloud != reached)

    def _container_dependencies(self) -> ContainerDependencies:
        return ContainerDependencies(
            runtime=self._runtime,
            sessions=self._sessions,
            logs=self._spool,
            limits=self._logs,
            reports=self._reports,
            cursors=self._state.folder("cursors"),
            address=self._address,
            environment=self._environment,
            health=self._health,
            data=self._data,
            flush_logs=lambda: self._shipper.flush(FLUSH_S if self._leaving else LAST_WORDS_S),
            replicas=self._replicas,
            boot=BootSpans(self._settings.agent_id),
            keep_exited=self._settings.keep_exited,
        )

    def _loop_dependencies(self) -> LoopDependencies:
        joining = self._join_request()
        return LoopDependencies(
            control_plane=self._control_plane,
            containers=self._containers,
            sessions=self._sessions,
            signals=self._signals,
            health=self._health,
            join_request=joining,
            proof=proof_of(self._settings, joining),
            on_joined=self._on_joined,
            pace_logs=self._shipper.pace,
            has_unsent=self._spool.has_unsent,
            want_relay=self._relay.set_address,
            data_cache=self._data.report,
            samples=self._meter,
            replicas=self._replicas,
            silence_limit_s=self._settings.shutdown_after_silence,
        )

    def _join_request(self) -> JoinRequest:
        return JoinRequest(
            agent_id=self._settings.agent_id,
            agent_key=self._state.agent_key(),
            incarnation=str(uuid.uuid4()),
            pool=self._settings.resource_pool,
            version=INTERFACE_VERSION,
            product_version=PRODUCT_VERSION,
            hostname=socket.gethostname(),
            addresses=(self._address,),
            runtime=self._runtime.kind,
            slots=self._slots,
            links=self._gpu_links.links,
        )


def _listen(
    dependencies: GatewayDependencies, bind_ip: str, wanted: int, previous_port: int
) -> Gateway:
    if wanted or not previous_port:
        return Gateway(dependencies, bind_ip, wanted)
    for _ in range(20):
        try:
            return Gateway(dependencies, bind_ip, previous_port)
        except OSError:
            # The previous process may release the port in a moment.
            time.sleep(0.1)
    _log.warning(
        "port %d is taken: containers that know it lose their way to the cluster", previous_port
    )
    return Gateway(dependencies, bind_ip, 0)
