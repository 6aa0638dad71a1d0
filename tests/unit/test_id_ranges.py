"""Sets of ids written as ranges."""

import pytest
from det_controlplane.core import id_ranges
from hypothesis import given
from hypothesis import strategies as st

IDS = st.sets(st.integers(0, 60))


@given(IDS, IDS)
def test_difference_of_ranges_equals_the_difference_of_sets(known: set[int], now: set[int]) -> None:
    rest = id_ranges.without(id_ranges.of(known), now)
    members = {id for low, high in rest for id in range(low, high + 1)}
    assert members == known - now


@given(IDS)
def test_written_ranges_are_parsed_back(ids: set[int]) -> None:
    ranges = id_ranges.of(ids)
    assert id_ranges.parse(id_ranges.shown(ranges)) == ranges


def test_ranges_are_merged_and_can_be_huge() -> None:
    assert id_ranges.parse("5-9,1,2,8-12") == [(1, 2), (5, 12)]
    rest = id_ranges.without(id_ranges.parse("1-2000000000"), [7])
    assert id_ranges.shown(rest) == "1-6,8-2000000000"


@pytest.mark.parametrize("text", ["a", "3-1", "1--2", "-1", "1-2-3", "²"])
def test_rejects_other_texts(text: str) -> None:
    with pytest.raises(id_ranges.NotRanges, match="no range of ids"):
        id_ranges.parse(text)


def test_rejects_too_many_ranges() -> None:
    with pytest.raises(id_ranges.NotRanges, match="more than"):
        id_ranges.parse(",".join(str(2 * n) for n in range(id_ranges.MOST + 1)))
