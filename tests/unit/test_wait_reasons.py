"""The rows of reasons follow the allocations that refer to them, so that few allocations change."""

from det_controlplane.core.schedule import WaitCode, WaitReason
from det_controlplane.db.scheduling.wait_reasons import changes_of
from hypothesis import given
from hypothesis import strategies as st

REASONS = [
    WaitReason(code, f"{n} slots are free")
    for code in (WaitCode.NO_FREE_SLOTS, WaitCode.BEHIND_HIGHER_PRIORITY)
    for n in range(4)
]


def test_changed_number_updates_one_row() -> None:
    before, after = REASONS[0], REASONS[1]
    allocations = [f"a{n}" for n in range(100)]
    changes = changes_of({7: before}, {after: allocations}, dict.fromkeys(allocations, 7))
    assert changes.sentences == {7: after.sentence}
    assert changes.ids == {after: 7}
    assert (changes.new, changes.unused) == ([], [])


def test_larger_group_continues_to_use_the_row() -> None:
    reasons = {7: REASONS[0]}
    groups = {REASONS[1]: ["a", "b", "c"], REASONS[2]: ["d"]}
    changes = changes_of(reasons, groups, dict.fromkeys("abcd", 7))
    assert changes.ids == {REASONS[1]: 7}
    assert changes.new == [REASONS[2]]


@given(
    stored=st.dictionaries(st.integers(1, 6), st.sampled_from(REASONS)),
    waiting=st.dictionaries(st.integers(0, 20).map(str), st.sampled_from(REASONS)),
    data=st.data(),
)
def test_every_reason_has_one_row_with_its_code(
    stored: dict[int, WaitReason], waiting: dict[str, WaitReason], data: st.DataObject
) -> None:
    ids = st.one_of(st.none(), st.integers(1, 8))
    current = {allocation: data.draw(ids) for allocation in waiting}
    groups: dict[WaitReason, list[str]] = {}
    for allocation, reason in waiting.items():
        groups.setdefault(reason, []).append(allocation)
    changes = changes_of(stored, groups, current)
    assert set(changes.ids) | set(changes.new) == set(groups)
    assert len(set(changes.ids.values())) == len(changes.ids)
    for reason, id in changes.ids.items():
        assert stored[id].code == reason.code
        assert changes.sentences.get(id, stored[id].sentence) == reason.sentence
    assert set(changes.unused) == stored.keys() - set(changes.ids.values())
