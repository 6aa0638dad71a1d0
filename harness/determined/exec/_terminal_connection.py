"""The connection of a browser to a terminal of this task.

Both sides send frames: a letter, the length of the rest as four bytes, and the rest. A browser begins with `h`, JSON
with the token, the name of its session and the size of its window; then `i` is input, `s` a new size, `a` how many
bytes of output it has shown. It gets `o`, output; `x`, the exit status; `t`, another window took the session; `r`, a
refusal.
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
WINDOW = 512 * 1024  # output that a browser has not shown yet
_STUCK_S = 60
_LONGEST_FRAME = 1 << 20
_HEAD = struct.Struct(">cI")


class Connection:
    """Frames over a socket, and how much of the output the browser has shown."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # A browser that takes nothing for so long is gone.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _STUCK_S, 0))
        self.sending = threading.Lock()
        self._room = threading.Condition()
        self._unshown = 0
        self._is_over = False

    def greeting(self) -> Dict[str, Any]:
        """Return the browser's first message, which has to be short and to be complete in time."""
        kind, body = self.receive(LONGEST_HELLO, time.monotonic() + HELLO_S)
        self._sock.settimeout(None)
        return dict(json.loads(body)) if kind == b"h" else {}

    def receive(
        self, longest: int = _LONGEST_FRAME, deadline: Optional[float] = None
    ) -> Tuple[bytes, bytes]:
        """Return the next frame.

        Raises EOFError at the end, ValueError for what is no frame, OSError after the deadline.
        """
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size, deadline))
        if length > longest:
            raise ValueError("too long a frame")
        return kind, self._exactly(length, deadline)

    def _exactly(self, count: int, deadline: Optional[float]) -> bytes:
        got = bytearray()
        while len(got) < count:
            if deadline is not None:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                self._sock.settimeout(left_s)
            part = self._sock.recv(count - len(got))
            if not part:
                raise EOFError
            got += part
        return bytes(got)

    def send(self, kind: bytes, body: bytes) -> None:
        with self.sending:
            self.send_held(kind, body)

    def send_held(self, kind: bytes, body: bytes) -> None:
        """Send by a caller that holds `sending`; where that fails, the receiving thread sees the end."""
        if kind == b"o":
            with self._room:
                self._unshown += len(body)
        try:
            self._sock.sendall(_HEAD.pack(kind, len(body)) + body)
        except OSError:
            self.give_up()

    def dismiss(self) -> None:
        """Tell the browser, if it accepts data just now, that another window has taken over."""
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
        """Wait until the browser keeps up, or is gone."""
        with self._room:
            self._room.wait_for(lambda: self._is_over or self._unshown < WINDOW)

    def give_up(self) -> None:
        with self._room:
            self._is_over = True
            self._room.notify_all()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
