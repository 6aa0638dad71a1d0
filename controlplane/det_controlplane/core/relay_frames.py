"""The frames between an agent and the relay: many streams in one websocket (docs/reference/agent-protocol.md).

A frame is a binary message: one byte for its kind, four bytes for the number of its stream, then its content."""

import json
import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

MAX_DATA = 256 * 1024
MAX_FRAME = MAX_DATA + 1024
# The bytes of a stream that may be in flight in one direction before the receiver grants more credit.
WINDOW = 1024 * 1024
# Each side sends at least a heartbeat per interval. A side that receives no frame for too long closes the connection.
BEAT_S, SILENCE_S = 15.0, 45.0
_HEAD = struct.Struct("!BI")
_CREDIT = struct.Struct("!I")
_LONGEST_MESSAGE = 500


class BadFrame(ValueError):
    """The other side sent an invalid frame, or a frame that is not allowed now."""


class Cause(str, Enum):
    """The causes for which a stream was rejected or aborted."""

    REFUSED = "refused"  # no process listens at the port (yet)
    UNKNOWN = "unknown"  # the container does not exist here, or the port is not proxied
    BROKEN = "broken"  # the connection broke
    CANCELLED = "cancelled"  # the other end closed the stream


class _Kind(IntEnum):
    BEAT = 0
    OPEN = 1
    OPENED = 2
    DATA = 3
    END = 4
    RESET = 5
    CREDIT = 6


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Report that this side is alive."""


@dataclass(frozen=True, slots=True)
class Open:
    """Ask the agent to connect to a port of a container. Only the relay opens streams."""

    stream: int
    container: str
    port: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Report that the connection is open."""

    stream: int


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    content: bytes


@dataclass(frozen=True, slots=True)
class End:
    """Report that this side sends no more data. The other direction continues."""

    stream: int


@dataclass(frozen=True, slots=True)
class Reset:
    """End both directions at once, or reject a stream."""

    stream: int
    cause: Cause
    message: str


@dataclass(frozen=True, slots=True)
class Credit:
    """Allow the other side to send `count` more bytes."""

    stream: int
    count: int


Frame = Heartbeat | Open | Opened | Data | End | Reset | Credit


def encoded(frame: Frame) -> bytes:
    if isinstance(frame, Data):
        return _HEAD.pack(_Kind.DATA, frame.stream) + frame.content
    if isinstance(frame, Credit):
        return _HEAD.pack(_Kind.CREDIT, frame.stream) + _CREDIT.pack(frame.count)
    if isinstance(frame, Open):
        target = {"container": frame.container, "port": frame.port}
        return _HEAD.pack(_Kind.OPEN, frame.stream) + json.dumps(target).encode()
    if isinstance(frame, Reset):
        why = {"cause": frame.cause.value, "message": frame.message[:_LONGEST_MESSAGE]}
        return _HEAD.pack(_Kind.RESET, frame.stream) + json.dumps(why).encode()
    if isinstance(frame, Heartbeat):
        return _HEAD.pack(_Kind.BEAT, 0)
    kind = _Kind.OPENED if isinstance(frame, Opened) else _Kind.END
    return _HEAD.pack(kind, frame.stream)


def decoded(message: bytes) -> Frame | None:
    """Decode a frame. Return None for an unknown kind, which a newer program may send. Raises BadFrame."""
    if not _HEAD.size <= len(message) <= MAX_FRAME:
        raise BadFrame(f"a frame of {len(message)} bytes")
    number, stream = _HEAD.unpack_from(message)
    content = message[_HEAD.size :]
    if number == _Kind.DATA:
        return Data(stream, content)
    if number == _Kind.CREDIT:
        return Credit(stream, _count(content))
    if number == _Kind.OPEN:
        return _open(stream, content)
    if number == _Kind.RESET:
        return _reset(stream, content)
    if number == _Kind.OPENED:
        return Opened(stream)
    if number == _Kind.END:
        return End(stream)
    return Heartbeat() if number == _Kind.BEAT else None


def _count(content: bytes) -> int:
    if len(content) != _CREDIT.size:
        raise BadFrame(f"a credit of {len(content)} bytes")
    return int(_CREDIT.unpack(content)[0])


def _open(stream: int, content: bytes) -> Open:
    fields = _object(content)
    container, port = fields.get("container"), fields.get("port")
    if not (isinstance(container, str) and isinstance(port, int) and 0 < port < 1 << 16):
        raise BadFrame("an open that names no container and port")
    return Open(stream, container, port)


def _reset(stream: int, content: bytes) -> Reset:
    fields = _object(content)
    causes = {cause.value: cause for cause in Cause}
    # An unknown cause, which a newer program may send, counts as a broken connection.
    cause = causes.get(str(fields.get("cause")), Cause.BROKEN)
    return Reset(stream, cause, str(fields.get("message") or ""))


def _object(content: bytes) -> dict[str, object]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadFrame("a frame whose content is no JSON object")
    return value


@dataclass(slots=True)
class Sending:
    """Count the bytes that may be sent in a stream before the receiver grants more credit."""

    left: int = WINDOW

    def take(self, wanted: int) -> int:
        """Reserve bytes for the next frame and return their number. 0 means that the sender must wait for credit."""
        count = min(wanted, self.left, MAX_DATA)
        self.left -= count
        return count

    def allow(self, count: int) -> None:
        self.left += count
        if self.left > WINDOW:
            raise BadFrame(f"credit for {self.left} bytes, of {WINDOW} at most")


@dataclass(slots=True)
class Receiving:
    """Count the received bytes of a stream and the bytes that were consumed."""

    held: int = 0
    used: int = 0

    def came(self, count: int) -> None:
        if self.held + self.used + count > WINDOW:
            raise BadFrame(f"more than {WINDOW} bytes of a stream without credit")
        self.held += count

    def use(self, count: int) -> int:
        """Record consumed bytes and return the credit to send now. Credit is sent for half a window at a time."""
        self.held -= count
        self.used += count
        if self.used < WINDOW // 2:
            return 0
        credit, self.used = self.used, 0
        return credit
