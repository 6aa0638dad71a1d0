"""Notices of clouds that they take this machine back, or will have to stop it."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from det_controlplane.core.agent_protocol import Signal

from det_agent.metadata import AwsMetadata, GcpMetadata

# A notice is seen within five seconds: a spot machine of Google has thirty.
INTERVAL_S = 2.0


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


class AwsNotices:
    """Spot interruptions, rebalance recommendations and scheduled maintenance of EC2."""

    interval_s = INTERVAL_S

    def __init__(self, metadata: AwsMetadata) -> None:
        self._metadata = metadata

    def look(self) -> Sequence[Signal]:
        """Return the notices in force. Raises OSError when the service does not answer."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[Signal]:
        action = self._json("meta-data/spot/instance-action")
        if action and action.get("action") in ("terminate", "stop", "hibernate"):
            yield Signal("spot_interruption", rfc3339(action.get("time")))
        recommendation = self._json("meta-data/events/recommendations/rebalance")
        if recommendation:
            yield Signal("rebalance")
        for event in self._json("meta-data/events/maintenance/scheduled") or ():
            if event.get("State", "active") == "active":
                yield Signal("maintenance", rfc3339(event.get("NotBefore")))

    def _json(self, path: str) -> Any:
        text = self._metadata.get(path)
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise OSError(f"the metadata service answered {path} with {text!r}") from None


class GcpNotices:
    """Preemptions and host maintenance of Google Compute Engine."""

    interval_s = INTERVAL_S

    def __init__(self, metadata: GcpMetadata) -> None:
        self._metadata = metadata

    def look(self) -> Sequence[Signal]:
        """Return the notices in force. Raises OSError when the server does not answer."""
        found = []
        if self._value("preempted") == "TRUE":
            found.append(Signal("spot_interruption"))
        # A machine with GPUs cannot be moved while it runs.
        if self._value("maintenance-event") == "TERMINATE_ON_HOST_MAINTENANCE":
            found.append(Signal("maintenance"))
        return tuple(found)

    def _value(self, name: str) -> str:
        return (self._metadata.get(f"instance/{name}") or "").strip()
