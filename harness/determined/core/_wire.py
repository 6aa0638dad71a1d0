"""Authenticated messages between the workers of one trial, over a stream socket.

A frame is: length (8 bytes), HMAC-SHA256 (32 bytes), kind (1 byte), payload. The HMAC covers the connection's
nonce, the direction and a counter, so frames cannot be forged, replayed or reordered. Values that JSON reproduces
exactly are sent as JSON. Other values are pickled, and unpickled only after the HMAC was verified.
"""

import hashlib
import hmac
import json
import os
import pickle
import socket
import struct
from typing import Any, Tuple

_HEAD = struct.Struct("!Q32sc")
NONCE_BYTES = 16


class PeerLost(ConnectionError):
    """A worker of this trial closed its connection, or sent data without a valid signature."""


def encode_value(value: Any) -> Tuple[bytes, bytes]:
    if is_exact_json(value):
        return b"J", json.dumps(value).encode()
    return b"P", pickle.dumps(value, protocol=4)


def decode_value(kind: bytes, payload: bytes) -> Any:
    return json.loads(payload) if kind == b"J" else pickle.loads(payload)


def is_exact_json(value: Any) -> bool:
    """Return whether a round trip through JSON returns the same value with the same types."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return True
    if kind is list:
        return all(is_exact_json(v) for v in value)
    if kind is dict:
        return all(type(k) is str and is_exact_json(v) for k, v in value.items())
    return False


class Channel:
    """End of an authenticated connection."""

    def __init__(self, sock: socket.socket, key: bytes, *, is_server: bool) -> None:
        self._sock = sock
        self._key = key
        self._sent = 0
        self._received = 0
        self._send_tag, self._receive_tag = (b"S", b"C") if is_server else (b"C", b"S")
        if is_server:
            self._nonce = os.urandom(NONCE_BYTES)
            sock.sendall(self._nonce)
        else:
            self._nonce = self._read(NONCE_BYTES)

    def send(self, value: Any) -> None:
        self.send_encoded(*encode_value(value))

    def send_encoded(self, kind: bytes, payload: bytes) -> None:
        mac = self._mac(self._send_tag, self._sent, kind, payload)
        self._sent += 1
        try:
            self._sock.sendall(_HEAD.pack(len(payload), mac, kind))
            self._sock.sendall(payload)
        except OSError as e:
            raise PeerLost(f"a worker of this trial is gone: {e}") from e

    def receive(self, max_bytes: int = 1 << 40) -> Any:
        length, mac, kind = _HEAD.unpack(self._read(_HEAD.size))
        if length > max_bytes:
            raise PeerLost(f"a message of {length} bytes came where {max_bytes} are allowed")
        payload = self._read(length)
        expected = self._mac(self._receive_tag, self._received, kind, payload)
        if not hmac.compare_digest(mac, expected):
            raise PeerLost("a message was not signed with this allocation's token")
        self._received += 1
        return decode_value(kind, payload)

    def close(self) -> None:
        self._sock.close()

    def _mac(self, direction: bytes, counter: int, kind: bytes, payload: bytes) -> bytes:
        mac = hmac.new(self._key, self._nonce + direction + kind, hashlib.sha256)
        mac.update(struct.pack("!Q", counter))
        mac.update(payload)
        return mac.digest()

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        view = memoryview(buffer)
        position = 0
        while position < size:
            try:
                count = self._sock.recv_into(view[position:])
            except OSError as e:
                raise PeerLost(f"a worker of this trial is gone: {e}") from e
            if count == 0:
                raise PeerLost("a worker of this trial closed its connection; look at its logs")
            position += count
        return bytes(buffer)
