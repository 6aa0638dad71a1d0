"""The time for which refused offers are skipped."""

import math

import pytest
from det_controlplane.core.provision.cooldown import (
    Cooldowns,
    after_refusal,
    after_success,
    hold_for,
)
from det_controlplane.core.provision.model import Cooldown, RefusalKind
from det_controlplane.core.provision.offers import Scope

from tests.support.provisioning import NOW, offer, spot

SCOPE = Scope("aws", "us-east-1", "", "", "on-demand")


def lengths(kind: RefusalKind, times: int) -> list[float]:
    """Return how long each of some refusals in a row keeps an offer away, asked again as soon as it may be."""
    found, now, last = [], NOW, None
    for _ in range(times):
        last = after_refusal(last, kind, SCOPE, "refused", now)
        found.append(last.until - now)
        now = last.until
    return found


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (RefusalKind.NO_CAPACITY, [180, 360, 600, 600]),
        (RefusalKind.QUOTA, [30, 60, 120, 240, 480, 900, 900]),
        (RefusalKind.DENIED, [30, 60]),
        (RefusalKind.RETRYABLE, [2, 4, 8, 16, 30, 30]),
        (RefusalKind.INVALID, [math.inf]),
    ],
)
def test_refusals_in_a_row_keep_an_offer_away_for_longer(
    kind: RefusalKind, expected: list[float]
) -> None:
    assert lengths(kind, len(expected)) == expected


def test_an_error_that_may_pass_keeps_an_offer_away_for_five_minutes_to_four_hours() -> None:
    minutes, now, last = [], NOW, None
    for _ in range(8):
        last = after_refusal(last, RefusalKind.INVALID, SCOPE, "refused", now, passing=True)
        minutes.append((last.until - now) / 60)
        now = last.until
    assert minutes == [5, 10, 20, 40, 80, 160, 240, 240]


def test_a_pool_whose_errors_may_pass_is_held_until_the_next_try() -> None:
    offers = (offer(1, 1),)
    passing = [
        cooldown(SCOPE, kind=RefusalKind.INVALID, until=NOW + 1200, failures=f) for f in (2, 3)
    ]
    assert hold_for(offers, Cooldowns(passing[:1], NOW)) is None
    hold = hold_for(offers, Cooldowns(passing[1:], NOW))
    assert hold is not None
    assert (hold.sentence, hold.until) == ("request quota L-1", NOW + 1200)


def test_refusals_of_calls_made_together_count_once() -> None:
    first = after_refusal(None, RefusalKind.QUOTA, SCOPE, "refused", NOW)
    assert after_refusal(first, RefusalKind.QUOTA, SCOPE, "refused", NOW + 1) == first


def test_a_refusal_of_another_kind_or_after_an_hour_is_a_first_one() -> None:
    first = after_refusal(None, RefusalKind.NO_CAPACITY, SCOPE, "refused", NOW)
    assert after_refusal(first, RefusalKind.QUOTA, SCOPE, "refused", NOW + 1).failures == 1
    late = first.until + 3601
    assert after_refusal(first, RefusalKind.NO_CAPACITY, SCOPE, "refused", late).failures == 1


def test_success_ends_the_cooldowns_that_cover_the_offer() -> None:
    wide, other = cooldown(SCOPE), cooldown(Scope("gcp"))
    assert after_success([wide, other], offer(1, 1)) == (other,)


def test_the_cooldown_that_ends_last_counts() -> None:
    narrow = cooldown(Scope.of(offer(1, 1)), until=NOW + 5)
    assert Cooldowns([cooldown(SCOPE), narrow], NOW).of(offer(1, 1)) == cooldown(SCOPE)
    assert Cooldowns([cooldown(SCOPE)], NOW).of(spot(1, 1)) is None


def test_a_pool_is_held_only_when_all_offers_keep_failing_for_what_an_operator_can_change() -> None:
    offers = (offer(1, 1), offer(4, 4))
    thrice = cooldown(SCOPE, failures=3)
    hold = hold_for(offers, Cooldowns([thrice], NOW))
    assert hold is not None
    assert (hold.sentence, hold.until) == ("request quota L-1", NOW + 100)
    assert hold_for(offers, Cooldowns([cooldown(SCOPE, failures=2)], NOW)) is None
    assert hold_for((*offers, spot(1, 1)), Cooldowns([thrice], NOW)) is None
    assert hold_for((), Cooldowns([thrice], NOW)) is None


@pytest.mark.parametrize("until", [math.inf, NOW + 3e8], ids=["as decided", "as stored"])
def test_a_pool_of_invalid_offers_is_held_until_it_is_resumed(until: float) -> None:
    invalid = cooldown(SCOPE, kind=RefusalKind.INVALID, until=until)
    hold = hold_for((offer(1, 1),), Cooldowns([invalid], NOW))
    assert hold is not None
    assert hold.until is None
    assert hold.sentence.endswith("correct it")


def cooldown(
    scope: Scope,
    kind: RefusalKind = RefusalKind.QUOTA,
    until: float = NOW + 100,
    failures: int = 1,
) -> Cooldown:
    return Cooldown(scope, kind, until, "request quota L-1", failures)


def test_an_offer_of_any_zone_is_not_covered_by_one_zone() -> None:
    anywhere = offer(1, 1, zone="")
    one_zone = cooldown(Scope("aws", "us-east-1", "us-east-1a"))
    assert Cooldowns([one_zone], NOW).of(anywhere) is None
