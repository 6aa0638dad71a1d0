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
    cooldowns, now, last = [], NOW, None
    for _ in range(times):
        last = after_refusal(last, kind, SCOPE, "refused", now)
        cooldowns.append(last.until - now)
        now = last.until
    return cooldowns


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
def test_repeated_refusals_increase_the_cooldown(kind: RefusalKind, expected: list[float]) -> None:
    assert lengths(kind, len(expected)) == expected


def test_cooldown_of_temporary_errors_is_5_minutes_to_4_hours() -> None:
    minutes, now, last = [], NOW, None
    for _ in range(8):
        last = after_refusal(last, RefusalKind.INVALID, SCOPE, "refused", now, passing=True)
        minutes.append((last.until - now) / 60)
        now = last.until
    assert minutes == [5, 10, 20, 40, 80, 160, 240, 240]


def test_pool_with_temporary_errors_is_held_until_the_next_try() -> None:
    offers = (offer(1, 1),)
    passing = [
        cooldown(SCOPE, kind=RefusalKind.INVALID, until=NOW + 1200, failures=f) for f in (2, 3)
    ]
    assert hold_for(offers, Cooldowns(passing[:1], NOW)) is None
    hold = hold_for(offers, Cooldowns(passing[1:], NOW))
    assert hold is not None
    assert (hold.sentence, hold.until) == ("request quota L-1", NOW + 1200)


def test_refusals_of_concurrent_calls_count_once() -> None:
    first = after_refusal(None, RefusalKind.QUOTA, SCOPE, "refused", NOW)
    assert after_refusal(first, RefusalKind.QUOTA, SCOPE, "refused", NOW + 1) == first


def test_refusal_of_another_kind_or_after_an_hour_resets_the_count() -> None:
    first = after_refusal(None, RefusalKind.NO_CAPACITY, SCOPE, "refused", NOW)
    assert after_refusal(first, RefusalKind.QUOTA, SCOPE, "refused", NOW + 1).failures == 1
    late = first.until + 3601
    assert after_refusal(first, RefusalKind.NO_CAPACITY, SCOPE, "refused", late).failures == 1


def test_success_ends_the_cooldowns_that_cover_the_offer() -> None:
    wide, other = cooldown(SCOPE), cooldown(Scope("gcp"))
    assert after_success([wide, other], offer(1, 1)) == (other,)


def test_latest_cooldown_of_an_offer_applies() -> None:
    narrow = cooldown(Scope.of(offer(1, 1)), until=NOW + 5)
    assert Cooldowns([cooldown(SCOPE), narrow], NOW).of(offer(1, 1)) == cooldown(SCOPE)
    assert Cooldowns([cooldown(SCOPE)], NOW).of(spot(1, 1)) is None


def test_pool_is_held_if_all_offers_fail_repeatedly() -> None:
    offers = (offer(1, 1), offer(4, 4))
    thrice = cooldown(SCOPE, failures=3)
    hold = hold_for(offers, Cooldowns([thrice], NOW))
    assert hold is not None
    assert (hold.sentence, hold.until) == ("request quota L-1", NOW + 100)
    assert hold_for(offers, Cooldowns([cooldown(SCOPE, failures=2)], NOW)) is None
    assert hold_for((*offers, spot(1, 1)), Cooldowns([thrice], NOW)) is None
    assert hold_for((), Cooldowns([thrice], NOW)) is None


@pytest.mark.parametrize("until", [math.inf, NOW + 3e8], ids=["as decided", "as stored"])
def test_pool_of_invalid_offers_is_held_until_resumed(until: float) -> None:
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


def test_cooldown_of_one_zone_does_not_cover_offers_of_any_zone() -> None:
    anywhere = offer(1, 1, zone="")
    one_zone = cooldown(Scope("aws", "us-east-1", "us-east-1a"))
    assert Cooldowns([one_zone], NOW).of(anywhere) is None
