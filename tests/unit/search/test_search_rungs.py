"""The rungs decide according to their definitions for all inputs."""

import math
from bisect import bisect_left

from det_controlplane.core.search.local_asha import RecentRung
from det_controlplane.core.search.rung import StoppingRung, pack, unpack
from hypothesis import given
from hypothesis import strategies as st

LOSSES = st.lists(st.one_of(st.integers(0, 9).map(float), st.floats(allow_nan=False)), max_size=120)
DIVISORS = st.sampled_from([1.5, 2, 3, 4, 2.718])


@given(LOSSES, DIVISORS)
def test_a_stopping_rung_decides_by_rank_in_a_sorted_list(
    losses: list[float], divisor: float
) -> None:
    rung = StoppingRung(divisor)
    ranked: list[float] = []
    for loss in losses:
        index = bisect_left(ranked, loss)
        ranked.insert(index, loss)
        continues = index < max(math.floor(len(ranked) / divisor), 1)
        assert rung.insert(loss) == continues
    assert rung.losses() == ranked


@given(LOSSES.filter(bool), DIVISORS, st.data())
def test_removed_entry_has_no_effect_on_later_decisions(
    losses: list[float], divisor: float, data: st.DataObject
) -> None:
    rung, without = StoppingRung(divisor), StoppingRung(divisor)
    removed_loss = data.draw(st.sampled_from(losses))
    remaining = list(losses)
    remaining.remove(removed_loss)
    for loss in losses:
        rung.insert(loss)
    rung.remove(removed_loss)
    for loss in remaining:
        without.insert(loss)
    assert rung.losses() == without.losses()
    for loss in (0.5, 3.0, -1e9, 1e9):
        assert rung.insert(loss) == without.insert(loss)


@given(LOSSES)
def test_packed_numbers_are_unpacked_exactly(losses: list[float]) -> None:
    assert unpack(pack(losses)) == losses


def test_recent_rung_drops_the_first_generation() -> None:
    recent, all_time = RecentRung(3), StoppingRung(3)
    for _ in range(200):
        recent.insert(1.0)
        all_time.insert(1.0)
    for generation in range(60):
        recent.insert(0.5 - generation * 1e-6)
        all_time.insert(0.5 - generation * 1e-6)
    assert all_time.insert(0.5)
    assert not recent.insert(0.5)
