"""The state directory, which makes an agent the same agent after a restart."""

import fcntl
import hashlib
import os
import secrets
import socket
import time
from pathlib import Path

CLAIM_S = 3.0


class StateDirectory:
    """Small values that outlive the process. Others may pass through (0711) but read nothing (0600)."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711)

    def claim(self) -> None:
        """Lock this directory for this process, after waiting for one that is just ending. Raises OSError."""
        self._lock = open(self.root / "lock", "w")  # noqa: SIM115
        deadline = time.monotonic() + CLAIM_S
        while True:
            try:
                return fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(
                        f"the state directory {self.root} belongs to a running agent: "
                        "stop that one, or give this one another --state-dir"
                    ) from None
                time.sleep(0.1)

    def folder(self, name: str, mode: int = 0o700) -> Path:
        path = self.root / name
        path.mkdir(exist_ok=True)
        path.chmod(mode)
        return path

    def read(self, name: str) -> str:
        try:
            return (self.root / name).read_text().strip()
        except FileNotFoundError:
            return ""

    def write(self, name: str, value: str) -> None:
        if self.read(name) != value:  # a full disk is no trouble where nothing changes
            write_atomically(self.root / name, value)

    def agent_key(self) -> str:
        """Return the secret by which the control plane recognises this agent after a restart."""
        if not self.read("agent_key"):
            self.write("agent_key", secrets.token_urlsafe(32))
        return self.read("agent_key")

    def agent_key_hash(self) -> str:
        """Return a name that identifies this agent and may be shown."""
        return hashlib.sha256(self.agent_key().encode()).hexdigest()[:16]


def write_atomically(path: Path, value: str | bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as f:
        f.write(value.encode() if isinstance(value, str) else value)
    os.replace(partial, path)


def address_towards(host: str) -> str:
    """Return this machine's address on the way to `host`: the kernel picks a route, no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
