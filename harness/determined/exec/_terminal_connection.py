"""The connection of a browser to a terminal of this task.

Both sides send frames: a letter, the length of the body (4 bytes), and the body.

A browser first sends `h`, JSON with the token, the session name and the window size. Later it sends `i` (input),
`s` (a new size) and `a` (the number of output bytes that it has displayed).

A browser receives `o` (output), `x` (the exit status), `t` (another window took over the session) and `r` (a
rejection).
"""

import contextlib
import json
import socket
import struct
import threading
import time
from typing import Any, Dict, Optional, Tuple

HELLO_S = 10.0
LONGEST_HELLO = 4096
WINDOW = 512 * 1024  # output that the browser has not displayed yet
_STUCK_S = 60
_LONGEST_FRAME = 1 << 20
_HEAD = struct.Struct(">cI")


class Connection:
    """Frames over a socket, with a count of the output that the browser has not displayed yet."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # A browser that accepts no data for this long is considered gone.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _STUCK_S, 0))
        self.sending = threading.Lock()
        self._room = threading.Condition()
        self._unshown = 0
        self._is_over = False

    def greeting(self) -> Dict[str, Any]:
        """Return the browser's first message. It must be short and arrive within HELLO_S."""
        kind, body = self.receive(LONGEST_HELLO, time.monotonic() + HELLO_S)
        self._sock.settimeout(None)
        return dict(json.loads(body)) if kind == b"h" else {}

    def receive(
        self, longest: int = _LONGEST_FRAME, deadline: Optional[float] = None
    ) -> Tuple[bytes, bytes]:
        """Return the next frame.

        Raises EOFError at the end, ValueError for an invalid frame, and OSError after the deadline.
        """
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if length > longest:
            raise ValueError("too long a frame")
        return kind, self._exactly(length, deadline)

    def _exactly(self, count: int, deadline: Optional[float]) -> bytes:
        received = bytearray()
        while len(received) < count:
            if deadline is not None:
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    raise TimeoutError
                self._sock.settimeout(remaining_s)
            part = self._sock.recv(count - len(received))
            if not part:
                raise EOFError
            received += part
        return bytes(received)

    def send(self, kind: bytes, body: bytes) -> None:
        with self.sending:
            self.send_held(kind, body)

    def send_held(self, kind: bytes, body: bytes) -> None:
        """Send while the caller holds `sending`. On failure, the receiving thread gets the end of the connection."""
        if kind == b"o":
            with self._room:
                self._unshown += len(body)
        try:
            self._sock.sendall(_HEAD.pack(kind, len(body)) + body)
        except OSError:
            self.give_up()

    def dismiss(self) -> None:
        """Notify the browser that another window took over, unless it does not accept data now."""
        if self.sending.acquire(timeout=1):
            try:
                self.send_held(b"t", b"")
            finally:
                self.sending.release()
        self.give_up()

    def shown(self, count: int) -> None:
        with self._room:
            self._unshown -= count
            self._room.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the browser displayed enough output, or the connection is closed."""
        with self._room:
            self._room.wait_for(lambda: self._is_over or self._unshown < WINDOW)

    def give_up(self) -> None:
        with self._room:
            self._is_over = True
            self._room.notify_all()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
