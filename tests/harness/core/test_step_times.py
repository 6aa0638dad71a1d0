"""The chief collects the step times of all ranks and reports slow ranks with their agents."""

from typing import Any

import pytest
from determined.core._step_times import REPORT_AGAIN_S, StepReports, StepTimes, as_json
from determined.core._stragglers import WINDOW_STEPS, Straggler


class Chief:
    """A distributed context of two ranks. The other rank sends windows of fast steps."""

    size = 2

    def __init__(self, other: Any) -> None:
        self.other = other
        self.gathered = 0

    def gather(self, value: Any) -> list[Any]:
        self.gathered += 1
        return [value, ("agent-b", [self.other] * len(value[1]))]


class Ranks:
    def __init__(self, other_s: float, step_s: float = 1.0) -> None:
        self.step_s = step_s
        self.reports: list[dict[str, Any]] = []
        self.now = 0.0
        self.distributed = Chief((other_s, 0.0, 0.0))
        self.times = StepTimes(
            self.distributed,  # type: ignore[arg-type]
            "agent-a",
            self._report,
            lambda: self.now,
        )
        self.steps = StepReports(self.times)

    def _report(self, straggler: Straggler, agent: str, steps: int) -> None:
        self.reports.append(as_json(straggler, agent, steps))

    def train(self, windows: int, own_s: float) -> None:
        for _ in range(windows * WINDOW_STEPS):
            self.now += self.step_s
            self.steps.add(own_s, 0.0)


def test_a_slow_rank_is_reported_with_its_agent_and_step() -> None:
    ranks = Ranks(other_s=0.125)
    ranks.train(4, 0.1)
    (report,) = ranks.reports
    times = [report.pop(key) for key in ("ownSeconds", "medianSeconds", "slowdown")]
    assert times == pytest.approx([0.125, 0.1, 0.25])
    assert report == {
        "rank": 1, "agentId": "agent-b", "cause": "compute", "stepsCompleted": 80, "recovered": False,
    }  # fmt: skip


def test_a_short_time_of_slow_steps_is_not_reported() -> None:
    ranks = Ranks(other_s=0.125, step_s=0.1)
    ranks.train(10, 0.1)
    assert ranks.reports == []
    ranks.train(10, 0.1)
    assert len(ranks.reports) == 1


def test_the_first_window_does_not_count() -> None:
    ranks = Ranks(other_s=0.1)
    ranks.train(1, 10.0)
    ranks.train(9, 0.1)
    assert ranks.reports == []


def test_a_rank_that_stays_slow_is_reported_again_after_a_while() -> None:
    ranks = Ranks(other_s=0.125)
    ranks.train(10, 0.1)
    assert len(ranks.reports) == 1
    ranks.now += REPORT_AGAIN_S
    ranks.train(3, 0.1)
    assert [report["recovered"] for report in ranks.reports] == [False, False]


def test_ranks_exchange_once_per_window() -> None:
    ranks = Ranks(other_s=0.1)
    ranks.train(5, 0.1)
    assert ranks.distributed.gathered == 5


def test_a_single_rank_exchanges_no_times() -> None:
    ranks = Ranks(other_s=0.1)
    ranks.distributed.size = 1
    ranks.train(5, 0.1)
    assert ranks.distributed.gathered == 0
