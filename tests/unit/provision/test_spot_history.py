"""The spells of spot offers: how observations add up, and when the state of an offer is unknown."""

import pytest
from det_controlplane.core.provision.offers import Scope
from det_controlplane.core.provision.spot_history import (
    SpotSpell,
    after_observation,
    observed_spells,
    spell_of,
)
from det_controlplane.core.provision.spot_spells import expected_ends

from tests.support.provisioning import NOW, offer, spot

CHEAP = spot(1, "0.40")
SCOPE = Scope.of(CHEAP)
MINUTE, HOUR = 60.0, 3600.0


def test_first_observation_begins_a_spell_without_counts() -> None:
    assert after_observation(None, True, NOW) == SpotSpell(True, NOW, NOW)


def test_refusal_after_a_launch_is_the_end_of_a_spell() -> None:
    spell = after_observation(after_observation(None, True, NOW), False, NOW + HOUR)
    assert (spell.is_available, spell.since, spell.available.seen) == (False, NOW + HOUR, 1.0)
    assert spell.available.expected == pytest.approx(expected_ends(0, 1))


def test_equal_observations_continue_the_spell() -> None:
    spell = after_observation(None, False, NOW)
    for minutes in (3, 9, 19):
        spell = after_observation(spell, False, NOW + minutes * MINUTE)
    assert spell.since == NOW
    assert spell.unavailable.seen == 0
    assert spell.unavailable.expected == pytest.approx(expected_ends(0, 19 / 60), rel=0.01)


def test_time_without_observations_counts_for_neither_kind() -> None:
    spell = after_observation(after_observation(None, True, NOW), False, NOW + 5 * HOUR)
    assert (spell.since, spell.available.seen, spell.available.expected) == (NOW + 5 * HOUR, 0, 0)


def test_time_of_a_running_machine_counts() -> None:
    first = after_observation(None, True, NOW)
    spell = after_observation(first, False, NOW + 5 * HOUR, was_held=True)
    assert spell.available.seen == 1
    assert spell.available.expected == pytest.approx(expected_ends(0, 5))


def test_old_observations_lose_weight() -> None:
    spell = after_observation(after_observation(None, True, NOW), False, NOW + HOUR)
    later = after_observation(spell, True, NOW + HOUR + 14 * 24 * HOUR)
    assert later.available.seen == pytest.approx(0.5)


def test_age_is_unknown_long_after_the_last_observation() -> None:
    spell = after_observation(None, True, NOW)
    assert spell.offer("o", 0.4, True, NOW + HOUR / 2).age_h == 0.5
    assert spell.offer("o", 0.4, True, NOW + 2 * HOUR).age_h == 0
    assert spell.offer("o", 0.4, False, NOW + HOUR / 2).age_h == 0


def test_running_machine_is_an_observation_from_time_to_time() -> None:
    spells = observed_spells([CHEAP], [CHEAP], (), {}, NOW)
    assert spells[SCOPE].is_available
    assert not observed_spells([CHEAP], [CHEAP], (), spells, NOW + MINUTE)
    assert observed_spells([CHEAP], [CHEAP], (), spells, NOW + 11 * MINUTE)


def test_reclaim_ends_the_spell_of_the_offer_once() -> None:
    spells = {SCOPE: SpotSpell(True, NOW, NOW)}
    reclaims = ((Scope("aws", CHEAP.region, CHEAP.zone, CHEAP.machine_type), NOW + 2 * HOUR),)
    spells |= observed_spells([CHEAP], (), reclaims, spells, NOW + 2 * HOUR)
    assert spells[SCOPE].available.seen == 1
    assert not observed_spells([CHEAP], (), reclaims, spells, NOW + 3 * HOUR)


def test_machine_in_a_zone_is_one_of_an_offer_without_a_zone() -> None:
    anywhere = spot(1, "0.40", zone="")
    assert observed_spells([anywhere], [CHEAP], (), {}, NOW)[Scope.of(anywhere)].is_available


def test_offers_on_demand_have_no_spells() -> None:
    assert not observed_spells([offer(1, "1.00")], [offer(1, "1.00")], (), {}, NOW)


def test_unknown_offer_has_no_history() -> None:
    assert spell_of({}, CHEAP, NOW).offer("o", 0.4, True, NOW).available.seen == 0
