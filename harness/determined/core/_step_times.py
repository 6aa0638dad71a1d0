"""Collect the own step times of all ranks on the chief, which reports slow ranks to the cluster."""

import logging
import time
from typing import Any, Callable, Dict, List

from determined import _progress
from determined.core._distributed import DistributedContext
from determined.core._stragglers import (
    WINDOW_STEPS,
    Straggler,
    StragglerDetector,
    Window,
    summarize,
)

logger = logging.getLogger("determined.core")

# A rank that stays slow is reported again after this time. Three reports replace a rented machine.
REPORT_AGAIN_S = 900.0

Report = Callable[[Straggler, str, int], None]  # the straggler, its agent, and the completed steps


class StepTimes:
    """The own times of this rank's steps. Every rank must call `exchange` at the same steps."""

    def __init__(
        self,
        distributed: DistributedContext,
        agent_id: str,
        report: Report,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._distributed = distributed
        self._agent_id = agent_id
        self._report = report
        self._clock = clock
        self._own: List[float] = []
        self._data: List[float] = []
        self._windows: List[Window] = []
        self._warm = False
        self._detector = StragglerDetector()
        self._reported_at: Dict[int, float] = {}

    @property
    def is_useful(self) -> bool:
        """Return whether there are other ranks to compare with."""
        return self._distributed.size > 1

    def add(self, own_s: float, data_s: float) -> None:
        """Add a step: the time without waits for other ranks, and the part of it that waited for data."""
        self._own.append(own_s)
        self._data.append(data_s)
        if len(self._own) == WINDOW_STEPS:
            if self._warm:
                self._windows.append(summarize(self._own, self._data))
            # The first steps allocate memory and choose algorithms, and say little about later ones.
            self._warm = True
            self._own, self._data = [], []

    def exchange(self, steps_completed: int) -> None:
        """Send the complete windows to the chief, which does not wait for an answer of the cluster."""
        gathered = self._distributed.gather((self._agent_id, self._windows))
        self._windows = []
        if gathered is None:
            return
        agents = [agent for agent, _ in gathered]
        # Ranks without gradients in some steps have fewer windows.
        for windows in zip(*[windows for _, windows in gathered]):
            for change in self._detector.observe(windows, self._clock()):
                self._send(change, agents, steps_completed)
        self._send_again(agents, steps_completed)

    def _send_again(self, agents: List[str], steps_completed: int) -> None:
        for straggler in self._detector.slow_ranks:
            if self._clock() - self._reported_at[straggler.rank] >= REPORT_AGAIN_S:
                self._send(straggler, agents, steps_completed)

    def _send(self, straggler: Straggler, agents: List[str], steps_completed: int) -> None:
        self._reported_at[straggler.rank] = self._clock()
        agent = agents[straggler.rank]
        logger.warning("%s", sentence(straggler, agent))
        self._report(straggler, agent, steps_completed)


def sentence(straggler: Straggler, agent_id: str) -> str:
    where = f" on agent {agent_id}" if agent_id else ""
    if straggler.recovered:
        return f"rank {straggler.rank}{where} is as fast as the other ranks again"
    return (
        f"rank {straggler.rank}{where} is slow: {straggler.own_s * 1000:.1f} ms per step instead of "
        f"{straggler.median_s * 1000:.1f} ms (+{straggler.slowdown:.0%}, mostly {straggler.cause})"
    )


def as_json(straggler: Straggler, agent_id: str, steps_completed: int) -> Dict[str, Any]:
    return {
        "rank": straggler.rank,
        "agentId": agent_id,
        "slowdown": round(straggler.slowdown, 4),
        "ownSeconds": straggler.own_s,
        "medianSeconds": straggler.median_s,
        "cause": straggler.cause,
        "stepsCompleted": steps_completed,
        "recovered": straggler.recovered,
    }


class StepReports:
    """The Core API's step times: the ranks exchange them after each window."""

    def __init__(self, times: StepTimes) -> None:
        self._times = times
        self._steps = 0

    def add(self, own_s: float, data_s: float) -> None:
        _progress.mark()
        if not self._times.is_useful:
            return
        self._times.add(own_s, data_s)
        self._steps += 1
        if self._steps % WINDOW_STEPS == 0:
            self._times.exchange(self._steps)
