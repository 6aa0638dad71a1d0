"""A comparison of rows with the machines that a cloud lists."""

from uuid import UUID

from det_controlplane.core.lifecycle.machine import MachineState as S
from det_controlplane.core.provision.sightings import Row, Sighting, reconcile

ONE, TWO = UUID(int=1), UUID(int=2)


def test_listed_machines_are_seen_and_stopped_ones_reported() -> None:
    rows = [Row(ONE, S.LAUNCHED, "i-1", unseen=1), Row(TWO, S.REGISTERED, "i-2", unseen=0)]
    result = reconcile(
        rows, [Sighting("i-1", ONE, is_gone=False), Sighting("i-2", TWO, False, is_stopped=True)]
    )
    assert result.seen == (ONE, TWO)
    assert result.stopped == (TWO,)
    assert not result.orphans


def test_machine_missing_in_two_lists_is_gone() -> None:
    once = reconcile([Row(ONE, S.REGISTERED, "i-1", unseen=0)], [])
    assert (once.absent, once.gone) == ((ONE,), ())
    twice = reconcile([Row(ONE, S.REGISTERED, "i-1", unseen=1)], [])
    assert (twice.absent, twice.gone) == ((), (ONE,))


def test_machine_missing_in_two_quick_lists_is_not_gone() -> None:
    just_launched = Row(ONE, S.LAUNCHED, "i-1", unseen=1, silent_s=3.0)
    result = reconcile([just_launched], [])
    assert (result.absent, result.gone) == ((ONE,), ())
    a_minute_later = Row(ONE, S.LAUNCHED, "i-1", unseen=2, silent_s=61.0)
    assert reconcile([a_minute_later], []).gone == (ONE,)


def test_terminating_machine_missing_in_lists_is_gone_soon() -> None:
    ending = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=5.0)
    assert reconcile([ending], []).gone == (ONE,)
    ordered_just_now = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=1.0)
    assert reconcile([ordered_just_now], []).gone == ()


def test_terminating_machine_never_listed_is_gone_after_a_minute() -> None:
    early = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=6.0, was_listed=False)
    assert reconcile([early], []).gone == ()
    late = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=61.0, was_listed=False)
    assert reconcile([late], []).gone == (ONE,)


def test_machine_listed_as_gone_is_gone_immediately() -> None:
    result = reconcile([Row(ONE, S.TERMINATING, "i-1", unseen=0)], [Sighting("i-1", ONE, True)])
    assert result.gone == (ONE,)


def test_machine_of_an_unanswered_launch_is_found_by_its_tag() -> None:
    result = reconcile([Row(ONE, S.REQUESTED, None, unseen=0)], [Sighting("i-1", ONE, False)])
    assert result.adopted[ONE].cloud_id == "i-1"
    assert not result.orphans


def test_requested_machine_missing_in_lists_is_not_gone() -> None:
    result = reconcile([Row(ONE, S.REQUESTED, None, unseen=5)], [])
    assert not result.gone
    assert not result.absent


def test_terminating_machine_is_not_gone_before_its_launch_is_answered() -> None:
    under_way = Row(ONE, S.TERMINATING, None, unseen=5, under_way=True)
    assert not reconcile([under_way], []).gone
    row = Row(ONE, S.TERMINATING, None, unseen=5)
    assert reconcile([row], []).gone == (ONE,)


def test_a_machine_without_a_row_is_an_orphan() -> None:
    result = reconcile([], [Sighting("i-9", TWO, False), Sighting("i-8", None, is_gone=True)])
    assert [o.cloud_id for o in result.orphans] == ["i-9"]


def test_second_machine_of_one_row_is_an_orphan() -> None:
    both = [Sighting("i-1", ONE, False), Sighting("i-2", ONE, False)]
    result = reconcile([Row(ONE, S.LAUNCHED, "i-1", unseen=0)], both)
    assert [o.cloud_id for o in result.orphans] == ["i-2"]
