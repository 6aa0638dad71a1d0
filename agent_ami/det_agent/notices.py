"""Notices of clouds that they will stop this machine."""

import json
import logging
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

from det_controlplane.core.agent_protocol import MachineSignal

from det_agent.metadata import AwsMetadata, GcpMetadata

# A notice must be seen within five seconds, because a spot machine of Google stops after thirty.
INTERVAL_S = 2.0
GOOGLE_NOTICE_S = 30.0

Json = TypeVar("Json", dict[str, Any], list[Any])


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def rfc3339(text: str | None) -> str | None:
    """Convert a time of EC2 ("2026-01-01T00:02:00Z", "2 Jan 2026 00:00:00 GMT"). Return None for other texts."""
    readers: tuple[Callable[[str], datetime], ...] = (_iso, parsedate_to_datetime)
    for read in readers:
        try:
            time = read(text or "")
        except ValueError:
            continue
        utc = time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time
        return utc.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return None


def _in_seconds(seconds: float) -> str:
    time = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return time.isoformat().replace("+00:00", "Z")


def _notices_of(*sources: Callable[[], Iterable[MachineSignal]]) -> tuple[MachineSignal, ...]:
    """Return the notices of all sources, even if some fail. Raises OSError if one fails and there are no notices."""
    notices: list[MachineSignal] = []
    failure: OSError | None = None
    for source in sources:
        try:
            notices += source()
        except OSError as e:
            failure = e
    if failure is not None and not notices:
        raise failure
    return tuple(notices)


class AwsNotices:
    """Spot interruptions, rebalance recommendations and scheduled maintenance of EC2."""

    interval_s = INTERVAL_S

    def __init__(self, metadata: AwsMetadata, on_rebalance: str = "leave") -> None:
        self._metadata = metadata
        self._on_rebalance = on_rebalance

    def look(self) -> Sequence[MachineSignal]:
        """Return the current notices. Raises OSError if the service does not answer."""
        return _notices_of(self._interruption, self._rebalance, self._maintenance)

    def _interruption(self) -> Iterator[MachineSignal]:
        action = self._read("meta-data/spot/instance-action", dict)
        if action and action.get("action") in ("terminate", "stop", "hibernate"):
            yield MachineSignal("spot_interruption", rfc3339(action.get("time")))

    def _rebalance(self) -> Iterator[MachineSignal]:
        if self._on_rebalance == "stay":
            return
        if self._read("meta-data/events/recommendations/rebalance", dict):
            yield MachineSignal("rebalance")

    def _maintenance(self) -> Iterator[MachineSignal]:
        for event in self._read("meta-data/events/maintenance/scheduled", list) or ():
            if isinstance(event, dict) and event.get("State", "active") == "active":
                yield MachineSignal("maintenance", rfc3339(event.get("NotBefore")))

    def _read(self, path: str, kind: type[Json]) -> Json | None:
        text = self._metadata.get(path)
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = text
        if body is None or isinstance(body, kind):
            return body
        raise OSError(f"the metadata service answered {path} with {text!r}")


class GcpNotices:
    """Preemptions and host maintenance of Google Compute Engine."""

    interval_s = INTERVAL_S

    def __init__(self, metadata: GcpMetadata) -> None:
        self._metadata = metadata
        self._deadline: str | None = None

    def look(self) -> Sequence[MachineSignal]:
        """Return the current notices. Raises OSError if the server does not answer."""
        return _notices_of(self._preemption, self._maintenance)

    def _preemption(self) -> Iterator[MachineSignal]:
        if self._value("preempted") == "TRUE":
            # The notice has no time, and may be older than one interval.
            self._deadline = self._deadline or _in_seconds(GOOGLE_NOTICE_S - self.interval_s)
            yield MachineSignal("spot_interruption", self._deadline)

    def _maintenance(self) -> Iterator[MachineSignal]:
        # A machine with GPUs cannot be moved while it runs.
        if self._value("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE":
            yield MachineSignal("maintenance")

    def _value(self, name: str) -> str:
        return (self._metadata.get(f"instance/{name}") or "").strip()


SYSTEMD_TIMEOUT_S = 3.0

_log = logging.getLogger(__name__)


class SignalSource(Protocol):
    interval_s: float

    def look(self) -> Sequence[MachineSignal]:
        """Return the current notices. Raises OSError if the source does not answer."""


def machine_is_stopping() -> bool:
    """Return whether the whole machine is shutting down."""
    try:
        state = subprocess.run(
            ["systemctl", "is-system-running"],
            capture_output=True,
            text=True,
            timeout=SYSTEMD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return state.stdout.strip() == "stopping"


class Signals:
    """Collect the notices of all sources for the next poll."""

    def __init__(self, sources: Sequence[SignalSource], on_change: Callable[[], None]) -> None:
        self._sources = sources
        self._on_change = on_change
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._current: dict[str, MachineSignal] = {}

    def start(self) -> None:
        for source in self._sources:
            threading.Thread(target=self._watch, args=(source,), daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def raise_shutdown(self, within_s: float) -> None:
        """Add the notice that this machine or this agent stops permanently."""
        self._add(MachineSignal("shutdown", _in_seconds(within_s)))

    def current(self) -> tuple[MachineSignal, ...]:
        with self._lock:
            return tuple(self._current.values())

    def _watch(self, source: SignalSource) -> None:
        while not self._stop.wait(source.interval_s):
            try:
                for signal in source.look():
                    self._add(signal)
            except OSError as e:
                _log.debug("%s cannot tell: %s", type(source).__name__, e)

    def _add(self, signal: MachineSignal) -> None:
        with self._lock:
            if self._current.get(signal.kind) == signal:
                return
            self._current[signal.kind] = signal
        _log.warning("this machine is going away: %s %s", signal.kind, signal.deadline)
        self._on_change()
