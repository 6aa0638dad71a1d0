"""Shares of jobs, and which allocations they choose."""

from collections.abc import Callable
from typing import Any

from det_controlplane.core.schedule.shares import Claim, Piece, choose, fair_shares
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.schedules import job
from tests.support.thorough import often

many = settings(max_examples=often(120, 300))
_PIECES = st.lists(st.tuples(st.integers(1, 16), st.sampled_from(["waits", "stays", "leaves"])))


@st.composite
def claims(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Claim]:
    made = []
    for n in range(draw(st.integers(1, 6))):
        pieces = [
            Piece(f"{n}.{at}", slots, waits=state == "waits", stays=state == "stays")
            for at, (slots, state) in enumerate(draw(_PIECES))
        ]
        weight = draw(st.sampled_from([0.1, 1.0, 3.0, 100.0]))
        made.append(
            Claim(job(f"job{n}", position=n, weight=weight), draw(st.integers(0, 3)), pieces)
        )
    return made


CAPACITY = st.integers(18, 40)  # always enough for slots that cannot be preempted


@many
@given(claims(), CAPACITY)
def test_shares_use_up_the_slots_or_meet_all_demands(wanted: list[Claim], capacity: int) -> None:
    shares = fair_shares(wanted, capacity)
    total = min(capacity, sum(claim.demand for claim in wanted))
    assert abs(sum(shares.values()) - total) < 0.001


@many
@given(claims(), CAPACITY)
def test_a_share_below_demand_is_at_least_any_other_by_weight(
    wanted: list[Claim], capacity: int
) -> None:
    shares = fair_shares(wanted, capacity)
    for short in wanted:
        if shares[short.job.id] < short.demand:
            for other in wanted:
                if shares[other.job.id] > other.fixed:
                    by_weight = shares[other.job.id] / other.job.weight
                    assert by_weight <= shares[short.job.id] / short.job.weight + 0.001


@many
@given(claims(), CAPACITY)
def test_chosen_allocations_fit_the_slots(wanted: list[Claim], capacity: int) -> None:
    choices = choose(wanted, fair_shares(wanted, capacity), capacity)
    slots = {piece.allocation_id: piece.slots for claim in wanted for piece in claim.pieces}
    fixed = sum(claim.fixed for claim in wanted)
    assert fixed + sum(slots[id] for id in choices) <= capacity


@many
@given(claims(), CAPACITY)
def test_running_allocations_within_the_share_of_their_job_are_chosen(
    wanted: list[Claim], capacity: int
) -> None:
    shares = fair_shares(wanted, capacity)
    choices = choose(wanted, shares, capacity)
    for claim in wanted:
        fixed_slots = claim.fixed
        for piece in claim.pieces:
            fixed_slots += piece.slots
            if piece.stays and fixed_slots <= shares[claim.job.id]:
                assert piece.allocation_id in choices


@many
@given(claims(), CAPACITY)
def test_every_fitting_allocation_is_chosen(wanted: list[Claim], capacity: int) -> None:
    choices = choose(wanted, fair_shares(wanted, capacity), capacity)
    pieces = [piece for claim in wanted for piece in claim.pieces]
    used = sum(claim.fixed for claim in wanted)
    used += sum(piece.slots for piece in pieces if piece.allocation_id in choices)
    assert all(piece.allocation_id in choices or piece.slots > capacity - used for piece in pieces)
