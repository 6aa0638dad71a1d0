"""Notices that this machine goes away. Clouds add their sources behind the same Protocol."""

import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Protocol

from det_controlplane.core.agent_protocol import MachineSignal

SYSTEMD_TIMEOUT_S = 3.0

_log = logging.getLogger(__name__)


class SignalSource(Protocol):
    interval_s: float

    def look(self) -> Sequence[MachineSignal]:
        """Return the notices in force. Raises OSError when the source does not answer."""


def machine_is_stopping() -> bool:
    """Return whether the SIGTERM to this process is part of a shutdown of the whole machine."""
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
    """Collects the notices of all sources for the next poll."""

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
        """Add the notice that this machine or this agent stops for good."""
        deadline = datetime.now(timezone.utc) + timedelta(seconds=within_s)
        self._add(MachineSignal("shutdown", deadline.isoformat().replace("+00:00", "Z")))

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
