"""Notices of clouds that they take this machine back, or will have to stop it."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from det_controlplane.core.agent_protocol import MachineSignal

from det_agent.metadata import AwsMetadata, GcpMetadata

# A notice is seen within five seconds: a spot machine of Google has thirty.
INTERVAL_S = 2.0

Told = TypeVar("Told", dict[str, Any], list[Any])


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def rfc3339(text: str | None) -> str | None:
    """Return a time that EC2 tells ("2026-01-01T00:02:00Z", "2 Jan 2026 00:00:00 GMT"); None where it is neither."""
    readers: tuple[Callable[[str], datetime], ...] = (_iso, parsedate_to_datetime)
    for read in readers:
        try:
            time = read(text or "")
        except ValueError:
            continue
        utc = time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time
        return utc.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    return None


def _told_by(*sources: Callable[[], Iterable[MachineSignal]]) -> tuple[MachineSignal, ...]:
    """Return the notices of all sources, also if some fail. Raises OSError if one fails and none has a notice."""
    found: list[MachineSignal] = []
    failure: OSError | None = None
    for source in sources:
        try:
            found += source()
        except OSError as e:
            failure = e
    if failure is not None and not found:
        raise failure
    return tuple(found)


class AwsNotices:
    """Spot interruptions, rebalance recommendations and scheduled maintenance of EC2."""

    interval_s = INTERVAL_S

    def __init__(self, metadata: AwsMetadata, on_rebalance: str = "leave") -> None:
        self._metadata = metadata
        self._on_rebalance = on_rebalance

    def look(self) -> Sequence[MachineSignal]:
        """Return the notices in force. Raises OSError when the service does not answer."""
        return _told_by(self._interruption, self._rebalance, self._maintenance)

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

    def _read(self, path: str, kind: type[Told]) -> Told | None:
        text = self._metadata.get(path)
        try:
            read = json.loads(text) if text else None
        except ValueError:
            read = text
        if read is None or isinstance(read, kind):
            return read
        raise OSError(f"the metadata service answered {path} with {text!r}")


class GcpNotices:
    """Preemptions and host maintenance of Google Compute Engine."""

    interval_s = INTERVAL_S

    def __init__(self, metadata: GcpMetadata) -> None:
        self._metadata = metadata

    def look(self) -> Sequence[MachineSignal]:
        """Return the notices in force. Raises OSError when the server does not answer."""
        return _told_by(self._preemption, self._maintenance)

    def _preemption(self) -> Iterator[MachineSignal]:
        if self._value("preempted") == "TRUE":
            yield MachineSignal("spot_interruption")

    def _maintenance(self) -> Iterator[MachineSignal]:
        # A machine with GPUs cannot be moved while it runs.
        if self._value("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE":
            yield MachineSignal("maintenance")

    def _value(self, name: str) -> str:
        return (self._metadata.get(f"instance/{name}") or "").strip()
