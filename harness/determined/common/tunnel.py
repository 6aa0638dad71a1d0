"""TCP connections to the proxied ports of tasks, through the cluster."""

import contextlib
import json
import socket
import threading
from typing import Any, Callable, Iterator, List, Mapping
from urllib.parse import quote, urlsplit

from determined.common.connections import Connections
from determined.common.failures import Failure, SignInFailed
from determined.common.http import Session

# Offered to the cluster: an empty message then tells that one side sends no more.
SUBPROTOCOL = "tcp.determined"
_BLOCK = 64 * 1024
_OPEN_S = 60.0
_RESTARTS = 1012  # what carries traffic starts again
_CREDENTIALS = ("authorization", "grpc-metadata-x-allocation-token")
_TRUST = ("cert_file", "verify", "server_hostname", "fingerprint")
Say = Callable[[str], None]


@contextlib.contextmanager
def websocket_to(session: Session, service: str) -> Iterator[Any]:
    """Lend a websocket to a service, `<task>` or `<task>:<port>`. Raises Failure."""
    try:
        from websockets.exceptions import InvalidStatus, WebSocketException
        from websockets.sync.client import connect
    except ImportError as e:
        raise Failure(
            f"a tunnel needs the package websockets: {e}", "pip install websockets"
        ) from e
    trust = {name: session.options[name] for name in _TRUST}
    parts = urlsplit(session.base_url)
    # TLS is done already, with the certificates that a session trusts.
    address = f"ws://{parts.netloc}{parts.path}/proxy/{quote(service, safe=':')}/"
    signed = {n: v for n, v in session.headers.items() if n.lower() != "accept-encoding"}
    with contextlib.ExitStack() as stack:
        try:
            connecting = connect(
                address,
                sock=Connections(session.base_url, **trust).dial(_OPEN_S),
                additional_headers=signed,
                subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
                compression=None,
                max_size=None,
                open_timeout=_OPEN_S,
                ping_interval=None,
                user_agent_header=None,
            )
            websocket = stack.enter_context(connecting)
        except (OSError, WebSocketException, EOFError, ValueError) as e:
            # Of a redirect, which cannot be followed, the answer is what this came from.
            for found in (e, e.__cause__, e.__context__):
                if isinstance(found, InvalidStatus):
                    raise _refusal(found.response, signed) from e
            raise Failure(f"cannot reach {session.base_url}: {e}") from e
        yield websocket


def carry(
    websocket: Any,
    read: Callable[[int], bytes],
    write: Callable[[bytes], Any],
    end: Callable[[], None],
) -> None:
    """Carry bytes both ways until the task's side has ended; `end` is called at the end of what is written."""
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
                "open it again: what runs in the task goes on",
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
    """Take connections at a port of this machine, each of which goes to the service; give the port."""
    try:
        listener = socket.create_server((host, port))
    except OSError as e:
        raise Failure(f"cannot listen at {host}:{port}: {e.strerror}") from e
    doors = _TunnelConnections(session, service, say)
    accepting = threading.Thread(target=doors.accept, args=(listener,), daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        doors.close()
        accepting.join()


class _TunnelConnections:
    """The connections that a listener took, each carried by a thread."""

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
            self._say(told(e))
        except OSError:
            pass  # the program at this end is gone

    def _carry(self, sock: socket.socket, websocket: Any) -> None:
        with self._lock:
            self._open.append(websocket)
        try:
            carry(websocket, sock.recv, sock.sendall, lambda: sock.shutdown(socket.SHUT_WR))
        finally:
            with self._lock:
                self._open.remove(websocket)
            with contextlib.suppress(OSError):
                # What reads from it is woken.
                sock.shutdown(socket.SHUT_RDWR)


def told(failure: Failure) -> str:
    return f"{failure.cause}\nhint: {failure.hint}" if failure.hint else failure.cause


def _refusal(response: Any, headers: Mapping[str, str]) -> Failure:
    """Return the error for an answer that opens no websocket. Redirects are not followed, for the token's sake."""
    if response.status_code == 401 and not any(n.lower() in _CREDENTIALS for n in headers):
        return SignInFailed(
            "only users who are signed in reach this port",
            "give --auth: `python -m determined.cli.tunnel --auth …` goes there as you",
        )
    try:
        return Failure(str(json.loads(bytes(response.body))["error"]["error"]))
    except (ValueError, KeyError, TypeError):
        status = response.status_code
        return Failure(f"the cluster refused the connection with status {status}")
