"""The daemon of a local cluster: keeps PostgreSQL, the API and the agents alive.

`python -m det_controlplane.entry.local.server --data-dir DIR [--ready-fd N] [--detach]`
"""

import argparse
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.entry.local import certificate
from det_controlplane.entry.local.client import AGENT_PREFIX
from det_controlplane.entry.local.files import LocalAgent, LocalFiles, Secrets
from det_controlplane.entry.local.supervisor import Program, Supervisor
from det_controlplane.entry.logs import log_to_stderr
from det_controlplane.entry.settings import BadSettings

log = logging.getLogger("det.local")

LONGEST_WAIT_S = 60


@dataclass
class _Postgres:
    """The embedded server as something to keep alive."""

    server: EmbeddedPostgres
    name: str = "postgres"

    @property
    def pid(self) -> int | None:
        return self.server.pid

    def start(self) -> None:
        self.server.start()

    def running(self) -> bool:
        return self.server.running()

    def stop(self) -> None:
        self.server.stop()


class LocalCluster:
    def __init__(self, files: LocalFiles) -> None:
        self._files = files
        self._desired = files.desired()
        self._secrets: Secrets = files.secrets()
        self._supervisor = Supervisor(self._write_report)
        self._agents: dict[str, LocalAgent] = {}
        self._listening: socket.socket | None = None
        self._started_at = time.time()

    def run(self, ready: Callable[[str], None]) -> None:
        try:
            if not self._desired.master_url:
                self._start_control_plane()
            self._match_agents()
            self._supervisor.run(on_hangup=self._read_again, on_hearing=lambda: ready("ready"))
        finally:
            # Together, and before the API: their last words are about their containers.
            self._supervisor.stop_together({AGENT_PREFIX + name for name in self._agents})
            self._supervisor.stop_together({"api"})
            self._supervisor.stop()

    def _start_control_plane(self) -> None:
        # Open as long as we live: while the API restarts, its callers wait, not refused.
        self._listening = _bind(self._desired.host, self._desired.port)
        database_url = self._desired.database_url
        postgres = None if database_url else EmbeddedPostgres(self._files.database)
        if postgres is not None:
            postgres.choose_port()
            database_url = postgres.url()
        # The API loads its code while PostgreSQL starts.
        self._supervisor.keep(self._api(database_url, self._listening.fileno()))
        if postgres is not None:
            self._supervisor.keep(_Postgres(postgres))

    def _api(self, database_url: str, listen_fd: int) -> Program:
        environment = {
            "DET_DB_URL": database_url,
            "DET_CLUSTER_CONFIG": str(self._files.cluster_config),
            "DET_OBJECTS": str(self._files.objects),
            "DET_OBJECTS_SECRET": self._secrets.objects_secret,
            "DET_PUBLIC_URL": self._desired.url,
            "DET_BOOTSTRAP_TOKEN": self._secrets.bootstrap_token,
            "DET_SECRETS_KEY": self._secrets.secrets_key,
            "DET_MAY_WAIT_S": str(LONGEST_WAIT_S),
            "DET_TLS_CERT": self._desired.tls_cert,
            "DET_TLS_KEY": self._desired.tls_key,
            "DET_LISTEN_FD": str(listen_fd),
            "DET_DIE_WITH_PARENT": "1",
        }
        command = [sys.executable, "-m", "det_controlplane.entry.server.api_server"]
        # The API ignores the folder. Process listings show by it which cluster the process belongs to.
        command += [str(self._files.folder)]
        log_file = self._files.log("api")
        return Program(
            "api", command, log_file, environment=environment, pass_fds=[listen_fd], ties=True
        )

    def _read_again(self) -> None:
        self._desired = self._files.desired()
        self._match_agents()

    def _match_agents(self) -> None:
        agents = {a.name: a for a in self._desired.agents}
        for name, agent in list(self._agents.items()):
            if agents.get(name) != agent:
                del self._agents[name]
                self._supervisor.drop(AGENT_PREFIX + name)
        for name, agent in agents.items():
            if name not in self._agents:
                self._agents[name] = agent
                self._supervisor.keep(self._agent(agent))

    def _agent(self, agent: LocalAgent) -> Program:
        state = self._files.agent_state(agent.name)
        state.mkdir(parents=True, exist_ok=True)
        options = {
            "--master-url": self._desired.url,
            "--agent-id": agent.name,
            "--resource-pool": agent.pool,
            "--slots": agent.slots,
            "--container-runtime": agent.runtime,
            "--state-dir": str(state),
            "--token-file": str(self._files.token),
            "--on-stop": "kill",
        }
        trusted = self._desired.master_cert_sha256
        if self._desired.tls_cert:
            trusted = certificate.fingerprint(Path(self._desired.tls_cert))
        if trusted:
            options["--security-tls-master-cert-sha256"] = trusted
        flags = [part for option in options.items() for part in option]
        command = [sys.executable, "-m", "det_agent.main", "run", *flags]
        name = AGENT_PREFIX + agent.name
        return Program(name, command, self._files.log(name))

    def _write_report(self) -> None:
        processes = self._supervisor.kept()
        report: dict[str, Any] = {
            "url": self._desired.url,
            "started_at": self._started_at,
            "processes": {k.name: k.pid for k in processes},
        }
        self._files.write_report(report)


def _bind(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as e:
        raise OSError(
            f"cannot listen on {host}:{port}: {e.strerror}; choose another --master-port"
        ) from e
    listening.listen(512)
    return listening


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="local_server")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--ready-fd", type=int)
    parser.add_argument("--detach", action="store_true", help="run as a daemon")
    options = parser.parse_args(argv)
    if options.detach and os.fork():
        os._exit(0)
    files = LocalFiles(options.data_dir)
    ready = _teller(options.ready_fd)
    try:
        log_to_stderr(os.environ, "%(asctime)s %(levelname)s %(message)s")
    except BadSettings as e:
        ready(f"failed: {e}")
        return 1
    holder = files.hold()
    if holder is None:
        ready(f"failed: process {files.supervisor_pid()} already runs this cluster")
        return 1
    try:
        LocalCluster(files).run(ready)
    except Exception as e:
        log.exception("the cluster did not start")
        # The next process may start as soon as the parent reads this.
        holder.close()
        ready(f"failed: {e}")
        return 1
    return 0


def _teller(fd: int | None) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if fd is not None:
            try:
                os.write(fd, line.encode() + b"\n")
                os.close(fd)
            except OSError:
                log.info("no process reads the start message: %s", line)

    return tell


if __name__ == "__main__":
    sys.exit(main())
