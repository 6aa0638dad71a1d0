"""A PostgreSQL server that runs as a child process and stops with its parent."""

import contextlib
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from det_controlplane.adapters import postgres_binaries as binaries

SUPERUSER = "postgres"
_START_S = 60.0
_STOP_S = 30.0
_MAX_SOCKET_PATH = 90  # systems allow 103 to 107 bytes, and the server appends its file name

# Stops the server when the pipe from the parent closes, which also happens if the parent crashes.
_WATCHDOG = 'read server; read closed; kill -INT "$server" 2>/dev/null'

# A crashed server exits and its supervisor restarts it, because PostgreSQL's own restart can hang on a full disk.
_SMALL = {
    "shared_buffers": "16MB",
    "max_connections": "64",
    "max_wal_size": "256MB",
    "restart_after_crash": "off",
}
_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresFailed(Exception):
    """The server did not start. The message contains the end of its log."""


class EmbeddedPostgres:
    """A server for a data directory. The data is persistent, and a second server for it is rejected."""

    def __init__(self, data_dir: Path, *, port: int = 0, throwaway: bool = False) -> None:
        self.home = binaries.home_for(data_dir)
        self.data = self.home / "postgres"
        self.port = port
        self.log = self.home / "postgres.log"
        self._settings = {**_SMALL, **(_THROWAWAY if throwaway else {})}
        self._bin = binaries.find_binaries()
        self._server: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def url(self, database: str = SUPERUSER) -> str:
        """Return the URL for processes of the same user. It uses a socket, which needs no password."""
        file = f"{self._socket_dir()}/.s.PGSQL.{self.port}"
        return f"postgresql://{SUPERUSER}@localhost/{database}?unix_sock={quote(file)}"

    def tcp_url(self, database: str = SUPERUSER) -> str:
        """Return the URL for TCP on loopback, with the password."""
        password = (self.home / "postgres.password").read_text().strip()
        return f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int | None:
        return self._server.pid if self._server else None

    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def is_initialised(self) -> bool:
        """Return whether the directory contains a database."""
        return (self.data / "PG_VERSION").exists()

    def choose_port(self) -> None:
        """Choose a free port, so that the URL is known before the start."""
        self.port = self.port or _free_port()

    def find_running(self) -> bool:
        """Use the port of another process's server for this directory. Return False without such a server."""
        try:
            lines = (self.data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        if len(lines) <= 7 or lines[7].strip() != "ready":
            return False
        self.port = int(lines[3])
        return True

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.is_initialised():
            self._initialise()
        self._clear_stale_lock()
        self.choose_port()
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG], stdin=subprocess.PIPE, start_new_session=True, cwd="/"
        )
        with self.log.open("ab") as log:
            self._server = self._spawn(self._command(), stdout=log, stderr=log)
        self._write_to_watchdog(f"{self._server.pid}\n")
        self._wait_until_ready()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            if server.poll() is None:
                server.send_signal(signal.SIGINT)
            try:
                server.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                server.send_signal(signal.SIGQUIT)
                server.wait(_STOP_S)
        self._dismiss_watchdog()

    def __enter__(self) -> "EmbeddedPostgres":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _initialise(self) -> None:
        """Create the data directory under a temporary name and rename it, so that a partial one is never used."""
        fresh = self.home / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        password = self.home / "postgres.password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(16) + "\n")
        self._own(self.home, fresh, password)
        command: list[str | Path] = [
            self._bin / "initdb",
            "-D",
            fresh,
            "-U",
            SUPERUSER,
            f"--pwfile={password}",
        ]
        command += ["--auth-local=trust", "--auth-host=scram-sha-256", "--no-locale"]
        command += ["-E", "UTF8", "--no-sync", "--no-instructions"]
        process = self._spawn(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate()
        if process.returncode != 0:
            raise PostgresFailed(f"initdb failed in {fresh}: {output.decode(errors='replace')}")
        fresh.rename(self.data)

    def _command(self) -> list[str | Path]:
        sockets = self._socket_dir()
        sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._own(sockets, self.log)
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(sockets),
            "unix_socket_permissions": "0700",
            **self._settings,
        }
        options = [o for name, value in settings.items() for o in ("-c", f"{name}={value}")]
        return [self._bin / "postgres", "-D", self.data, "-p", str(self.port), *options]

    def _socket_dir(self) -> Path:
        beside = self.home / "sockets"
        if len(str(beside)) <= _MAX_SOCKET_PATH:
            return beside
        digest = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"det-postgres-{os.getuid()}-{digest}"

    def _spawn(self, command: list[str | Path], **streams: Any) -> subprocess.Popen[bytes]:
        identity: dict[str, Any] = {}
        prefix: tuple[str, ...] = ()
        if binaries.runs_as_nobody():
            nobody = pwd.getpwnam("nobody")
            identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        elif os.geteuid() == 0:
            prefix = binaries.user_namespace()
        arguments = [*prefix, *map(str, command)]
        # A new session, because Ctrl-C in the terminal must not stop the server before its clients.
        return subprocess.Popen(
            arguments,
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **identity,
            **streams,
        )

    def _own(self, *paths: Path) -> None:
        if binaries.runs_as_nobody():
            nobody = pwd.getpwnam("nobody")
            for path in filter(Path.exists, paths):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)

    def _clear_stale_lock(self) -> None:
        """Remove the lock file of a dead server. Its process id may belong to another process now."""
        lock = self.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            lock.unlink(missing_ok=True)
            return
        if self._is_our_server(pid):
            # The watchdog lets a server outlive its owner for the time of a shutdown.
            _wait_gone(pid, _STOP_S / 2)
            if self._is_our_server(pid):
                raise PostgresFailed(
                    f"another PostgreSQL (process {pid}) works on {self.data}: stop it with"
                    f" `kill -INT {pid}`, or use another data directory"
                )
        lock.unlink(missing_ok=True)

    def _is_our_server(self, pid: int) -> bool:
        listed = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return str(self.data) in listed.stdout

    def _wait_until_ready(self) -> None:
        lock, limit = self.data / "postmaster.pid", time.monotonic() + _START_S
        while time.monotonic() < limit:
            if not self.running():
                break
            with contextlib.suppress(FileNotFoundError):
                lines = lock.read_text().split("\n")
                if len(lines) > 7 and lines[7].strip() == "ready":
                    return
            time.sleep(0.005)
        self.stop()
        raise PostgresFailed(f"PostgreSQL did not start; {self.log} ends with:\n{_tail(self.log)}")

    def _write_to_watchdog(self, line: str) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.write(line.encode())
            self._watchdog.stdin.flush()

    def _dismiss_watchdog(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.kill()
            watchdog.wait()
            if watchdog.stdin is not None:
                watchdog.stdin.close()


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait_gone(pid: int, seconds: float) -> None:
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    return "\n".join(lines[-8:])
