"""The availability of spot offers, and the factors that are learned from observations."""

import pytest
from det_controlplane.core.provision.spot_spells import (
    EndCounts,
    SpotOffer,
    end_probability,
    expected_ends,
    hours_until_end,
)


def test_old_spells_end_less_often() -> None:
    assert expected_ends(0.0, 1.0) > 3 * expected_ends(5.0, 1.0)
    assert expected_ends(2.0, 2.0) == pytest.approx(
        expected_ends(2.0, 1.0) + expected_ends(3.0, 1.0)
    )


def test_observations_move_the_state_the_age_and_the_counts() -> None:
    offer = SpotOffer("a", 0.3, is_available=True).after(1.0, True).after(1.0, False)
    assert (offer.is_available, offer.age_h) == (False, 0.0)
    assert offer.available.seen == 1
    assert offer.available.expected == pytest.approx(expected_ends(0.0, 2.0))
    assert offer.unavailable == EndCounts()
    assert offer.after(2.0, True).unavailable == EndCounts(1, expected_ends(0.0, 2.0))


def test_factor_follows_observations_and_stays_bounded() -> None:
    assert EndCounts().factor() == 1.0
    assert EndCounts(seen=30, expected=10).factor() == pytest.approx(33 / 13)
    assert EndCounts(seen=10_000, expected=1).factor() == 8.0
    assert EndCounts(seen=0, expected=10_000).factor() == 1 / 8


def test_offer_that_is_lost_often_is_lost_sooner() -> None:
    steady = shaky = SpotOffer("a", 0.3, is_available=True)
    for _ in range(20):
        shaky = shaky.after(0.2, False).after(1.0, True)
        steady = steady.after(1.2, True)
    assert shaky.loss_probability(1.0) > 2 * steady.loss_probability(1.0)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_drawn_spells_have_the_lengths_of_the_law(factor: float) -> None:
    for part in (0.1, 0.5, 0.9):
        assert end_probability(0.0, hours_until_end(part, factor), factor) == pytest.approx(part)
