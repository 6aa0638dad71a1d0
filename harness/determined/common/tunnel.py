"""TCP connections to proxied ports of tasks, through the cluster."""

import contextlib
import json
import socket
import threading
from typing import Any, Callable, Iterator, List, Mapping
from urllib.parse import quote, urlsplit

from determined.common.connections import Connections
from determined.common.failures import Failure
from determined.common.http import Session, SignInFailed

# With this subprotocol, an empty message means that one side has finished sending.
SUBPROTOCOL = "tcp.determined"
_BLOCK = 64 * 1024
_OPEN_S = 60.0
_RESTARTS = 1012  # the close code of a proxy that restarts
_CREDENTIALS = ("authorization", "grpc-metadata-x-allocation-token")
_TRUST = ("cert_file", "verify", "server_hostname", "fingerprint")
Say = Callable[[str], None]


@contextlib.contextmanager
def websocket_to(session: Session, service: str) -> Iterator[Any]:
    """Open a websocket to a service, `<task>` or `<task>:<port>`, and close it when the block ends. Raises Failure."""
    try:
        from websockets.exceptions import InvalidStatus, WebSocketException
        from websockets.sync.client import connect
    except ImportError as e:
        raise Failure(
            f"a tunnel needs the package websockets: {e}", "pip install websockets"
        ) from e
    trust = {name: session.options[name] for name in _TRUST}
    parts = urlsplit(session.base_url)
    # The socket already has TLS, verified with the session's certificates. The websocket itself is therefore ws://.
    address = f"ws://{parts.netloc}{parts.path}/proxy/{quote(service, safe=':')}/"
    headers = {n: v for n, v in session.headers.items() if n.lower() != "accept-encoding"}
    with contextlib.ExitStack() as stack:
        try:
            connecting = connect(
                address,
                sock=Connections(session.base_url, **trust).dial(_OPEN_S),
                additional_headers=headers,
                subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
                compression=None,
                max_size=None,
                open_timeout=_OPEN_S,
                ping_interval=None,
                user_agent_header=None,
            )
            websocket = stack.enter_context(connecting)
        except (OSError, WebSocketException, EOFError, ValueError) as e:
            # The exception for a redirect has the response in its cause or context.
            for cause in (e, e.__cause__, e.__context__):
                if isinstance(cause, InvalidStatus):
                    raise _refusal(cause.response, headers) from e
            raise Failure(f"cannot reach {session.base_url}: {e}") from e
        yield websocket


def carry(
    websocket: Any,
    read: Callable[[int], bytes],
    write: Callable[[bytes], Any],
    end: Callable[[], None],
) -> None:
    """Copy bytes in both directions until the task closes its side. `end` is called after the last `write`."""
    from websockets.exceptions import ConnectionClosed

    reading = threading.Thread(target=_send, args=(websocket, read), daemon=True)
    reading.start()
    ended = False
    try:
        for message in websocket:
            if message:
                write(message)
            elif not ended:
                ended = True
                end()
    except ConnectionClosed as e:
        if e.rcvd is not None and e.rcvd.code == _RESTARTS:
            raise Failure(
                "the cluster was brought up to date, and ended the connection to the task",
                "open it again: the programs in the task keep running",
            ) from e
        raise Failure(f"the connection to the task broke: {e}") from e
    finally:
        if not ended:
            with contextlib.suppress(OSError):
                end()
        websocket.close()


def _send(websocket: Any, read: Callable[[int], bytes]) -> None:
    from websockets.exceptions import ConnectionClosed

    with contextlib.suppress(ConnectionClosed, OSError):
        part = read(_BLOCK)
        while part:
            websocket.send(part)
            part = read(_BLOCK)
        if websocket.subprotocol == SUBPROTOCOL:
            websocket.send(b"")
        else:
            websocket.close()


@contextlib.contextmanager
def listening(session: Session, service: str, host: str, port: int, say: Say) -> Iterator[int]:
    """Listen on a local port and forward each connection to the service. Yield the port."""
    try:
        listener = socket.create_server((host, port))
    except OSError as e:
        raise Failure(f"cannot listen at {host}:{port}: {e.strerror}") from e
    connections = _TunnelConnections(session, service, say)
    accepting = threading.Thread(target=connections.accept, args=(listener,), daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        connections.close()
        accepting.join()


class _TunnelConnections:
    """The connections that a listener accepted. A thread forwards each of them."""

    def __init__(self, session: Session, service: str, say: Say) -> None:
        self._session, self._service, self._say = session, service, say
        self._lock = threading.Lock()
        self._open: List[Any] = []

    def accept(self, listener: socket.socket) -> None:
        threads: List[threading.Thread] = []
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                break
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threads = [thread for thread in threads if thread.is_alive()]
            threads.append(threading.Thread(target=self._forward, args=(sock,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        with self._lock:
            websockets = list(self._open)
        for websocket in websockets:
            websocket.close()

    def _forward(self, sock: socket.socket) -> None:
        try:
            with sock, websocket_to(self._session, self._service) as websocket:
                self._carry(sock, websocket)
        except Failure as e:
            self._say(with_hint(e))
        except OSError:
            pass  # the local program closed its connection

    def _carry(self, sock: socket.socket, websocket: Any) -> None:
        with self._lock:
            self._open.append(websocket)
        try:
            carry(websocket, sock.recv, sock.sendall, lambda: sock.shutdown(socket.SHUT_WR))
        finally:
            with self._lock:
                self._open.remove(websocket)
            with contextlib.suppress(OSError):
                # Wake the thread that reads from this socket.
                sock.shutdown(socket.SHUT_RDWR)


def with_hint(failure: Failure) -> str:
    return f"{failure.cause}\nhint: {failure.hint}" if failure.hint else failure.cause


def _refusal(response: Any, headers: Mapping[str, str]) -> Failure:
    """Return the error for a response that does not open a websocket. Redirects would leak the token, so they fail."""
    if response.status_code == 401 and not any(n.lower() in _CREDENTIALS for n in headers):
        return SignInFailed(
            "only users who are signed in reach this port",
            "add --auth: `python -m determined.cli.tunnel --auth …` signs you in",
        )
    try:
        return Failure(str(json.loads(bytes(response.body))["error"]["error"]))
    except (ValueError, KeyError, TypeError):
        status = response.status_code
        return Failure(f"the cluster refused the connection with status {status}")
