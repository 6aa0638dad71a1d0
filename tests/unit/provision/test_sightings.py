"""A comparison of rows with the machines that a cloud lists."""

from uuid import UUID

from det_controlplane.core.lifecycle.machine import MachineState as S
from det_controlplane.core.provision.sightings import Row, Sighting, reconcile

ONE, TWO = UUID(int=1), UUID(int=2)


def test_a_listed_machine_is_seen_and_one_that_stopped_is_told() -> None:
    rows = [Row(ONE, S.LAUNCHED, "i-1", unseen=1), Row(TWO, S.REGISTERED, "i-2", unseen=0)]
    found = reconcile(
        rows, [Sighting("i-1", ONE, is_gone=False), Sighting("i-2", TWO, False, is_stopped=True)]
    )
    assert found.seen == (ONE, TWO)
    assert found.stopped == (TWO,)
    assert not found.orphans


def test_absence_is_believed_at_the_second_time() -> None:
    once = reconcile([Row(ONE, S.REGISTERED, "i-1", unseen=0)], [])
    assert (once.absent, once.gone) == ((ONE,), ())
    twice = reconcile([Row(ONE, S.REGISTERED, "i-1", unseen=1)], [])
    assert (twice.absent, twice.gone) == ((), (ONE,))


def test_two_lists_within_a_moment_are_not_believed() -> None:
    just_launched = Row(ONE, S.LAUNCHED, "i-1", unseen=1, silent_s=3.0)
    found = reconcile([just_launched], [])
    assert (found.absent, found.gone) == ((ONE,), ())
    a_minute_later = Row(ONE, S.LAUNCHED, "i-1", unseen=2, silent_s=61.0)
    assert reconcile([a_minute_later], []).gone == (ONE,)


def test_absence_of_a_machine_that_was_ordered_to_end_is_believed_soon() -> None:
    ending = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=5.0)
    assert reconcile([ending], []).gone == (ONE,)
    ordered_just_now = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=1.0)
    assert reconcile([ordered_just_now], []).gone == ()


def test_a_machine_that_was_ordered_to_end_before_any_list_had_it_may_still_come() -> None:
    early = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=6.0, was_listed=False)
    assert reconcile([early], []).gone == ()
    late = Row(ONE, S.TERMINATING, "i-1", unseen=1, silent_s=61.0, was_listed=False)
    assert reconcile([late], []).gone == (ONE,)


def test_a_machine_listed_as_gone_is_believed_at_once() -> None:
    found = reconcile([Row(ONE, S.TERMINATING, "i-1", unseen=0)], [Sighting("i-1", ONE, True)])
    assert found.gone == (ONE,)


def test_a_machine_whose_launch_was_never_answered_is_found_by_its_tag() -> None:
    found = reconcile([Row(ONE, S.REQUESTED, None, unseen=0)], [Sighting("i-1", ONE, False)])
    assert found.adopted[ONE].cloud_id == "i-1"
    assert not found.orphans


def test_a_requested_machine_is_never_given_up_for_not_being_listed() -> None:
    found = reconcile([Row(ONE, S.REQUESTED, None, unseen=5)], [])
    assert not found.gone
    assert not found.absent


def test_the_end_of_a_machine_waits_for_the_answer_to_its_launch() -> None:
    under_way = Row(ONE, S.TERMINATING, None, unseen=5, under_way=True)
    assert not reconcile([under_way], []).gone
    answered = Row(ONE, S.TERMINATING, None, unseen=5)
    assert reconcile([answered], []).gone == (ONE,)


def test_a_machine_without_a_row_is_an_orphan() -> None:
    found = reconcile([], [Sighting("i-9", TWO, False), Sighting("i-8", None, is_gone=True)])
    assert [o.cloud_id for o in found.orphans] == ["i-9"]


def test_two_machines_of_one_row_leave_one_orphan() -> None:
    both = [Sighting("i-1", ONE, False), Sighting("i-2", ONE, False)]
    found = reconcile([Row(ONE, S.LAUNCHED, "i-1", unseen=0)], both)
    assert [o.cloud_id for o in found.orphans] == ["i-2"]
