"""The frames between an agent and the relay (docs/reference/agent-protocol.md): many streams in one websocket.

A frame is a binary message: its kind in one byte, its stream's number in four, then what the kind has to say."""

import json
import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

MAX_DATA = 256 * 1024
MAX_FRAME = MAX_DATA + 1024
# How many bytes of a stream may be on their way in one direction, before the receiver asks for more.
WINDOW = 1024 * 1024
# Each side says something at least this often; a side that hears nothing for long gives the connection up.
BEAT_S, SILENCE_S = 15.0, 45.0
_HEAD = struct.Struct("!BI")
_CREDIT = struct.Struct("!I")
_LONGEST_MESSAGE = 500


class BadFrame(ValueError):
    """The other side sent bytes that are no frame, or a frame that it may not send now."""


class Cause(str, Enum):
    """The causes for which a stream was refused or broken off."""

    REFUSED = "refused"  # nothing listens at the port (yet)
    UNKNOWN = "unknown"  # no such container here, or not one of its proxied ports
    BROKEN = "broken"  # a connection broke in the middle
    CANCELLED = "cancelled"  # the other end is not wanted any more


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
    """Tell that this side lives."""


@dataclass(frozen=True, slots=True)
class Open:
    """Ask the agent for a connection to a port of a container; only the relay opens streams."""

    stream: int
    container: str
    port: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Tell that the connection stands."""

    stream: int


@dataclass(frozen=True, slots=True)
class Data:
    stream: int
    content: bytes


@dataclass(frozen=True, slots=True)
class End:
    """Tell that this side sends no more; the other direction goes on."""

    stream: int


@dataclass(frozen=True, slots=True)
class Reset:
    """End both directions at once, or refuse a stream."""

    stream: int
    cause: Cause
    message: str


@dataclass(frozen=True, slots=True)
class Credit:
    """Allow the other side to send so many bytes more."""

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
    """Read a frame; None for a kind that only newer programs know. Raises BadFrame."""
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
    told = _object(content)
    container, port = told.get("container"), told.get("port")
    if not (isinstance(container, str) and isinstance(port, int) and 0 < port < 1 << 16):
        raise BadFrame("an open that names no container and port")
    return Open(stream, container, port)


def _reset(stream: int, content: bytes) -> Reset:
    told = _object(content)
    causes = {cause.value: cause for cause in Cause}
    # A cause that only newer programs know breaks the stream all the same.
    cause = causes.get(str(told.get("cause")), Cause.BROKEN)
    return Reset(stream, cause, str(told.get("message") or ""))


def _object(content: bytes) -> dict[str, object]:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise BadFrame("a frame whose content is no JSON object")
    return told


@dataclass(slots=True)
class Sending:
    """Count what may still be sent in a stream before the receiver asks for more."""

    left: int = WINDOW

    def take(self, wanted: int) -> int:
        """Return how many of the wanted bytes go into the next frame; 0 is to wait for credit."""
        taken = min(wanted, self.left, MAX_DATA)
        self.left -= taken
        return taken

    def allow(self, count: int) -> None:
        self.left += count
        if self.left > WINDOW:
            raise BadFrame(f"credit for {self.left} bytes, of {WINDOW} at most")


@dataclass(slots=True)
class Receiving:
    """Count what came in a stream, and what of it was used."""

    held: int = 0
    used: int = 0

    def came(self, count: int) -> None:
        if self.held + self.used + count > WINDOW:
            raise BadFrame(f"more than {WINDOW} bytes of a stream without credit")
        self.held += count

    def use(self, count: int) -> int:
        """Note that bytes were used; return the credit to give now: half a window at a time, so that it is seldom."""
        self.held -= count
        self.used += count
        if self.used < WINDOW // 2:
            return 0
        credit, self.used = self.used, 0
        return credit
