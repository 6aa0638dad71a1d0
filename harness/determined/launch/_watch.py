"""Heartbeats between the launchers of an elastic trial, so that ranks do not wait for a machine that disappeared.

Each launcher is connected to the chief's. Both ends send a message per second. A connection that breaks, or is silent
for `SILENCE_S`, means that the other container was lost.
"""

import socket
import sys
import threading
import time
from typing import Callable, List

from determined.core._distributed import peer_key
from determined.core._wire import Channel, PeerLost
from determined.launch._peers import Peers

# The exit status of a launcher that lost another one. The control plane does not count it as a failure of the code.
LOST_PEER_STATUS = 75
BEAT_S = 1.0
SILENCE_S = 6.0
_CONNECT_S = 60.0  # launchers start within this time of each other
_MAX_BYTES = 100
_HERE, _END = "here", "end"

OnLoss = Callable[[], None]


class PeerWatch:
    """Watches the launchers of the other containers, on the chief, or the chief's launcher, elsewhere."""

    def __init__(self, peers: Peers, port: int) -> None:
        self._peers = peers
        self._port = port
        self._channels: List[Channel] = []
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._ending = threading.Event()
        self.has_lost_peer = False

    def start(self, on_loss: OnLoss) -> None:
        """Watch in threads. `on_loss` is called once, in one of them."""
        watch = self._serve if self._peers.is_chief else self._connect
        for target in (lambda: watch(on_loss), self._beat):
            threading.Thread(target=target, name="peer watch", daemon=True).start()

    def end(self) -> None:
        """Tell the others that this container ends by itself."""
        self._ending.set()
        with self._lock:
            channels = list(self._channels)
        self._send_all(channels, _END)

    def _serve(self, on_loss: OnLoss) -> None:
        try:
            listener = socket.create_server(("", self._port), backlog=self._peers.containers)
        except OSError as e:
            print(f"cannot watch the other containers: {e}", file=sys.stderr, flush=True)
            return
        with listener:
            while not self._ending.is_set():
                connection, address = listener.accept()
                arguments = (connection, f"the container at {address[0]}", on_loss)
                threading.Thread(target=self._watch_server, args=arguments, daemon=True).start()

    def _watch_server(self, connection: socket.socket, name: str, on_loss: OnLoss) -> None:
        """Watch a connection after its first message, which proves that it belongs to this trial."""
        connection.settimeout(SILENCE_S)
        try:
            channel = Channel(connection, peer_key(), is_server=True)
            channel.receive(_MAX_BYTES)
        except (OSError, PeerLost):
            connection.close()
            return
        self._watch(channel, name, on_loss)

    def _connect(self, on_loss: OnLoss) -> None:
        deadline = time.monotonic() + _CONNECT_S
        while not self._ending.is_set():
            try:
                connection = socket.create_connection((self._peers.chief, self._port), SILENCE_S)
                channel = Channel(connection, peer_key(), is_server=False)
                channel.send(_HERE)
            except (OSError, PeerLost) as e:
                if time.monotonic() > deadline:
                    print(f"cannot watch the chief: {e}", file=sys.stderr, flush=True)
                    return
                time.sleep(BEAT_S / 2)
                continue
            self._watch(channel, f"the chief at {self._peers.chief}", on_loss)
            return

    def _watch(self, channel: Channel, name: str, on_loss: OnLoss) -> None:
        with self._lock:
            self._channels.append(channel)
        try:
            while channel.receive(_MAX_BYTES) != _END:
                pass
        except (OSError, PeerLost) as e:
            self._lose(name, e, on_loss)
        finally:
            with self._lock:
                self._channels.remove(channel)
            channel.close()

    def _lose(self, name: str, cause: Exception, on_loss: OnLoss) -> None:
        with self._lock:
            is_first = not self._ending.is_set()
            self._ending.set()
        if not is_first:
            return
        self.has_lost_peer = True
        print(f"lost {name} ({cause}): stopping the ranks here", file=sys.stderr, flush=True)
        on_loss()

    def _beat(self) -> None:
        while not self._ending.wait(BEAT_S):
            with self._lock:
                channels = list(self._channels)
            self._send_all(channels, _HERE)

    def _send_all(self, channels: List[Channel], message: str) -> None:
        for channel in channels:
            try:
                with self._send_lock:
                    channel.send(message)
            except (OSError, PeerLost):
                pass  # the thread that receives from this peer notices the loss
