"""A star topology of workers: the centre gathers from all workers and broadcasts to all workers."""

import os
import socket
import tempfile
import time
from typing import Any, Dict, List, Optional, Protocol, Tuple, Union

from determined.core._wire import Channel, PeerLost, encode_value

CONNECT_TIMEOUT_S = 600.0
_HELLO_TIMEOUT_S = 20.0
_HELLO_BYTES = 256
_WELCOME = "welcome"

Address = Union[Tuple[str, int], str]


class Star(Protocol):
    """The methods of both ends. Every worker must call the same methods in the same order."""

    def gather(self, value: Any) -> Optional[List[Any]]: ...

    def broadcast(self, value: Any) -> Any: ...

    def close(self) -> None: ...


class Alone:
    def gather(self, value: Any) -> Optional[List[Any]]:
        return [value]

    def broadcast(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        pass


class Centre:
    """Rank 0 of the star. The constructor binds the listener; `accept_all` waits for the other workers."""

    def __init__(self, size: int, key: bytes, address: Optional[Address] = None) -> None:
        self._size = size
        self._key = key
        self._channels: Dict[int, Channel] = {}
        self._directory: Optional[str] = None
        self._listener = self._listen(address)

    @property
    def address(self) -> Address:
        """Return the address of the listener: a host and a port, or the path of a local socket."""
        address: Address = self._listener.getsockname()
        return address

    def accept_all(self, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while len(self._channels) < self._size - 1:
            self._listener.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection, _ = self._listener.accept()
            except OSError:
                missing = sorted(set(range(1, self._size)) - set(self._channels))
                raise TimeoutError(
                    f"workers {missing} did not connect within {timeout_s:.0f} s; were all "
                    f"{self._size} of them started, and can they reach this container?"
                ) from None
            self._admit(connection)
        self._listener.close()

    def gather(self, value: Any) -> Optional[List[Any]]:
        values = [value]
        for rank in range(1, self._size):
            values.append(self._channels[rank].receive())
        return values

    def broadcast(self, value: Any) -> Any:
        kind, payload = encode_value(value)
        for channel in self._channels.values():
            channel.send_encoded(kind, payload)
        return value

    def close(self) -> None:
        self._listener.close()
        for channel in self._channels.values():
            channel.close()
        if self._directory:
            for name in os.listdir(self._directory):
                os.unlink(os.path.join(self._directory, name))
            os.rmdir(self._directory)
            self._directory = None

    def _listen(self, address: Optional[Address]) -> socket.socket:
        if isinstance(address, tuple):
            return socket.create_server(address, backlog=self._size, reuse_port=False)
        self._directory = tempfile.mkdtemp(prefix="determined-ipc-")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(os.path.join(self._directory, "local"))
        listener.listen(self._size)
        return listener

    def _admit(self, connection: socket.socket) -> None:
        """Admit a worker with a valid signature. Close other connections."""
        connection.settimeout(_HELLO_TIMEOUT_S)
        try:
            channel = Channel(_tune_socket(connection), self._key, is_server=True)
            rank = channel.receive(_HELLO_BYTES)
        except (PeerLost, OSError):
            connection.close()
            return
        if not isinstance(rank, int) or not 0 < rank < self._size or rank in self._channels:
            channel.close()
            return
        connection.settimeout(None)
        channel.send(_WELCOME)
        self._channels[rank] = channel


class Spoke:
    """Another rank of the star."""

    def __init__(
        self, rank: int, key: bytes, address: Address, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> None:
        deadline = time.monotonic() + timeout_s
        sock = _tune_socket(_dial(address, timeout_s))
        try:
            self._channel = _join(sock, rank, key, deadline)
        except PeerLost as e:
            sock.close()
            if time.monotonic() < deadline:
                raise
            raise TimeoutError(
                f"worker {rank} was not admitted at {address} within {timeout_s:.0f} s: something else "
                "listens there, or the chief of this trial waits for other workers"
            ) from e

    def gather(self, value: Any) -> Optional[List[Any]]:
        self._channel.send(value)
        return None

    def broadcast(self, value: Any) -> Any:
        return self._channel.receive()

    def close(self) -> None:
        self._channel.close()


def _join(sock: socket.socket, rank: int, key: bytes, deadline: float) -> Channel:
    """Send this worker's rank and wait until the centre admits it. A foreign server may never answer."""
    sock.settimeout(max(deadline - time.monotonic(), 0.01))
    channel = Channel(sock, key, is_server=False)
    channel.send(rank)
    if channel.receive(_HELLO_BYTES) != _WELCOME:
        raise PeerLost("the chief of this trial answered in another version of this library")
    sock.settimeout(None)
    return channel


def _dial(address: Address, timeout_s: float) -> socket.socket:
    """Connect to the centre, with retries, because it may start later than its workers."""
    deadline = time.monotonic() + timeout_s
    pause = 0.01
    while True:
        sock = _socket_for(address)
        try:
            sock.settimeout(10)
            sock.connect(address)
            sock.settimeout(None)
            return sock
        except OSError as e:
            sock.close()
            if time.monotonic() > deadline:
                raise TimeoutError(f"cannot reach the chief worker at {address}: {e}") from e
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)


def _socket_for(address: Address) -> socket.socket:
    if isinstance(address, str):
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _tune_socket(sock: socket.socket) -> socket.socket:
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock
