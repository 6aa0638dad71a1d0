"""Pools keep idle machines, within an amount of money a day."""

from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from det_controlplane.core.provision.decide import decide
from det_controlplane.core.provision.model import (
    Hold,
    Limits,
    Machine,
    PoolSnapshot,
    ProvisionPlan,
    ProvisionSnapshot,
)
from det_controlplane.core.provision.warm import (
    StartRate,
    WarmHistory,
    WarmLedger,
    WarmOffer,
    WarmPolicy,
    choose_warm,
    planned,
)

from tests.support.provisioning import demand, machine, offer, pool, starting

HOUR, DAY = 3600.0, 86_400.0
# A Wednesday, half past nine.
NOW = datetime(2026, 11, 25, 9, 30, tzinfo=timezone.utc).timestamp()
SATURDAY = NOW + 3 * DAY
POLICY = WarmPolicy(5.0)
OFFER = WarmOffer(0.5, 1)
ONE = offer(1, "0.50")


def history(
    *rates: tuple[int, float], spent_usd: float = 0.0, slots: int = 1, startup_h: float = 0.1
) -> WarmHistory:
    """Return the starts of weekdays by hour: `(9, 4.1)` are 4.1 starts between nine and ten."""
    by_hour = tuple(StartRate(False, hour, slots, rate) for hour, rate in rates)
    return WarmHistory(by_hour, startup_h, WarmLedger(NOW, spent_usd))


def test_busy_hour_keeps_a_machine_and_says_why() -> None:
    choice = choose_warm(POLICY, history((9, 4.1), (20, 0.1)), OFFER, NOW)
    assert choice == (
        2,
        "2 machines are kept warm: 9–10 o'clock UTC has 4.1 starts/hour; costs $1.00/day of at most $5",
        NOW + HOUR / 2,
    )


def test_quiet_hour_and_weekend_keep_none() -> None:
    busy = history((9, 4.1))
    assert choose_warm(POLICY, busy, OFFER, NOW + 2 * HOUR).machines == 0
    assert choose_warm(POLICY, busy, OFFER, SATURDAY).machines == 0


def test_more_starts_at_once_keep_more_machines() -> None:
    machines = [
        choose_warm(POLICY, history((9, rate)), OFFER, NOW).machines for rate in (0.2, 2, 8, 30)
    ]
    assert machines == sorted(machines)
    assert machines[0] == 0
    assert machines[-1] >= 4


def test_dear_machines_and_cheap_waits_keep_none() -> None:
    assert choose_warm(POLICY, history((9, 4.1)), WarmOffer(5.0, 1), NOW).machines == 0
    cheap = replace(POLICY, waiting_usd_hour=1.0)
    assert choose_warm(cheap, history((9, 4.1)), OFFER, NOW).machines == 0


def test_starts_that_need_larger_machines_do_not_count() -> None:
    assert choose_warm(POLICY, history((9, 9.0), slots=4), OFFER, NOW).machines == 0


def test_money_goes_to_the_hours_with_the_most_value() -> None:
    busy = history((9, 4.0), (10, 6.0), (11, 2.0))
    hours = planned(replace(POLICY, max_usd_day=1.0), busy, OFFER, NOW)
    assert {hour: machines for hour, machines in enumerate(hours) if machines} == {9: 1, 10: 1}


def test_no_plan_costs_more_than_its_bound() -> None:
    always = history(*((hour, 50.0) for hour in range(24)))
    for usd in (0.0, 0.4, 0.5, 3.3, 20.0):
        assert sum(planned(WarmPolicy(usd), always, OFFER, NOW)) * OFFER.usd_hour <= usd


def test_spent_money_ends_the_day() -> None:
    choice = choose_warm(POLICY, history((9, 4.1), spent_usd=4.95), OFFER, NOW)
    assert choice.machines == 0
    assert "$4.95 of at most $5 are spent today" in choice.sentence


def test_next_choice_comes_before_the_money_is_spent() -> None:
    choice = choose_warm(POLICY, history((9, 1.0), spent_usd=4.8), OFFER, NOW)
    assert choice.machines == 1
    assert choice.next_at is not None
    assert choice.next_at < NOW + 0.2 / 0.5 * HOUR - 600


def test_later_hours_wake_no_idle_cluster() -> None:
    busy = history((9, 4.1))
    assert choose_warm(POLICY, busy, OFFER, NOW - 2 * HOUR).next_at is None
    assert choose_warm(POLICY, busy, OFFER, NOW - HOUR).next_at == NOW - HOUR / 2


