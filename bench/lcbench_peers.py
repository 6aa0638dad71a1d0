"""Other programs on LCBench: each decides about trials that train epoch by epoch on asynchronous workers."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from bench.lcbench_curves import FULL, MARKS, Curves, Incumbent


class Verdict(Enum):
    CONTINUE = "continue"
    STOP = "stop"
    PAUSE = "pause"  # the peer may continue the trial later, from its checkpoint


@dataclass(frozen=True)
class Job:
    trial: int
    hparams: Mapping[str, Any]
    trained: int = 0  # epochs of its checkpoint


class Peer(Protocol):
    def next_job(self) -> Job:
        """Return a new or a paused trial for a free worker."""

    def report(self, trial: int, epoch: int, loss: float) -> Verdict:
        """Decide about a trial after an epoch. At the last epoch, the trial ends in any case."""


@dataclass(frozen=True)
class Package:
    """A peer, the environment that has it (scripts/search-venv), and the packages that name its version."""

    environment: str
    make: Callable[[int], Peer]
    versions: tuple[str, ...]


def run(peer: Peer, curves: Curves, workers: int) -> tuple[float, ...]:
    """Train trials until the budget is used, and return the best accuracy at each mark."""
    incumbent, budget = Incumbent(curves), MARKS[-1] * FULL
    busy: list[tuple[int, int, Job, int]] = []
    started, work = 0, 0

    def start(now: int) -> None:
        nonlocal started
        started += 1
        job = peer.next_job()
        heapq.heappush(busy, (now + 1, started, job, job.trained + 1))

    for _ in range(workers):
        start(0)
    while work < budget:
        now, order, job, epoch = heapq.heappop(busy)
        work += 1
        incumbent.observe(work, job.hparams, epoch)
        verdict = peer.report(job.trial, epoch, curves.error(job.hparams, epoch))
        if verdict is Verdict.CONTINUE and epoch < FULL:
            heapq.heappush(busy, (now + 1, order, job, epoch + 1))
        else:
            start(now)
    return incumbent.result()
