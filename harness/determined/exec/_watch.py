"""End a run in which no rank makes progress for the `hang_timeout` of the trial.

The entry program of each container reports how long ago its ranks made progress. The answer is how long ago any rank
of the trial did. After the timeout every container writes the stacks of its ranks to the log. Then the cluster ends
the run.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from typing import Callable, List, Mapping, Optional

from determined import _progress
from determined.common.http import APIError, MasterUnreachableError, Session
from determined.exec._ship import LogShipper

_LONGEST_PAUSE_S = 30.0
_SHORTEST_PAUSE_S = 1.0
# Stacks are written within this time; then the end of the run is requested.
_STACKS_S = 3.0
_PY_SPY_S = 20.0


def hang_timeout_s(env: Mapping[str, str]) -> Optional[float]:
    config = json.loads(env.get("DET_EXPERIMENT_CONFIG") or "{}")
    value = (config.get("resources") or {}).get("hang_timeout")
    return None if value is None else float(value)


class HangWatch:
    """Watches the ranks of this container in a thread."""

    def __init__(
        self,
        session: Session,
        allocation_id: str,
        timeout_s: float,
        logs: LogShipper,
        folder: str,
        wait: Optional[Callable[[float], bool]] = None,
    ) -> None:
        self._session = session
        self._path = f"/api/v1/allocations/{allocation_id}"
        self._timeout_s = timeout_s
        self._logs = logs
        self._folder = folder
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._started = time.time()

    def start(self) -> None:
        self._started = time.time()
        threading.Thread(target=self.run, name="hang-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        pause_s = 0.0
        while not self._wait(pause_s):
            try:
                age_s = self._exchange()
                if age_s >= self._timeout_s and self._end_run(age_s):
                    return
            except (APIError, MasterUnreachableError):
                age_s = 0.0  # without the cluster, the progress of other containers is not known
            left_s = self._timeout_s - age_s
            most_s = min(_LONGEST_PAUSE_S, self._timeout_s / 10)
            pause_s = max(_SHORTEST_PAUSE_S, min(left_s, most_s))

    def _exchange(self) -> float:
        """Report the newest progress of this container. Return how long ago any rank made progress."""
        marks = [self._started, *self._marks().values()]
        age_s = max(0.0, time.time() - max(marks))
        answer = self._session.post(f"{self._path}/progress", {"ageSeconds": age_s}) or {}
        return float(answer.get("ageSeconds", age_s))

    def _marks(self) -> "dict[int, float]":
        """Return the time of the last progress of each live rank, by its process."""
        marks = {}
        for name in os.listdir(self._folder):
            pid = int(name.rpartition(".")[2])
            try:
                os.kill(pid, 0)
                marks[pid] = os.stat(os.path.join(self._folder, name)).st_mtime
            except OSError:
                continue
        return marks

    def _end_run(self, age_s: float) -> bool:
        self._logs.say(
            f"No rank has made progress for {age_s:.0f} s (resources.hang_timeout). The stacks of this container's "
            "ranks follow.",
            "LOG_LEVEL_WARNING",
        )
        pids = sorted(self._marks())
        for pid in pids:
            self._write_stacks(pid)
        if not pids:
            self._logs.say("No rank has called determined.core.init() yet.", "LOG_LEVEL_WARNING")
        self._wait(_STACKS_S)
        answer = self._session.post(f"{self._path}/hang", {}) or {}
        # It is not hung if a rank has made progress meanwhile.
        return bool(answer.get("hung"))

    def _write_stacks(self, pid: int) -> None:
        """Ask a rank for its Python stacks. With py-spy, log native frames too."""
        try:
            os.kill(pid, _progress.SIGNAL)
        except OSError:
            return
        program = shutil.which("py-spy")
        for line in _py_spy(program, pid) if program else ():
            self._logs.say(line)


def _py_spy(program: str, pid: int) -> List[str]:
    try:
        output = subprocess.run(
            [program, "dump", "--native", "--pid", str(pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PY_SPY_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as e:
        return [f"py-spy shows no stack of process {pid}: {e}"]
    return output.splitlines()
