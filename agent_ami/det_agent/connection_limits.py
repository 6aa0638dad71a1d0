"""An HTTP server with a thread per connection, and limits so that a single caller cannot use all threads."""

import contextlib
import json
import resource
import socket
import threading
import time
from collections import Counter
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

MOST_CONNECTIONS = 2048
# Docker containers have their own addresses. Without Docker, all containers have the machine's address.
MOST_OF_ONE_CONTAINER = 256
_OTHER_FILES = 256  # containers, spools, connections to the control plane
_RETRY_AFTER_S = 5
_REFUSED_AT_ONCE = (
    32  # callers that receive an error at the same time; further connections are closed
)
_LINGER_S = 1.0


class LimitedServer(ThreadingHTTPServer):
    """Reject connections above the limits, for all callers and for each address, before they get threads."""

    request_queue_size = 256

    def __init__(self, *args: Any) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - _OTHER_FILES
        self._most = max(64, min(MOST_CONNECTIONS, room))
        self._lock = threading.Lock()
        self._refusing = threading.BoundedSemaphore(_REFUSED_AT_ONCE)
        self._held: dict[Any, str] = {}
        self._of_address: Counter[str] = Counter()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._admit(request, str(client_address[0])):
            super().process_request(request, client_address)
        elif self._refusing.acquire(blocking=False):
            threading.Thread(target=self._refuse, args=[request], daemon=True).start()
        else:
            self.shutdown_request(request)

    def _admit(self, request: Any, address: str) -> bool:
        most = self._most if _is_of_machine(address) else MOST_OF_ONE_CONTAINER
        with self._lock:
            if len(self._held) >= self._most or self._of_address[address] >= most:
                return False
            self._held[request] = address
            self._of_address[address] += 1
            return True

    def _refuse(self, request: socket.socket) -> None:
        """Send an error and read for a moment. Closing with unread bytes would reset the connection and the error."""
        ends = time.monotonic() + _LINGER_S
        try:
            with contextlib.suppress(OSError):
                request.settimeout(_LINGER_S)
                request.sendall(_TOO_MANY)
                request.shutdown(socket.SHUT_WR)
                while request.recv(65_536) and time.monotonic() < ends:
                    pass
        finally:
            self.shutdown_request(request)
            self._refusing.release()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, including a rejected one."""
        with self._lock:
            address = self._held.pop(request, None)
            if address is not None:
                self._of_address -= Counter({address: 1})
        super().shutdown_request(request)


def _is_of_machine(address: str) -> bool:
    return ip_address(address).is_loopback


_WHY = "too many connections to this machine's agent: close some, or send this again later"
_SAYS = json.dumps({"error": {"code": 14, "reason": "Unavailable", "error": _WHY}}).encode()
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: %d\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    % (_RETRY_AFTER_S, len(_SAYS), _SAYS)
)
