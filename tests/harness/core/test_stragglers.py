"""Slow ranks are found by their own step times, and noise is not taken for slowness."""

import random
from collections.abc import Callable, Sequence

import pytest
from determined.core._stragglers import (
    WINDOW_STEPS,
    Straggler,
    StragglerDetector,
    Window,
    summarize,
)

StepTime = Callable[[random.Random, int, int], float]  # generator, rank, step


def noisy(sigma: float, pauses: float = 0.01) -> StepTime:
    """Return steps of 100 ms with log-normal noise; some steps take three times as long."""

    def seconds(rng: random.Random, rank: int, step: int) -> float:
        return 0.1 * rng.lognormvariate(0, sigma) * (3 if rng.random() < pauses else 1)

    return seconds


def slowed(
    rank: int, factor: float, since: int, sigma: float = 0.05, until: int = 1 << 30
) -> StepTime:
    normal = noisy(sigma)

    def seconds(rng: random.Random, of: int, step: int) -> float:
        slow = of == rank and since <= step < until
        return normal(rng, of, step) * (factor if slow else 1)

    return seconds


def train(
    ranks: int,
    steps: int,
    step_time: StepTime,
    seed: int = 1,
    data: float = 0.0,
    step_s: float = 1.0,
) -> list[tuple[int, Straggler]]:
    """Return the changes that the detector reports, each with its step. A step takes `step_s` on the clock."""
    rng, detector, changes = random.Random(seed), StragglerDetector(), []
    for end in range(WINDOW_STEPS, steps + 1, WINDOW_STEPS):
        windows = []
        for rank in range(ranks):
            own = [step_time(rng, rank, step) for step in range(end - WINDOW_STEPS, end)]
            windows.append(summarize(own, [max(0.0, s - 0.1) * data for s in own]))
        changes += [(end, change) for change in detector.observe(windows, end * step_s)]
    return changes


def named(changes: Sequence[tuple[int, Straggler]]) -> list[int]:
    return [change.rank for _, change in changes]


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
@pytest.mark.parametrize("since", [1000, 1001, 1010, 1019])
@pytest.mark.parametrize("seed", range(5))
def test_a_rank_slowed_by_20_percent_is_named_within_100_steps(
    ranks: int, since: int, seed: int
) -> None:
    changes = train(ranks, 1200, slowed(1, 1.2, since), seed)
    assert named(changes) == [1]
    step, straggler = changes[0]
    assert since < step <= since + 100
    assert 0.1 < straggler.slowdown < 0.4


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("sigma", [0.02, 0.05, 0.1, 0.2])
def test_noise_causes_no_alarm_in_10000_steps(ranks: int, sigma: float) -> None:
    assert train(ranks, 10_000, noisy(sigma)) == []


def test_a_single_long_pause_is_not_a_slow_rank() -> None:
    def pause(rng: random.Random, rank: int, step: int) -> float:
        return 30.0 if (rank, step) == (0, 500) else 0.1

    assert train(4, 1000, pause) == []


def test_a_rank_with_slow_data_in_every_fourth_step_is_named_with_the_cause() -> None:
    def stalls(rng: random.Random, rank: int, step: int) -> float:
        return noisy(0.02, 0)(rng, rank, step) * (1.9 if rank == 3 and step % 4 == 0 else 1)

    ((_, straggler),) = train(4, 200, stalls, data=1.0)
    assert (straggler.rank, straggler.cause) == (3, "data")


def test_slow_computation_has_its_own_cause() -> None:
    ((_, straggler),) = train(4, 200, slowed(2, 1.3, 0))
    assert straggler.cause == "compute"


def test_a_recovered_rank_is_reported_once() -> None:
    changes = train(4, 2000, slowed(1, 1.3, 200, until=1000))
    assert [(change.rank, change.recovered) for _, change in changes] == [(1, False), (1, True)]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_a_busy_core_for_some_seconds_is_not_a_slow_rank(ranks: int, seed: int) -> None:
    """1,000 steps of 20 ms are 20 s, in which 50 windows are slow."""
    busy = slowed(1, 1.5, 500, until=1500)
    assert train(ranks, 4000, busy, seed, step_s=0.02) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_that_stays_slow_is_named_after_half_a_minute_of_short_steps(seed: int) -> None:
    ((step, straggler),) = train(4, 4000, slowed(1, 1.5, 500), seed, step_s=0.02)
    assert straggler.rank == 1
    assert 30 <= (step - 500) * 0.02 <= 32


@pytest.mark.parametrize("seed", range(5))
def test_a_rank_that_is_slow_now_and_then_is_not_named(seed: int) -> None:
    """Every third second a rank is slow for 1.2 s: three windows of 20 steps of 20 ms."""

    def seconds(rng: random.Random, rank: int, step: int) -> float:
        return noisy(0.05)(rng, rank, step) * (1.5 if rank == 1 and step % 150 < 60 else 1)

    assert train(4, 20_000, seconds, seed, step_s=0.02) == []


def test_two_slow_ranks_of_eight_are_both_named() -> None:
    def seconds(rng: random.Random, rank: int, step: int) -> float:
        return noisy(0.03)(rng, rank, step) * (1.25 if rank in (2, 5) else 1)

    assert sorted(named(train(8, 300, seconds))) == [2, 5]


def test_differences_below_a_millisecond_are_ignored() -> None:
    def seconds(rng: random.Random, rank: int, step: int) -> float:
        return 0.0015 if rank else 0.001

    assert train(2, 400, seconds) == []


def test_a_window_has_the_mean_its_error_and_the_time_of_data() -> None:
    window: Window = summarize([0.1] * 19 + [5.0], [0.05] * 20)
    assert window[0] == pytest.approx(0.105)
    assert window[2] == pytest.approx(0.05)