def test_ledger_counts_the_day_of_utc_only() -> None:
    ledger = WarmLedger(NOW, 1.0, 0.5)
    assert ledger.until(NOW + 2 * HOUR).spent_usd == pytest.approx(2.0)
    midnight = NOW - NOW % DAY + DAY
    assert ledger.until(midnight + HOUR).spent_usd == pytest.approx(0.5)


LIMITS = Limits(max_instances=9, warm_policy=POLICY)
BUSY = history((9, 1.0))  # one machine


def kept(*machines: Machine, **more: object) -> PoolSnapshot:
    values = {"limits": LIMITS, "warm": BUSY, **more}
    return replace(pool([ONE], machines=machines), **values)  # type: ignore[arg-type]


def at_nine(snapshot: PoolSnapshot) -> ProvisionPlan:
    return decide(ProvisionSnapshot((snapshot,)), NOW)


def idle(id: str, price: str = "0.50", **more: object) -> Machine:
    """Return a machine that was rented to be kept warm, and has run nothing."""
    values = {"registered_at": NOW - 60, "idle_since": NOW - 60, **more}
    return machine(id, offer(1, price), **values)


def test_pool_rents_the_chosen_machines_and_counts_their_cost() -> None:
    result = at_nine(kept())
    assert [launch.purpose for launch in result.launch] == [""]
    (decision,) = result.warm
    assert decision.ledger.usd_hour == 0.5
    assert result.next_at == NOW + HOUR / 2


def test_pool_without_auto_decides_nothing_about_warm_machines() -> None:
    result = at_nine(kept(limits=Limits()))
    assert (result.launch, result.warm) == ((), ())


@pytest.mark.parametrize(
    "hold", [Hold("held by admin"), Hold("the budget is spent", of_budget=True)]
)
def test_held_pool_keeps_no_machine_warm(hold: Hold) -> None:
    result = at_nine(kept(idle("m1"), holds=(hold,)))
    assert [end.machine_id for end in result.terminate] == ["m1"]
    (decision,) = result.warm
    assert decision.choice.sentence == f"no machine is kept warm: {hold.sentence}"
    assert decision.ledger.usd_hour == 0


def test_end_of_the_plan_terminates_warm_machines_at_once() -> None:
    quiet = kept(idle("warm"), idle("worked", idle_since=NOW - 30), warm=history((20, 4.1)))
    assert [(end.machine_id, end.reason.value) for end in at_nine(quiet).terminate] == [
        ("warm", "NOT_WARM")
    ]


def test_machine_that_has_worked_is_kept_warm_after_its_idle_time() -> None:
    worked = idle("m1", registered_at=NOW - HOUR, idle_since=NOW - 1300, purpose="earlier")
    result = at_nine(kept(worked))
    assert (result.terminate, result.launch) == ((), ())
    (decision,) = result.warm
    assert decision.ledger.usd_hour == 0.5


def test_idle_time_of_a_machine_costs_nothing_extra() -> None:
    worked = idle("m1", registered_at=NOW - HOUR, idle_since=NOW - 60, purpose="earlier")
    (decision,) = at_nine(kept(worked)).warm
    assert decision.ledger.usd_hour == 0


def test_dear_machine_is_not_kept_warm() -> None:
    dear = idle("m1", "4.00", registered_at=NOW - HOUR, idle_since=NOW - 1300, purpose="earlier")
    result = at_nine(kept(dear))
    assert [end.machine_id for end in result.terminate] == ["m1"]
    assert len(at_nine(kept()).launch) == 1


def test_starting_warm_machine_that_work_needs_is_replaced() -> None:
    coming = replace(starting("m1", ONE), requested_at=NOW - 40, launched_at=NOW - 30)
    waiting = replace(kept(coming), demand=(demand("d1", 1),))
    result = at_nine(waiting)
    assert [launch.purpose for launch in result.launch] == [""]
    (decision,) = result.warm
    assert decision.ledger.usd_hour == 0.5


def test_minimum_is_no_cost_of_warm_machines() -> None:
    limits = replace(LIMITS, min_instances=1)
    result = at_nine(kept(idle("m1"), limits=limits))
    (decision,) = result.warm
    assert (result.launch, result.terminate, decision.ledger.usd_hour) == ((), (), 0)


def test_limits_of_the_pool_bound_warm_machines() -> None:
    assert not at_nine(kept(limits=replace(LIMITS, max_instances=0))).launch
    cost = replace(LIMITS, max_hourly_cost=Decimal("0.4"))
    assert not at_nine(kept(limits=cost)).launch
