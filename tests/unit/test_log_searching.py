"""Lines of one request are searched for each task's patterns in that task's own time."""

from collections.abc import Iterator

import pytest
from det_controlplane.core.patterns import LOOK_S, PATTERN_S
from det_controlplane.services import searching
from det_controlplane.services.searching import ALL_S, LogSearch


class Costly:
    """Lines that take so long to search, by their own clock."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def never(self, line_s: float) -> bool:
        self.now_s += line_s
        return False


@pytest.fixture(autouse=True)
def nothing_dropped() -> Iterator[None]:
    searching._dropped.clear()
    yield
    searching._dropped.clear()


def search(looks: LogSearch, costly: Costly, task: str, line_s: float, patterns: int = 100) -> None:
    for n in range(patterns):
        looks.first(task, f"pattern {n}", "a test", [line_s] * 9, costly.never)


def test_slow_lines_of_a_task_do_not_reduce_time_of_others() -> None:
    costly = Costly()
    looks = LogSearch(3, costly.clock)
    search(looks, costly, "slow", PATTERN_S / 10)
    search(looks, costly, "dropped", PATTERN_S)
    assert looks.first("other", "x", "a test", ["x"], lambda line: True) == "x"


def test_tasks_share_the_time_of_a_request() -> None:
    costly = Costly()
    looks = LogSearch(50, costly.clock)
    for n in range(50):
        search(looks, costly, f"t{n}", 0.01)
    assert costly.now_s < ALL_S + 50 * 0.02


def test_request_with_slow_lines_ends_within_its_time_limit() -> None:
    costly = Costly()
    looks = LogSearch(1000, costly.clock)
    for n in range(1000):
        search(looks, costly, f"t{n}", LOOK_S, patterns=1)
    assert costly.now_s <= 2 * ALL_S + LOOK_S
