"""A network for the machines of the box: a bridge with the address of the cluster."""

import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

GATEWAY = "10.77.0.1"
METADATA = "169.254.169.254"
_CLONE_NEWNET = 0x40000000
_MAKE = f"""
set -e
ip link set lo up
# Of its own, or it would have that of the lowest machine, and nobody would find it for ten seconds when that one ends.
ip link add name br0 address 02:00:00:00:00:01 type bridge
ip addr add {GATEWAY}/16 dev br0
ip addr add {METADATA}/32 dev br0
ip link set br0 up
echo ready
read until_the_test_ends
"""

Made = TypeVar("Made")


class Network:
    """A network namespace that lives as long as the process `keeper`."""

    def __init__(self, keeper: "subprocess.Popen[str]") -> None:
        self._pid = keeper.pid
        self._plugged = 0
        self._lock = threading.Lock()

    def plug(self, pid: int) -> str:
        """Give a process's network namespace an interface `eth0` of this network; returns its address."""
        with self._lock:
            self._plugged += 1
            number = self._plugged
        inside = [
            "nsenter",
            "--net",
            f"--target={self._pid}",
            "ip",
            "link",
            "add",
            "name",
            f"m{number}",
        ]
        peer = ["type", "veth", "peer", "name", "eth0", "netns", str(pid)]
        subprocess.run([*inside, "up", "master", "br0", *peer], check=True)
        return f"10.77.{1 + number // 250}.{1 + number % 250}"

    def listen(self, address: str, port: int) -> socket.socket:
        """Return a socket of this process that listens in the network."""
        return _in_namespace(self._pid, lambda: socket.create_server((address, port)))


def _in_namespace(pid: int, make: Callable[[], Made]) -> Made:
    """Call in a thread that has entered the network namespace of a process, and ends."""
    devices: list[Made] = []

    def enter() -> None:
        with open(f"/proc/{pid}/ns/net") as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        devices.append(make())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return devices[0]


@contextmanager
def network() -> Iterator[Network]:
    keeper = subprocess.Popen(
        ["unshare", "--net", "bash", "-c", _MAKE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with keeper:
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline() == "ready\n"
            yield Network(keeper)
        finally:
            keeper.kill()
