"""Send items between the machines of a trial. One process of each machine serves them.

All messages have a signature with the secret of the trial's run.
"""

import contextlib
import os
import socket
import threading
from dataclasses import asdict
from typing import Any, Dict, List, Optional, Tuple

from determined.core._wire import Channel, PeerLost
from determined.replicas._slots import DATA_AT, Folder, Header

Address = Tuple[str, int]


class NoRoom(RuntimeError):
    """The other machine has no memory for a copy."""


_PIECE = 4 * 1024 * 1024
_MAX_MESSAGE = 2 * _PIECE
_CONNECT_S = 30.0
_SILENCE_S = 120.0
_STORED = "stored"


class ItemServer:
    """Stores copies of items for the machine before this one, and returns items to restarted ranks."""

    def __init__(self, folder: Folder, key: bytes, host: str) -> None:
        self._folder = folder
        self._key = key
        self._listener = socket.create_server(("", 0), backlog=64)
        self.address: Address = (host, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="replicas", daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(_CONNECT_S)
                channel = Channel(connection, self._key, is_server=True)
                request = channel.receive(_MAX_MESSAGE)
                connection.settimeout(None)
                while True:
                    self._answer(channel, request["call"], Header(**request["header"]))
                    request = channel.receive(_MAX_MESSAGE)
            except (PeerLost, OSError, TypeError, KeyError):
                return  # the rank has ended, or a foreign program connected

    def _answer(self, channel: Channel, call: str, header: Header) -> None:
        if call == "get":
            content = self._folder.read(header)
            channel.send(content is not None)
            if content is not None:
                _send_content(channel, content)
            return
        try:
            slot = self._folder.slot(header.item, header.sequence)
            memory = slot.reserve(header.data + header.skeleton)
        except OSError as e:
            # The rank sends the content anyway, because it does not wait for an answer before.
            _drop_content(channel, header)
            channel.send(f"cannot store a copy of {header.item}: {os.strerror(e.errno or 0)}")
            return
        _receive_content(channel, memory, DATA_AT, header)
        slot.commit(header)
        channel.send(_STORED)


class ItemClient:
    """A connection to the server of another machine, which is opened by the first call."""

    def __init__(self, address: Address, key: bytes) -> None:
        self._address = address
        self._key = key
        self._channel: Optional[Channel] = None
        self._socket: Optional[socket.socket] = None

    def store(self, header: Header, content: Any) -> None:
        """Store an item on the other machine. Raises PeerLost, and NoRoom."""
        channel = self._open()
        channel.send({"call": "store", "header": asdict(header)})
        _send_content(channel, content)
        answer = channel.receive(_MAX_MESSAGE)
        if answer != _STORED:
            raise NoRoom(str(answer))

    def fetch(self, header: Header) -> Optional[bytearray]:
        """Return the content of an item, or None if the other machine does not have it any more."""
        channel = self._open()
        channel.send({"call": "get", "header": asdict(header)})
        if not channel.receive(_MAX_MESSAGE):
            return None
        content = bytearray(header.data + header.skeleton)
        _receive_content(channel, content, 0, header)
        return content

    def close(self) -> None:
        """Close the connection. A call in another thread raises PeerLost."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _open(self) -> Channel:
        if self._channel is None:
            try:
                connection = socket.create_connection(self._address, _CONNECT_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(_SILENCE_S)
                self._socket = connection
                self._channel = Channel(connection, self._key, is_server=False)
            except OSError as e:
                raise PeerLost(f"cannot reach the replicas at {self._address[0]}: {e}") from e
        return self._channel


class Clients:
    """The connections of this process, by machine."""

    def __init__(self, addresses: Dict[int, Address], key: bytes) -> None:
        self._addresses = addresses
        self._key = key
        self._clients: Dict[int, ItemClient] = {}

    def to(self, machine: int) -> ItemClient:
        if machine not in self._clients:
            self._clients[machine] = ItemClient(self._addresses[machine], self._key)
        return self._clients[machine]

    def close(self) -> None:
        clients: List[ItemClient] = list(self._clients.values())
        self._clients = {}
        for client in clients:
            client.close()


def _send_content(channel: Channel, content: Any) -> None:
    with memoryview(content) as view:
        for start in range(0, len(view), _PIECE):
            channel.send(bytes(view[start : start + _PIECE]))


def _receive_content(channel: Channel, target: Any, start: int, header: Header) -> None:
    position, end = start, start + header.data + header.skeleton
    while position < end:
        piece = channel.receive(_MAX_MESSAGE)
        if not isinstance(piece, bytes) or position + len(piece) > end:
            raise PeerLost("a piece of a replica has a wrong size")
        target[position : position + len(piece)] = piece
        position += len(piece)


def _drop_content(channel: Channel, header: Header) -> None:
    remaining = header.data + header.skeleton
    while remaining > 0:
        remaining -= len(channel.receive(_MAX_MESSAGE))
