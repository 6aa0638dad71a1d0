"""The state directory. It gives an agent the same identity after a restart."""

import fcntl
import hashlib
import os
import secrets
import socket
import time
from pathlib import Path

CLAIM_S = 3.0


class StateDirectory:
    """Small persistent values. Other users may enter the directory (0711) but not read the files (0600)."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711)

    def claim(self) -> None:
        """Lock this directory for this process. Wait for a process that is about to end. Raises OSError."""
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
        if self.read(name) != value:  # unchanged values need no disk space
            write_atomically(self.root / name, value)

    def agent_key(self) -> str:
        """Return the secret by which the control plane recognises this agent after a restart."""
        if not self.read("agent_key"):
            self.write("agent_key", secrets.token_urlsafe(32))
        return self.read("agent_key")

    def agent_key_hash(self) -> str:
        """Return a public name for this agent."""
        return hashlib.sha256(self.agent_key().encode()).hexdigest()[:16]


def write_atomically(path: Path, value: str | bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as f:
        f.write(value.encode() if isinstance(value, str) else value)
    os.replace(partial, path)


def address_towards(host: str) -> str:
    """Return this machine's address on the route to `host`. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
